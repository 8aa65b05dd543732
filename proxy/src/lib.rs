//! tsubaki, a Redis Cluster proxy: everything that touches the system. The decisions are made in `tsubaki-core`.
//!
//! ```text
//!   main -> cli -> run ----> control thread: refresher (control), admin HTTP (admin), signals
//!                     \----> worker threads (driver): sockets and timers around one engine each
//!          dev_cluster, demo: a cluster of one's own, and a proof
//! ```
#![forbid(unsafe_code)]

mod admin;
pub mod cli;
mod clock;
mod control;
pub mod demo;
pub mod dev_cluster;
mod driver;
mod events;
mod gate;
mod listeners;
mod log;
mod placement;
mod progress;
pub mod run;
