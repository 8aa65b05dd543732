//! The load: redis-benchmark, one command at a time.
//!
//! Must not know: what it is aimed at.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Serialize;

/// Keys that `-r` spreads the commands over.
pub const KEYS: u32 = 100_000;

/// Bytes of a value.
pub const VALUE_BYTES: u32 = 64;

/// What is sent, and by how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// `GET` or `SET`.
    pub command: &'static str,
    /// Connections.
    pub clients: u32,
    /// Commands that a client sends before it waits for their replies.
    pub pipeline: u32,
}

/// Where a load goes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// True: a cluster's node, and the load generator speaks to all nodes itself.
    pub cluster: bool,
    /// Threads of the load generator.
    pub threads: u32,
}

/// What redis-benchmark says about one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Commands a second.
    pub ops: f64,
    /// Median latency, in milliseconds; of a whole pipeline where there is one.
    pub p50_ms: f64,
    /// The latency that one in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
}

impl Load {
    /// Runs `requests` commands against `target`.
    ///
    /// # Errors
    /// If redis-benchmark cannot be started, got an error reply, or printed no figures.
    pub fn run(&self, target: Target, requests: u64) -> anyhow::Result<Figures> {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-h", "127.0.0.1", "-t", &self.command.to_ascii_lowercase()]);
        let numbers = [
            ("-p", u64::from(target.port)),
            ("--threads", u64::from(target.threads)),
            ("-c", u64::from(self.clients)),
            ("-P", u64::from(self.pipeline)),
            ("-d", u64::from(VALUE_BYTES)),
            ("-r", u64::from(KEYS)),
            ("-n", requests),
        ];
        for (flag, number) in numbers {
            benchmark.arg(flag).arg(number.to_string());
        }
        if target.cluster {
            benchmark.arg("--cluster");
        }
        let output = benchmark.output().context("cannot start redis-benchmark (Debian: redis-tools)")?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{benchmark:?} ended with {}: {stdout}{stderr}", output.status);
        parse(&stdout).with_context(|| format!("{benchmark:?} printed no figures: {stdout}{stderr}"))
    }
}

/// Reads the latencies from the summary, and the throughput from the last line of progress.
///
/// The summary's own throughput will not do: with several threads, redis-benchmark's clock runs on until those
/// that are done look up, which they do every 250 ms. It shows progress only before that.
fn parse(text: &str) -> Option<Figures> {
    let mut shown = text.split(['\r', '\n']).filter_map(|line| number(line.split_once("(overall: ")?.1));
    let summary = || number(text.split_once("throughput summary: ")?.1);
    let ops = shown.rfind(|&ops| ops > 0.0).or_else(summary)?;
    let mut lines = text.lines().skip_while(|line| !line.contains("latency summary")).skip(1);
    let columns: Vec<_> = lines.next()?.split_whitespace().collect();
    let values: Vec<_> = lines.next()?.split_whitespace().collect();
    let latency = |name| number(values.get(columns.iter().position(|&column| column == name)?)?);
    Some(Figures { ops, p50_ms: latency("p50")?, p99_ms: latency("p99")? })
}

/// The number at the beginning of `text`.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Figures, parse};

    const SUMMARY: &str = "
Summary:
  throughput summary: 41832.25 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.008     0.032     0.159     5.495     9.487    24.447
";

    #[test]
    fn throughput_is_the_last_shown_before_the_clock_ran_on() {
        let progress = "Cluster has 3 master nodes:\n\
            \rGET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r      \
            \rGET: rps=74792.0 (overall: 73325.5) avg_msec=0.565 (overall: 0.565)\r      \
            \rGET: rps=33605.6 (overall: 49349.9) avg_msec=1.225 (overall: 0.871)\r      \
            \r====== GET ======\n";
        let figures = Figures { ops: 49349.9, p50_ms: 0.159, p99_ms: 9.487 };
        assert_eq!(parse(&format!("{progress}{SUMMARY}")), Some(figures));
    }

    #[test]
    fn a_run_too_short_for_progress_has_the_summarys_throughput() {
        let progress = "\rGET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r";
        let figures = Figures { ops: 41832.25, p50_ms: 0.159, p99_ms: 9.487 };
        assert_eq!(parse(&format!("{progress}{SUMMARY}")), Some(figures));
    }

    #[test]
    fn no_figures_are_made_up() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("GET: rps=74792.0 (overall: 73325.5) avg_msec=0.565 (overall: 0.565)\r"), None);
        assert_eq!(parse(&SUMMARY.replace("p99", "p98")), None);
        assert_eq!(parse(&SUMMARY.replace("9.487", "-nan")), None);
    }
}
