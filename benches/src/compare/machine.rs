//! The machine: what it is, and how busy it is.
//!
//! Must not know: what runs on it.

use std::{fs, process::Command, thread, time::Duration};

use anyhow::Context as _;
use serde::Serialize;

use crate::process::from_ticks;

/// What a figure depends on.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this program may use.
    pub cpus: f64,
    /// The kernel's release.
    pub kernel: String,
    /// What `redis-server --version` says.
    pub redis: String,
}

impl Machine {
    /// Describes this machine; what cannot be found out is called unknown.
    #[must_use]
    pub fn describe() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let unknown = || "unknown".to_owned();
        Self {
            cpu: name.and_then(|line| line.split_once(": ")).map_or_else(unknown, |(_, cpu)| cpu.to_owned()),
            cpus: cpus(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| release.trim().to_owned()),
            redis: Command::new("redis-server").arg("--version").output().map_or_else(
                |_| unknown(),
                |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            ),
        }
    }
}

/// Processors that this program may use.
#[must_use]
pub fn cpus() -> f64 {
    thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64)
}

/// Time that all processors together were not idle since the machine started, time stolen by a hypervisor
/// included.
///
/// # Errors
/// If /proc/stat is unreadable.
pub fn busy() -> anyhow::Result<Duration> {
    busy_ticks(&fs::read_to_string("/proc/stat")?).map(from_ticks).context("unreadable /proc/stat")
}

/// The first line of proc_stat(5) without idle and iowait; guests' time is part of user time.
fn busy_ticks(stat: &str) -> Option<u64> {
    let numbers: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _iowait, interrupts, soft_interrupts, stolen, ..] = *numbers else {
        return None;
    };
    Some(user + nice + system + interrupts + soft_interrupts + stolen)
}

#[cfg(test)]
mod tests {
    use super::busy_ticks;

    #[test]
    fn idle_time_and_guests_time_are_left_out() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 1 1 1\n"), Some(63));
    }
}
