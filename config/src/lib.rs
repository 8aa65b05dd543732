//! Text in, one checked value out: the settings of tsubaki from its file, its environment and its flags.
//!
//! It reads no file, no variable and no clock by itself, and knows nothing of sockets, threads or the proxy's
//! own types.
//!
//! ```text
//!  defaults < tsubaki.toml < TSUBAKI_… < flags          later wins, setting by setting
//!                  |             |          |
//!                  +---- raw: what was given, and where ----+
//!                                                           |
//!                        resolve: types, limits, cross-checks -> Config   or the first ConfigError
//! ```
//!
//! A [`Config`] is never checked again: what it holds is within the limits that its fields document.

#![forbid(unsafe_code)]

mod address;
mod address_map;
mod admin;
mod cluster;
mod config;
mod cpu_list;
mod error;
mod limits;
mod listen;
mod log;
mod placement;
mod raw;
mod resolve;
mod secret;
mod settings;
mod sources;
mod units;

#[cfg(test)]
mod tests;

pub use address::{HostPort, ListenAddr};
pub use address_map::AddressMap;
pub use admin::Admin;
pub use cluster::{Cluster, ReadPolicy};
pub use config::Config;
pub use cpu_list::{CpuList, CpuListError};
pub use error::{ConfigError, Origin, Place};
pub use limits::Limits;
pub use listen::Listen;
pub use log::{Log, LogFormat, LogLevel};
pub use placement::{MemoryPolicy, Placement, PlacementMode};
pub use secret::Secret;
pub use sources::{ConfigFile, Overrides, ReadFile, Sources};
pub use units::{Bytes, Millis};
