//! Very many clients at once: a storm of connections, most of them idle afterwards.
//!
//! Must not know: what serves them.
//!
//! ```text
//!  before --> storm: connect, PING, PONG --> after --> active ones: GET, GET, ...   the others stay open
//!  memory     evenly paced, 5,000 a second   memory    closed loop, for some seconds
//! ```
//!
//! All is done by one thread. The connections come from several loopback addresses, since one address has only about
//! 28,000 ports for one server.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use tsubaki_protocol::resp::write;

use crate::{
    connection::Connection,
    lane::Lane,
    poll::{Interest, Poll, Ready},
    process::Server,
};

/// Connections that come from one address.
const CLIENTS_AN_ADDRESS: u32 = 10_000;

/// Open files that each side needs besides the crowd's.
const SPARE_FILES: u64 = 500;

/// Clients that have no answer after so long have failed: several times what TCP takes to try again.
const SILENCE: Duration = Duration::from_secs(10);

/// Connections opened in a row before replies are read again, where this side cannot keep the pace.
const BURST: u32 = 32;

/// Bytes read at once.
const READ: usize = 16 * 1024;

/// What a user may choose.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Connections
    #[arg(long, default_value_t = Self::default().clients)]
    pub clients: u32,
    /// Connections opened a second
    #[arg(long, default_value_t = Self::default().rate)]
    pub rate: u32,
    /// Connections that go on with GETs while the others are idle
    #[arg(long, default_value_t = Self::default().active)]
    pub active: u32,
    /// Seconds that they do
    #[arg(long, default_value_t = Self::default().seconds)]
    pub seconds: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { clients: 50_000, rate: 5_000, active: 1_000, seconds: 5.0 }
    }
}

/// What a crowd found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crowd {
    /// Connections that were asked for.
    pub wanted: u32,
    /// Connections that limits of open files allowed; fewer than wanted if the limits are too low.
    pub allowed: u32,
    /// Connections that were opened and answered.
    pub clients: u32,
    /// Connections that were refused, lost, or not answered.
    pub failures: u32,
    /// What the first of them said.
    pub first_failure: Option<String>,
    /// Connections a second that were opened; fewer than wanted if this side could not keep the pace.
    pub connect_rate: f64,
    /// Median time from the moment a connection was due until its PING was answered, in milliseconds.
    pub connect_p50_ms: f64,
    /// The time that one in a hundred exceeds.
    pub connect_p99_ms: f64,
    /// The longest time.
    pub connect_max_ms: f64,
    /// The server's resident memory with one client, in bytes.
    pub before: u64,
    /// The same with the whole crowd.
    pub after: u64,
    /// Clients that went on.
    pub active: u32,
    /// Commands a second of all active ones together.
    pub ops: f64,
    /// Their median latency, in milliseconds.
    pub p50_ms: f64,
    /// The latency that one in a hundred of their commands exceeds.
    pub p99_ms: f64,
}

impl Crowd {
    /// Resident bytes a client.
    #[must_use]
    pub fn bytes_each(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / f64::from(self.clients.max(1))
    }
}

/// Raises this process' limit of open files for a crowd of `clients`, as far as the system allows.
///
/// Call it before the server is started, which inherits the limit.
pub fn raise_file_limit(clients: u32) {
    let needed = u64::from(clients) + SPARE_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let all = Rlimit { current: Some(needed), maximum: maximum.map(|maximum| maximum.max(needed)) };
    // Only the superuser may raise the maximum; others go up to it.
    if setrlimit(Resource::Nofile, all).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Opens the crowd against 127.0.0.1:`port`, where `server` listens.
///
/// # Errors
/// If the server ends, or answers not even the first client.
pub fn measure(port: u16, server: &Server, options: &Options) -> anyhow::Result<Crowd> {
    raise_file_limit(options.clients);
    let allowed = options.clients.min(allowed(server)?);
    let mut first = Connection::open(port)?;
    first.call(&["PING"])?;
    let before = server.resident_bytes()?;
    let mut hall = Hall::new(port)?;
    let (connect_rate, connects) = hall.storm(allowed, f64::from(options.rate))?;
    let after = server.resident_bytes()?;
    let (active, gets) = hall.work(options.active, Duration::from_secs_f64(options.seconds))?;
    let ms = |times: &Histogram<u64>, quantile| times.value_at_quantile(quantile) as f64 / 1e6;
    Ok(Crowd {
        wanted: options.clients,
        allowed,
        clients: connects.len() as u32,
        failures: hall.failures,
        first_failure: hall.first_failure,
        connect_rate,
        connect_p50_ms: ms(&connects, 0.5),
        connect_p99_ms: ms(&connects, 0.99),
        connect_max_ms: ms(&connects, 1.0),
        before,
        after,
        active,
        ops: gets.len() as f64 / options.seconds,
        p50_ms: ms(&gets, 0.5),
        p99_ms: ms(&gets, 0.99),
    })
}

/// Clients that this process' and the server's limits of open files allow.
fn allowed(server: &Server) -> anyhow::Result<u32> {
    let own = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).context("the server ended")?;
    let limit = own.min(soft_file_limit(&limits).context("unreadable /proc/<pid>/limits")?);
    Ok(u32::try_from(limit.saturating_sub(SPARE_FILES)).unwrap_or(u32::MAX))
}

/// The soft limit in the line `Max open files  <soft>  <hard>  files` of `/proc/<pid>/limits`.
fn soft_file_limit(text: &str) -> Option<u64> {
    let soft =
        text.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

/// The connections of a crowd.
struct Hall {
    port: u16,
    poll: Poll,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
    /// None: failed.
    lanes: Vec<Option<Lane>>,
    failures: u32,
    first_failure: Option<String>,
    /// Requests without a reply.
    waiting: usize,
}

impl Hall {
    fn new(port: u16) -> io::Result<Self> {
        Ok(Self {
            port,
            poll: Poll::new()?,
            ready: Vec::new(),
            buffer: vec![0; READ],
            lanes: Vec::new(),
            failures: 0,
            first_failure: None,
            waiting: 0,
        })
    }

    /// Opens `clients` connections at `rate` a second. Gives back the rate that was achieved and how long each took
    /// until its PING was answered, in nanoseconds, counted from when it was due.
    fn storm(&mut self, clients: u32, rate: f64) -> anyhow::Result<(f64, Histogram<u64>)> {
        let start = Instant::now();
        let due_of = |number: u32| start + Duration::from_secs_f64(f64::from(number) / rate);
        let mut times = times()?;
        let mut took = |due: Instant| times.saturating_record(due.elapsed().as_nanos() as u64);
        for first in (0..clients).step_by(BURST as usize) {
            for number in first..clients.min(first + BURST) {
                while Instant::now() < due_of(number) {
                    self.turn(due_of(number), |_, due| took(due))?;
                }
                self.open(number, due_of(number))?;
            }
            self.turn(Instant::now(), |_, due| took(due))?;
        }
        let opened = Instant::now();
        while self.waiting > 0 && opened.elapsed() < SILENCE {
            self.turn(opened + SILENCE, |_, due| took(due))?;
        }
        for index in 0..self.lanes.len() {
            if self.lanes[index].as_ref().is_some_and(|lane| lane.waiting() > 0) {
                self.fail(index, "not answered in time");
            }
        }
        Ok((f64::from(clients) / (opened - start).as_secs_f64(), times))
    }

    /// Has up to `count` connections, spread over the crowd, send one GET after the other for `time`; gives back how
    /// many they are and what their commands took, in nanoseconds.
    fn work(&mut self, count: u32, time: Duration) -> anyhow::Result<(u32, Histogram<u64>)> {
        let open: Vec<_> = (0..self.lanes.len()).filter(|index| self.lanes[*index].is_some()).collect();
        let active = (count as usize).min(open.len());
        let mut next: Vec<_> = (0..active).map(|number| open[number * open.len() / active]).collect();
        let mut times = times()?;
        let end = Instant::now() + time;
        while Instant::now() < end {
            for index in next.drain(..) {
                let mut request = Vec::new();
                write::command(&mut request, [&b"GET"[..], format!("key:{index:012}").as_bytes()]);
                self.send(index, &request, Instant::now());
            }
            self.turn(end, |index, sent| {
                times.saturating_record(sent.elapsed().as_nanos() as u64);
                next.push(index);
            })?;
        }
        Ok((active as u32, times))
    }

    fn open(&mut self, number: u32, due: Instant) -> io::Result<()> {
        let index = self.lanes.len();
        self.lanes.push(None);
        match connect(number, self.port).and_then(Lane::new) {
            Ok(lane) => {
                self.poll.add(&lane, index as u64, Interest::ReadAndWrite)?;
                self.lanes[index] = Some(lane);
                self.send(index, b"*1\r\n$4\r\nPING\r\n", due);
            }
            Err(error) => self.failed(&error.to_string()),
        }
        Ok(())
    }

    fn send(&mut self, index: usize, request: &[u8], due: Instant) {
        let Some(lane) = &mut self.lanes[index] else { return };
        lane.push(request, due);
        self.waiting += 1;
        // What does not leave now waits for room, or for the connection.
        if let Err(error) = lane.flush() {
            self.fail(index, &error.to_string());
        }
    }

    /// Waits for something to come and calls `answered` for each reply, with its connection and when it was due.
    fn turn(&mut self, until: Instant, mut answered: impl FnMut(usize, Instant)) -> io::Result<()> {
        let mut ready = std::mem::take(&mut self.ready);
        self.poll.wait(Some(until), &mut ready)?;
        for event in &ready {
            let index = event.token as usize;
            if let Err(error) = self.serve(*event, |due| answered(index, due)) {
                self.fail(index, &error.to_string());
            }
        }
        self.ready = ready;
        Ok(())
    }

    fn serve(&mut self, event: Ready, answered: impl FnMut(Instant)) -> io::Result<()> {
        let Some(lane) = &mut self.lanes[event.token as usize] else { return Ok(()) };
        if event.write && lane.flush()? {
            self.poll.change(&*lane, event.token, Interest::Read)?;
        }
        if event.read {
            let before = lane.waiting();
            let outcome = lane.read(&mut self.buffer, answered);
            self.waiting -= before - lane.waiting();
            outcome?;
        }
        Ok(())
    }

    /// Closes a connection that failed.
    fn fail(&mut self, index: usize, why: &str) {
        if let Some(lane) = self.lanes[index].take() {
            self.waiting -= lane.waiting();
            self.failed(why);
        }
    }

    fn failed(&mut self, why: &str) {
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| why.to_owned());
    }
}

/// Begins to connect from the loopback address that is due.
fn connect(number: u32, port: u16) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Closed with a reset, or every port would be kept for a minute and be missing in the next run.
    socket.set_linger(Some(Duration::ZERO))?;
    let from = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number / CLIENTS_AN_ADDRESS);
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    match socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()) {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::INPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Times up to a minute, in nanoseconds, to three digits.
fn times() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000_000, 3)?)
}

#[cfg(test)]
mod tests {
    use super::{Crowd, Options, measure, soft_file_limit};
    use crate::{
        connection::Connection,
        process::{Server, free_port},
    };

    fn crowd_of_a_redis(arguments: [&str; 2], options: &Options) -> Crowd {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port().unwrap();
        let all = ["--port", &port.to_string(), "--save", "", arguments[0], arguments[1]];
        let server = Server::start("redis-server", all, &folder.path().join("log")).unwrap();
        Connection::open_when_ready(port).unwrap();
        measure(port, &server, options).unwrap()
    }

    const SMALL: Options = Options { clients: 300, rate: 3_000, active: 30, seconds: 0.5 };

    #[test]
    fn all_are_answered_and_some_go_on() {
        let crowd = crowd_of_a_redis(["--maxclients", "1000"], &SMALL);
        assert_eq!((crowd.wanted, crowd.allowed, crowd.clients, crowd.failures), (300, 300, 300, 0));
        assert_eq!(crowd.active, 30);
        assert!(crowd.ops > 0.0 && crowd.p50_ms > 0.0 && crowd.p50_ms <= crowd.p99_ms);
        assert!(crowd.connect_p50_ms <= crowd.connect_p99_ms && crowd.connect_p99_ms <= crowd.connect_max_ms);
        assert!(crowd.bytes_each() > 0.0);
    }

    #[test]
    fn those_that_are_turned_away_are_failures() {
        let crowd = crowd_of_a_redis(["--maxclients", "101"], &SMALL);
        // One place is taken by the client that measured the memory before.
        assert_eq!((crowd.clients, crowd.failures), (100, 200));
        assert!(crowd.first_failure.is_some());
    }

    #[test]
    fn the_soft_limit_is_read() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            20000                30000                files\n";
        assert_eq!(soft_file_limit(text), Some(20_000));
    }
}
