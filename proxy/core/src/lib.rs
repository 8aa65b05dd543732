//! The engine of one core: clients' bytes in, nodes' bytes out, and back, without a socket, a thread or a clock.
//!
//! Everything that one core knows lives in one [`Worker`]. Its methods are of four kinds: `handle_*` takes what happened,
//! `poll_*` and `next_*` give what is to be done, `*_output` and `*_sent` move bytes, and the rest looks. The contract is one
//! line: *call one `handle_*`, then drain the actions; flush the dirty connections once a turn.*
//!
//! Must not know: tokio, sockets, threads, clocks, metrics. CI builds it for a target that has none of them.
//!
//! ```text
//!                 handle_client_input                          handle_backend_input
//!                          |                                             |
//!   client  --->  request scanner -> table -> route ---> journal  --->  node
//!   client  <---  pipeline (order) <- fan-out, verdict <- tickets <---  node
//!                          |                |                            |
//!                    client_output         hold (refused, waiting)  backend_output
//! ```
#![forbid(unsafe_code)]

pub mod action;
mod arena;
mod backend;
mod buffer;
mod client;
mod fanout;
pub mod fault;
mod hold;
mod journal;
mod limits;
mod local;
mod map;
mod pace;
mod pipeline;
mod retry;
pub mod settings;
pub mod stats;
mod stream;
pub mod time;
mod timer;
pub mod topology;
mod worker;

pub use self::arena::Id;
pub use self::backend::shown_refusal;
pub use self::worker::Worker;

/// Names a client connection of one worker.
pub type ClientId = Id<client::Client>;
/// Names a node connection of one worker.
pub type BackendId = Id<backend::Backend>;
