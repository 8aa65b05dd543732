//! The program as operators meet it: its command line, its start, its mistakes of a first day, its limits, its end.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

mod command_line;
mod crowd;
mod demo;
mod first_day;
#[path = "../support/harness.rs"]
mod harness;
mod limits;
mod listeners;
mod login;
mod program;
mod secrets;
mod stop;
