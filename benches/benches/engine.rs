//! What can the engine of one core do without sockets? Its items a second are commands a second.
//!
//! Masters answer from memory, at next to no cost. A round trip is a command's whole way; `route` is the first half of
//! it, from a client's bytes to the masters' journals.

use std::cell::RefCell;

use divan::{Bencher, counter::ItemsCount};
use tsubaki_benches::engine::{Request, Rig, Traffic};

/// Most requests of one round: more would measure the memory.
const MAX_REQUESTS: usize = 100_000;

fn main() {
    divan::main();
}

#[divan::bench(args = grid(Request::Get))]
fn get_round_trip(bencher: Bencher<'_, '_>, traffic: &Traffic) {
    round_trip(bencher, *traffic);
}

#[divan::bench(args = grid(Request::Set))]
fn set_round_trip(bencher: Bencher<'_, '_>, traffic: &Traffic) {
    round_trip(bencher, *traffic);
}

/// Items are MGETs; ten times as many keys are split and merged.
#[divan::bench(args = grid(Request::Mget))]
fn mget_round_trip(bencher: Bencher<'_, '_>, traffic: &Traffic) {
    round_trip(bencher, *traffic);
}

/// Routing, and for MGET the fan-out, without a reply's way back.
#[divan::bench(sample_size = 1, args = [Request::Get, Request::Set, Request::Mget].map(|request| Traffic::of_all(request, 50, 10)))]
fn route(bencher: Bencher<'_, '_>, traffic: &Traffic) {
    let rig = RefCell::new(Rig::new(*traffic));
    bencher
        .counter(ItemsCount::new(traffic.requests()))
        .with_inputs(|| rig.borrow_mut().deliver())
        .bench_local_values(|()| rig.borrow_mut().send());
}

/// One ready client of 50; then all of 1 to 10,000 clients, with pipelines of 1 to 100.
fn grid(request: Request) -> Vec<Traffic> {
    let alone = Traffic { request, clients: 50, ready: 1, pipeline: 1 };
    let all = [1, 50, 1_000, 10_000].into_iter().flat_map(|clients| {
        [1, 10, 32, 100].into_iter().map(move |pipeline| Traffic::of_all(request, clients, pipeline))
    });
    [alone].into_iter().chain(all.filter(|traffic| traffic.requests() <= MAX_REQUESTS)).collect()
}

fn round_trip(bencher: Bencher<'_, '_>, traffic: Traffic) {
    let mut rig = Rig::new(traffic);
    bencher.counter(ItemsCount::new(traffic.requests())).bench_local(|| rig.round());
}
