//! The worker's own map: which node serves a slot, what is known of each node, and what redirects taught since the last view.
//!
//! Must not know: clients, the bytes on connections.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::time::Duration;

use tsubaki_protocol::slot::SLOTS;

use crate::BackendId;
use crate::arena::{Arena, Id};
use crate::backend::Lane;
use crate::limits::{RECONNECT_PAUSE, REPLICA_TIMEOUT};
use crate::time::Time;
use crate::topology::{Shard, Topology};

/// The place of a node in its worker's map.
pub(crate) type NodeId = Id<Node>;

/// What a worker knows of one node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    /// One connection a lane.
    pub(crate) backends: Box<[Option<BackendId>]>,
    /// Connection attempts that failed since the last success.
    failures: u32,
    /// No connection attempt before this.
    retry_at: Time,
    /// It takes no more connections, as far as known; none beside the shared ones is tried before this.
    full_until: Option<Time>,
    /// No reads as a replica before this.
    resting_until: Time,
    /// Named by the newest view or by a redirect since.
    listed: bool,
}

impl Node {
    fn new(address: &str, lanes: usize) -> Self {
        Self {
            address: address.to_owned(),
            backends: vec![None; lanes].into_boxed_slice(),
            failures: 0,
            retry_at: Time::default(),
            full_until: None,
            resting_until: Time::default(),
            listed: true,
        }
    }

    /// True if a connection may be tried now.
    pub(crate) fn may_connect(&self, now: Time) -> bool {
        self.retry_at <= now
    }

    /// True if a connection beside those that it has may be tried now.
    pub(crate) fn may_add(&self, now: Time) -> bool {
        self.may_connect(now) && self.full_until.is_none_or(|until| until <= now)
    }

    /// It serves over the connections that it has, and took no other.
    pub(crate) fn is_found_full(&mut self, now: Time) {
        self.full_until = Some(now.after(RECONNECT_PAUSE.1));
    }

    /// True until it takes another connection.
    pub(crate) fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.failures > 0
    }

    /// A connection failed. True if the node was thought to be up. What fails during a pause failed with the connection
    /// that began it: a node with many connections is not given up sooner.
    ///
    /// `jitter` (0 to 1) spreads the next attempts of many workers and proxies over half the pause.
    pub(crate) fn failed(&mut self, jitter: f64, now: Time) -> bool {
        if self.is_down() && !self.may_connect(now) {
            return false;
        }
        let (first, longest) = RECONNECT_PAUSE;
        let pause = longest.min(first * 2_u32.saturating_pow(self.failures.min(10)));
        self.retry_at = now.after(pause.mul_f64(1.0 - jitter / 2.0));
        self.failures = self.failures.saturating_add(1);
        self.failures == 1
    }

    /// A handshake went well. True if the node was thought to be down.
    pub(crate) fn recovered(&mut self) -> bool {
        self.full_until = None;
        std::mem::take(&mut self.failures) > 0
    }

    /// Leaves this replica out of reads for a while.
    pub(crate) fn rest(&mut self, now: Time) {
        self.resting_until = now.after(REPLICA_TIMEOUT);
    }

    pub(crate) fn is_resting(&self, now: Time) -> bool {
        self.resting_until > now
    }

    /// How long until the next connection attempt.
    pub(crate) fn pause(&self, now: Time) -> Duration {
        self.retry_at.since(now)
    }
}

#[derive(Debug)]
pub(crate) struct ShardMap {
    pub(crate) master: NodeId,
    pub(crate) replicas: Vec<NodeId>,
    /// Whose turn it is among those that serve reads.
    pub(crate) turn: usize,
}

pub(crate) struct Map {
    /// Connections that a node may have.
    lanes: usize,
    nodes: Arena<Node>,
    by_address: BTreeMap<String, NodeId>,
    shards: Vec<ShardMap>,
    /// How many of these the newest view lists; the rest was learnt from redirects since.
    listed_shards: usize,
    /// Index into `shards` for each slot; [`Map::NONE`]: nobody serves it.
    slots: Box<[u16]>,
    /// What MOVED said, and when. Outlives every view that was fetched before it.
    patches: BTreeMap<u16, (String, Time)>,
}

impl Map {
    const NONE: u16 = u16::MAX;

    /// A map without nodes, each of which will have so many connections of a kind.
    pub(crate) fn new(connections_per_node: NonZeroU8) -> Self {
        Self {
            lanes: usize::from(connections_per_node.get()) * Lane::KINDS,
            nodes: Arena::new(),
            by_address: BTreeMap::new(),
            shards: Vec::new(),
            listed_shards: 0,
            slots: vec![Self::NONE; SLOTS].into_boxed_slice(),
            patches: BTreeMap::new(),
        }
    }

    /// Takes over a view. Returns which slots changed hands; nodes that the view does not name are no longer listed.
    pub(crate) fn apply(&mut self, topology: &Topology) -> Lost {
        let before = self.owners();
        for (_, node) in self.nodes.iter_mut() {
            node.listed = false;
        }
        let shards: Vec<ShardMap> = topology.shards.iter().map(|shard| self.shard(shard)).collect();
        let listed = self.shards.get(..self.listed_shards).unwrap_or_default();
        let keyless = listed.iter().map(|shard| shard.master).ne(shards.iter().map(|shard| shard.master));
        self.shards = shards;
        self.listed_shards = self.shards.len();
        self.slots.fill(Self::NONE);
        for (index, shard) in topology.shards.iter().enumerate() {
            for (first, last) in &shard.slots {
                let range = usize::from(*first)..=usize::from(*last);
                self.slots.get_mut(range).unwrap_or_default().fill(index as u16);
            }
        }
        self.patches.retain(|_, (_, seen)| *seen > topology.fetched);
        for (slot, (address, _)) in self.patches.clone() {
            self.assign(slot, &address);
        }
        let after = self.owners();
        let moved =
            before.iter().zip(&after).map(|(before, after)| before.is_some() && before != after).collect();
        Lost { moved, keyless }
    }

    fn shard(&mut self, shard: &Shard) -> ShardMap {
        let master = self.node_at(&shard.master);
        let replicas = shard.replicas.iter().map(|address| self.node_at(address)).collect();
        ShardMap { master, replicas, turn: 0 }
    }

    fn owners(&self) -> Vec<Option<NodeId>> {
        (0..SLOTS as u16).map(|slot| self.master(slot)).collect()
    }

    /// Learns from a MOVED. True if that changed the map.
    pub(crate) fn patch(&mut self, slot: u16, address: &str, now: Time) -> bool {
        if usize::from(slot) >= SLOTS
            || self.by_address.get(address).copied() == self.master(slot) && self.master(slot).is_some()
        {
            return false;
        }
        self.patches.insert(slot, (address.to_owned(), now));
        self.assign(slot, address);
        true
    }

    fn assign(&mut self, slot: u16, address: &str) {
        let master = self.node_at(address);
        let index = self.shards.iter().position(|shard| shard.master == master).unwrap_or_else(|| {
            self.shards.push(ShardMap { master, replicas: Vec::new(), turn: 0 });
            self.shards.len() - 1
        });
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = index as u16;
        }
    }

    /// The node at `address`, made known if it is not yet.
    pub(crate) fn node_at(&mut self, address: &str) -> NodeId {
        if let Some(id) = self.by_address.get(address).copied() {
            if let Some(node) = self.nodes.find_mut(id) {
                node.listed = true;
            }
            return id;
        }
        let id = self.nodes.insert(Node::new(address, self.lanes));
        self.by_address.insert(address.to_owned(), id);
        id
    }

    /// Nodes that left the cluster: no view or redirect since the newest view names them.
    pub(crate) fn unlisted(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|(_, node)| !node.listed).map(|(id, _)| id).collect()
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.remove(id) {
            self.by_address.remove(&node.address);
        }
    }

    #[inline]
    pub(crate) fn shard_mut(&mut self, slot: u16) -> Option<&mut ShardMap> {
        let index = *self.slots.get(usize::from(slot))?;
        self.shards.get_mut(usize::from(index))
    }

    #[inline]
    pub(crate) fn master(&self, slot: u16) -> Option<NodeId> {
        let index = *self.slots.get(usize::from(slot))?;
        self.shards.get(usize::from(index)).map(|shard| shard.master)
    }

    /// A master for a command without a key: the same for one `number` while it is up, so that one client's commands stay in order.
    pub(crate) fn any_master(&self, number: u64) -> Option<NodeId> {
        let shards = self.shards.get(..self.listed_shards).unwrap_or_default();
        let first = (number % shards.len().max(1) as u64) as usize;
        let (before, from) = shards.split_at_checked(first)?;
        let mut masters = from.iter().chain(before).map(|shard| shard.master);
        let is_up = |id: &NodeId| self.node(*id).is_some_and(|node| !node.is_down());
        masters.clone().find(is_up).or_else(|| masters.next())
    }

    pub(crate) fn id_of(&self, address: &str) -> Option<NodeId> {
        self.by_address.get(address).copied()
    }

    pub(crate) fn find(&self, address: &str) -> Option<&Node> {
        self.nodes.find(self.id_of(address)?)
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.find(id)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.find_mut(id)
    }
}

/// What a change of the map took from whom.
pub(crate) struct Lost {
    /// For each slot: true if its master is another than before, or none any more.
    pub(crate) moved: Vec<bool>,
    /// True if commands without a key may go to another master than before.
    pub(crate) keyless: bool,
}

impl Lost {
    /// True if commands on `slot` (or without one) go elsewhere than before.
    pub(crate) fn contains(&self, slot: u16) -> bool {
        self.moved.get(usize::from(slot)).copied().unwrap_or(self.keyless)
    }

    pub(crate) fn count(&self) -> usize {
        self.moved.iter().filter(|moved| **moved).count()
    }
}
