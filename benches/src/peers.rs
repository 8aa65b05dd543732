//! The proxies that tsubaki is compared with, each with the settings that it comes with.
//!
//! Must not know: loads and figures.
//!
//! ```text
//!  envoy, predixy, camellia ---> the cluster
//!  haproxy ---> one plain server        twemproxy ---> three plain servers
//! ```
//!
//! No peer is built here. Envoy, HAProxy and twemproxy come from packages; predixy and Camellia run as they were
//! built in the checkouts that `PREDIXY_SRC` and `CAMELLIA_SRC` name.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::Context as _;

pub use self::{
    camellia::start as camellia, envoy::start as envoy, haproxy::start as haproxy, predixy::start as predixy,
    twemproxy::start as twemproxy,
};
use crate::{compare::subject::Site, process::Server};

mod camellia;
mod envoy;
mod haproxy;
mod plain;
mod predixy;
mod twemproxy;

/// What to do where a peer that comes from a package is missing.
const INSTALL: &str = "run `.ci/install peers`";

/// What came of starting a peer.
pub enum Start {
    /// Its process runs; it may take some more moments until it serves.
    Running {
        /// The peer itself.
        server: Server,
        /// Servers of its own behind it, where it does not speak to the cluster.
        nodes: Vec<Server>,
    },
    /// It cannot be compared here; why, and what to do, in one line.
    Missing(String),
}

impl Start {
    /// Starts a peer, unless it was not `found` or the cluster is one that no peer is set up for.
    fn of<P>(
        found: Result<P, String>,
        site: &Site<'_>,
        start: impl FnOnce(P) -> anyhow::Result<Self>,
    ) -> anyhow::Result<Self> {
        match found {
            Err(line) => Ok(Self::Missing(line)),
            Ok(_) if site.cluster.password().is_some() => {
                Ok(Self::Missing("it is set up for clusters without a password only".to_owned()))
            }
            Ok(peer) => start(peer),
        }
    }
}

/// The versions of the peers that are on this machine, by name, for a record.
#[must_use]
pub fn versions() -> BTreeMap<&'static str, String> {
    let versions = [
        ("camellia", camellia::version()),
        ("envoy", envoy::version()),
        ("haproxy", haproxy::version()),
        ("predixy", predixy::version()),
        ("twemproxy", twemproxy::version()),
    ];
    versions.into_iter().filter_map(|(name, version)| Some((name, version?))).collect()
}

/// Writes a peer's configuration into the site's folder and returns its path, as an argument for the peer.
fn write(site: &Site<'_>, file: &str, configuration: &str) -> anyhow::Result<String> {
    let path = site.cluster.folder().join(file);
    fs::write(&path, configuration).with_context(|| format!("cannot write {}", path.display()))?;
    path.into_os_string().into_string().ok().context("the temporary folder's name is no UTF-8")
}

/// Where what a peer prints goes to.
fn log(site: &Site<'_>, name: &str) -> PathBuf {
    site.cluster.folder().join(format!("{name}.log"))
}

/// The cluster's nodes, as `127.0.0.1:7000`.
fn addresses(site: &Site<'_>) -> Vec<String> {
    site.cluster.ports().into_iter().map(address).collect()
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A version and the commit that it was built from, as far as both are known.
fn with_commit(version: &str, commit: Option<String>) -> String {
    commit.map_or_else(|| version.to_owned(), |commit| format!("{version}+{commit}"))
}

#[cfg(test)]
mod tests {
    use super::{Start, versions, with_commit};
    use crate::{
        cluster::Cluster,
        compare::subject::Site,
        connection::{Connection, wait_for},
        process::free_port,
    };

    type Starter = fn(&Site<'_>, u16, u32) -> anyhow::Result<Start>;

    #[test]
    fn every_peer_that_is_here_stores_and_returns_a_key() {
        let cluster = Cluster::start().unwrap();
        let site = Site { cluster: &cluster, tsubaki: None };
        let peers: [(_, Starter); 5] = [
            ("haproxy", super::haproxy),
            ("envoy", super::envoy),
            ("twemproxy", super::twemproxy),
            ("predixy", super::predixy),
            ("camellia", super::camellia),
        ];
        for (name, start) in peers {
            let port = free_port().unwrap();
            let Start::Running { server, nodes: _nodes } = start(&site, port, 1).unwrap() else { continue };
            let stored = wait_for(name, || {
                let mut connection = Connection::open(port).ok()?;
                connection.call(&["SET", "key", "value"]).ok()?;
                connection.call(&["GET", "key"]).ok()
            });
            assert_eq!(stored.map_err(|_| server.last_words()), Ok("value".to_owned()), "{name}");
        }
    }

    #[test]
    fn a_version_has_its_commit_where_that_is_known() {
        assert_eq!(with_commit("1.0.5", Some("ca1630a".to_owned())), "1.0.5+ca1630a");
        assert_eq!(with_commit("1.0.5", None), "1.0.5");
    }

    #[test]
    fn versions_of_what_is_there_are_never_empty() {
        for (name, version) in versions() {
            assert!(version.starts_with(|letter: char| letter.is_ascii_digit()), "{name}: {version:?}");
        }
    }
}
