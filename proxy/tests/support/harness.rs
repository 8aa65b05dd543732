//! What tests of the whole program share: the program itself, a client, the figures that it serves.
//!
//! A test program takes it in by `#[path = "../support/harness.rs"] mod harness;`. Everything waits for conditions;
//! nothing that was started outlives the test process.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod client;
pub(crate) mod http;
pub(crate) mod proxy;

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use tsubaki::dev_cluster::{DevCluster, Options, Server, ServerError};

/// What a loaded machine may take for anything that takes a moment; only a failing test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(5);

/// A missing server is a failure where `make test` promised it, and a skipped test elsewhere.
pub(crate) fn required(server: Result<Server, ServerError>) -> Option<Server> {
    match server {
        Ok(server) => Some(server),
        Err(error) if env::var_os("TSUBAKI_REQUIRE_SERVERS").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A running cluster.
pub(crate) fn cluster(options: Options) -> DevCluster {
    DevCluster::start(options, &mut |_| {}).unwrap()
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Waits until `find` gives something.
pub(crate) fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not after {} s", PATIENCE.as_secs());
        thread::sleep(POLL);
    }
}
