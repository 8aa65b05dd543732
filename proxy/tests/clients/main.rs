//! Client libraries and tools of the field, each with its default settings, through the proxy.
//!
//! What a library does is written in its own language (`redis_py.py`, `ioredis.mjs`); the tests here run it. They need
//! what `make deps` installs; without it they are skipped, unless `TSUBAKI_REQUIRE_SERVERS` is set.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

#[path = "../support/harness.rs"]
mod harness;
mod ioredis;
mod redis_cli;
mod redis_py;
mod redis_rs;
mod script;

use std::sync::OnceLock;

use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required};

/// What clients send where the proxy asks for a password: with a space, and with what URLs and shells would take apart.
const PASSWORD: &str = "a pass/word@with:signs'\"";

/// One cluster for the tests of one library, whose keys do not meet. It ends with the test process.
struct SharedCluster(OnceLock<Option<DevCluster>>);

impl SharedCluster {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The cluster; `None`: there is no server, and the test is skipped.
    fn running(&self) -> Option<&DevCluster> {
        self.0.get_or_init(|| Some(cluster(Options::new(required(Server::find())?)))).as_ref()
    }
}

/// A proxy that asks for `password`, if that is not empty.
fn proxy(cluster: &DevCluster, password: &str) -> Proxy {
    Start::before(&cluster.seeds()).set("TSUBAKI_PASSWORD", password).ready()
}
