//! Benchmarks of tsubaki: which question each answers stands in `README.md`.
//!
//! Must not know: tsubaki's insides. The proxy is measured from outside, as the program that users get.
//!
//! ```text
//!  compare ---> cluster       three masters on loopback
//!     |    ---> subjects      direct, floor, tsubaki: what the load goes through
//!     |    ---> load          redis-benchmark
//!     +-------- /proc         CPU and memory of each of them
//! ```
#![forbid(unsafe_code)]

pub mod cluster;
pub mod compare;
pub mod connection;
pub mod floor;
pub mod load;
pub mod process;
