//! The commands of one client on one slot that wait: refused ones that go again, and those behind them.
//!
//! While a hold exists, every command of its client on its slot passes through it, one destination at a time, so none
//! overtakes an earlier one on the same key (C8). Must not know: nodes' health, sockets, what is in the cluster.
//!
//! ```text
//!   refused ---+                                     +--> answered for good
//!   new -------+--> queue (by request number) --> in flight --> refused again: back into the queue
//!                   leaves only while nothing is in flight      nothing queued, nothing in flight: the hold ends
//! ```

use std::collections::VecDeque;

use ahash::RandomState;
use tsubaki_protocol::command::Command;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::request::{RequestLimits, RequestScan, RequestScanner};

use crate::ClientId;
use crate::backend::Ticket;
use crate::limits::ASK_LIFE;
use crate::map::NodeId;
use crate::retry;
use crate::time::Time;

#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: ClientId,
    pub(crate) slot: u16,
    /// Commands at nodes that this hold waits for.
    pub(crate) in_flight: usize,
    pub(crate) queue: VecDeque<Held>,
    /// When a timer will look at it next.
    pub(crate) wake: Option<Time>,
}

/// One waiting command.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) ticket: Ticket,
    pub(crate) request: Vec<u8>,
    pub(crate) keys: KeySet,
    /// Where an ASK pointed; by the map otherwise.
    pub(crate) ask: Option<NodeId>,
    pub(crate) not_before: Time,
    /// What to tell the client if nothing better comes: the node's own refusal.
    pub(crate) refusal: Option<Vec<u8>>,
}

impl Hold {
    pub(crate) fn new(client: ClientId, slot: u16) -> Self {
        Self { client, slot, in_flight: 0, queue: VecDeque::new(), wake: None }
    }

    /// Queues a command in the order of its client's requests.
    pub(crate) fn put(&mut self, held: Held) {
        let later =
            self.queue.iter().rev().take_while(|other| is_later(other.ticket.seq, held.ticket.seq)).count();
        self.queue.insert(self.queue.len() - later, held);
    }
}

impl Held {
    /// A command that may go from `not_before` on.
    pub(crate) fn new(ticket: Ticket, request: Vec<u8>, not_before: Time) -> Self {
        let keys = KeySet::of(&request);
        Self { ticket, request, keys, ask: None, not_before, refusal: None }
    }

    /// A node named another: go there.
    pub(crate) fn follow(&mut self, now: Time) {
        self.ticket.redirects += 1;
        self.not_before = now.after(retry::pause(self.ticket.redirects, true));
    }

    /// Forgets an ASK that could not be followed soon enough, and does not count it as a redirect. False: there is none.
    pub(crate) fn forget_old_ask(&mut self, now: Time) -> bool {
        let is_old = self.ask.is_some() && now.since(self.not_before) > ASK_LIFE;
        if is_old {
            self.ask = None;
            self.ticket.redirects = self.ticket.redirects.saturating_sub(1);
        }
        is_old
    }

    /// A node refused without naming another: try again later.
    pub(crate) fn put_off(&mut self, now: Time) {
        self.ticket.refusals = self.ticket.refusals.saturating_add(1);
        self.not_before = now.after(retry::pause(self.ticket.refusals, false));
    }
}

/// The keys of a command, as sorted hashes; `None`: not known, so it may be any.
#[derive(Debug)]
pub(crate) struct KeySet(Option<Vec<u64>>);

impl KeySet {
    /// Looked at only where something waits, so that the request is scanned once more.
    pub(crate) fn of(request: &[u8]) -> Self {
        let mut scanner = RequestScanner::new();
        let Ok(RequestScan::Array { .. }) = scanner.scan(request, &RequestLimits::default()) else {
            return Self(None);
        };
        let args = Args::new(request, scanner.spans());
        let mut keys = Vec::new();
        let found = Command::resolve(&args).is_ok_and(|command| command.keys(&args, &mut keys).is_ok());
        if !found || keys.is_empty() {
            return Self(None);
        }
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        let mut hashes: Vec<u64> =
            keys.iter().filter_map(|key| args.at(*key as usize)).map(|key| hasher.hash_one(key)).collect();
        hashes.sort_unstable();
        Self(Some(hashes))
    }

    /// True if both may name the same key. Two keys of one hash, one pair in 2^64, count as the same.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (Some(mine), Some(others)) = (&self.0, &other.0) else { return true };
        let (mut mine, mut others) = (mine.iter().peekable(), others.iter().peekable());
        while let (Some(a), Some(b)) = (mine.peek(), others.peek()) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => mine.next(),
                std::cmp::Ordering::Greater => others.next(),
                std::cmp::Ordering::Equal => return true,
            };
        }
        false
    }
}

/// True if request number `a` came after `b`; numbers wrap.
pub(crate) fn is_later(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(command: &[&str]) -> KeySet {
        let mut request = Vec::new();
        tsubaki_protocol::resp::write::command(&mut request, command.iter().map(|arg| arg.as_bytes()));
        KeySet::of(&request)
    }

    #[test]
    fn commands_meet_on_a_key_or_if_their_keys_are_not_known() {
        let mset = keys(&["MSET", "a", "1", "b", "2", "c", "3"]);
        assert!(mset.meets(&keys(&["GET", "b"])));
        assert!(keys(&["DEL", "x", "c"]).meets(&mset));
        assert!(!mset.meets(&keys(&["MGET", "1", "2", "3", "d"])));
        assert!(mset.meets(&keys(&["EVAL", "return 1", "0"])));
        assert!(KeySet::of(b"garbage").meets(&mset));
    }

    #[test]
    fn request_numbers_are_ordered_across_their_wrap() {
        assert!(is_later(2, 1));
        assert!(!is_later(1, 1));
        assert!(is_later(0, u32::MAX));
        assert!(!is_later(u32::MAX - 5, 5));
    }
}
