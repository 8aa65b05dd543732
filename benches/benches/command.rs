//! What does routing a command cost once its frame is scanned: table, keys, slot?

use divan::{Bencher, black_box};
use tsubaki_protocol::{
    command::{Command, lookup},
    resp::{
        args::Args,
        request::{RequestLimits, RequestScan, RequestScanner},
        write,
    },
    slot::Slot,
};

const COMMANDS: [&str; 5] = [
    "GET key:000000000042",
    "SET key:000000000042 value EX 60",
    "MGET k0 k1 k2 k3 k4 k5 k6 k7 k8 k9",
    "EVAL script 2 {k}1 {k}2 argument",
    "XREAD COUNT 2 STREAMS a b 0-0 0-0",
];

fn main() {
    divan::main();
}

/// From the name to the table's row.
#[divan::bench(args = ["GET", "get", "SET", "MGET", "GEORADIUSBYMEMBER_RO", "nonesuch"])]
fn table_lookup(name: &str) -> Option<&'static Command> {
    lookup(black_box(name).as_bytes())
}

/// From the arguments to the row that rules, the arity checked.
#[divan::bench(args = COMMANDS)]
fn resolve(bencher: Bencher<'_, '_>, line: &str) {
    with_args(line, |args| bencher.bench_local(|| Command::resolve(black_box(args)).is_ok()));
}

/// From the arguments to the place of the only key.
#[divan::bench(args = [COMMANDS[0], COMMANDS[1]])]
fn only_key(bencher: Bencher<'_, '_>, line: &str) {
    with_args(line, |args| {
        let Ok(command) = Command::resolve(args) else { return };
        bencher.bench_local(|| black_box(command).first_key_index(black_box(args)));
    });
}

/// From the arguments to the places of all keys.
#[divan::bench(args = COMMANDS)]
fn all_keys(bencher: Bencher<'_, '_>, line: &str) {
    with_args(line, |args| {
        let Ok(command) = Command::resolve(args) else { return };
        let mut found = Vec::new();
        bencher.bench_local(|| black_box(command).keys(black_box(args), &mut found));
    });
}

/// From the key to its slot.
#[divan::bench(sample_size = 1000, args = ["k", "key:000000000042", "{user:1000}:followers", "a key of sixty-four bytes ......................................."])]
fn slot(key: &str) -> Slot {
    Slot::of(black_box(key).as_bytes())
}

fn with_args(line: &str, measure: impl FnOnce(&Args<'_>)) {
    let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
    let mut frame = Vec::new();
    write::command(&mut frame, words);
    let mut scanner = RequestScanner::new();
    let scanned = scanner.scan(&frame, &RequestLimits::default());
    assert!(matches!(scanned, Ok(RequestScan::Array { len }) if len == frame.len()), "{line}");
    measure(&Args::new(&frame, scanner.spans()));
}
