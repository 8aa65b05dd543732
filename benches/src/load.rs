//! The loads: what is sent, by which generator.
//!
//! Must not know: what a load is aimed at beyond a port, and what its figures are compared with.

use serde::Serialize;

use self::{memtier::Memtier, open_loop::OpenLoop, redis_benchmark::RedisBenchmark};

pub mod memtier;
pub mod open_loop;
pub mod redis_benchmark;
pub mod round_trip;

/// A load, and the generator that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "generator")]
pub enum Load {
    /// Closed loop: each client waits for its replies before it sends again.
    RedisBenchmark(RedisBenchmark),
    /// Closed loop, reads and writes mixed.
    Memtier(Memtier),
    /// At a fixed rate, whatever the replies do.
    OpenLoop(OpenLoop),
    /// One client, one GET at a time.
    RoundTrip,
}

/// How much a load sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// For generators that keep time.
    pub seconds: f64,
    /// For generators that count.
    pub requests: u64,
}

/// Where a load goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// True: a cluster's node, and the load generator speaks to all nodes itself.
    pub cluster: bool,
    /// Threads of the load generator.
    pub threads: u32,
    /// What its clients send with AUTH.
    pub password: Option<String>,
}

/// What a load generator says about one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Commands that were answered.
    pub commands: u64,
    /// Commands a second.
    pub ops: f64,
    /// Median latency, in milliseconds; of a whole pipeline where there is one.
    pub p50_ms: f64,
    /// The latency that one in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
    /// The latency that one in a thousand exceeds, in milliseconds, where the generator tells.
    pub p999_ms: Option<f64>,
    /// The longest latency, in milliseconds, where the generator tells.
    pub max_ms: Option<f64>,
}

impl Load {
    /// Makes the load.
    ///
    /// # Errors
    /// If the generator cannot be started, or the target did not serve the load.
    pub fn run(&self, target: &Target, amount: Amount) -> anyhow::Result<Figures> {
        match self {
            Self::RedisBenchmark(line) => line.run(target, amount.requests),
            Self::Memtier(line) => memtier::run(line, target, amount.seconds),
            Self::OpenLoop(load) => open_loop::run(load, target, amount.seconds),
            Self::RoundTrip => round_trip::run(target, amount.seconds),
        }
    }
}
