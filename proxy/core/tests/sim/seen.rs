//! What the worlds were like: a simulation that never met a fault proves nothing about it.

use tsubaki_core::action::Event;
use tsubaki_core::stats::Stats;

/// How often things happened, over all worlds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) views: u64,
    pub(crate) moves: u64,
    /// Connections lost with bytes that no socket had taken.
    pub(crate) lost_unsent: u64,
    /// Node connections paused for a slow reader.
    pub(crate) paused_links: u64,
    silences: u64,
    cuts: u64,
    limits: u64,
    stats: Stats,
}

impl Seen {
    pub(crate) fn report(&mut self, event: &Event) {
        match event {
            Event::NodeDown { reason, .. } => self.silences += u64::from(reason.contains("silent")),
            Event::OutputLimit { .. } => self.limits += 1,
            Event::ReplyCut { .. } => self.cuts += 1,
            _ => {}
        }
    }

    pub(crate) fn world(&mut self, stats: &Stats) {
        self.stats.add(stats);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.views += other.views;
        self.moves += other.moves;
        self.lost_unsent += other.lost_unsent;
        self.paused_links += other.paused_links;
        self.silences += other.silences;
        self.cuts += other.cuts;
        self.limits += other.limits;
        self.stats.add(&other.stats);
    }

    /// Every happening with its count.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let stats = &self.stats;
        vec![
            ("commands", stats.commands),
            ("views", self.views),
            ("slots moved", self.moves),
            ("MOVED", stats.moved),
            ("ASK", stats.ask),
            ("TRYAGAIN", stats.tryagain),
            ("CLUSTERDOWN", stats.clusterdown),
            ("LOADING", stats.loading),
            ("READONLY", stats.readonly),
            ("MASTERDOWN", stats.masterdown),
            ("commands sent again", stats.retries),
            ("commands overtaken", stats.overtaken),
            ("redirect loops", stats.redirect_loops),
            ("commands lost after their last byte", stats.lost),
            ("connections lost before the last byte", self.lost_unsent),
            ("replies to clients that had left", stats.orphans),
            ("commands that waited too long", stats.wait_timeouts),
            ("nodes given up for their silence", self.silences),
            ("fan-outs", stats.split),
            ("reads from replicas", stats.replica_reads),
            ("large requests", stats.large_requests),
            ("large replies", stats.large_replies),
            ("batches that waited for a strained node", stats.paced_batches),
            ("node connections paused for a slow reader", self.paused_links),
            ("clients closed for a reply that was cut", self.cuts),
            ("clients closed for what they left unread", self.limits),
            ("clients closed for bad protocol", stats.protocol_errors),
        ]
    }
}
