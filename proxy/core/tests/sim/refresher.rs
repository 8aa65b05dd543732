//! The topology refresher: it asks nodes for their opinions, and tells the engine, late.

use std::time::Duration;

use tsubaki_core::time::Time;
use tsubaki_core::topology::{Shard, Topology};

use crate::cluster::Cluster;
use crate::event::Event;
use crate::trouble::Trouble;
use crate::world::World;

/// A view of the cluster, as the topology refresher would put it together.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) fetched: u64,
    /// By tag.
    pub(crate) owners: Vec<Option<usize>>,
    /// By node, of those that own something.
    pub(crate) replicas: Vec<Vec<usize>>,
}

impl World {
    /// Asks some nodes, the one that the engine names first, for their opinions.
    pub(crate) fn fetch(&mut self, hint: Option<usize>) {
        let answers = |world: &Self, node: usize| {
            world.cluster.nodes[node].up && world.cluster.nodes[node].stalled_until <= world.now
        };
        let mut asked: Vec<usize> =
            (0..self.cluster.nodes.len()).filter(|node| answers(self, *node)).collect();
        self.rng.shuffle(&mut asked);
        asked.truncate(1 + self.rng.below(3));
        asked.extend(hint.filter(|node| answers(self, *node)));
        if asked.is_empty() {
            self.troubles.last(Trouble::NoView, self.now);
            self.at(self.now + 50_000, Event::Fetch(hint));
            return;
        }
        let tags = 0..self.cluster.keys.tags();
        let owners: Vec<_> = tags.map(|tag| self.cluster.claim(tag, asked.iter().copied()).owner).collect();
        let replicas =
            |node| if owners.contains(&Some(node)) { self.cluster.replicas(node) } else { Vec::new() };
        let replicas = (0..self.cluster.nodes.len()).map(replicas).collect();
        let view = View { fetched: self.now, owners, replicas };
        if self.old_view.is_none() || self.rng.percent(10) {
            self.old_view = Some(view.clone());
        }
        let pause = self.rng.delay(self.chaos.fetching);
        self.at(self.now + pause, Event::Viewed(view));
        self.fetching = false;
    }

    pub(crate) fn viewed(&mut self, view: &View) {
        if self.seen.views == 0 {
            self.troubles.end(Trouble::NoView, self.now);
        }
        self.seen.views += 1;
        self.routing.viewed(view, self.now);
        let shards =
            (0..self.cluster.nodes.len()).filter(|node| view.owners.contains(&Some(*node))).map(|node| {
                Shard {
                    master: Cluster::address(node),
                    replicas: view.replicas[node].iter().map(|replica| Cluster::address(*replica)).collect(),
                    slots: (0..view.owners.len())
                        .filter(|tag| view.owners[*tag] == Some(node))
                        .map(|tag| (self.cluster.keys.slot(tag), self.cluster.keys.slot(tag)))
                        .collect(),
                }
            });
        let fetched = Time::new(Duration::from_micros(view.fetched));
        let topology = Topology { fetched, shards: shards.collect(), redis_version: None };
        self.worker.handle_topology(&topology, self.time());
    }
}
