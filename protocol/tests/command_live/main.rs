//! The command table, key extraction, slots and errors against what real servers say.
//!
//! Servers: `redis-server` from the PATH; Valkey from `TSUBAKI_VALKEY_SERVER`, from the PATH, or from the folder
//! that the build unpacks it into. A missing one is skipped with a line on stderr, unless
//! `TSUBAKI_REQUIRE_SERVERS` is set.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

mod arguments;
mod describe;
mod getkeys;
mod routing;
mod server;
mod slots;
mod words;
