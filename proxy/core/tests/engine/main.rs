//! The engine from outside: what clients see, what nodes get, and when, each test named after a behaviour or a fault.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test may fail")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests hold handles, and wait for a real server"
)]

mod bytes;
mod connection;
mod connections;
mod flush;
mod harness;
mod large;
mod long;
mod loss;
mod memory;
mod operator;
mod order;
mod pace;
mod pressure;
mod redirect;
mod redis;
mod refusal;
mod replica;
mod retry;
mod same_as_redis;
mod session;
mod spare;
mod split;
mod topology;
