//! What idle clients cost: resident memory before and after many connections that said PING once.
//!
//! Must not know: loads.

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::subject::Middle;
use crate::connection::Connection;

/// Connections that are opened, if the limit of open files allows it.
const CLIENTS: u64 = 10_000;

/// Open files that are needed for anything but idle clients.
const SPARE_FILES: u64 = 200;

/// What idle clients cost one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// How many there were.
    pub clients: u64,
    /// Resident memory with one client, in bytes.
    pub before: u64,
    /// Resident memory with all of them, in bytes.
    pub after: u64,
}

impl Idle {
    /// Bytes a client.
    #[must_use]
    pub fn bytes_each(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / self.clients as f64
    }
}

/// Measures a subject that was just started: memory that earlier clients left behind would serve the idle ones.
///
/// # Errors
/// If the subject does not answer every client.
pub fn measure(middle: &Middle) -> anyhow::Result<Idle> {
    let clients = CLIENTS.min(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) - SPARE_FILES);
    let mut open = vec![said_ping(middle.port)?];
    let before = middle.server.resident_bytes()?;
    while (open.len() as u64) < clients {
        open.push(said_ping(middle.port)?);
    }
    let after = middle.server.resident_bytes()?;
    Ok(Idle { clients: clients - 1, before, after })
}

fn said_ping(port: u16) -> anyhow::Result<Connection> {
    let mut connection = Connection::open(port)?;
    connection.call(&["PING"])?;
    Ok(connection)
}
