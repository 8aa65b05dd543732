//! What the refresher remembers from fetch to fetch: the newest view, who belongs to the cluster, which node runs what.
//!
//! Must not know: sockets, how the answers came. A pure state machine.

use std::collections::{BTreeMap, BTreeSet};

use tsubaki_core::time::Time;
use tsubaki_core::topology::{AddressMap, Topology, View, merge};

use super::node::Answer;

/// Fetches in a row in which only strangers answer until they are believed: the cluster was rebuilt under its old addresses.
const STRANGERS: u32 = 5;

#[derive(Default)]
pub(super) struct Known {
    pub(super) topology: Topology,
    /// The views that it was made of.
    views: Vec<View>,
    /// The ids of the cluster's nodes.
    ids: BTreeSet<String>,
    /// What each node that was asked said of its version, by address.
    versions: BTreeMap<String, String>,
    /// Fetches so far; another node is asked first each time.
    turn: usize,
    /// Fetches in a row that only strangers answered.
    strange: u32,
}

/// What became of a fetch's answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    /// The view is newer now. Whether it changed, and who answered but is no part of the cluster.
    View { changed: bool, strangers: Vec<String> },
    /// Only strangers answered; what was known stays.
    OnlyStrangers(Vec<String>),
}

impl Known {
    /// Takes in the answers of a fetch that began at `fetched`, by the address of who gave them. At least one.
    ///
    /// An address can be given to a node of another cluster, or to a blank one. Such a view shares no node with what is
    /// known, and must not win by a higher epoch.
    pub(super) fn learn(
        &mut self,
        answers: Vec<(String, Answer)>,
        addresses: &AddressMap,
        fetched: Time,
    ) -> Learnt {
        let any_known = answers.iter().any(|(_, answer)| self.is_ours(&answer.view));
        if !any_known && self.strange + 1 < STRANGERS {
            self.strange += 1;
            return Learnt::OnlyStrangers(answers.into_iter().map(|(address, _)| address).collect());
        }
        if !any_known {
            *self = Self { turn: self.turn, ..Self::default() };
        }
        self.strange = 0;
        let mut views = Vec::with_capacity(answers.len());
        let mut strangers = Vec::new();
        for (address, Answer { view, version }) in answers {
            if self.is_ours(&view) {
                self.ids.extend(view.nodes.iter().map(|node| node.id.clone()));
                self.versions.extend(version.map(|version| (address, version)));
                views.push(view);
            } else {
                strangers.push(address);
            }
        }
        self.ids = views.iter().flat_map(|view| &view.nodes).map(|node| node.id.clone()).collect();
        let mut topology = merge(&views, &self.views, addresses, fetched);
        topology.redis_version = self.lowest_version(&topology);
        let changed = topology.shards != self.topology.shards;
        self.topology = topology;
        self.views = views;
        Learnt::View { changed, strangers }
    }

    /// Whom to ask, in order: those whom redirects named, then masters and replicas, beginning with another each time.
    pub(super) fn candidates(&mut self, hints: &BTreeSet<String>) -> Vec<String> {
        self.turn = self.turn.wrapping_add(1);
        let shards = &self.topology.shards;
        let mut masters: Vec<&String> = shards.iter().map(|shard| &shard.master).collect();
        let mut replicas: Vec<&String> = shards.iter().flat_map(|shard| &shard.replicas).collect();
        for list in [&mut masters, &mut replicas] {
            let by = self.turn % list.len().max(1);
            list.rotate_left(by);
        }
        let mut seen = BTreeSet::new();
        let all = hints.iter().chain(masters).chain(replicas);
        all.filter(|address| seen.insert(*address)).cloned().collect()
    }

    /// True if a view names a node that is known; the first view of all is ours.
    fn is_ours(&self, view: &View) -> bool {
        self.ids.is_empty() || view.nodes.iter().any(|node| self.ids.contains(&node.id))
    }

    /// The lowest version among the nodes; those that left do not count once any other has told.
    fn lowest_version(&mut self, topology: &Topology) -> Option<String> {
        let is_listed = |address: &String| {
            topology.shards.iter().any(|shard| shard.master == *address || shard.replicas.contains(address))
        };
        if self.versions.keys().any(is_listed) {
            self.versions.retain(|address, _| is_listed(address));
        }
        self.versions.values().min_by_key(|version| version_key(version)).cloned()
    }
}

/// `7.0.15` as numbers.
fn version_key(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use tsubaki_protocol::cluster::nodes;

    use super::*;

    /// A view in the words of CLUSTER NODES: id, port, epoch, slots.
    fn answer(nodes: &[(&str, u16, u64, &str)]) -> (String, Answer) {
        let line = |(id, port, epoch, slots): &(&str, u16, u64, &str)| {
            format!("{id:0>40} 10.0.0.1:{port}@1 master - 0 0 {epoch} connected {slots}\n")
        };
        let text: String = nodes.iter().map(line).collect();
        let view = View { host: "10.0.0.1".to_owned(), nodes: nodes::parse(&text).unwrap() };
        (format!("10.0.0.1:{}", nodes[0].1), Answer { view, version: Some("7.0.15".to_owned()) })
    }

    fn learn(known: &mut Known, answers: Vec<(String, Answer)>) -> Learnt {
        known.learn(answers, &AddressMap::default(), Time::default())
    }

    fn owner(known: &Known, slot: u16) -> &str {
        let owns = |(first, last): &(u16, u16)| (*first..=*last).contains(&slot);
        known
            .topology
            .shards
            .iter()
            .find(|shard| shard.slots.iter().any(owns))
            .map_or("nobody", |shard| &shard.master)
    }

    const OURS: [(&str, u16, u64, &str); 2] = [("a", 1, 1, "0-8191"), ("b", 2, 2, "8192-16383")];

    #[test]
    fn a_node_of_another_cluster_at_a_known_address_is_not_believed() {
        let mut known = Known::default();
        learn(&mut known, vec![answer(&OURS)]);
        let stranger = || answer(&[("x", 1, 50, "0-16383")]);
        let learnt = learn(&mut known, vec![stranger(), answer(&OURS)]);
        assert_eq!(learnt, Learnt::View { changed: false, strangers: vec!["10.0.0.1:1".to_owned()] });
        assert_eq!(owner(&known, 9000), "10.0.0.1:2");
        for _ in 1..STRANGERS {
            assert!(matches!(learn(&mut known, vec![stranger()]), Learnt::OnlyStrangers(_)));
            assert_eq!(owner(&known, 9000), "10.0.0.1:2");
        }
        assert!(matches!(learn(&mut known, vec![stranger()]), Learnt::View { changed: true, .. }));
        assert_eq!(owner(&known, 9000), "10.0.0.1:1");
    }

    #[test]
    fn one_stale_answer_undoes_nothing_and_a_second_one_does() {
        let mut known = Known::default();
        let after = [("a", 1, 1, "0-8190"), ("b", 2, 3, "8191-16383")];
        learn(&mut known, vec![answer(&after)]);
        learn(&mut known, vec![answer(&OURS)]);
        assert_eq!(owner(&known, 8191), "10.0.0.1:2");
        learn(&mut known, vec![answer(&OURS)]);
        assert_eq!(owner(&known, 8191), "10.0.0.1:1");
    }

    #[test]
    fn the_nodes_of_redirects_are_asked_first_and_then_each_time_another() {
        let mut known = Known::default();
        learn(&mut known, vec![answer(&OURS)]);
        let hints = BTreeSet::from(["10.0.0.1:9".to_owned()]);
        assert_eq!(known.candidates(&hints), ["10.0.0.1:9", "10.0.0.1:2", "10.0.0.1:1"]);
        assert_eq!(known.candidates(&BTreeSet::new()), ["10.0.0.1:1", "10.0.0.1:2"]);
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        assert!(version_key("7.0.15") < version_key("7.2.4"));
        assert!(version_key("7.2.4") < version_key("10.0.0"));
    }
}
