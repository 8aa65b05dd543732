//! The cluster as one immutable view, put together from what its nodes say.
//!
//! Must not know: connections, health, what a worker learnt from redirects since.

use std::collections::BTreeMap;

use tsubaki_protocol::cluster::{Host, NodeRecord, Role};
use tsubaki_protocol::slot::SLOTS;

use crate::time::Time;

/// Who owns which slots, as far as known at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// When its fetch began. A MOVED seen later than this is newer.
    pub fetched: Time,
    /// Masters with their slots and replicas, ordered by address.
    pub shards: Vec<Shard>,
    /// The lowest `redis_version` of the nodes, if known.
    pub redis_version: Option<String>,
}

/// A master, its slots, its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// `host:port`, reachable for the proxy.
    pub master: String,
    /// `host:port` of each.
    pub replicas: Vec<String>,
    /// First and last slot of each range.
    pub slots: Vec<(u16, u16)>,
}

impl Topology {
    /// Slots that have a master.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.shards
            .iter()
            .flat_map(|shard| &shard.slots)
            .map(|(first, last)| usize::from(last - first) + 1)
            .sum()
    }
}

/// One node's answer to CLUSTER NODES.
#[derive(Debug, Clone)]
pub struct View {
    /// The host under which that node was reached: what an empty host in its answer means.
    pub host: String,
    /// Its lines.
    pub nodes: Vec<NodeRecord>,
}

/// Rewrites announced addresses to reachable ones: `host:port` first, then `host` alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressMap(BTreeMap<String, String>);

impl AddressMap {
    /// A map from `host:port` or `host` to the same form.
    #[must_use]
    pub fn new(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }

    /// The address to dial for an announced one, as `host:port` (`[v6]:port`).
    #[must_use]
    pub fn apply(&self, host: &str, port: u16) -> String {
        let announced = join(host, port);
        match (self.0.get(&announced), self.0.get(host)) {
            (Some(exact), _) => exact.clone(),
            (None, Some(host)) => join(host, port),
            (None, None) => announced,
        }
    }
}

/// `host:port`, with brackets around an IPv6 address.
#[must_use]
pub fn join(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Joins several nodes' views: each slot goes to the claimant with the highest config epoch, so that a view from
/// before a failover or a migration never wins against one from after it.
///
/// `before` are the views of the fetch before: they count for slots, so that one stale answer does not undo what was
/// known (a second one does), but not for replicas, which come and go without an epoch.
#[must_use]
pub fn merge(views: &[View], before: &[View], addresses: &AddressMap, fetched: Time) -> Topology {
    let mut owners: Vec<Option<(u64, &NodeRecord, &str)>> = vec![None; SLOTS];
    for view in views.iter().chain(before) {
        for node in view.nodes.iter().filter(|node| node.role == Role::Master) {
            for slot in node.slots.iter().cloned().flatten() {
                if let Some(owner) = owners.get_mut(usize::from(slot))
                    && owner.is_none_or(|(epoch, ..)| node.config_epoch > epoch)
                {
                    *owner = Some((node.config_epoch, node, &view.host));
                }
            }
        }
    }
    let mut shards: BTreeMap<String, Shard> = BTreeMap::new();
    for (slot, owner) in owners.iter().enumerate() {
        let Some((_, node, host)) = owner else { continue };
        let Some(master) = address(node, host, addresses) else { continue };
        let shard = shards.entry(master.clone()).or_insert_with(|| Shard {
            replicas: replicas(views, &node.id, addresses, &master),
            master,
            slots: Vec::new(),
        });
        let slot = slot as u16;
        match shard.slots.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            Some(_) | None => shard.slots.push((slot, slot)),
        }
    }
    Topology { fetched, shards: shards.into_values().collect(), redis_version: None }
}

/// Where to reach a node that `viewer` described; `None` if it said that it does not know.
#[must_use]
pub fn address(node: &NodeRecord, viewer: &str, addresses: &AddressMap) -> Option<String> {
    if node.port == 0 || node.flags.no_address {
        return None;
    }
    match &node.host {
        Host::Same => Some(addresses.apply(viewer, node.port)),
        Host::Named(host) => Some(addresses.apply(host, node.port)),
        Host::Unknown => None,
    }
}

fn replicas(views: &[View], master: &str, addresses: &AddressMap, master_address: &str) -> Vec<String> {
    let mut found: Vec<String> = views
        .iter()
        .flat_map(|view| view.nodes.iter().map(move |node| (node, view.host.as_str())))
        .filter(|(node, _)| node.role == Role::Replica && node.master_id.as_deref() == Some(master))
        .filter(|(node, _)| !node.flags.failed && !node.flags.handshake && node.link_up)
        .filter_map(|(node, host)| address(node, host, addresses))
        .filter(|address| address != master_address)
        .collect();
    found.sort();
    found.dedup();
    found
}
