//! A load at a fixed rate, whose latencies are free of coordinated omission.
//!
//! Must not know: what it is aimed at.
//!
//! ```text
//!  schedule:  |    |    |    |    |     due times, evenly spaced, fixed before the first command leaves
//!  client 0:  *--------------*--------  a command is sent when it is due, even if its connection still waits
//!  client 1:       *--------------*---  latency = time of the reply - due time
//! ```
//!
//! A server that stalls is charged for every command that fell due meanwhile, as real users would. So is the
//! generator if it wakes late: how late is measured too, see [`Report::late_p99_ms`].

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use tsubaki_protocol::resp::write;

use self::{request::Requests, route::Route, schedule::Schedule, sender::Sender};
use super::{Figures, Target};
use crate::lane::Lane;

mod request;
mod route;
mod schedule;
mod sender;

/// Most threads: each keeps a core awake.
const MAX_THREADS: u32 = 2;

/// Time for the threads to be ready before the first command is due.
const PREPARATION: Duration = Duration::from_millis(5);

/// The rate was kept if so much of it was achieved.
const KEPT: f64 = 0.98;

/// Commands at a fixed rate over the filled keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OpenLoop {
    /// `GET` or `SET`.
    pub command: &'static str,
    /// Clients; each has a connection, or one to each master where the cluster itself is the target.
    pub clients: u32,
    /// Commands a second.
    pub rate: f64,
}

/// What a user may choose when the load runs by itself.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// The port is a cluster's node: speak to all of its masters
    #[arg(long)]
    cluster: bool,
    /// Commands a second
    #[arg(long)]
    rate: f64,
    /// GET or SET
    #[arg(long, default_value = "GET", value_parser = command)]
    command: &'static str,
    /// Clients
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Threads of the generator, 1 or 2
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// What the clients send with AUTH
    #[arg(long)]
    password: Option<String>,
}

/// What a run found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Commands, rate and latencies.
    pub figures: Figures,
    /// True if the rate was achieved. If not, server or generator were too slow, and latencies grow with the run's length.
    pub kept: bool,
    /// How late the generator sent the one command in a hundred that it sent latest, in milliseconds; this is part of
    /// that command's latency.
    pub late_p99_ms: f64,
}

/// What a thread counted, in nanoseconds.
struct Counts {
    latency: Histogram<u64>,
    late: Histogram<u64>,
}

/// Sends at the load's rate for `seconds`.
///
/// # Errors
/// If a connection fails, an error comes back, or the server falls silent.
pub fn run(load: &OpenLoop, target: &Target, seconds: f64) -> anyhow::Result<Figures> {
    Ok(measure(load, target, seconds)?.figures)
}

/// The same, with what the generator knows about itself.
///
/// # Errors
/// As [`run`].
pub fn measure(load: &OpenLoop, target: &Target, seconds: f64) -> anyhow::Result<Report> {
    ensure!(load.rate > 0.0 && load.clients > 0, "an open loop needs a rate and clients");
    let threads = target.threads.clamp(1, MAX_THREADS).min(load.clients);
    let route = &Route::to(target)?;
    let shares = (0..threads).map(|thread| {
        let clients = load.clients / threads + u32::from(thread < load.clients % threads);
        let ports = (0..clients).flat_map(|_| route.ports());
        let lanes =
            ports.map(|port| open(*port, target.password.as_deref())).collect::<Result<Vec<_>, _>>()?;
        Ok((lanes, Requests::new(load.command, u64::from(thread) + 1)?))
    });
    let shares: Vec<_> = shares.collect::<anyhow::Result<_>>()?;
    let start = Instant::now() + PREPARATION;
    let counts: anyhow::Result<Vec<_>> = thread::scope(|scope| {
        let spawn = |(thread, (lanes, requests))| {
            let schedule = Schedule::new(start, load.rate, seconds, thread, u64::from(threads));
            scope.spawn(move || Sender::new(lanes, route, requests, schedule)?.run())
        };
        let running: Vec<_> = (0..).zip(shares).map(spawn).collect();
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|_| Err(anyhow!("a thread panicked")))).collect()
    });
    report(load, counts?, start.elapsed())
}

/// Runs the load by itself and prints one line.
///
/// # Errors
/// As [`run`].
pub fn run_alone(options: &Options) -> anyhow::Result<()> {
    let Options { port, cluster, rate, command, clients, seconds, threads, ref password } = *options;
    let load = OpenLoop { command, clients, rate };
    let target = Target { port, cluster, threads, password: password.clone() };
    let Report { figures, kept, late_p99_ms } = measure(&load, &target, seconds)?;
    let Figures { commands, ops, p50_ms, p99_ms, p999_ms, max_ms } = figures;
    let [p999_ms, max_ms] = [p999_ms, max_ms].map(Option::unwrap_or_default);
    let verdict = if kept { "kept" } else { "NOT kept" };
    writeln!(
        io::stdout(),
        "{command}, {clients} clients, {rate:.0}/s {verdict}: {commands} answered, {ops:.0}/s; \
         ms: p50 {p50_ms:.3}, p99 {p99_ms:.3}, p99.9 {p999_ms:.3}, max {max_ms:.3}; \
         sent late: p99 {late_p99_ms:.3}"
    )?;
    Ok(())
}

fn command(text: &str) -> Result<&'static str, String> {
    ["GET", "SET"].into_iter().find(|command| *command == text).ok_or_else(|| "GET or SET".to_owned())
}

/// Connects, and logs in if there is a password.
fn open(port: u16, password: Option<&str>) -> anyhow::Result<Lane> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot connect to 127.0.0.1:{port}"))?;
    if let Some(password) = password {
        let mut request = Vec::new();
        write::command(&mut request, [b"AUTH", password.as_bytes()]);
        socket.write_all(&request)?;
        let mut reply = [0; b"+OK\r\n".len()];
        socket.read_exact(&mut reply)?;
        ensure!(&reply == b"+OK\r\n", "127.0.0.1:{port} does not accept the password");
    }
    Ok(Lane::new(socket)?)
}

fn report(load: &OpenLoop, counts: Vec<Counts>, took: Duration) -> anyhow::Result<Report> {
    let mut all = Counts::new()?;
    for counts in counts {
        all.latency.add(counts.latency)?;
        all.late.add(counts.late)?;
    }
    let commands = all.latency.len();
    let ops = commands as f64 / took.as_secs_f64();
    let latency = |quantile| all.latency.value_at_quantile(quantile) as f64 / 1e6;
    let figures = Figures {
        commands,
        ops,
        p50_ms: latency(0.5),
        p99_ms: latency(0.99),
        p999_ms: Some(latency(0.999)),
        max_ms: Some(all.latency.max() as f64 / 1e6),
    };
    let late_p99_ms = all.late.value_at_quantile(0.99) as f64 / 1e6;
    Ok(Report { figures, kept: ops >= KEPT * load.rate, late_p99_ms })
}

impl Counts {
    /// For times up to a minute, to three digits.
    fn new() -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Ok(Self { latency: histogram()?, late: histogram()? })
    }

    fn answered(&mut self, due: Instant, now: Instant) {
        self.latency.saturating_record(nanos(due, now));
    }

    fn sent(&mut self, due: Instant, now: Instant) {
        self.late.saturating_record(nanos(due, now));
    }
}

fn nanos(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{Ipv4Addr, TcpListener},
        thread,
        time::Duration,
    };

    use super::{Figures, OpenLoop, Report, measure};
    use crate::{connection::Connection, floor, load::Target, process::free_port};

    fn target(port: u16, threads: u32) -> Target {
        Target { port, cluster: false, threads, password: None }
    }

    #[test]
    fn every_command_of_the_schedule_is_answered_and_counted_once() {
        let port = free_port().unwrap();
        // Ends with the process: the floor serves until it is killed.
        thread::spawn(move || floor::serve(port));
        let mut asking = Connection::open_when_ready(port).unwrap();
        for (command, threads) in [("GET", 1), ("SET", 2)] {
            let load = OpenLoop { command, clients: 7, rate: 2_000.0 };
            let report = measure(&load, &target(port, threads), 0.25).unwrap();
            assert_eq!(report.figures.commands, 500);
            assert!(report.figures.p50_ms > 0.0 && report.figures.p50_ms <= report.figures.max_ms.unwrap());
        }
        // Two loads, and the PING that waited for the floor.
        let info = asking.call(&["INFO"]).unwrap();
        assert!(info.starts_with("commands:1001\r\n"), "{info}");
    }

    /// One client of a server that answers each request at once, but once stops for `STALL`.
    fn of_a_server_that_stalls() -> Report {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000000\r\n".len()];
            for number in 0.. {
                if client.read_exact(&mut request).is_err() {
                    return;
                }
                if number == 100 {
                    thread::sleep(STALL);
                }
                client.write_all(b"$1\r\nx\r\n").unwrap();
            }
        });
        measure(&OpenLoop { command: "GET", clients: 1, rate: 1_000.0 }, &target(port, 1), 0.5).unwrap()
    }

    const STALL: Duration = Duration::from_millis(200);

    #[test]
    fn a_stall_is_charged_to_every_command_that_fell_due_meanwhile() {
        let Figures { commands, p99_ms, p999_ms, .. } = of_a_server_that_stalls().figures;
        assert_eq!(commands, 500);
        // Of 500 commands 200 fell due while the server slept, the k-th of them k ms before its end or later: the
        // slowest of them, and the fifth slowest.
        assert!(p999_ms.unwrap() >= 199.0, "{p999_ms:?}");
        assert!(p99_ms >= 190.0, "{p99_ms}");
    }

    #[test]
    fn a_rate_that_no_server_could_serve_is_not_kept() {
        let port = free_port().unwrap();
        thread::spawn(move || floor::serve(port));
        Connection::open_when_ready(port).unwrap();
        let load = OpenLoop { command: "GET", clients: 2, rate: 1e9 };
        let report = measure(&load, &target(port, 1), 0.000_05).unwrap();
        assert_eq!((report.figures.commands, report.kept), (50_000, false));
    }

    #[test]
    fn an_error_ends_the_load_with_its_text() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(b"-CLUSTERDOWN no luck\r\n").unwrap();
            client.read_to_end(&mut Vec::new())
        });
        let load = OpenLoop { command: "GET", clients: 1, rate: 100.0 };
        let error = measure(&load, &target(port, 1), 0.2).unwrap_err();
        assert!(format!("{error:#}").contains("CLUSTERDOWN no luck"), "{error:#}");
    }
}
