//! A cluster of fake nodes: who owns what in whose opinion, replicas and their lag, slots on the move, failover.
//!
//! Rules as in Redis 7.0's `cluster.c` (`getNodeByQuery`) and `server.c` (`processCommand`); a replica asked for a key of a
//! slot on the move answers ASK, as in Valkey 8.

use std::collections::{BTreeMap, VecDeque};

use crate::keys::{Key, Keyspace};
use crate::rng::Rng;
use crate::truth::{By, Truth};

pub(crate) const HOST: &str = "10.9.0.1";
const FIRST_PORT: u16 = 7000;

pub(crate) const TRYAGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
pub(crate) const DOWN: &str = "CLUSTERDOWN The cluster is down";
pub(crate) const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";
pub(crate) const LOADING: &str = "LOADING Redis is loading the dataset in memory";
pub(crate) const READONLY: &str = "READONLY You can't write against a read only replica.";
pub(crate) const MASTERDOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// A node's opinion of who owns a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: Option<usize>,
    pub(crate) epoch: u64,
}

pub(crate) struct Node {
    /// False: its process is gone.
    pub(crate) up: bool,
    /// Of whom it is a replica.
    pub(crate) master: Option<usize>,
    /// By tag.
    pub(crate) table: Vec<Claim>,
    pub(crate) migrating: Vec<Option<usize>>,
    pub(crate) importing: Vec<Option<usize>>,
    /// Does nothing until then, though its host takes connections and bytes.
    pub(crate) stalled_until: u64,
    pub(crate) loading_until: u64,
    pub(crate) down_until: u64,
    store: BTreeMap<Key, Vec<u8>>,
    /// What its master changed and it has not: when it will have, and what.
    stream: VecDeque<(u64, Key, Option<Vec<u8>>)>,
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) keys: Keyspace,
    pub(crate) truth: Truth,
    pub(crate) password: bool,
    lag: u64,
    epoch: u64,
}

/// What a node says instead of running a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Moved(usize),
    Ask(usize),
    Text(&'static str),
}

/// What a command touches, as far as its routing goes.
pub(crate) struct Touch<'a> {
    pub(crate) keys: &'a [Key],
    pub(crate) writes: bool,
    pub(crate) asking: bool,
    pub(crate) readonly: bool,
}

impl Cluster {
    /// `masters` masters that share the tags, each with `replicas` replicas.
    pub(crate) fn new(rng: &mut Rng, masters: usize, replicas: usize, tags: usize) -> Self {
        let keys = Keyspace::new(tags);
        let table: Vec<Claim> = (0..tags)
            .map(|tag| Claim { owner: Some(tag % masters), epoch: (tag % masters) as u64 + 1 })
            .collect();
        let node = |master: Option<usize>| Node {
            up: true,
            master,
            table: table.clone(),
            migrating: vec![None; tags],
            importing: vec![None; tags],
            stalled_until: 0,
            loading_until: 0,
            down_until: 0,
            store: BTreeMap::new(),
            stream: VecDeque::new(),
        };
        let nodes = (0..masters * (1 + replicas))
            .map(|place| node((place >= masters).then_some(place % masters)))
            .collect();
        Self {
            nodes,
            truth: Truth::new(keys.len()),
            keys,
            password: rng.percent(30),
            lag: rng.pick(&[0, 500, 5_000, 50_000]),
            epoch: masters as u64,
        }
    }

    pub(crate) fn address(node: usize) -> String {
        format!("{HOST}:{}", FIRST_PORT + node as u16)
    }

    pub(crate) fn at(&self, address: &str) -> Option<usize> {
        (0..self.nodes.len()).find(|node| Self::address(*node) == address)
    }

    /// What all nodes together think of a slot: the newest claim.
    pub(crate) fn claim(&self, tag: usize, of: impl Iterator<Item = usize>) -> Claim {
        let claims = of.map(|node| self.nodes[node].table[tag]);
        claims.max_by_key(|claim| claim.epoch).unwrap_or(Claim { owner: None, epoch: 0 })
    }

    pub(crate) fn owner(&self, tag: usize) -> Option<usize> {
        self.claim(tag, 0..self.nodes.len()).owner
    }

    pub(crate) fn replicas(&self, master: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].master == Some(master)).collect()
    }

    /// Why `me` does not run a command now; `None`: it does.
    pub(crate) fn refusal(&mut self, me: usize, touch: &Touch<'_>, now: u64) -> Option<Refusal> {
        self.catch_up(me, now);
        let misplaced = if touch.keys.is_empty() { None } else { self.misplaced(me, touch, now) };
        let node = &self.nodes[me];
        // Only in the moment after a demotion does a replica get past the look at its table with a write.
        let demoted = node.master.is_some()
            && touch.keys.first().is_some_and(|key| node.table[key.tag()].owner == Some(me));
        misplaced
            .or_else(|| demoted.then_some(Refusal::Text(if touch.writes { READONLY } else { MASTERDOWN })))
            .or_else(|| (node.loading_until > now).then_some(Refusal::Text(LOADING)))
    }

    fn misplaced(&self, me: usize, touch: &Touch<'_>, now: u64) -> Option<Refusal> {
        let node = &self.nodes[me];
        let tag = touch.keys.first()?.tag();
        assert!(
            touch.keys.iter().all(|key| key.tag() == tag),
            "the engine sent keys of two slots in one command"
        );
        let Some(owner) = node.table[tag].owner else { return Some(Refusal::Text(NOT_SERVED)) };
        if node.down_until > now {
            return Some(Refusal::Text(DOWN));
        }
        let for_replica = touch.readonly && !touch.writes && node.master == Some(owner);
        let target = match (owner == me, for_replica) {
            (true, _) => node.migrating[tag],
            (_, true) => self.nodes[owner].migrating[tag],
            _ => None,
        };
        let missing = touch.keys.iter().filter(|key| !node.store.contains_key(key)).count();
        if let Some(target) = target
            && missing > 0
        {
            return Some(if missing < touch.keys.len() {
                Refusal::Text(TRYAGAIN)
            } else {
                Refusal::Ask(target)
            });
        }
        // An ASK from an earlier, abandoned migration: Redis would run it here and have two values of one key.
        let in_time = |from: usize| {
            let from = &self.nodes[from];
            from.migrating[tag] == Some(me) && !touch.keys.iter().any(|key| from.store.contains_key(key))
        };
        if owner != me && node.importing[tag].is_some_and(in_time) && touch.asking {
            return (touch.keys.len() > 1 && missing > 0).then_some(Refusal::Text(TRYAGAIN));
        }
        (owner != me && !for_replica).then_some(Refusal::Moved(owner))
    }

    pub(crate) fn value(&self, me: usize, key: Key) -> Option<&Vec<u8>> {
        self.nodes[me].store.get(&key)
    }

    /// A command that `me` runs changes a key.
    pub(crate) fn change(&mut self, me: usize, key: Key, value: Option<Vec<u8>>, by: By, now: u64) {
        self.put(me, key, value.clone(), now);
        self.truth.change(key, value, by, now);
    }

    fn put(&mut self, me: usize, key: Key, value: Option<Vec<u8>>, now: u64) {
        for replica in self.replicas(me) {
            self.nodes[replica].stream.push_back((now + self.lag, key, value.clone()));
        }
        store(&mut self.nodes[me].store, key, value);
    }

    fn catch_up(&mut self, me: usize, now: u64) {
        let node = &mut self.nodes[me];
        while node.stream.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, key, value)) = node.stream.pop_front() else { return };
            store(&mut node.store, key, value);
        }
    }

    /// MIGRATE of one key.
    pub(crate) fn migrate_key(&mut self, key: Key, from: usize, to: usize, now: u64) {
        if let Some(value) = self.value(from, key).cloned() {
            self.put(from, key, None, now);
            self.put(to, key, Some(value), now);
        }
    }

    /// A claim with an epoch above all others, for `owner`; nobody knows of it yet.
    pub(crate) fn new_claim(&mut self, owner: Option<usize>) -> Claim {
        self.epoch += 1;
        Claim { owner, epoch: self.epoch }
    }

    /// `node` hears of a claim.
    pub(crate) fn learn(&mut self, node: usize, tag: usize, claim: Claim) {
        if claim.epoch > self.nodes[node].table[tag].epoch {
            self.nodes[node].table[tag] = claim;
        }
    }

    /// Makes a replica the master in its master's place; returns what the others have to hear. Without `whole`, what it
    /// has not heard of its master's newest writes is lost.
    pub(crate) fn promote(&mut self, replica: usize, whole: bool, now: u64) -> Vec<(usize, Claim)> {
        let Some(old) = self.nodes[replica].master.take() else { return Vec::new() };
        self.catch_up(replica, if whole { u64::MAX } else { now });
        self.nodes[replica].stream.clear();
        // Nobody votes for a replica whose table is behind.
        for tag in 0..self.keys.tags() {
            self.learn(replica, tag, self.claim(tag, 0..self.nodes.len()));
        }
        let mut claims = Vec::new();
        for tag in (0..self.keys.tags()).filter(|tag| self.owner(*tag) == Some(old)).collect::<Vec<_>>() {
            let claim = self.new_claim(Some(replica));
            self.learn(replica, tag, claim);
            claims.push((tag, claim));
            for key in Keyspace::of_tag(tag) {
                if self.truth.latest(key) != self.value(replica, key) {
                    let value = self.value(replica, key).cloned();
                    self.truth.change(key, value, By::Rollback, now);
                }
            }
        }
        // What it has not heard to be gone with its slot is deleted, as by `delKeysInSlot`.
        self.nodes[replica].store.retain(|key, _| claims.iter().any(|(tag, _)| *tag == key.tag()));
        let data = self.nodes[replica].store.clone();
        for node in self.replicas(old).into_iter().chain([old]) {
            self.nodes[node].master = Some(replica);
            self.nodes[node].store.clone_from(&data);
            self.nodes[node].stream.clear();
        }
        claims
    }

    /// The fake's own promise: the owner of a slot has what its keys' newest versions say.
    pub(crate) fn is_consistent(&self, tag: usize) -> bool {
        let owner = self.owner(tag);
        let agrees = |key: Key| owner.is_none_or(|owner| self.value(owner, key) == self.truth.latest(key));
        Keyspace::of_tag(tag).all(agrees)
    }
}

fn store(store: &mut BTreeMap<Key, Vec<u8>>, key: Key, value: Option<Vec<u8>>) {
    match value {
        Some(value) => {
            store.insert(key, value);
        }
        None => {
            store.remove(&key);
        }
    }
}
