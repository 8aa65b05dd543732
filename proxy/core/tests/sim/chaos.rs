//! What goes wrong, and when: each seed draws the kinds of mischief that it knows.

use crate::cluster::Cluster;
use crate::event::Event;
use crate::rng::Rng;
use crate::trouble::Trouble;
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mischief {
    Cut,
    CutReply,
    BlackHole,
    Stall,
    Crash,
    PowerOff,
    Refuse,
    Full,
    Move,
    Failover,
    ClusterDown,
    Unassign,
    LoadReplica,
    StaleView,
}

const ALL: [Mischief; 14] = [
    Mischief::Cut,
    Mischief::CutReply,
    Mischief::BlackHole,
    Mischief::Stall,
    Mischief::Crash,
    Mischief::PowerOff,
    Mischief::Refuse,
    Mischief::Full,
    Mischief::Move,
    Mischief::Failover,
    Mischief::ClusterDown,
    Mischief::Unassign,
    Mischief::LoadReplica,
    Mischief::StaleView,
];

/// What this seed may do to its world.
pub(crate) struct Chaos {
    kinds: Vec<Mischief>,
    /// Microseconds between two of them.
    pace: u64,
    pub(crate) leavers: bool,
    pub(crate) slow_readers: bool,
    /// So many of a hundred values are long.
    pub(crate) long_values: u64,
    /// Slots change hands in the order that makes two nodes point at each other.
    pub(crate) wrong_order: bool,
    /// How long the others take to hear of a new owner, about.
    pub(crate) gossip: u64,
    /// How long a view is under way, about.
    pub(crate) fetching: u64,
    /// How long each node takes until it looks at its connections, about, and how much it then runs of one at most.
    pub(crate) slowness: Vec<u64>,
    pub(crate) batch: usize,
    /// Nodes that were switched off: nothing answers, not even a refusal.
    dark_until: Vec<(usize, u64)>,
}

impl Chaos {
    pub(crate) fn new(rng: &mut Rng, nodes: usize) -> Self {
        let share = rng.pick(&[0, 20, 50, 80]);
        let mut kinds: Vec<Mischief> = ALL.into_iter().filter(|_| rng.percent(share)).collect();
        // Slots on the move are what a cluster proxy is about.
        if rng.percent(50) {
            kinds.extend([Mischief::Move; 4]);
        }
        if rng.percent(20) {
            kinds.extend([Mischief::CutReply; 5]);
        }
        Self {
            kinds,
            pace: rng.pick(&[3_000, 15_000, 60_000]),
            leavers: rng.percent(50),
            slow_readers: rng.percent(30),
            long_values: rng.pick(&[4, 4, 25]),
            wrong_order: rng.percent(30),
            gossip: rng.pick(&[0, 2_000, 60_000]),
            fetching: rng.pick(&[1_000, 20_000]),
            slowness: (0..nodes).map(|_| rng.pick(&[60, 4_000])).collect(),
            batch: rng.pick(&[2, 20]),
            dark_until: Vec::new(),
        }
    }

    pub(crate) fn is_dark(&self, node: usize, now: u64) -> bool {
        self.dark_until.iter().any(|(dark, until)| *dark == node && *until > now)
    }
}

impl World {
    pub(crate) fn make_chaos(&mut self) {
        if self.mended || self.chaos.kinds.is_empty() {
            return;
        }
        let kind = self.rng.pick(&self.chaos.kinds);
        let node = self.rng.below(self.cluster.nodes.len());
        self.trace(|| format!("  {kind:?} {node}"));
        match kind {
            Mischief::Cut => self.cut_some(node),
            Mischief::CutReply => self.cut_replies(),
            Mischief::BlackHole => self.black_hole(node),
            Mischief::Stall => self.stall(node),
            Mischief::Crash => self.crash(node, false),
            Mischief::PowerOff => self.crash(node, true),
            Mischief::Refuse => {
                self.refuse_until[node] = self.now + self.rng.between(1_000, 500_000);
                self.troubles.last(Trouble::Link, self.refuse_until[node]);
            }
            Mischief::Full => {
                self.full_until[node] = self.now + self.rng.between(1_000, 500_000);
                self.troubles.last(Trouble::Link, self.full_until[node]);
            }
            Mischief::Move => self.begin_migration(),
            Mischief::Failover => self.fail_over(node),
            Mischief::ClusterDown => {
                self.cluster.nodes[node].down_until = self.now + self.rng.delay(30_000);
                self.troubles.last(Trouble::Down, self.cluster.nodes[node].down_until);
            }
            Mischief::Unassign => self.unassign(),
            Mischief::LoadReplica => {
                if self.cluster.nodes[node].master.is_some() {
                    self.load(node, 100_000);
                }
            }
            Mischief::StaleView => {
                if let Some(view) = self.old_view.clone() {
                    self.troubles.last(Trouble::Disagreement, self.now + 200_000);
                    self.at(self.now, Event::Viewed(view));
                }
            }
        }
        let pause = self.rng.delay(self.chaos.pace);
        self.at(self.now + pause, Event::Chaos);
    }

    /// Everything is mended, and stays so.
    pub(crate) fn mend_everything(&mut self) {
        let now = self.now;
        self.chaos.dark_until.clear();
        self.refuse_until.fill(0);
        self.full_until.fill(0);
        for node in 0..self.cluster.nodes.len() {
            self.cluster.nodes[node].stalled_until = 0;
            self.cluster.nodes[node].down_until = 0;
            self.restart(node);
            self.cluster.nodes[node].loading_until = 0;
            self.at(now + 1, Event::NodeTurn(node));
        }
        for link in 0..self.links.len() {
            self.heal(link);
        }
        for client in 0..self.clients.len() {
            self.at(now + 1, Event::ReadAgain(client, self.clients[client].connection));
        }
    }

    fn links_to(&self, node: usize) -> Vec<usize> {
        (0..self.links.len())
            .filter(|link| self.links[*link].node == node && !self.links[*link].closed)
            .collect()
    }

    fn cut_some(&mut self, node: usize) {
        for link in self.links_to(node) {
            if self.links[link].open && self.rng.percent(60) {
                self.cut(link);
            }
        }
    }

    /// Cuts connections in the middle of a long reply, also where the engine does not read it for now.
    fn cut_replies(&mut self) {
        const LONG: usize = 1_000;
        for link in 0..self.links.len() {
            let it = &self.links[link];
            if it.open && !it.closed && (it.paused || it.down.in_flight() > LONG) {
                self.cut(link);
            }
        }
    }

    fn black_hole(&mut self, node: usize) {
        let until = self.now + self.rng.between(1_000, 2 * self.settings.silence_timeout.as_micros() as u64);
        self.troubles.last(Trouble::Link, until);
        for link in self.links_to(node) {
            if self.links[link].open {
                self.links[link].black = true;
                // Some never heal: only a new connection gets through.
                if self.rng.percent(60) {
                    self.at(until, Event::Heal(link));
                } else {
                    self.links[link].lost = true;
                }
            }
        }
    }

    pub(crate) fn heal(&mut self, link: usize) {
        let it = &mut self.links[link];
        if !it.black || it.lost || self.chaos.is_dark(it.node, self.now) {
            return;
        }
        it.black = false;
        if !it.open && !it.closed {
            self.at(self.now + 1, Event::Dialed(link, None));
        }
        for piece in std::mem::take(&mut self.links[link].up.kept) {
            self.up(link, piece);
        }
        for piece in std::mem::take(&mut self.links[link].down.kept) {
            self.down(link, piece);
        }
    }

    fn stall(&mut self, node: usize) {
        let until = self.now + self.rng.between(1_000, 2 * self.settings.silence_timeout.as_micros() as u64);
        self.cluster.nodes[node].stalled_until = until;
        self.troubles.last(Trouble::Link, until);
        self.maybe_replace(node);
    }

    /// A node's process ends and comes back; `dark`: with its host, which then says nothing at all.
    fn crash(&mut self, node: usize, dark: bool) {
        if !std::mem::replace(&mut self.cluster.nodes[node].up, false) {
            return;
        }
        self.troubles.begin(Trouble::Link);
        let back = self.now + self.rng.between(5_000, 1_500_000);
        if dark {
            self.chaos.dark_until.push((node, back));
        }
        for link in self.links_to(node) {
            self.links[link].session.input.clear();
            if dark {
                self.links[link].black = true;
                self.links[link].node_closed = true;
            } else if self.links[link].open {
                let left = self.rng.below(self.links[link].down.in_flight() + 1);
                self.node_closes(link, left);
            }
        }
        self.at(back, Event::Restart(node));
        self.maybe_replace(node);
    }

    pub(crate) fn restart(&mut self, node: usize) {
        if std::mem::replace(&mut self.cluster.nodes[node].up, true) {
            return;
        }
        self.troubles.end(Trouble::Link, self.now);
        self.load(node, 50_000);
        for link in self.links_to(node) {
            // A connection from before is not known to the new process, and its first bytes are refused.
            if std::mem::take(&mut self.links[link].black) {
                self.links[link].node_closed = true;
                let pause = self.rng.delay(500);
                self.at(self.now + pause, Event::LinkClosed(link));
            }
        }
    }

    fn load(&mut self, node: usize, typical: u64) {
        let until = self.now + self.rng.delay(typical);
        self.cluster.nodes[node].loading_until = until;
        self.troubles.last(Trouble::Loading, until);
    }

    fn unassign(&mut self) {
        let tag = self.rng.below(self.cluster.keys.tags());
        let (Some(owner), false) = (self.cluster.owner(tag), self.is_moving(tag)) else { return };
        self.troubles.last(Trouble::Down, self.now + 400_000);
        self.troubles.last(Trouble::Move, self.now + 400_000);
        let (none, again) = (self.cluster.new_claim(None), self.cluster.new_claim(Some(owner)));
        let later = self.now + self.rng.between(1_000, 300_000);
        for node in 0..self.cluster.nodes.len() {
            self.cluster.learn(node, tag, none);
            self.at(later, Event::Hear(node, tag, again));
        }
    }

    /// Someone notices that a master is gone, and one of its replicas takes over.
    fn maybe_replace(&mut self, master: usize) {
        let replicas = self.cluster.replicas(master);
        if replicas.is_empty() || self.rng.percent(50) {
            return;
        }
        let replica = self.rng.pick(&replicas);
        let pause = self.rng.between(1_000, 800_000);
        self.at(self.now + pause, Event::Promote(replica, false));
    }

    /// A manual failover: nothing is lost.
    fn fail_over(&mut self, master: usize) {
        let ready = |world: &Self, node: usize| {
            world.cluster.nodes[node].up && world.cluster.nodes[node].stalled_until <= world.now
        };
        let replicas: Vec<usize> =
            self.cluster.replicas(master).into_iter().filter(|node| ready(self, *node)).collect();
        if !replicas.is_empty() && ready(self, master) {
            let replica = self.rng.pick(&replicas);
            self.promote(replica, true);
        }
    }

    pub(crate) fn promote(&mut self, replica: usize, whole: bool) {
        let Some(old) = self.cluster.nodes[replica].master else { return };
        let alive =
            |node: usize| self.cluster.nodes[node].up && self.cluster.nodes[node].stalled_until <= self.now;
        let wanted = alive(replica) && (whole || !alive(old));
        let is_settled = (0..self.cluster.keys.tags()).all(|tag| self.cluster.owner(tag).is_some());
        if !wanted || !is_settled || self.has_part_in_a_move(old) {
            return;
        }
        self.trace(|| format!("  {} takes over from {}", Cluster::address(replica), Cluster::address(old)));
        self.troubles.last(Trouble::Move, self.now + 30 * self.chaos.gossip + 300_000);
        self.troubles.last(Trouble::Disagreement, self.now + 30 * self.chaos.gossip + 300_000);
        self.troubles.last(Trouble::Demotion, self.now + 30 * self.chaos.gossip + 300_000);
        for (tag, claim) in self.cluster.promote(replica, whole, self.now) {
            self.spread(tag, claim);
        }
    }
}
