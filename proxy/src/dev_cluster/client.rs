//! A blocking RESP2 client of a few lines, to build clusters and to look into them.
//!
//! It knows no cluster: one connection, one command, one reply. It trusts its peer as far as a local
//! process goes, and still allocates only for bytes that came.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use thiserror::Error;

/// A local node that does not take a connection within this time hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// MIGRATE of a large slot takes seconds; everything else is far quicker.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Arrays of a cluster's replies are three deep.
const MAX_DEPTH: u32 = 32;

/// A RESP2 reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR …`, without the minus.
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$3`, any bytes.
    Bulk(Vec<u8>),
    /// `$-1` or `*-1`
    Nil,
    /// `*2`
    Array(Vec<Self>),
}

impl Reply {
    /// The text of a simple or bulk string; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Simple(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Error(_) | Self::Integer(_) | Self::Nil | Self::Array(_) => None,
        }
    }
}

/// Why a command has no reply.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed, or was silent for too long.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer speaks something else.
    #[error("not a RESP2 reply: {0}")]
    Protocol(String),
    /// The peer did not take the password.
    #[error("the password was refused: {0}")]
    Auth(String),
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects, and gives the password if there is one.
    ///
    /// # Errors
    /// When nothing listens, or the password is refused.
    pub fn connect(addr: SocketAddr, password: Option<&str>) -> Result<Self, ClientError> {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let mut client = Self { stream: BufReader::new(stream) };
        if let Some(password) = password
            && let Reply::Error(error) = client.call(&["AUTH", password])?
        {
            return Err(ClientError::Auth(error));
        }
        Ok(client)
    }

    /// Sends a command and reads its reply.
    ///
    /// # Errors
    /// When the connection fails or the reply is none.
    pub fn call(&mut self, command: &[impl AsRef<[u8]>]) -> Result<Reply, ClientError> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        self.send(&bytes)?;
        self.receive()
    }

    /// Sends bytes that are commands already, such as a whole pipeline.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(&mut self, commands: &[u8]) -> Result<(), ClientError> {
        Ok(self.stream.get_mut().write_all(commands)?)
    }

    /// Reads one reply.
    ///
    /// # Errors
    /// When the connection fails or the reply is none.
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        self.reply(MAX_DEPTH)
    }

    fn reply(&mut self, depth: u32) -> Result<Reply, ClientError> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else {
            return Err(ClientError::Protocol("an empty line".to_owned()));
        };
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => number(rest).map(Reply::Integer),
            "$" => self.bulk(number(rest)?),
            "*" if depth > 0 => self.array(number(rest)?, depth - 1),
            _ => Err(ClientError::Protocol(line)),
        }
    }

    fn line(&mut self) -> Result<String, ClientError> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return Err(closed());
        };
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    fn bulk(&mut self, len: i64) -> Result<Reply, ClientError> {
        let Ok(len) = u64::try_from(len) else {
            return Ok(Reply::Nil);
        };
        let mut bytes = Vec::new();
        (&mut self.stream).take(len + 2).read_to_end(&mut bytes)?;
        let Some(body) = bytes.strip_suffix(b"\r\n").filter(|body| body.len() as u64 == len) else {
            return Err(closed());
        };
        Ok(Reply::Bulk(body.to_vec()))
    }

    fn array(&mut self, len: i64, depth: u32) -> Result<Reply, ClientError> {
        if len < 0 {
            return Ok(Reply::Nil);
        }
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(self.reply(depth)?);
        }
        Ok(Reply::Array(items))
    }
}

/// Appends a command as an array of bulk strings.
pub(crate) fn encode(command: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for argument in command {
        let argument = argument.as_ref();
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn number(text: &str) -> Result<i64, ClientError> {
    text.parse().map_err(|_| ClientError::Protocol(format!("{text:?} is no number")))
}

fn closed() -> ClientError {
    ClientError::Io(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn reply_to(bytes: &'static [u8]) -> Result<Reply, ClientError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(bytes).unwrap();
        });
        let reply = Client::connect(addr, None).unwrap().receive();
        peer.join().unwrap();
        reply
    }

    #[test]
    fn a_nested_array_comes_back_as_it_was_sent() {
        let reply = reply_to(b"*4\r\n:-7\r\n$4\r\na\r\nb\r\n*1\r\n+OK\r\n$-1\r\n").unwrap();
        let inner = Reply::Array(vec![Reply::Simple("OK".to_owned())]);
        assert_eq!(
            reply,
            Reply::Array(vec![Reply::Integer(-7), Reply::Bulk(b"a\r\nb".to_vec()), inner, Reply::Nil])
        );
    }

    #[test]
    fn a_reply_cut_short_is_an_error() {
        for cut in [&b"+O"[..], b"$5\r\nab", b"*2\r\n:1\r\n", b""] {
            assert!(matches!(reply_to(cut), Err(ClientError::Io(_))), "{cut:?}");
        }
    }

    #[test]
    fn what_is_no_reply_is_said_so() {
        for odd in [&b"HTTP/1.1 400\r\n"[..], b"$x\r\n", b"\r\n"] {
            assert!(matches!(reply_to(odd), Err(ClientError::Protocol(_))), "{odd:?}");
        }
    }

    #[test]
    fn a_command_is_an_array_of_bulks() {
        let mut bytes = Vec::new();
        encode(&["SET", "k", ""], &mut bytes);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
    }
}
