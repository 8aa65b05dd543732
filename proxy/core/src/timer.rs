//! What is due when. Entries are never removed: whoever is woken looks whether there is something to do.
//!
//! Must not know: any clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;
use crate::worker::HoldId;
use crate::{BackendId, ClientId};

/// Who is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// A connection: is its handshake through, has its node spoken?
    Backend(BackendId),
    /// A connection that was not ready: have commands waited too long for it?
    Unsent(BackendId),
    /// A connection whose node is strained: its batch has waited long enough for more.
    Batch(BackendId),
    /// A client that was stopped in a burst: it may go on.
    Client(ClientId),
    /// A hold: may its first command go, has it waited too long?
    Hold(HoldId),
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

#[derive(Debug)]
struct Entry {
    at: Time,
    /// Entries of one moment come out in the order in which they went in.
    order: u64,
    due: Due,
}

impl Timers {
    pub(crate) fn add(&mut self, at: Time, due: Due) {
        self.count += 1;
        self.heap.push(Reverse(Entry { at, order: self.count, due }));
    }

    /// The next moment at which something is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes out one thing that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.due)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
