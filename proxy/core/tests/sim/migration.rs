//! A slot on its way from one node to another: key by key, as `redis-cli --cluster reshard` does it.

use crate::cluster::{Claim, Cluster};
use crate::event::Event;
use crate::keys::{Key, Keyspace};
use crate::trouble::Trouble;
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Import,
    Migrate,
    Keys,
    /// The first of the two nodes hears that it is done.
    First,
    Second,
    Over,
}

pub(crate) struct Migration {
    tag: usize,
    from: usize,
    to: usize,
    step: Step,
    keys: Vec<Key>,
    /// Ends half way, and the keys go back.
    gives_up: bool,
    claim: Option<Claim>,
}

impl Migration {
    pub(crate) fn is_over(&self) -> bool {
        self.step == Step::Over
    }
}

impl World {
    pub(crate) fn is_moving(&self, tag: usize) -> bool {
        self.migrations.iter().any(|migration| migration.tag == tag && !migration.is_over())
    }

    pub(crate) fn has_part_in_a_move(&self, node: usize) -> bool {
        let mut under_way = self.migrations.iter().filter(|migration| !migration.is_over());
        under_way.any(|migration| migration.from == node || migration.to == node)
    }

    pub(crate) fn begin_migration(&mut self) {
        let tag = if self.rng.percent(50) { 0 } else { self.rng.below(self.cluster.keys.tags()) };
        let masters: Vec<usize> =
            (0..self.cluster.nodes.len()).filter(|node| self.cluster.nodes[*node].master.is_none()).collect();
        let to = self.rng.pick(&masters);
        let Some(from) = self.cluster.owner(tag).filter(|from| *from != to && !self.is_moving(tag)) else {
            return;
        };
        if self.cluster.nodes[from].table[tag].owner != Some(from) {
            return;
        }
        let mut keys: Vec<Key> = Keyspace::of_tag(tag).collect();
        self.rng.shuffle(&mut keys);
        let gives_up = self.rng.percent(15);
        self.migrations.push(Migration { tag, from, to, step: Step::Import, keys, gives_up, claim: None });
        self.troubles.begin(Trouble::Move);
        self.seen.moves += 1;
        self.at(self.now, Event::Migrate(self.migrations.len() - 1));
    }

    pub(crate) fn migrate(&mut self, number: usize) {
        let it = &self.migrations[number];
        let (tag, from, to) = (it.tag, it.from, it.to);
        let busy =
            |node: usize| !self.cluster.nodes[node].up || self.cluster.nodes[node].stalled_until > self.now;
        if busy(from) || busy(to) {
            self.at(self.now + 20_000, Event::Migrate(number));
            return;
        }
        let next = match it.step {
            Step::Import => {
                self.cluster.nodes[to].importing[tag] = Some(from);
                Step::Migrate
            }
            Step::Migrate => {
                self.cluster.nodes[from].migrating[tag] = Some(to);
                Step::Keys
            }
            Step::Keys => self.migrate_key(number),
            Step::First => {
                self.hand_over(number, !self.chaos.wrong_order);
                Step::Second
            }
            Step::Second => {
                self.hand_over(number, self.chaos.wrong_order);
                self.troubles.end(Trouble::Move, self.now);
                for kind in [Trouble::Move, Trouble::Disagreement] {
                    self.troubles.last(kind, self.now + 30 * self.chaos.gossip);
                }
                Step::Over
            }
            Step::Over => return,
        };
        self.migrations[number].step = next;
        let pause = match next {
            Step::Keys if self.rng.percent(10) => self.rng.between(1_000, 2_000_000),
            Step::Second if self.rng.percent(20) => self.rng.between(1_000, 1_000_000),
            _ => self.rng.delay(2_000),
        };
        self.at(self.now + pause, Event::Migrate(number));
    }

    fn migrate_key(&mut self, number: usize) -> Step {
        let it = &mut self.migrations[number];
        let (tag, from, to) = (it.tag, it.from, it.to);
        if it.gives_up && it.keys.len() < 3 {
            // The keys go back, and then nobody ever heard of it.
            for key in Keyspace::of_tag(tag) {
                self.cluster.migrate_key(key, to, from, self.now);
            }
            self.cluster.nodes[from].migrating[tag] = None;
            self.cluster.nodes[to].importing[tag] = None;
            self.troubles.end(Trouble::Move, self.now);
            return Step::Over;
        }
        match it.keys.pop() {
            Some(key) => {
                self.cluster.migrate_key(key, from, to, self.now);
                Step::Keys
            }
            None => Step::First,
        }
    }

    /// `CLUSTER SETSLOT … NODE`, on the node that takes the slot or on the one that gives it.
    fn hand_over(&mut self, number: usize, on_taker: bool) {
        let (tag, from, to) =
            (self.migrations[number].tag, self.migrations[number].from, self.migrations[number].to);
        let claim = match self.migrations[number].claim {
            Some(claim) => {
                self.troubles.end(Trouble::Disagreement, self.now);
                claim
            }
            None => {
                self.troubles.begin(Trouble::Disagreement);
                self.cluster.new_claim(Some(to))
            }
        };
        self.migrations[number].claim = Some(claim);
        if on_taker {
            self.cluster.nodes[to].importing[tag] = None;
            self.cluster.learn(to, tag, claim);
            self.spread(tag, claim);
        } else {
            self.cluster.nodes[from].migrating[tag] = None;
            self.cluster.learn(from, tag, claim);
        }
        self.trace(|| format!("  tag {tag} now belongs to {}", Cluster::address(to)));
    }

    /// The other nodes hear of a claim, each in its time.
    pub(crate) fn spread(&mut self, tag: usize, claim: Claim) {
        for node in 0..self.cluster.nodes.len() {
            let pause = self.rng.delay(1 + self.chaos.gossip);
            self.at(self.now + pause, Event::Hear(node, tag, claim));
        }
    }
}
