//! The machine: what it is, and how busy it is.
//!
//! Must not know: what runs on it.

use std::{collections::BTreeMap, fs, process::Command, thread, time::Duration};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::{peers, process::from_ticks};

/// What a figure depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Processors that this program may use.
    pub cpus: f64,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// The kernel's version, without what its builder added.
    pub kernel: String,
    /// The programs that were used, and their versions.
    pub versions: BTreeMap<String, String>,
}

impl Machine {
    /// Describes this machine; what cannot be found out is called unknown.
    #[must_use]
    pub fn describe() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        let (cpuinfo, meminfo) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kib = field(&meminfo, "MemTotal").and_then(|size| size.split(' ').next()?.parse::<f64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: field(&cpuinfo, "model name").map_or_else(unknown, str::to_owned),
            cpus: cpus(),
            memory_gib: kib.map_or(0.0, |kib| (kib / f64::from(1 << 20)).round()),
            kernel: kernel.split(['-', '\n']).next().map_or_else(unknown, str::to_owned),
            versions: versions(),
        }
    }

    /// One line.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} x {}, {} GiB, Linux {}", self.cpus, self.cpu, self.memory_gib, self.kernel)
    }
}

fn versions() -> BTreeMap<String, String> {
    let said = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let redis =
        said("redis-server").and_then(|text| Some(text.split_once("v=")?.1.split(' ').next()?.to_owned()));
    let rustc = said("rustc").and_then(|text| Some(text.split(' ').nth(1)?.to_owned()));
    let own =
        [("redis", redis), ("rustc", rustc)].into_iter().filter_map(|(name, version)| Some((name, version?)));
    own.chain(peers::versions()).map(|(name, version)| (name.to_owned(), version)).collect()
}

/// The value behind a name and a colon.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_once(':')?.1.trim())
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
    use super::{busy_ticks, field};

    #[test]
    fn idle_time_and_guests_time_are_left_out() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 1 1 1\n"), Some(63));
    }

    #[test]
    fn a_field_stands_behind_its_name() {
        let text = "vendor_id\t: V\nmodel name\t: A CPU @ 2 GHz\nMemTotal:       24683652 kB\n";
        assert_eq!(
            (field(text, "model name"), field(text, "MemTotal")),
            (Some("A CPU @ 2 GHz"), Some("24683652 kB"))
        );
    }
}
