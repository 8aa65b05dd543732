//! One measurement: a load through one subject, and what everybody spent on it.
//!
//! Must not know: rounds, ratios, goals.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{machine, subject::Middle};
use crate::{
    cluster::Cluster,
    connection::Connection,
    load::{Amount, Load, Target},
    place::{Cpus, Places},
    process::{Server, cpu_time_of_the_load},
};

/// One load through one subject.
pub struct Measurement<'a> {
    /// The cluster, whose nodes' CPU time is taken.
    pub cluster: &'a Cluster,
    /// The subject; `None`: the load goes to the cluster itself.
    pub middle: Option<&'a Middle>,
    /// What is sent.
    pub load: Load,
    /// Threads of the load generator.
    pub threads: u32,
    /// How much is sent.
    pub amount: Amount,
}

/// What one measurement found. CPU times are microseconds a command, of all threads, kernel time included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How long it took, the load generator's start and end included.
    #[serde(default)]
    pub seconds: f64,
    /// Commands a second.
    pub ops: f64,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// The latency that one command in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
    /// The latency that one command in a thousand exceeds, in milliseconds.
    pub p999_ms: Option<f64>,
    /// The longest latency, in milliseconds.
    pub max_ms: Option<f64>,
    /// CPU of the subject.
    pub proxy_us: Option<f64>,
    /// CPU of all nodes: the cluster's, or the subject's own.
    pub nodes_us: f64,
    /// CPU of the load generator.
    pub load_us: f64,
    /// Resident memory of the subject after the load.
    pub resident_bytes: Option<u64>,
    /// The floor's own count.
    pub calls: Option<Calls>,
    /// The share of the machine's CPUs, from 0 to 1, that went to processes that are not measured.
    pub strangers: f64,
}

/// System calls a command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// `recv`
    pub recv: f64,
    /// `send`
    pub send: f64,
    /// `epoll_wait`
    pub epoll_wait: f64,
}

/// Meter readings; a sample is the difference of two.
struct Reading {
    at: Instant,
    proxy: Duration,
    nodes: Duration,
    load: Duration,
    machine: Duration,
    counts: Option<Counts>,
}

struct Counts {
    commands: f64,
    calls: Calls,
}

impl Measurement<'_> {
    /// Takes the measurement.
    ///
    /// # Errors
    /// If a process ended, or the subject did not serve the load.
    pub fn take(&self) -> anyhow::Result<Sample> {
        let _places = matches!(self.load, Load::RoundTrip).then(|| self.place()).transpose()?;
        let before = self.read()?;
        let figures = self.load.run(&self.target(), self.amount);
        // If a server has ended, this says so, and the load's error is only what follows from it.
        let after = self.read()?;
        let figures = figures?;
        let each = |time: Duration| rounded(time.as_secs_f64() * 1e6 / figures.commands as f64);
        let proxy = after.proxy.saturating_sub(before.proxy);
        let nodes = after.nodes.saturating_sub(before.nodes);
        let load = after.load - before.load;
        let strangers = (after.machine - before.machine).saturating_sub(proxy + nodes + load);
        let seconds = (after.at - before.at).as_secs_f64();
        Ok(Sample {
            seconds: rounded(seconds),
            ops: figures.ops.round(),
            p50_ms: figures.p50_ms,
            p99_ms: figures.p99_ms,
            p999_ms: figures.p999_ms,
            max_ms: figures.max_ms,
            proxy_us: self.middle.map(|_| each(proxy)),
            nodes_us: each(nodes),
            load_us: each(load),
            resident_bytes: self.middle.map(|middle| middle.server.resident_bytes()).transpose()?,
            calls: before.counts.zip(after.counts).map(|(before, after)| after.since(&before)),
            strangers: rounded(strangers.as_secs_f64() / (seconds * machine::cpus())),
        })
    }

    fn target(&self) -> Target {
        Target {
            port: self.middle.map_or_else(|| self.cluster.ports()[0], |middle| middle.port),
            cluster: self.middle.is_none(),
            threads: self.threads,
            password: self.cluster.password().map(str::to_owned),
        }
    }

    /// Gives the middle a CPU of its own.
    fn place(&self) -> anyhow::Result<Places> {
        let mut places = Places::default();
        if let Some(cpus) = Cpus::of_this_machine()? {
            places.put_this_thread(cpus.client)?;
            let own = self.middle.map(|middle| &middle.nodes).into_iter().flatten().map(Server::pid);
            for server in self.cluster.pids().into_iter().chain(own) {
                places.put_process(server, cpus.servers)?;
            }
            if let Some(middle) = self.middle {
                places.put_process(middle.server.pid(), cpus.middle)?;
            }
        }
        Ok(places)
    }

    fn read(&self) -> anyhow::Result<Reading> {
        let counts = self.middle.filter(|middle| middle.counts).map(Counts::read).transpose()?;
        let own_nodes = self.middle.filter(|middle| !middle.nodes.is_empty());
        Ok(Reading {
            at: Instant::now(),
            proxy: self.middle.map(|middle| middle.server.cpu_time()).transpose()?.unwrap_or_default(),
            nodes: own_nodes.map_or_else(|| self.cluster.cpu_time(), Middle::nodes_cpu_time)?,
            load: cpu_time_of_the_load()?,
            machine: machine::busy()?,
            counts,
        })
    }
}

impl Counts {
    fn read(floor: &Middle) -> anyhow::Result<Self> {
        let info = Connection::open(floor.port)?.call(&["INFO"])?;
        let count = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|count| count.parse().ok()).with_context(|| format!("the floor tells no {name}"))
        };
        let calls = Calls { recv: count("recv")?, send: count("send")?, epoll_wait: count("epoll_wait")? };
        Ok(Self { commands: count("commands")?, calls })
    }

    fn since(&self, before: &Self) -> Calls {
        let commands = self.commands - before.commands;
        let each = |call: fn(&Calls) -> f64| rounded((call(&self.calls) - call(&before.calls)) / commands);
        Calls {
            recv: each(|calls| calls.recv),
            send: each(|calls| calls.send),
            epoll_wait: each(|calls| calls.epoll_wait),
        }
    }
}

/// To four digits behind the point: no figure here is better than that.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}
