//! What idle clients cost: resident memory before and after many connections that said PING once.
//!
//! Must not know: loads.

use std::collections::BTreeMap;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::subject::{Site, Subject};
use crate::connection::Connection;

/// Connections that are opened, if the limit of open files allows it.
const CLIENTS: u64 = 10_000;

/// Open files that are needed for anything but idle clients.
const SPARE_FILES: u64 = 200;

/// What idle clients cost one subject.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Idle {
    /// How many there were.
    pub clients: u64,
    /// Resident memory with one client, in bytes.
    pub before: u64,
    /// Resident memory with all of them, in bytes.
    pub after: u64,
}

impl Idle {
    /// KiB a client.
    #[must_use]
    pub fn kib_each(&self) -> f64 {
        self.after.saturating_sub(self.before) as f64 / 1024.0 / self.clients as f64
    }
}

/// Measures all subjects that have clients of their own.
///
/// Each is started anew: memory that earlier clients left behind would serve the idle ones.
///
/// # Errors
/// If a subject does not answer every client.
pub fn measure_all(subjects: &[&Subject], site: &Site<'_>) -> anyhow::Result<BTreeMap<&'static str, Idle>> {
    let mut all = BTreeMap::new();
    for subject in subjects {
        let Some(middle) = subject.start(site)? else { continue };
        let clients = CLIENTS.min(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) - SPARE_FILES);
        let mut open = vec![said_ping(middle.port)?];
        let before = middle.server.resident_bytes()?;
        while (open.len() as u64) < clients {
            open.push(said_ping(middle.port)?);
        }
        let after = middle.server.resident_bytes()?;
        all.insert(subject.name, Idle { clients: clients - 1, before, after });
    }
    Ok(all)
}

fn said_ping(port: u16) -> anyhow::Result<Connection> {
    let mut connection = Connection::open(port)?;
    connection.call(&["PING"])?;
    Ok(connection)
}
