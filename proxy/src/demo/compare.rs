//! The same load through the proxy and directly, in turns, and both figures.

use std::net::SocketAddr;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use super::load::{self, Entry, LoadClient, PIPELINE, VALUE_LEN};
use crate::dev_cluster::DevCluster;
use crate::progress::Progress;

const CLIENTS: usize = 50;
const THREADS: usize = 2;

/// Turns of one second: what else happens on the machine meets both sides alike.
const TURNS: u32 = 5;
const TURN: Duration = Duration::from_secs(1);

/// Measures both, prints both, and fails if any reply was wrong.
pub(super) fn show(cluster: &DevCluster, proxy: SocketAddr, progress: &Progress) -> anyhow::Result<()> {
    let entries = load::entries(|key| cluster.master_of(key));
    let masters: Vec<SocketAddr> =
        cluster.nodes().iter().filter(|node| node.slots().is_some()).map(|node| node.addr()).collect();
    let mut through = Side::connect("through the proxy", &[proxy])?;
    let mut direct = Side::connect("directly", &masters)?;

    progress.step("setting 10,000 keys through the proxy");
    LoadClient::connect(&[proxy])?.fill(&entries).context("through the proxy")?;
    for turn in 1..=TURNS {
        for side in [&mut through, &mut direct] {
            progress.step(format!("load {}, second {turn} of {TURNS}", side.name));
            side.run(&entries, turn).context(side.name)?;
        }
    }

    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    progress.line(progress.bold(&format!(
        "\n{TURNS} seconds of load on each side: {CLIENTS} clients, GET and SET of {VALUE_LEN}-byte values, pipelines of {PIPELINE}"
    )));
    for side in [&through, &direct] {
        progress.line(format!("  {:<22}{:>10} commands/s", side.name, grouped(side.rate())));
    }
    progress.line(format!("  {:<22}{:>10.2}", "ratio", through.rate() as f64 / direct.rate().max(1) as f64));
    progress.line(format!(
        "  Every reply was checked. Clients, proxy and nodes share this machine's {cores} cores, so these are figures\n  \
         of this machine only. Direct clients know the slots and split each pipeline over {} connections; the\n  \
         proxy joins what many clients send into few large batches, and so can be the faster way.",
        masters.len()
    ));
    Ok(())
}

/// One way to the data, with its clients and what they have done.
struct Side {
    name: &'static str,
    clients: Vec<LoadClient>,
    commands: u64,
    busy: Duration,
}

impl Side {
    fn connect(name: &'static str, addrs: &[SocketAddr]) -> anyhow::Result<Self> {
        let clients = (0..CLIENTS).map(|_| LoadClient::connect(addrs)).collect::<Result<_, _>>()?;
        Ok(Self { name, clients, commands: 0, busy: Duration::ZERO })
    }

    /// One turn, the clients shared out to threads.
    fn run(&mut self, entries: &[Entry], turn: u32) -> anyhow::Result<()> {
        let start = Instant::now();
        let shares = self.clients.chunks_mut(CLIENTS / THREADS);
        let commands: u64 = thread::scope(|scope| {
            let running: Vec<_> = (turn * 1000..)
                .zip(shares)
                .map(|(seed, share)| scope.spawn(move || load::run(share, entries, seed, start + TURN)))
                .collect();
            let finished = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a load thread panicked"))));
            finished.sum::<Result<_, _>>()
        })?;
        self.commands += commands;
        self.busy += start.elapsed();
        Ok(())
    }

    /// Commands a second.
    fn rate(&self) -> u64 {
        (self.commands as f64 / self.busy.as_secs_f64()) as u64
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_by_three() {
        let numbers = [0, 12, 999, 1000, 123_456, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "12", "999", "1,000", "123,456", "1,234,567"]);
    }
}
