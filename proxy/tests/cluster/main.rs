//! The whole program before real clusters that move: slots, masters, replicas, nodes that die and come back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

mod commands;
mod connections;
mod failover;
#[path = "../support/harness.rs"]
mod harness;
mod large;
mod load;
mod migration;
mod model;
mod nodes;
mod outage;
mod random;
mod replicas;
mod sizes;
mod slots;
