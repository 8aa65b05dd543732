//! What the world did to the cluster and when: an error reply is right only if there was a reason for it.

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Connections cut, refused, silent; nodes gone or stalled.
    Link,
    /// Slots on the move, or nodes that have not heard who has them.
    Move,
    /// Two nodes that each say the other has the slot, or views that are behind.
    Disagreement,
    /// CLUSTERDOWN.
    Down,
    Loading,
    /// A master that has just become a replica.
    Demotion,
    /// The engine has not been told of any cluster.
    NoView,
}

const COUNT: usize = 7;

#[derive(Default)]
pub(crate) struct Troubles {
    /// Until when each kind lasts, as far as begun.
    until: [Option<u64>; COUNT],
    /// How many of each kind have no known end.
    open: [usize; COUNT],
    /// When node connections ended.
    deaths: Vec<u64>,
}

impl Troubles {
    /// Trouble from now to `until`.
    pub(crate) fn last(&mut self, kind: Trouble, until: u64) {
        let place = &mut self.until[kind as usize];
        *place = (*place).max(Some(until));
    }

    /// Trouble until [`Self::end`].
    pub(crate) fn begin(&mut self, kind: Trouble) {
        self.open[kind as usize] += 1;
    }

    pub(crate) fn end(&mut self, kind: Trouble, now: u64) {
        self.open[kind as usize] -= 1;
        self.last(kind, now);
    }

    pub(crate) fn died(&mut self, now: u64) {
        self.deaths.push(now);
    }

    /// True if there was trouble of this kind at `since` or later.
    pub(crate) fn was(&self, kind: Trouble, since: u64) -> bool {
        self.open[kind as usize] > 0 || self.until[kind as usize].is_some_and(|until| until >= since)
    }

    /// Node connections that ended at `since` or later.
    pub(crate) fn deaths(&self, since: u64) -> usize {
        self.deaths.iter().rev().take_while(|at| **at >= since).count()
    }
}
