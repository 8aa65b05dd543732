//! The load generator redis-benchmark, one command at a time.
//!
//! Must not know: what it is aimed at.

use anyhow::{Context as _, ensure};
use serde::Serialize;

use super::{Figures, Target};
use crate::process::bounded;

/// Keys that `-r` spreads the commands over, unless their values would fill more than 64 MiB.
pub const KEYS: u32 = 100_000;

/// Bytes of a value in nearly every cell.
pub const VALUE_BYTES: u32 = 64;

/// Most bytes of values behind the keys of one prefix.
const FILLED_BYTES: u32 = 64 << 20;

/// Far longer than any measurement lasts.
const LIMIT_SECONDS: f64 = 120.0;

/// Keys that one MGET asks for.
pub const MGET_KEYS: u32 = 10;

/// One line of redis-benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RedisBenchmark {
    /// What is sent.
    pub command: Command,
    /// Connections.
    pub clients: u32,
    /// Commands that a client sends before it waits for their replies.
    pub pipeline: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Keys that the commands are spread over (`-r`); `None`: all go to one key, on one node.
    pub keys: Option<u32>,
    /// Threads of the load generator.
    pub threads: Threads,
    /// How many commands the line itself asks for (`-n`); `None`: as many as the harness wants.
    pub requests: Option<u64>,
}

/// What redis-benchmark can send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Command {
    /// GET of keys that exist.
    Get,
    /// SET of keys that exist.
    Set,
    /// MGET of [`MGET_KEYS`] keys that exist.
    Mget,
    /// LPUSH to lists; with `keys: None` to one list.
    Lpush,
}

/// How many threads make the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threads {
    /// The target's: the same for every subject.
    Even,
    /// The line's own.
    Fixed(u32),
    /// As redis-benchmark does if it is not told: none besides its own, and one a master with `--cluster`.
    Untold,
}

impl RedisBenchmark {
    /// The plain line of the cells: values of 64 bytes over all keys.
    #[must_use]
    pub const fn new(command: Command, clients: u32, pipeline: u32) -> Self {
        let (value_bytes, keys) = (VALUE_BYTES, Some(KEYS));
        Self { command, clients, pipeline, value_bytes, keys, threads: Threads::Even, requests: None }
    }

    /// Runs `requests` commands against `target`, or as many as the line itself asks for.
    ///
    /// # Errors
    /// If redis-benchmark cannot be started, got an error reply, or printed no figures.
    pub fn run(&self, target: &Target, requests: u64) -> anyhow::Result<Figures> {
        let requests = self.requests.unwrap_or(requests);
        // It waits for ever for a reply that does not come.
        let mut program = bounded("redis-benchmark", LIMIT_SECONDS);
        program.args(self.arguments(target, requests));
        let output = program.output().context("cannot start redis-benchmark through setpriv (util-linux)")?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "redis-benchmark ended with {}: {stdout}{stderr}", output.status);
        parse(&stdout, requests)
            .with_context(|| format!("redis-benchmark printed no figures: {stdout}{stderr}"))
    }

    fn arguments(&self, target: &Target, requests: u64) -> Vec<String> {
        let threads = match self.threads {
            Threads::Even => Some(target.threads),
            Threads::Fixed(threads) => Some(threads),
            Threads::Untold => None,
        };
        let numbers = [
            ("-p", Some(u64::from(target.port))),
            ("--threads", threads.map(u64::from)),
            ("-c", Some(u64::from(self.clients))),
            ("-P", Some(u64::from(self.pipeline))),
            ("-d", Some(u64::from(self.value_bytes))),
            ("-r", self.keys.map(u64::from)),
            ("-n", Some(requests)),
        ];
        let mut arguments = vec!["-h".to_owned(), "127.0.0.1".to_owned()];
        for (flag, number) in numbers {
            arguments.extend(number.into_iter().flat_map(|number| [flag.to_owned(), number.to_string()]));
        }
        if let Some(password) = &target.password {
            arguments.extend(["-a".to_owned(), password.clone()]);
        }
        if target.cluster {
            arguments.push("--cluster".to_owned());
        }
        arguments.extend(self.command_line(target.cluster));
        arguments
    }

    /// The test by its name where redis-benchmark has one, else the command itself.
    fn command_line(&self, cluster: bool) -> Vec<String> {
        let tag = if cluster { ":{tag}" } else { "" };
        let test = |name: &str| vec!["-t".to_owned(), name.to_owned()];
        match (self.command, self.keys) {
            (Command::Get, _) => test("get"),
            (Command::Set, _) => test("set"),
            (Command::Lpush, None) => test("lpush"),
            (Command::Lpush, Some(_)) => {
                let value = "x".repeat(self.value_bytes as usize);
                vec!["LPUSH".to_owned(), format!("mylist{tag}:__rand_int__"), value]
            }
            (Command::Mget, _) => {
                let keys = (0..MGET_KEYS).map(|_| format!("key{tag}:__rand_int__"));
                [String::from("MGET")].into_iter().chain(keys).collect()
            }
        }
    }
}

/// As many keys as values of this size may fill.
#[must_use]
pub const fn keys_for(value_bytes: u32) -> u32 {
    let keys = FILLED_BYTES / value_bytes;
    if keys < KEYS { keys } else { KEYS }
}

/// Reads the latencies from summary and distribution, and the throughput from the last line of progress.
///
/// The summary's own throughput will not do: with several threads, redis-benchmark's clock runs on until those
/// that are done look up, which they do every 250 ms. It shows progress only before that.
fn parse(text: &str, commands: u64) -> Option<Figures> {
    let mut shown = text.split(['\r', '\n']).filter_map(|line| number(line.split_once("(overall: ")?.1));
    let summary = || number(text.split_once("throughput summary: ")?.1);
    let ops = shown.rfind(|&ops| ops > 0.0).or_else(summary)?;
    let mut lines = text.lines().skip_while(|line| !line.contains("latency summary")).skip(1);
    let columns: Vec<_> = lines.next()?.split_whitespace().collect();
    let values: Vec<_> = lines.next()?.split_whitespace().collect();
    let latency = |name| number(values.get(columns.iter().position(|&column| column == name)?)?);
    Some(Figures {
        commands,
        ops,
        p50_ms: latency("p50")?,
        p99_ms: latency("p99")?,
        p999_ms: percentile(text, 99.9),
        max_ms: Some(latency("max")?),
    })
}

/// The latency of the first line of the distribution that covers `percent`, as
/// `99.902% <= 15.831 milliseconds (cumulative count 19981)`.
fn percentile(text: &str, percent: f64) -> Option<f64> {
    let lines = text.lines().skip_while(|line| !line.starts_with("Latency by percentile")).skip(1);
    let covered = |line: &str| {
        let (share, latency) = line.split_once("% <= ")?;
        (number(share)? >= percent).then(|| number(latency))?
    };
    lines.take_while(|line| line.contains("% <= ")).find_map(covered)
}

/// The number at the beginning of `text`.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Command, Figures, KEYS, RedisBenchmark, Target, Threads, keys_for, parse};

    const SUMMARY: &str = "
Latency by percentile distribution:
0.000% <= 0.015 milliseconds (cumulative count 5451)
50.000% <= 0.159 milliseconds (cumulative count 17365)
99.805% <= 15.559 milliseconds (cumulative count 19961)
99.902% <= 15.831 milliseconds (cumulative count 19981)
100.000% <= 24.447 milliseconds (cumulative count 20000)

Cumulative distribution of latencies:
99.990% <= 20.103 milliseconds (cumulative count 18192)

Summary:
  throughput summary: 41832.25 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        1.008     0.032     0.159     5.495     9.487    24.447
";

    fn figures(ops: f64) -> Figures {
        let (p999_ms, max_ms) = (Some(15.831), Some(24.447));
        Figures { commands: 20_000, ops, p50_ms: 0.159, p99_ms: 9.487, p999_ms, max_ms }
    }

    #[test]
    fn throughput_is_the_last_shown_before_the_clock_ran_on() {
        let progress = "Cluster has 3 master nodes:\n\
            \rGET: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r      \
            \rGET: rps=74792.0 (overall: 73325.5) avg_msec=0.565 (overall: 0.565)\r      \
            \rGET: rps=33605.6 (overall: 49349.9) avg_msec=1.225 (overall: 0.871)\r      \
            \r====== GET ======\n";
        assert_eq!(parse(&format!("{progress}{SUMMARY}"), 20_000), Some(figures(49349.9)));
    }

    #[test]
    fn a_run_too_short_for_progress_has_the_summarys_throughput() {
        let progress = "\rGET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r";
        assert_eq!(parse(&format!("{progress}{SUMMARY}"), 20_000), Some(figures(41832.25)));
    }

    #[test]
    fn no_figures_are_made_up() {
        assert_eq!(parse("", 1), None);
        assert_eq!(parse("GET: rps=74792.0 (overall: 73325.5) avg_msec=0.565 (overall: 0.565)\r", 1), None);
        assert_eq!(parse(&SUMMARY.replace("p99", "p98"), 1), None);
        assert_eq!(parse(&SUMMARY.replace("9.487", "-nan"), 1), None);
        let without = SUMMARY.replace("Latency by percentile", "Latency");
        assert_eq!(parse(&without, 1).unwrap().p999_ms, None);
    }

    #[test]
    fn commands_without_a_test_are_spelt_out_with_one_node_s_keys_each() {
        let target = Target { port: 7, cluster: true, threads: 2, password: Some("secret".to_owned()) };
        let lpush = RedisBenchmark { value_bytes: 3, ..RedisBenchmark::new(Command::Lpush, 5, 1) };
        let line = lpush.arguments(&target, 9).join(" ");
        let expected = "-h 127.0.0.1 -p 7 --threads 2 -c 5 -P 1 -d 3 -r 100000 -n 9 -a secret --cluster \
            LPUSH mylist:{tag}:__rand_int__ xxx";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_reported_line_is_run_as_it_is() {
        let target = Target { port: 7, cluster: false, threads: 2, password: None };
        let plain = RedisBenchmark::new(Command::Lpush, 1000, 1);
        let line = RedisBenchmark { value_bytes: 50, keys: None, threads: Threads::Untold, ..plain };
        assert_eq!(
            line.arguments(&target, 9).join(" "),
            "-h 127.0.0.1 -p 7 -c 1000 -P 1 -d 50 -n 9 -t lpush"
        );
    }

    #[test]
    fn large_values_have_fewer_keys() {
        assert_eq!([64, 1 << 10, 16 << 10, 1 << 20].map(keys_for), [KEYS, 65_536, 4096, 64]);
    }
}
