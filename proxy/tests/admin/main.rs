//! What operators and their tools see over HTTP: metrics and health.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

mod exposition;
#[path = "../support/harness.rs"]
mod harness;
mod health;
mod metrics;
