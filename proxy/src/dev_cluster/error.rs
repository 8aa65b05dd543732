//! What can go wrong with a local cluster.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

use super::client::ClientError;
use super::server::ServerError;

/// Why there is no cluster, or why it did not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DevClusterError {
    /// There is no program to run.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The numbers of masters and replicas make no cluster.
    #[error(
        "a cluster of {masters} masters with {replicas} replicas each is not possible: 1 to 1000 nodes, at least one master"
    )]
    Shape {
        /// Masters asked for.
        masters: u16,
        /// Replicas asked for, a master.
        replicas: u16,
    },
    /// A port that was asked for is in use.
    #[error("port {port} on 127.0.0.1 is taken: choose another base port, or end what listens there")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// Ports run past 65535, or none is free.
    #[error("no free port on 127.0.0.1 {0}")]
    NoPort(&'static str),
    /// The machine refused something.
    #[error("cannot {doing}: {source}")]
    Machine {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A node ended, or does not run.
    #[error("node {addr} does not run{}", tail(log))]
    Dead {
        /// The node.
        addr: SocketAddr,
        /// The last lines of its log.
        log: String,
    },
    /// A node could not be talked to.
    #[error("node {addr} does not answer {command}: {source}{}", tail(log))]
    Talk {
        /// The node.
        addr: SocketAddr,
        /// The command.
        command: String,
        /// What went wrong.
        source: ClientError,
        /// The last lines of its log.
        log: String,
    },
    /// A node refused a command that builds the cluster.
    #[error("node {addr} refused {command}: {reply}")]
    Refused {
        /// The node.
        addr: SocketAddr,
        /// The command.
        command: String,
        /// The error reply.
        reply: String,
    },
    /// Something did not happen in time.
    #[error("after {} s {reason}{}", waited.as_secs(), tail(log))]
    Late {
        /// How long was waited.
        waited: Duration,
        /// What did not happen.
        reason: String,
        /// The last lines of the log of the node at fault.
        log: String,
    },
}

fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; the end of its log:\n{log}") }
}

/// Says what the machine refused.
pub(super) fn machine(doing: impl Into<String>) -> impl FnOnce(io::Error) -> DevClusterError {
    let doing = doing.into();
    move |source| DevClusterError::Machine { doing, source }
}
