//! tsubaki, a Redis Cluster proxy: everything that touches the system. The decisions are made in `tsubaki-core`.
//!
//! ```text
//!   main -> cli -> run ----> control thread: refresher (control), admin HTTP (admin), signals
//!                     \----> worker threads (driver): sockets and timers around one engine each
//!          doctor: the machine, and what stands in the way
//!          dev_cluster, demo: a cluster of one's own, and a proof
//! ```
#![deny(unsafe_code)]

mod admin;
pub mod cli;
mod clock;
mod control;
pub mod demo;
pub mod dev_cluster;
pub mod doctor;
mod driver;
mod events;
mod gate;
mod listeners;
mod log;
mod machine;
mod placement;
mod progress;
pub mod run;
