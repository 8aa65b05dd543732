//! What a node says of its cluster: CLUSTER NODES, CLUSTER SLOTS and CLUSTER SHARDS as plain records.
//!
//! Must not know: which node answered, which view is right, how a node is reached.
//!
//! ```text
//!  CLUSTER NODES    text       -> nodes::parse   epochs, flags, slots; Redis 3.0 and newer
//!  CLUSTER SLOTS    lists      -> slots::parse   no epochs, no flags; Redis 3.0 and newer
//!  CLUSTER SHARDS   maps       -> shards::parse no epochs; health; Redis 7.0 and newer
//! ```

pub mod nodes;
pub mod shards;
pub mod slots;

use std::net::IpAddr;
use std::ops::RangeInclusive;

pub use crate::redirect::Host;
use crate::resp::tree::Value;

/// One node of a cluster, as another node (or itself) sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node's name: 40 hexadecimal digits. Redis before 4.0 gives none in CLUSTER SLOTS: there it is `host:port`.
    pub id: String,
    /// Where clients are to connect: in NODES the address, else the endpoint that the cluster prefers to announce.
    pub host: Host<String>,
    /// The port for clients; 0: not known, or none without TLS.
    pub port: u16,
    /// The IP address, if the reply tells it.
    pub ip: Option<String>,
    /// The announced host name (`cluster-announce-hostname`, Redis 7.0), if the reply tells it.
    pub hostname: Option<String>,
    /// Master or replica.
    pub role: Role,
    /// The `id` of a replica's master.
    pub master_id: Option<String>,
    /// What the answering node thinks of this node.
    pub flags: NodeFlags,
    /// The config epoch: of two masters that claim a slot, the higher one's owner is right. 0 where the reply has none.
    pub config_epoch: u64,
    /// The answering node's link to this node is up. True where the reply does not tell.
    pub link_up: bool,
    /// The slots of a master, within 0..=16383. A slot on its way to another node is among its owner's.
    pub slots: Vec<RangeInclusive<u16>>,
}

/// A node's part in its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes writes. So is a node that does not tell yet (in handshake).
    Master,
    /// Copies a master.
    Replica,
}

/// What the answering node thinks of a node. Flags that this crate does not know are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeFlags {
    /// It is the answering node itself.
    pub myself: bool,
    /// The cluster agrees that it is down (`fail`).
    pub failed: bool,
    /// The answering node cannot reach it (`fail?`).
    pub maybe_failed: bool,
    /// Not yet trusted (`handshake`).
    pub handshake: bool,
    /// Its address is not known (`noaddr`).
    pub no_address: bool,
    /// It loads its data set (CLUSTER SHARDS only).
    pub loading: bool,
}

/// A reply that describes no cluster. Which node sent it is the caller's to add.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Not one node is described.
    #[error("{command} describes no node; is the server a cluster node?")]
    Empty {
        /// The command that was answered.
        command: &'static str,
    },
    /// A line of CLUSTER NODES that cannot be read.
    #[error("CLUSTER NODES line {line}: {what}")]
    Line {
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// An entry of CLUSTER SLOTS or CLUSTER SHARDS that cannot be read.
    #[error("{command} entry {entry}: {what}")]
    Entry {
        /// The command that was answered.
        command: &'static str,
        /// The entry's number, from 1.
        entry: usize,
        /// What is wrong with it.
        what: String,
    },
    /// An error, or something else than a list, where a list had to come.
    #[error("{command} was answered by {what} instead of a list")]
    NotAList {
        /// The command that was answered.
        command: &'static str,
        /// What came.
        what: String,
    },
}

/// A range of slots within the cluster's, in order; `None` otherwise.
fn slot_range(first: i64, last: i64) -> Option<RangeInclusive<u16>> {
    let within = |slot: i64| u16::try_from(slot).ok().filter(|slot| *slot < 16_384);
    let range = within(first)?..=within(last)?;
    (!range.is_empty()).then_some(range)
}

/// The entries of a reply that has to be a list.
fn entries<'a>(reply: &'a Value, command: &'static str) -> Result<&'a [Value], ClusterError> {
    match reply {
        Value::List(entries) => Ok(entries),
        Value::Error(text) => Err(ClusterError::NotAList { command, what: format!("the error '{text}'") }),
        _ => Err(ClusterError::NotAList { command, what: "another type".to_owned() }),
    }
}

/// An endpoint: null and empty stand for the host that was asked.
fn host(value: &Value) -> Option<Host<String>> {
    match value {
        Value::Null => Some(Host::Same),
        _ => Some(Host::from_text(value.as_str()?).into_owned()),
    }
}

fn port(value: &Value) -> Option<u16> {
    value.as_integer().and_then(|port| u16::try_from(port).ok())
}

/// A host that is named, as an IP address or as a host name.
fn ip_or_name(host: &Host<String>) -> (Option<String>, Option<String>) {
    match host {
        Host::Named(ip) if ip.parse::<IpAddr>().is_ok() => (Some(ip.clone()), None),
        Host::Named(name) => (None, Some(name.clone())),
        Host::Same | Host::Unknown => (None, None),
    }
}
