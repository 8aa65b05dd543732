//! The cells: which load goes through which subjects, on what cluster; one row a cell.
//!
//! Must not know: how anything is started, measured or judged.

use serde::Serialize;

use super::subject::{
    CAMELLIA, DIRECT, ENVOY, FLOOR, HAPROXY, PREDIXY, TSUBAKI, TSUBAKI_ANY, TSUBAKI_UNPINNED, TWEMPROXY,
};
use crate::{
    cluster::Shape,
    load::{
        Load,
        memtier::Memtier,
        open_loop::OpenLoop,
        redis_benchmark::{Command, MGET_KEYS, RedisBenchmark, Threads, keys_for},
    },
};

/// Most bytes in flight at once; cells with more would measure the machine's memory.
const MOST_IN_FLIGHT: u64 = 1 << 30;

/// tsubaki beside what it may cost at most and at least.
const OWN: &[&str] = &[DIRECT, FLOOR, TSUBAKI];

/// Where the floor says nothing: it answers from memory, and only GET and SET of 64 bytes.
const BOTH: &[&str] = &[DIRECT, TSUBAKI];

/// Everybody.
const ALL: &[&str] = &[DIRECT, FLOOR, TSUBAKI, PREDIXY, HAPROXY, ENVOY, CAMELLIA, TWEMPROXY];

/// Those that stand in front of the cluster itself.
const OF_CLUSTER: &[&str] = &[DIRECT, TSUBAKI, PREDIXY, CAMELLIA];

/// With both ways to read where there are replicas.
const READERS: &[&str] = &[DIRECT, TSUBAKI, TSUBAKI_ANY];

/// With workers pinned and not.
const PLACED: &[&str] = &[DIRECT, TSUBAKI, TSUBAKI_UNPINNED];

/// The field report's line of memtier_benchmark.
const MEMTIER: Load = Load::Memtier(Memtier { clients: 50, threads: 4, value_bytes: 50 });

/// The field reports' clusters have a password.
const REPORTED: Shape = Shape { masters: 3, replicas: false, password: Some("field-report") };

/// A set of cells that runs as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// The goals, against direct access and the floor
    Goals,
    /// The goals' cells through the other proxies too
    Peers,
    /// The field reports' own workloads, as they are
    Field,
    /// Workers each on a CPU of its own, and left to the kernel
    Placement,
    /// The whole grid of commands, clients, pipelines and values: hours
    Full,
}

/// One row of the results.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// As goals, records and `--only` call it.
    pub name: String,
    /// What is sent.
    pub load: Load,
    /// What it is sent through, in the table's order.
    pub subjects: &'static [&'static str],
    /// The cluster behind.
    pub shape: Shape,
    /// True: each node may use 1 ms of CPU in every 20 ms.
    pub capped: bool,
    /// Worker threads of each subject.
    pub workers: u32,
    /// What a reader must know to judge the figures.
    pub remark: &'static str,
}

impl Suite {
    /// As flags and records call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goals => "goals",
            Self::Peers => "peers",
            Self::Field => "field",
            Self::Placement => "placement",
            Self::Full => "full",
        }
    }

    /// Its cells.
    #[must_use]
    pub fn cells(self) -> Vec<Cell> {
        match self {
            Self::Goals => goals(),
            Self::Peers => peers(),
            Self::Field => field(),
            Self::Placement => placement(),
            Self::Full => full(),
        }
    }

    /// Rounds, and the seconds that one measurement lasts, so that goals and peers end within 20 minutes each. More rounds
    /// tell more than longer ones: a machine's pace changes within seconds.
    #[must_use]
    pub const fn effort(self) -> (u32, f64) {
        match self {
            Self::Goals => (7, 1.4),
            Self::Peers => (7, 1.0),
            Self::Placement => (9, 2.0),
            Self::Field | Self::Full => (5, 2.5),
        }
    }
}

const ONE_CLIENT: &str = "what is in the middle has a CPU of its own, and each of a command's ways there wakes one \
     that sleeps; direct access has no such way. Compare with other proxies, which HAProxy is the least of";

fn goals() -> Vec<Cell> {
    vec![
        Cell::new("get-50", line(Command::Get, 50, 1), OWN),
        Cell::new("set-50", line(Command::Set, 50, 1), OWN),
        Cell::new("get-500", line(Command::Get, 500, 1), OWN),
        Cell::new("set-500", line(Command::Set, 500, 1), OWN),
        Cell::new("get-50-p32", line(Command::Get, 50, 32), OWN),
        Cell::new("set-50-p32", line(Command::Set, 50, 32), OWN),
        Cell::new("get-50-p10", line(Command::Get, 50, 10), &[TSUBAKI]),
        Cell::new("mget-50", line(Command::Mget, 50, 1), &[TSUBAKI]),
        Cell::new("one-client", Load::RoundTrip, &[DIRECT, FLOOR, TSUBAKI, HAPROXY]).remark(ONE_CLIENT),
        Cell::new("open-loop", open_loop(50), BOTH),
        Cell::new("capped-get-200", line(Command::Get, 200, 1), BOTH).capped(),
        Cell::new("capped-set-200", line(Command::Set, 200, 1), BOTH).capped(),
        Cell::new("capped-get-500", line(Command::Get, 500, 1), BOTH).capped(),
        Cell::new("capped-set-500", line(Command::Set, 500, 1), BOTH).capped(),
        Cell::new("memtier", MEMTIER, BOTH).workers(2),
    ]
}

fn peers() -> Vec<Cell> {
    vec![
        Cell::new("get-50", line(Command::Get, 50, 1), ALL),
        Cell::new("set-50", line(Command::Set, 50, 1), ALL),
        Cell::new("get-500", line(Command::Get, 500, 1), ALL),
        Cell::new("set-500", line(Command::Set, 500, 1), ALL),
        Cell::new("get-50-p32", line(Command::Get, 50, 32), ALL),
        Cell::new("set-50-p32", line(Command::Set, 50, 32), ALL),
        Cell::new("one-client", Load::RoundTrip, ALL).remark(ONE_CLIENT),
        Cell::new("capped-get-200", line(Command::Get, 200, 1), OF_CLUSTER).capped(),
        Cell::new("capped-set-200", line(Command::Set, 200, 1), OF_CLUSTER).capped(),
        Cell::new("capped-get-500", line(Command::Get, 500, 1), OF_CLUSTER).capped(),
        Cell::new("capped-set-500", line(Command::Set, 500, 1), OF_CLUSTER).capped(),
        Cell::new("memtier", MEMTIER, OF_CLUSTER).workers(2),
    ]
}

/// The line of the field report on a machine with NUMA nodes.
const fn numa(command: Command) -> Load {
    let (keys, requests, threads) = (Some(500_000), Some(500_000), Threads::Fixed(6));
    Load::RedisBenchmark(RedisBenchmark { value_bytes: 3, keys, requests, threads, ..of(command, 32) })
}

/// As many workers as this kind of machine has CPUs, so that each is pinned by default.
fn placement() -> Vec<Cell> {
    vec![
        Cell::new("pinned-numa-set", numa(Command::Set), PLACED),
        Cell::new("pinned-numa-get", numa(Command::Get), PLACED),
        Cell::new("pinned-memtier", MEMTIER, PLACED),
        Cell::new("pinned-get-50", line(Command::Get, 50, 1), PLACED),
        Cell::new("pinned-get-500", line(Command::Get, 500, 1), PLACED),
        Cell::new("pinned-get-50-p32", line(Command::Get, 50, 32), PLACED),
    ]
    .into_iter()
    .map(|cell| cell.workers(2))
    .collect()
}

/// Two reports: one of a machine with NUMA nodes, one of a deployment that outgrew a single server.
fn field() -> Vec<Cell> {
    let as_it_is = |command| {
        let (keys, requests, threads) = (None, Some(400_000), Threads::Untold);
        Load::RedisBenchmark(RedisBenchmark { value_bytes: 50, keys, requests, threads, ..of(command, 1000) })
    };
    let spread = |command| {
        Load::RedisBenchmark(RedisBenchmark { value_bytes: 50, requests: Some(400_000), ..of(command, 1000) })
    };
    let one_key = "without -r: one key on one node through a proxy, one key a node directly";
    let with_replicas = Shape { replicas: true, ..REPORTED };
    let nine = Shape { masters: 9, ..REPORTED };
    vec![
        Cell::new("numa-set", numa(Command::Set), BOTH),
        Cell::new("numa-get", numa(Command::Get), BOTH),
        Cell::new("memtier-1", MEMTIER, BOTH),
        Cell::new("report-set", as_it_is(Command::Set), BOTH).on(REPORTED).remark(one_key),
        Cell::new("report-lpush", as_it_is(Command::Lpush), BOTH).on(REPORTED).remark(one_key),
        Cell::new("spread-set", spread(Command::Set), BOTH).on(REPORTED),
        Cell::new("spread-get", spread(Command::Get), BOTH).on(REPORTED),
        Cell::new("replicas-set", spread(Command::Set), READERS).on(with_replicas),
        Cell::new("replicas-get", spread(Command::Get), READERS).on(with_replicas),
        Cell::new("nine-report-set", as_it_is(Command::Set), BOTH).on(nine).remark(one_key),
        Cell::new("nine-set", spread(Command::Set), BOTH).on(nine),
        Cell::new("nine-get", spread(Command::Get), BOTH).on(nine),
    ]
}

fn full() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (value_bytes, size) in [(64, "64b"), (1 << 10, "1k"), (16 << 10, "16k"), (1 << 20, "1m")] {
        for command in [Command::Get, Command::Set, Command::Mget, Command::Lpush] {
            for clients in [50, 500, 1000] {
                for pipeline in [1, 16, 32, 100] {
                    let keys = Some(keys_for(value_bytes));
                    let load = RedisBenchmark { value_bytes, keys, pipeline, ..of(command, clients) };
                    let floor = value_bytes == 64 && matches!(command, Command::Get | Command::Set);
                    let name = format!("{command:?}-{size}-{clients}-p{pipeline}").to_lowercase();
                    let subjects = if floor { OWN } else { BOTH };
                    cells.extend(fits(&load).then(|| Cell::new(name, Load::RedisBenchmark(load), subjects)));
                }
            }
        }
    }
    cells
}

fn fits(load: &RedisBenchmark) -> bool {
    let values = if load.command == Command::Mget { MGET_KEYS } else { 1 };
    let bytes =
        [load.clients, load.pipeline, values, load.value_bytes].into_iter().map(u64::from).product::<u64>();
    bytes <= MOST_IN_FLIGHT
}

const fn of(command: Command, clients: u32) -> RedisBenchmark {
    RedisBenchmark::new(command, clients, 1)
}

const fn line(command: Command, clients: u32, pipeline: u32) -> Load {
    Load::RedisBenchmark(RedisBenchmark::new(command, clients, pipeline))
}

/// Half of what direct access reaches; the harness measures that first.
const fn open_loop(clients: u32) -> Load {
    Load::OpenLoop(OpenLoop { command: "GET", clients, rate: 0.0 })
}

impl Cell {
    fn new(name: impl Into<String>, load: Load, subjects: &'static [&'static str]) -> Self {
        let (shape, remark) = (Shape::THREE_MASTERS, "");
        Self { name: name.into(), load, subjects, shape, capped: false, workers: 1, remark }
    }

    fn capped(self) -> Self {
        Self { capped: true, ..self }
    }

    fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    fn on(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    fn remark(self, remark: &'static str) -> Self {
        Self { remark, ..self }
    }

    /// True if both can be measured on the same cluster with the same subjects.
    #[must_use]
    pub fn shares_stage(&self, other: &Self) -> bool {
        (self.shape, self.workers) == (other.shape, other.workers)
    }

    /// How many commands the load itself asks for.
    #[must_use]
    pub const fn requests(&self) -> Option<u64> {
        match self.load {
            Load::RedisBenchmark(line) => line.requests,
            _ => None,
        }
    }

    /// What the cell is, in words.
    #[must_use]
    pub fn title(&self) -> String {
        let mut title = load_title(&self.load);
        if self.shape != Shape::THREE_MASTERS {
            title += &format!("; {} masters", self.shape.masters);
        }
        for (holds, words) in [
            (self.shape.replicas, " with a replica each"),
            (self.shape.password.is_some(), ", password"),
            (self.capped, "; nodes capped at 1 ms in 20"),
            (self.workers == 2, "; two workers"),
        ] {
            if holds {
                title += words;
            }
        }
        title
    }
}

fn load_title(load: &Load) -> String {
    match load {
        Load::RedisBenchmark(line) => line_title(line),
        Load::Memtier(Memtier { clients, threads, value_bytes }) => {
            format!("memtier, GET and SET 1:1, {threads} x {clients} clients, {value_bytes} bytes")
        }
        Load::OpenLoop(OpenLoop { command, clients, .. }) => {
            format!("{command} at half of direct's maximum, {clients} connections")
        }
        Load::RoundTrip => "GET, 1 client".to_owned(),
    }
}

fn line_title(line: &RedisBenchmark) -> String {
    let command = match line.command {
        Command::Get => "GET".to_owned(),
        Command::Set => "SET".to_owned(),
        Command::Mget => format!("MGET of {MGET_KEYS} keys"),
        Command::Lpush => "LPUSH".to_owned(),
    };
    let mut title = format!(
        "{command}, {} clients, pipeline {}, {} bytes",
        line.clients, line.pipeline, line.value_bytes
    );
    if line.keys.is_none() {
        title += ", one key";
    }
    if let Threads::Fixed(threads) = line.threads {
        title += &format!(", {threads} load threads");
    }
    title
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Cell, Suite};
    use crate::compare::subject;

    const SUITES: [Suite; 5] = [Suite::Goals, Suite::Peers, Suite::Field, Suite::Placement, Suite::Full];

    #[test]
    fn a_name_is_one_cell_of_a_suite_and_the_same_load_in_every_suite() {
        for suite in SUITES {
            let cells = suite.cells();
            let names: BTreeSet<_> = cells.iter().map(|cell| &cell.name).collect();
            assert_eq!(names.len(), cells.len(), "{suite:?}");
        }
        let (goals, peers) = (Suite::Goals.cells(), Suite::Peers.cells());
        for cell in &peers {
            let same = goals.iter().find(|other| other.name == cell.name).unwrap();
            assert_eq!(*same, Cell { subjects: same.subjects, ..cell.clone() });
        }
    }

    #[test]
    fn every_subject_of_a_cell_exists() {
        let subjects = SUITES.into_iter().flat_map(Suite::cells).flat_map(|cell| cell.subjects);
        assert!(subjects.into_iter().all(|name| subject::named(name).is_ok()));
    }

    #[test]
    fn the_grid_leaves_out_what_no_memory_holds() {
        let names: Vec<_> = Suite::Full.cells().into_iter().map(|cell| cell.name).collect();
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(has("get-64b-1000-p100") && has("get-1m-1000-p1") && has("set-16k-500-p100"));
        assert!(!has("get-1m-1000-p16") && !has("set-16k-1000-p100") && !has("mget-1m-500-p1"));
    }

    #[test]
    fn a_title_says_what_is_special() {
        let title = |suite: Suite, name: &str| {
            suite.cells().into_iter().find(|cell| cell.name == name).unwrap().title()
        };
        assert_eq!(
            title(Suite::Goals, "capped-get-200"),
            "GET, 200 clients, pipeline 1, 64 bytes; nodes capped at 1 ms in 20"
        );
        assert_eq!(
            title(Suite::Field, "replicas-get"),
            "GET, 1000 clients, pipeline 1, 50 bytes; 3 masters with a replica each, password"
        );
    }
}
