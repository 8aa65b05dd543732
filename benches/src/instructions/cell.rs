//! What is counted: the engine's round trips and routes, and the parts of a command's way, each as a cell.
//!
//! Must not know: how instructions are counted.

use std::hint::black_box;

use tsubaki_protocol::{
    command::{Command, lookup},
    resp::{
        args::Args,
        reply::ReplyScanner,
        request::{RequestLimits, RequestScan, RequestScanner},
        write,
    },
    slot::Slot,
};

use crate::engine::{Request, Rig, Traffic};

/// Units that one count is made of, if a round has fewer: rounds enough to even out what happens now and then.
const UNITS: u64 = 2_000;

/// Something whose instructions are counted.
pub struct Cell {
    /// As the record calls it.
    pub name: String,
    /// Rounds of the shorter run.
    pub rounds: u64,
    /// Units of one round: commands, frames or keys.
    pub units: u64,
    /// Prepares the work and gives back one round of it.
    prepare: Box<dyn Fn() -> Box<dyn FnMut()>>,
}

impl Cell {
    /// Prepares, then runs `rounds` rounds.
    pub fn run(&self, rounds: u64) {
        let mut round = (self.prepare)();
        (0..rounds).for_each(|_| round());
    }

    fn new<R: FnMut() + 'static>(name: String, units: usize, prepare: impl Fn() -> R + 'static) -> Self {
        let units = units as u64;
        Self { name, rounds: UNITS.div_ceil(units), units, prepare: Box::new(move || Box::new(prepare())) }
    }
}

/// Every cell.
#[must_use]
pub fn all() -> Vec<Cell> {
    let requests = [Request::Get, Request::Set, Request::Mget];
    let engine = requests.into_iter().flat_map(traffics).map(round_trip);
    let routes = requests.into_iter().map(|request| route(Traffic::of_all(request, 50, 10)));
    engine.chain(routes).chain(parts()).collect()
}

/// One client at a time of 50, then all of 1 to 10,000 clients, then pipelines of 10 to 100.
fn traffics(request: Request) -> Vec<Traffic> {
    let alone = Traffic { request, clients: 50, ready: 1, pipeline: 1 };
    let clients = [1, 50, 1_000, 10_000].map(|clients| Traffic::of_all(request, clients, 1));
    let pipelines = [10, 32, 100].map(|pipeline| Traffic::of_all(request, 50, pipeline));
    [alone].into_iter().chain(clients).chain(pipelines).collect()
}

/// From the clients' bytes to the clients' bytes.
fn round_trip(traffic: Traffic) -> Cell {
    Cell::new(format!("engine: {traffic}"), traffic.requests(), move || {
        let mut rig = Rig::new(traffic);
        move || rig.round()
    })
}

/// From the clients' bytes to the masters' journals; nothing is answered, so the rounds are few.
fn route(traffic: Traffic) -> Cell {
    let cell = Cell::new(format!("route: {traffic}"), traffic.requests(), move || {
        let mut rig = Rig::new(traffic);
        move || rig.send()
    });
    debug_assert!(2 * cell.rounds * traffic.pipeline as u64 <= 1_000, "a client may have 1,024 in flight");
    cell
}

fn parts() -> Vec<Cell> {
    vec![
        scan_requests("GET", "GET key:000000000042"),
        scan_requests("SET of 64 bytes", &format!("SET key:000000000042 {}", "x".repeat(64))),
        scan_requests("MGET of 10", MGET),
        scan_replies("OK", |out| write::simple(out, "OK")),
        scan_replies("bulk of 64 bytes", |out| write::bulk(out, &[b'x'; 64])),
        scan_replies("ten bulks of 64 bytes", |out| {
            write::array_header(out, 10);
            (0..10).for_each(|_| write::bulk(out, &[b'x'; 64]));
        }),
        table_lookup("GET"),
        table_lookup("GEORADIUSBYMEMBER_RO"),
        keys("GET", "GET key:000000000042"),
        keys("MGET of 10", MGET),
        keys("EVAL of 2", "EVAL script 2 {k}1 {k}2 argument"),
        slot("16 bytes", "key:000000000042"),
        slot("hash tag", "{user:1000}:followers"),
        slot("64 bytes", "a key of sixty-four bytes ......................................"),
    ]
}

const MGET: &str = "MGET k0 k1 k2 k3 k4 k5 k6 k7 k8 k9";

/// Finds the end of a request and its arguments.
fn scan_requests(name: &str, line: &str) -> Cell {
    let bytes = frame(line);
    Cell::new(format!("scan request: {name}"), 1, move || {
        let (bytes, limits) = (bytes.clone(), RequestLimits::default());
        let mut scanner = RequestScanner::new();
        move || {
            assert!(scanner.scan(black_box(&bytes), &limits).is_ok());
            black_box(scanner.spans());
        }
    })
}

/// Finds the end of a reply.
fn scan_replies(name: &str, reply: impl Fn(&mut Vec<u8>)) -> Cell {
    let mut bytes = Vec::new();
    reply(&mut bytes);
    Cell::new(format!("scan reply: {name}"), 1, move || {
        let bytes = bytes.clone();
        let mut scanner = ReplyScanner::new();
        move || {
            assert!(black_box(scanner.scan(black_box(&bytes))).is_ok());
        }
    })
}

/// From a name to the command table's row.
fn table_lookup(name: &'static str) -> Cell {
    Cell::new(format!("table lookup: {name}"), 1, move || {
        move || {
            black_box(lookup(black_box(name).as_bytes()));
        }
    })
}

/// From the arguments to the row that rules and the places of all keys.
fn keys(name: &str, line: &str) -> Cell {
    let bytes = frame(line);
    Cell::new(format!("resolve and extract keys: {name}"), 1, move || {
        let bytes = bytes.clone();
        let mut scanner = RequestScanner::new();
        let scanned = scanner.scan(&bytes, &RequestLimits::default());
        assert!(matches!(scanned, Ok(RequestScan::Array { .. })));
        let mut found = Vec::new();
        move || {
            let args = Args::new(&bytes, scanner.spans());
            let resolved = Command::resolve(black_box(&args)).map(|command| command.keys(&args, &mut found));
            assert!(black_box(resolved).is_ok());
        }
    })
}

/// From a key to its slot.
fn slot(name: &str, key: &'static str) -> Cell {
    Cell::new(format!("slot: {name}"), 1, move || {
        move || {
            black_box(Slot::of(black_box(key).as_bytes()));
        }
    })
}

fn frame(line: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    write::command(&mut frame, line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    frame
}

#[cfg(test)]
mod tests {
    use super::{UNITS, all};

    #[test]
    fn no_two_cells_have_one_name() {
        let mut names: Vec<_> = all().into_iter().map(|cell| cell.name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_cell_runs_and_counts_enough() {
        for cell in all() {
            assert!(cell.rounds * cell.units >= UNITS, "{}", cell.name);
            cell.run(2);
        }
    }
}
