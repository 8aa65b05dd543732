//! The load generator memtier_benchmark.
//!
//! Must not know: what it is aimed at.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{Figures, Target};
use crate::{process::bounded, program};

/// Name of the program.
const PROGRAM: &str = "memtier_benchmark";

/// Seconds that a run may take longer than it was told.
const PATIENCE_SECONDS: f64 = 30.0;

/// A line of memtier_benchmark: GET and SET, one to one, over random keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memtier {
    /// Connections of each thread; as many to every master, where the load goes to the cluster itself.
    pub clients: u32,
    /// Threads of the load generator.
    pub threads: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
}

/// Runs the line against `target` for `seconds`, of which memtier_benchmark takes whole ones.
///
/// # Errors
/// If memtier_benchmark is not there, failed, got an error reply, or wrote no figures.
pub fn run(line: &Memtier, target: &Target, seconds: f64) -> anyhow::Result<Figures> {
    let program = available().map_err(anyhow::Error::msg)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("figures.json");
    // It tries for ever to log in or to connect again, if the other side does not let it.
    let mut memtier = bounded(program, seconds + PATIENCE_SECONDS);
    memtier.args(line.arguments(target, seconds)).arg("--json-out-file").arg(&file);
    let output = memtier.output().context("cannot start memtier_benchmark through setpriv (util-linux)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "memtier_benchmark ended with {}: {}", output.status, last_line(&said));
    if let Some(error) = error_reply(&said) {
        bail!("memtier_benchmark got an error: {error}");
    }
    let text = fs::read_to_string(&file).context("memtier_benchmark wrote no figures")?;
    parse(&text)
}

/// The program; or one line that says what to do to have it.
///
/// # Errors
/// If it is neither installed nor built in the checkout that `MEMTIER_SRC` names.
pub fn available() -> Result<PathBuf, String> {
    match checkout() {
        Ok(checkout) => program::built(&checkout, PROGRAM),
        Err(remedy) => program::installed(PROGRAM, &format!("run `.ci/install memtier`; or {remedy}")),
    }
}

/// The program's version, for a record; as `2.1.1+378cbb9f`.
#[must_use]
pub fn version() -> Option<String> {
    parse_version(&program::answer(&available().ok()?, "--version")?)
}

fn checkout() -> Result<PathBuf, String> {
    program::checkout("MEMTIER_SRC", PROGRAM)
}

/// Behind the commit stands whether anything was changed since.
fn parse_version(text: &str) -> Option<String> {
    let commit = program::word_after(text, " sha=")?.split(':').next()?;
    Some(format!("{}+{commit}", program::word_after(text, " v=")?))
}

impl Memtier {
    fn arguments(&self, target: &Target, seconds: f64) -> Vec<String> {
        let mut arguments = vec![
            "--server=127.0.0.1".to_owned(),
            format!("--port={}", target.port),
            format!("--clients={}", self.clients),
            format!("--threads={}", self.threads),
            "--ratio=1:1".to_owned(),
            format!("--data-size={}", self.value_bytes),
            "--key-pattern=R:R".to_owned(),
            format!("--test-time={}", seconds.ceil().max(1.0)),
            "--hide-histogram".to_owned(),
        ];
        if target.cluster {
            arguments.push("--cluster-mode".to_owned());
        }
        if let Some(password) = &target.password {
            arguments.push(format!("--authenticate={password}"));
        }
        arguments
    }
}

/// What `--json-out-file` holds, as far as it is read.
#[derive(Deserialize)]
struct Report {
    #[serde(rename = "ALL STATS")]
    all: AllStats,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AllStats {
    totals: Totals,
}

/// Latencies are milliseconds.
#[derive(Deserialize)]
struct Totals {
    #[serde(rename = "Count")]
    count: u64,
    #[serde(rename = "Ops/sec")]
    ops: f64,
    /// Connections that broke; older versions do not tell.
    #[serde(rename = "Connection Errors", default)]
    broken: u64,
    #[serde(rename = "Max Latency")]
    max: f64,
    #[serde(rename = "Percentile Latencies")]
    percentiles: BTreeMap<String, serde_json::Value>,
}

fn parse(text: &str) -> anyhow::Result<Figures> {
    let report: Report =
        serde_json::from_str(text).context("memtier_benchmark wrote figures of an unknown form")?;
    let Totals { count, ops, broken, max, percentiles } = report.all.totals;
    ensure!(broken == 0, "memtier_benchmark lost {broken} connections");
    ensure!(count > 0, "memtier_benchmark got no reply");
    let percentile = |name: &str| percentiles.get(name).and_then(serde_json::Value::as_f64);
    let told = |name: &str| percentile(name).with_context(|| format!("memtier_benchmark told no {name}"));
    Ok(Figures {
        commands: count,
        ops,
        p50_ms: told("p50.00")?,
        p99_ms: told("p99.00")?,
        p999_ms: percentile("p99.90"),
        max_ms: Some(max),
    })
}

/// memtier_benchmark counts error replies as it counts others, and only mentions them.
fn error_reply(said: &str) -> Option<&str> {
    lines(said).find_map(|line| Some(line.split_once("handle error response: ")?.1))
}

fn last_line(said: &str) -> &str {
    lines(said).rfind(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// Its progress is one line that it writes over and over.
fn lines(said: &str) -> impl DoubleEndedIterator<Item = &str> {
    said.split(['\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::{Memtier, error_reply, last_line, parse, parse_version};
    use crate::load::{Figures, Target};

    const LINE: Memtier = Memtier { clients: 50, threads: 4, value_bytes: 50 };

    /// A report that memtier_benchmark wrote, without what is not read.
    const REPORT: &str = r#"{
        "configuration": { "port": 17204, "clients": 50, "threads": 4, "ratio": "1:1" },
        "run information": { "Threads": 4, "Connections per thread": 50, "Seconds": 2 },
        "ALL STATS": {
            "Runtime": { "Total duration": 2005, "Time unit": "MILLISECONDS" },
            "Sets": { "Count": 59236, "Ops/sec": 29533.77 },
            "Totals": {
                "Count": 118317,
                "Ops/sec": 58990.26,
                "Misses/sec": 29456.49,
                "Connection Errors": 0,
                "Average Latency": 3.388,
                "Max Latency": 46.079,
                "Percentile Latencies": {
                    "p50.00": 2.831,
                    "p99.00": 10.751,
                    "p99.90": 23.935,
                    "Histogram log format": { "Compressed Histogram": "HISTFAAAA7B4nC1Tf2Tb" }
                }
            }
        }
    }"#;

    #[test]
    fn figures_are_the_ones_of_all_commands() {
        let figures = Figures {
            commands: 118_317,
            ops: 58_990.26,
            p50_ms: 2.831,
            p99_ms: 10.751,
            p999_ms: Some(23.935),
            max_ms: Some(46.079),
        };
        assert_eq!(parse(REPORT).unwrap(), figures);
    }

    #[test]
    fn a_run_that_lost_connections_has_no_figures() {
        let broken = REPORT.replace("\"Connection Errors\": 0", "\"Connection Errors\": 3");
        assert_eq!(parse(&broken).unwrap_err().to_string(), "memtier_benchmark lost 3 connections");
    }

    #[test]
    fn no_figures_are_made_up() {
        let error = |report: &str| parse(report).unwrap_err().to_string();
        assert_eq!(error("{}"), "memtier_benchmark wrote figures of an unknown form");
        assert_eq!(error(&REPORT.replace("p99.00", "p98.00")), "memtier_benchmark told no p99.00");
        assert_eq!(error(&REPORT.replace("118317", "0")), "memtier_benchmark got no reply");
    }

    #[test]
    fn the_first_error_reply_is_told() {
        let said = "[RUN #1] Launching threads now...\n\
            server 127.0.0.1:7000 handle error response: -NOAUTH Authentication required.\n\
            server 127.0.0.1:7000 handle error response: -ERR another\n\
            \r[RUN #1 37%,   0 secs]  4 threads 200 conns:       40 ops\r\n\n";
        assert_eq!(error_reply(said), Some("-NOAUTH Authentication required."));
        assert_eq!(last_line(said), "[RUN #1 37%,   0 secs]  4 threads 200 conns:       40 ops");
        assert_eq!(error_reply("[RUN #1] Launching threads now...\n"), None);
    }

    #[test]
    fn a_proxy_is_loaded_with_the_line_as_it_is() {
        let target = Target { port: 7, cluster: false, threads: 2, password: None };
        let expected = "--server=127.0.0.1 --port=7 --clients=50 --threads=4 --ratio=1:1 --data-size=50 \
            --key-pattern=R:R --test-time=3 --hide-histogram";
        assert_eq!(LINE.arguments(&target, 2.5).join(" "), expected);
    }

    #[test]
    fn a_cluster_is_loaded_by_its_own_protocol_and_with_its_password() {
        let target = Target { port: 7, cluster: true, threads: 2, password: Some("secret".to_owned()) };
        let arguments = LINE.arguments(&target, 0.1);
        for expected in ["--test-time=1", "--cluster-mode", "--authenticate=secret"] {
            assert!(arguments.iter().any(|argument| argument == expected), "{expected} is missing");
        }
    }

    #[test]
    fn its_version_is_read() {
        let text = "memtier_benchmark v=2.1.1 sha=378cbb9f:0 bits=64 libevent=2.1.12-stable openssl=none\n";
        assert_eq!(parse_version(text).as_deref(), Some("2.1.1+378cbb9f"));
        assert_eq!(parse_version("memtier_benchmark 1.4.0"), None);
    }
}
