//! The mistakes of a first day, each in one line that says what to do: a wrong node password, a seed that is no cluster,
//! announced addresses that cannot be reached, no seed alive.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use tokio::time::timeout;
use tsubaki_core::topology::Topology;

use super::node::{Access, NodeError};
use crate::events::admit;

/// What was found out so far.
#[derive(Default)]
pub(super) struct Diagnosis {
    /// Masters that are being tried, or were, since they were announced.
    probed: BTreeSet<String>,
    probe: Option<JoinHandle<()>>,
    /// One of them could not be reached.
    unreachable: Rc<Cell<bool>>,
    failing: bool,
    /// A line said why, since the last fetch that failed.
    explained: bool,
}

impl Diagnosis {
    /// A node, or a seed's name, gave no view.
    pub(super) fn failed(&mut self, address: &str, error: &NodeError) {
        self.explained |= matches!(error, NodeError::Login(_) | NodeError::NoCluster(_));
        let Some(repeated) = admit(&format!("topology {address}")) else { return };
        match error {
            NodeError::Login(_) => tracing::error!(
                node = address, %error, repeated,
                "the node refuses the proxy's login: set cluster.password (and cluster.user), or TSUBAKI_CLUSTER_PASSWORD"
            ),
            NodeError::NoCluster(_) => tracing::error!(
                node = address, %error, repeated,
                "the node runs without cluster mode: point cluster.seeds at nodes with cluster-enabled yes"
            ),
            NodeError::Io(_) | NodeError::Silent(_) | NodeError::Refused(_) | NodeError::Odd(_) => {
                tracing::warn!(node = address, %error, repeated, "the node gives no view of the cluster");
            }
        }
    }

    /// A whole fetch failed. Where a line said why already, there is nothing to add.
    pub(super) fn nobody_answers(&mut self, seeds: &[String]) {
        self.failing = true;
        if std::mem::take(&mut self.explained) {
            return;
        }
        if let Some(repeated) = admit("nobody answers") {
            let seeds = seeds.join(", ");
            tracing::error!(
                %seeds, repeated,
                "no node of the cluster answers; clients get CLUSTERDOWN until one does: check cluster.seeds and that the nodes are up"
            );
        }
    }

    /// Nodes answered that know none of the cluster's nodes.
    pub(super) fn strangers(&self, addresses: &[String]) {
        for address in addresses {
            if let Some(repeated) = admit(&format!("stranger {address}")) {
                tracing::error!(
                    node = %address, repeated,
                    "this address belongs to another cluster now, or to a node that was reset: it is not used"
                );
            }
        }
    }

    /// The cluster answers, but nobody serves a slot.
    pub(super) fn no_slots(&self, seeds: &[String]) {
        if let Some(repeated) = admit("no slots") {
            let seeds = seeds.join(", ");
            tracing::error!(
                %seeds, repeated,
                "the nodes serve no slots: form the cluster (redis-cli --cluster create), or point cluster.seeds at the right one"
            );
        }
    }

    /// A fetch succeeded.
    pub(super) fn answered(&mut self) {
        self.explained = false;
        if std::mem::take(&mut self.failing) {
            tracing::info!("the cluster answers");
        }
    }

    /// Tries the addresses of masters that were not announced before: behind NAT or in containers, nodes may announce
    /// addresses that only they can reach.
    ///
    /// In the background: fetches must not wait for an address that does not answer.
    pub(super) fn probe(&mut self, topology: &Topology, access: &Access) {
        let masters: BTreeSet<String> = topology.shards.iter().map(|shard| shard.master.clone()).collect();
        let known = masters == self.probed && !self.unreachable.get();
        if known || self.probe.as_ref().is_some_and(|probe| !probe.is_finished()) {
            return;
        }
        self.probed.clone_from(&masters);
        self.probe = Some(spawn_local(try_all(masters, access.timeout, Rc::clone(&self.unreachable))));
    }
}

async fn try_all(masters: BTreeSet<String>, patience: Duration, unreachable: Rc<Cell<bool>>) {
    let mut probes = JoinSet::new();
    for master in masters {
        probes.spawn_local(async move {
            let reached =
                timeout(patience, TcpStream::connect(&master)).await.is_ok_and(|connected| connected.is_ok());
            (master, reached)
        });
    }
    let mut failed = BTreeSet::new();
    while let Some(Ok((master, reached))) = probes.join_next().await {
        if !reached {
            failed.insert(master);
        }
    }
    unreachable.set(!failed.is_empty());
    if let Some(node) = failed.first()
        && let Some(repeated) = admit("unreachable")
    {
        tracing::error!(
            %node, others = failed.len() - 1, repeated,
            "the cluster announces addresses that cannot be reached from here: is the node up? If the address is internal, \
             rewrite it in [cluster.address_map], or set cluster-announce-ip at the node"
        );
    }
}
