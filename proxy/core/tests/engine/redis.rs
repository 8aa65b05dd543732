//! A real redis-server on a free port of this machine, whose bytes are what a client of the proxy should see.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, io};

use tsubaki_protocol::resp::reply::{ReplyScan, ReplyScanner};

use crate::harness::command;

/// How long the server may take to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, killed when dropped.
pub(crate) struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    /// Starts a server that has database 0 only, with further options; `None` if none is installed.
    pub(crate) fn start(options: &[&str]) -> Option<Self> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            // Another program can take the port before the server does: then the server ends, and another port helps.
            let mut server = match Self::spawn(options) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    assert!(
                        env::var_os("TSUBAKI_REQUIRE_SERVERS").is_none(),
                        "redis-server is not installed"
                    );
                    writeln!(io::stderr(), "skipped: redis-server is not installed").ok();
                    return None;
                }
                spawned => spawned.unwrap(),
            };
            if server.is_up(deadline) {
                return Some(server);
            }
        }
        panic!("redis-server does not start");
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap()
    }

    fn spawn(options: &[&str]) -> io::Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
            .args(["--databases", "1", "--dir", env!("CARGO_TARGET_TMPDIR")])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { port, child })
    }

    fn is_up(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            if Connection::open(self.port).and_then(|mut connection| connection.try_ask(b"PING\r\n")).is_ok()
            {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A connection that asks and hears one reply.
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// The bytes of the reply to a command.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        String::from_utf8_lossy(&self.ask_bytes(&command(line))).into_owned()
    }

    pub(crate) fn ask_bytes(&mut self, request: &[u8]) -> Vec<u8> {
        self.try_ask(request).unwrap()
    }

    /// All that the server says to these bytes until it closes the connection.
    pub(crate) fn last_words(mut self, request: &[u8]) -> Vec<u8> {
        self.stream.write_all(request).unwrap();
        let mut words = std::mem::take(&mut self.received);
        // Closed with bytes unread, a connection may end in a reset behind the last words.
        if let Err(error) = self.stream.read_to_end(&mut words) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        words
    }

    fn try_ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.stream.write_all(request)?;
        let mut scanner = ReplyScanner::new();
        loop {
            if let ReplyScan::Complete(reply) = scanner.scan(&self.received).map_err(io::Error::other)? {
                return Ok(self.received.drain(..reply.len).collect());
            }
            let mut chunk = [0; 4096];
            let length = self.stream.read(&mut chunk)?;
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.extend_from_slice(&chunk[..length]);
        }
    }
}
