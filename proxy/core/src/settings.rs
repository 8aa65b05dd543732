//! What the engine is told at its start: plain values, checked before they come here.
//!
//! Must not know: files, flags, how a value was written.

use std::fmt;
use std::num::NonZeroU8;
use std::time::Duration;

use crate::topology::AddressMap;

/// The usual [`Settings::large_value`]. A 10 Gbit/s network carries it in a millisecond, which is what opening a connection
/// takes: those behind a smaller value wait less than they would for another way. With the dead space of growing buffers
/// it makes less than 4 MiB held for one transfer.
pub const LARGE_VALUE: usize = 1 << 20;

/// The usual [`Settings::chunk`]: what one read of a client brings at most.
pub const CHUNK: usize = 64 * 1024;

/// The usual [`Settings::max_spares`]. A node takes 10,000 clients by default, and there may be many workers.
pub const MAX_SPARES: usize = 256;

/// Settings of one worker.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What clients must say in `AUTH`; `None`: they need not.
    pub client_password: Option<Password>,
    /// What the nodes want to hear.
    pub node_login: Option<Login>,
    /// Where reads go.
    pub read_policy: ReadPolicy,
    /// Rewrites the addresses that MOVED and ASK name.
    pub address_map: AddressMap,
    /// Connections of one kind (protocol, master or replica) to one node; each client uses one of them.
    pub connections_per_node: NonZeroU8,
    /// How long a connection to a node may take, its handshake included.
    pub connect_timeout: Duration,
    /// How long a command that cannot be written yet waits before it is answered with an error.
    pub wait_timeout: Duration,
    /// How long a node that owes replies may be silent before its connection is given up.
    pub silence_timeout: Duration,
    /// Most commands of one client that are at nodes or wait; above, it is not read.
    pub max_in_flight: usize,
    /// Most request bytes of one client that are at nodes or wait; above, it is not read.
    pub max_in_flight_bytes: usize,
    /// Most bytes of replies that one client may leave unread; above, it is closed.
    pub max_output: usize,
    /// Most bytes of replies that all clients of this worker together may leave unread; above, the one that grows is closed.
    pub max_total_output: usize,
    /// Longest argument of a command, bytes.
    pub max_bulk: u32,
    /// Longest command, bytes.
    pub max_request: u32,
    /// Longest request or reply, bytes, that shares a connection to its node with others'. A longer one streams, and about
    /// so much of it is held at a time.
    pub large_value: usize,
    /// Bytes of requests that are put together on their way to a node. A longer one stays where it was gathered, which saves
    /// a copy, and is written alone.
    pub chunk: usize,
    /// Most connections beside the shared ones: for large requests, and behind large replies. Where none is left, large
    /// requests wait for their turn, and large replies are waited behind. At least one.
    pub max_spares: usize,
    /// What clients are told of the process.
    pub identity: Identity,
    /// Seed of the engine's choices (jitter), so that workers differ and tests repeat.
    pub seed: u64,
}

/// What clients are told of the process.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The program's version.
    pub version: &'static str,
    /// The port of the first listener.
    pub port: u16,
    /// The process' id.
    pub pid: u32,
    /// Most clients of the process.
    pub max_clients: usize,
    /// Microseconds between 1970-01-01 UTC and the process' epoch.
    pub epoch_unix_us: u64,
    /// This worker's number, from 0.
    pub worker: usize,
    /// Workers of the process. Client ids step by it, so that no two workers give the same.
    pub workers: usize,
    /// Identifies this run of the process, as `run_id` of INFO does: 40 hexadecimal digits.
    pub run_id: String,
}

/// Where commands flagged readonly go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadPolicy {
    /// To the slot's master.
    #[default]
    Master,
    /// To a replica that is ready, else to the master.
    PreferReplica,
    /// To a replica; an error where none is ready in time.
    Replica,
    /// To the master and the replicas that are ready, in turn.
    Any,
}

/// How the proxy logs in at nodes.
#[derive(Debug, Clone)]
pub struct Login {
    /// `None`: the default user, by `AUTH password` alone.
    pub user: Option<String>,
    /// The password.
    pub password: Password,
}

/// A password that no `{:?}` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps a password.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The bytes that are sent to a node.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Compares in a time that depends on the lengths alone.
    #[must_use]
    pub fn matches(&self, guess: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let mut difference = u8::from(own.len() != guess.len());
        for (index, byte) in guess.iter().enumerate() {
            difference |= byte ^ own.get(index % own.len().max(1)).copied().unwrap_or(0);
        }
        difference == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client_password: None,
            node_login: None,
            read_policy: ReadPolicy::Master,
            address_map: AddressMap::default(),
            connections_per_node: NonZeroU8::MIN,
            connect_timeout: Duration::from_secs(1),
            wait_timeout: Duration::from_millis(1500),
            silence_timeout: Duration::from_secs(15),
            max_in_flight: 1024,
            max_in_flight_bytes: 16 * 1024 * 1024,
            max_output: 1 << 30,
            max_total_output: 4 << 30,
            max_bulk: 512 * 1024 * 1024,
            max_request: 1 << 30,
            large_value: LARGE_VALUE,
            chunk: CHUNK,
            max_spares: MAX_SPARES,
            identity: Identity {
                version: env!("CARGO_PKG_VERSION"),
                port: 6380,
                pid: 0,
                max_clients: 10_000,
                epoch_unix_us: 0,
                worker: 0,
                workers: 1,
                run_id: "0".repeat(40),
            },
            seed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_matches() {
        let password = Password::new("secret".to_owned());
        assert!(password.matches(b"secret"));
        for guess in [b"".as_slice(), b"secre", b"secrets", b"secretsecret", b"Secret"] {
            assert!(!password.matches(guess));
        }
        assert!(Password::new(String::new()).matches(b""));
        assert_eq!(format!("{password:?}"), "Password(…)");
    }
}
