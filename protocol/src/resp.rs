//! RESP, the Redis serialization protocol: where frames end, and how to write them.
//!
//! Must not know: what any command means.

pub mod args;
pub mod inline;
mod number;
pub mod reply;
pub mod request;
pub mod stream;
pub mod tree;
pub mod write;

pub use write::Resp;
