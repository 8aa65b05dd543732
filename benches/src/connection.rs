//! A blocking connection to one server on loopback, for what the harness itself asks.
//!
//! Must not know: clusters, loads.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use tsubaki_protocol::resp::write;

/// A server that does not answer for so long is taken for dead: none does anything slow here.
const SILENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// One open connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to 127.0.0.1:`port`.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn open(port: u16) -> anyhow::Result<Self> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot connect to 127.0.0.1:{port}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        // One small buffer: ten thousand of these are opened at once.
        Ok(Self { reader: BufReader::with_capacity(512, socket) })
    }

    /// Connects to 127.0.0.1:`port` and says the password, if there is one.
    ///
    /// # Errors
    /// If nobody listens there, or the password is refused.
    pub fn open_as(port: u16, password: Option<&str>) -> anyhow::Result<Self> {
        let mut connection = Self::open(port)?;
        if let Some(password) = password {
            connection.call(&["AUTH", password])?;
        }
        Ok(connection)
    }

    /// Connects as soon as the server at `port` answers PING.
    ///
    /// # Errors
    /// If it does not within ten seconds.
    pub fn open_when_ready(port: u16) -> anyhow::Result<Self> {
        Self::open_when_ready_as(port, None)
    }

    /// The same with a password.
    ///
    /// # Errors
    /// If it does not answer within ten seconds, which it never does if it refuses the password.
    pub fn open_when_ready_as(port: u16, password: Option<&str>) -> anyhow::Result<Self> {
        wait_for(&format!("127.0.0.1:{port} to answer PING"), || {
            let mut connection = Self::open_as(port, password).ok()?;
            (connection.call(&["PING"]).ok()? == "PONG").then_some(connection)
        })
    }

    /// Sends one command and reads its reply as text: a simple string, a bulk or an integer.
    ///
    /// # Errors
    /// If the reply is an error, an aggregate or null, or the connection fails.
    pub fn call(&mut self, command: &[&str]) -> anyhow::Result<String> {
        let mut request = Vec::new();
        write::command(&mut request, command.iter().map(|argument| argument.as_bytes()));
        self.reader.get_mut().write_all(&request)?;
        self.read_text().with_context(|| format!("{} failed", command.join(" ")))
    }

    /// Sends ready-made requests and reads `expected` back.
    ///
    /// # Errors
    /// If anything else comes back, or the connection fails.
    pub fn exchange(&mut self, requests: &[u8], expected: &[u8]) -> anyhow::Result<()> {
        self.reader.get_mut().write_all(requests)?;
        let mut replies = vec![0; expected.len()];
        self.reader.read_exact(&mut replies)?;
        ensure!(replies == expected, "unexpected reply: {}", String::from_utf8_lossy(&replies));
        Ok(())
    }

    fn read_text(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let rest = line.trim_end();
        match rest.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("-", error)) => bail!("{error}"),
            Some(("$", length)) => {
                let length: usize = length.parse().context("null")?;
                let mut body = vec![0; length + 2];
                self.reader.read_exact(&mut body)?;
                body.truncate(length);
                Ok(String::from_utf8(body)?)
            }
            _ => bail!("unexpected reply {rest:?}"),
        }
    }
}

/// Looks until `look` finds something.
///
/// # Errors
/// If it finds nothing within ten seconds; the error says for `what` it waited.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    wait_within(SILENCE, what, look)
}

/// The same for what is slower than most.
///
/// # Errors
/// If it finds nothing within `limit`.
pub fn wait_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {limit:?} in vain for {what}");
        thread::sleep(LOOK_AGAIN);
    }
}
