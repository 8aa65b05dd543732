//! A blocking RESP client that shows the bytes of each reply, so that tests can compare them.
//!
//! It knows no cluster, follows no redirect, and never reads before it is told to.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tsubaki_protocol::resp::reply::{self, ReplyScan, ReplyScanner};
use tsubaki_protocol::resp::tree::{self, Value};

use super::PATIENCE;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ: usize = 64 * 1024;

/// The bytes of one whole reply.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reply(pub(crate) Vec<u8>);

impl Reply {
    /// The text of an error reply, without the minus.
    pub(crate) fn error(&self) -> Option<&str> {
        let text = self.0.strip_prefix(b"-")?.strip_suffix(b"\r\n")?;
        Some(std::str::from_utf8(text).unwrap())
    }

    /// The body of a bulk string; `None` for anything else, nil included.
    pub(crate) fn bulk(&self) -> Option<&[u8]> {
        reply::bulk(&self.0)
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        reply::integer(&self.0)
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.0 == b"+OK\r\n"
    }

    /// Nil of RESP2 or RESP3.
    pub(crate) fn is_nil(&self) -> bool {
        [&b"$-1\r\n"[..], b"*-1\r\n", b"_\r\n"].contains(&&self.0[..])
    }

    /// The replies inside an array, a set, a map or a push.
    pub(crate) fn elements(&self) -> Vec<Self> {
        reply::elements(&self.0).unwrap().map(|element| Self(element.to_vec())).collect()
    }

    /// The reply as a tree.
    pub(crate) fn value(&self) -> Value {
        tree::decode(&self.0).unwrap()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 300;
        let shown = self.0.get(..SHOWN).unwrap_or(&self.0).escape_ascii();
        write!(f, "`{shown}` ({} bytes)", self.0.len())
    }
}

/// The bytes of a command.
pub(crate) fn command(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_command(&mut bytes, args);
    bytes
}

/// Appends a command, to build a pipeline.
pub(crate) fn push_command(pipeline: &mut Vec<u8>, args: &[impl AsRef<[u8]>]) {
    pipeline.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        pipeline.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        pipeline.extend_from_slice(arg);
        pipeline.extend_from_slice(b"\r\n");
    }
}

/// One connection, to the proxy or to a node.
pub(crate) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes of `input` that were given out.
    used: usize,
    scanner: ReplyScanner,
}

impl Client {
    /// Connects; a reply that does not come within [`PATIENCE`] is an error.
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).unwrap()
    }

    pub(crate) fn try_connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, input: Vec::new(), used: 0, scanner: ReplyScanner::new() })
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call(&mut self, args: &[impl AsRef<[u8]>]) -> Reply {
        self.try_call(args).unwrap()
    }

    pub(crate) fn try_call(&mut self, args: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.try_send(&command(args))?;
        self.try_receive()
    }

    /// Changes to RESP3.
    pub(crate) fn hello_3(&mut self) {
        let reply = self.call(&["HELLO", "3"]);
        assert_eq!(reply.0.first(), Some(&b'%'), "HELLO 3: {reply:?}");
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads one reply.
    pub(crate) fn receive(&mut self) -> Reply {
        self.try_receive().unwrap()
    }

    /// Reads one reply; the end of the connection is [`io::ErrorKind::UnexpectedEof`].
    pub(crate) fn try_receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.whole_reply() {
                return Ok(reply);
            }
            if self.read_once()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// A reply that is there already, without waiting for one.
    pub(crate) fn poll_receive(&mut self) -> io::Result<Option<Reply>> {
        if let Some(reply) = self.whole_reply() {
            return Ok(Some(reply));
        }
        self.stream.set_nonblocking(true)?;
        let read = self.read_once();
        self.stream.set_nonblocking(false)?;
        match read {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(self.whole_reply()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True if the other side closed the connection and sent nothing before.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.poll_receive().is_err()
    }

    /// The socket, for what a test does to it.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn whole_reply(&mut self) -> Option<Reply> {
        let rest = &self.input[self.used..];
        let ReplyScan::Complete(reply) = self.scanner.scan(rest).unwrap() else { return None };
        let frame = rest[..reply.len].to_vec();
        self.used += reply.len;
        Some(Reply(frame))
    }

    fn read_once(&mut self) -> io::Result<usize> {
        self.input.drain(..self.used);
        self.used = 0;
        let len = self.input.len();
        self.input.resize(len + READ, 0);
        let read = loop {
            match self.stream.read(&mut self.input[len..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.input.truncate(len + *read.as_ref().unwrap_or(&0));
        read
    }
}
