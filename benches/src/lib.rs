//! Benchmarks of tsubaki: which question each answers stands in `README.md`.
//!
//! Must not know: tsubaki's insides, but for `engine`. The proxy is measured from outside, as the program that
//! users get.
//!
//! ```text
//!  compare ---> cluster            masters and replicas on loopback; cap: their CPU, where they are the bottleneck
//!     |    ---> floor, peers       what the load goes through, besides tsubaki and the cluster itself
//!     |    ---> load               redis-benchmark, memtier, an open loop, one client
//!     |    ---> crowd              very many clients
//!     +-------- process            CPU and memory of each of them, from /proc
//!
//!  instructions ---> engine        what the hot path executes, without sockets
//!  relay                           the delay of a network
//! ```
#![forbid(unsafe_code)]

pub mod cap;
pub mod cluster;
pub mod compare;
pub mod connection;
pub mod crowd;
pub mod engine;
pub mod floor;
pub mod instructions;
pub mod lane;
pub mod load;
pub mod peers;
pub mod place;
pub mod poll;
pub mod process;
pub mod program;
pub mod relay;
