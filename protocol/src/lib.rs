//! Bytes in, facts out: everything tsubaki knows of Redis' wire format and cluster rules.
//!
//! Must not know: sockets, time, threads, the proxy's own state.
//!
//! ```text
//!  client bytes --> resp::request --> command --> command::keys --> slot
//!  node bytes ----> resp::reply ----> redirect            (error lines)
//!                                \--> cluster             (CLUSTER NODES, SLOTS, SHARDS)
//!  facts ---------> resp::write --> bytes
//! ```
#![forbid(unsafe_code)]

pub mod cluster;
pub mod command;
pub mod redirect;
pub mod resp;
pub mod slot;
