//! When a batch leaves for its node: at once, unless the node is strained.
//!
//! A node that is short of CPU (a container's quota, a full core) spends most of it on waking up for few commands at a
//! time. So after a batch that took much longer than the connection's fastest, while many waited, batches wait a moment for
//! more, for as long as that one took, or until one waited in vain. A node that is far away, quick, or has few clients is not
//! strained. Must not know: bytes, clients, any clock.
//!
//! ```text
//!            a batch took long, many waited             as long again, or a batch for which no more came
//!   at ease -------------------------------> strained ---------------------------------------------------> at ease
//!                                               |
//!                    a batch waits PACE_TIME, or until half as many are queued as waited
//! ```

use crate::limits::{CROWD, PACE_TIME, STRAIN};
use crate::time::Time;

/// What one connection knows about the ease of its node.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When the batch left that is being timed.
    since: Time,
    /// Replies until it is answered, those to commands before it among them; zero: none is timed.
    owed: usize,
    /// The least time that a batch took, in microseconds.
    fastest: u64,
    /// The node is strained until then.
    strained: Time,
    /// A batch of so many waits for no more.
    enough: usize,
    /// When the batch that waits must leave.
    due: Option<Time>,
    /// How many commands it had when it began to wait.
    began: usize,
}

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It leaves now.
    Leave,
    /// It waits from now on, and must leave at this time.
    Wait(Time),
    /// It waits already.
    Stay,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            since: Time::default(),
            owed: 0,
            fastest: u64::MAX,
            strained: Time::default(),
            enough: 0,
            due: None,
            began: 0,
        }
    }

    /// Whether a batch of `count` commands leaves now, when `unanswered` are owed, its own among them.
    #[inline(always)]
    pub(crate) fn turn(&mut self, count: usize, unanswered: usize, now: Time) -> Turn {
        if now < self.strained && count < self.enough {
            match self.due {
                Some(due) if now < due => return Turn::Stay,
                // Those who waited have left: the others gain nothing by waiting.
                Some(_) if count == self.began => self.strained = now,
                Some(_) => {}
                None => {
                    let due = now.after(PACE_TIME);
                    self.due = Some(due);
                    self.began = count;
                    return Turn::Wait(due);
                }
            }
        }
        self.due = None;
        // With nothing before it, what is still timed was taken elsewhere.
        if self.owed == 0 || count == unanswered {
            self.since = now;
            self.owed = unanswered;
        }
        Turn::Leave
    }

    /// The node answered `count` of the `waiting` commands that were unanswered or queued.
    #[inline(always)]
    pub(crate) fn answered(&mut self, count: usize, waiting: usize, now: Time) {
        if self.owed > count {
            self.owed -= count;
        } else if self.owed > 0 {
            self.owed = 0;
            self.learn(waiting, now);
        }
    }

    /// The batch that was timed is answered.
    #[inline(always)]
    fn learn(&mut self, waiting: usize, now: Time) {
        let took = now.micros_since(self.since);
        self.fastest = self.fastest.min(took);
        if waiting >= CROWD && took - self.fastest >= STRAIN.as_micros() as u64 {
            self.strained = now.after(now.since(self.since));
            self.enough = waiting / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn commands_that_were_taken_elsewhere_are_not_timed() {
        let mut pace = Pace::new();
        let start = Time::default();
        pace.turn(1, 1, start);
        pace.answered(1, 1, start);
        pace.turn(CROWD, CROWD, start);
        // They were sent over another connection; this one is used again a second later.
        let later = start.after(Duration::from_secs(1));
        for _ in 0..2 {
            pace.turn(CROWD, CROWD, later);
            pace.answered(CROWD, CROWD, later);
        }
        assert_eq!(pace.turn(1, 1, later), Turn::Leave);
    }

    #[test]
    fn each_batch_has_a_wait_of_its_own() {
        let mut pace = Pace::new();
        let strain = |pace: &mut Pace, start: Time| {
            pace.turn(CROWD, CROWD, start);
            let end = start.after(STRAIN);
            pace.answered(CROWD, CROWD, end);
            end
        };
        pace.turn(1, 1, Time::default());
        pace.answered(1, 1, Time::default());
        let strained = strain(&mut pace, Time::default());
        // This batch leaves because the node is at ease again, before its wait is over.
        let late = strained.after(STRAIN - Duration::from_micros(1));
        assert_eq!(pace.turn(1, 1, late), Turn::Wait(late.after(PACE_TIME)));
        let eased = strained.after(STRAIN);
        assert_eq!(pace.turn(1, 1, eased), Turn::Leave);
        pace.answered(1, 1, eased);
        let again = strain(&mut pace, eased.after(PACE_TIME));
        assert_eq!(pace.turn(1, 1, again), Turn::Wait(again.after(PACE_TIME)));
    }
}
