//! Writes the table of commands, `protocol/src/command/table.rs`, from what running servers say of themselves.
//!
//! ```text
//! cargo run -p tsubaki-protocol --example commands -- 127.0.0.1:7000 127.0.0.1:9000
//! ```
//!
//! The servers are asked in this order, and each overrules those before it: name the oldest first. The class of
//! a command is no server's fact; `classes.rs` decides it.

mod classes;
mod facts;
mod render;

use std::collections::BTreeMap;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/command/table.rs");

fn main() -> Result<()> {
    let servers: Vec<String> = env::args().skip(1).collect();
    ensure!(!servers.is_empty(), "name the servers to ask, the oldest first: HOST:PORT ...");
    let mut commands = BTreeMap::new();
    let mut versions = Vec::new();
    for server in &servers {
        let (version, known) =
            facts::read(server).with_context(|| format!("cannot read the commands of {server}"))?;
        facts::merge(&mut commands, known);
        versions.push(version);
    }
    fs::write(TABLE, render::table(&commands, &versions)?).with_context(|| format!("cannot write {TABLE}"))
}
