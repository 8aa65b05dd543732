//! The replies that one client is owed, in the order of its requests.
//!
//! Must not know: sockets, nodes, what a reply means. Replies that come early are parked in one buffer until their turn.

use std::collections::VecDeque;

use crate::arena::Id;
use crate::fanout::Fanout;
use crate::limits::{KEEP_CLIENT_BUFFER, PARKED_GARBAGE};

/// The number of a request within its client's connection; wraps around.
pub(crate) type Seq = u32;

#[derive(Debug, Clone, Copy)]
enum Entry {
    /// The reply is yet to come.
    Owed,
    /// The reply is put together from several nodes' replies.
    Split(Id<Fanout>),
    /// The reply came before its turn and lies in the parked bytes.
    Parked { start: u32, len: u32 },
    /// As above, for a large reply, or behind 4 GiB of parked bytes: it keeps its own buffer.
    Large(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    entries: VecDeque<Entry>,
    first: Seq,
    parked: Vec<u8>,
    parked_live: usize,
    large: Vec<Option<Vec<u8>>>,
    large_live: usize,
}

/// Replies of at least this size are parked in a buffer of their own, so that compaction never moves them.
const LARGE: usize = 32 * 1024;

impl Pipeline {
    /// Requests whose reply is not with the client's output yet.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of the oldest request that is not answered, or of the next.
    pub(crate) fn first(&self) -> Seq {
        self.first
    }

    /// The number of the next request.
    pub(crate) fn next(&self) -> Seq {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of replies that wait for their turn.
    pub(crate) fn parked_bytes(&self) -> usize {
        self.parked.len() + self.large_live
    }

    /// Takes the next place in the order.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Seq {
        let seq = self.next();
        self.entries.push_back(Entry::Owed);
        seq
    }

    /// Says that the reply of `seq` comes out of a fan-out.
    pub(crate) fn split(&mut self, seq: Seq, fanout: Id<Fanout>) {
        if let Some(entry) = self.entry(seq) {
            *entry = Entry::Split(fanout);
        }
    }

    /// True if the reply of `seq` is yet to come, and comes from one node.
    pub(crate) fn is_owed(&self, seq: Seq) -> bool {
        matches!(self.entries.get(seq.wrapping_sub(self.first) as usize), Some(Entry::Owed))
    }

    /// True if the reply of `seq` is the next that the client gets, and comes from one node.
    pub(crate) fn is_next(&self, seq: Seq) -> bool {
        seq == self.first && self.is_owed(seq)
    }

    /// True if the reply of `seq` is the next that the client gets.
    pub(crate) fn is_first(&self, seq: Seq) -> bool {
        seq == self.first && !self.entries.is_empty()
    }

    /// The fan-out that `seq` waits for, if it does.
    pub(crate) fn fanout(&self, seq: Seq) -> Option<Id<Fanout>> {
        match self.entries.get(seq.wrapping_sub(self.first) as usize)? {
            Entry::Split(fanout) => Some(*fanout),
            Entry::Owed | Entry::Parked { .. } | Entry::Large(_) => None,
        }
    }

    /// All fan-outs that are not answered.
    pub(crate) fn fanouts(&self) -> impl Iterator<Item = Id<Fanout>> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Split(fanout) => Some(*fanout),
            Entry::Owed | Entry::Parked { .. } | Entry::Large(_) => None,
        })
    }

    /// Gives the reply of `seq`: appended to `out` if it is next, with all that waited behind it, else parked.
    ///
    /// A reply to a request that was answered already is ignored.
    #[inline(always)]
    pub(crate) fn fill(&mut self, seq: Seq, reply: &[u8], out: &mut Vec<u8>) {
        if !self.is_first(seq) {
            self.park(seq, reply);
            return;
        }
        out.extend_from_slice(reply);
        self.pop();
        match self.entries.front() {
            Some(Entry::Owed | Entry::Split(_)) => {}
            Some(Entry::Parked { .. } | Entry::Large(_)) => self.release(out),
            None => self.rest(),
        }
    }

    /// Appends the replies that came before their turn, up to the first that has not come.
    #[inline(never)]
    fn release(&mut self, out: &mut Vec<u8>) {
        while let Some(entry) = self.entries.front() {
            match *entry {
                Entry::Parked { start, len } => {
                    let (start, len) = (start as usize, len as usize);
                    out.extend_from_slice(self.parked.get(start..start + len).unwrap_or_default());
                    self.parked_live -= len;
                }
                Entry::Large(index) => {
                    let reply = self.large.get_mut(index as usize).and_then(Option::take).unwrap_or_default();
                    self.large_live -= reply.len();
                    out.extend_from_slice(&reply);
                }
                Entry::Owed | Entry::Split(_) => return,
            }
            self.pop();
        }
        self.rest();
    }

    /// All replies are out: nothing is parked. Memory that was needed for unusually many or large ones is given back.
    #[inline]
    fn rest(&mut self) {
        let has_parked = self.parked.capacity() > 0 || self.large.capacity() > 0;
        if has_parked || self.entries.capacity() > KEEP_CLIENT_BUFFER / size_of::<Entry>() {
            self.shrink();
        }
    }

    #[inline(never)]
    fn shrink(&mut self) {
        self.parked.clear();
        self.large = Vec::new();
        if self.parked.capacity() > KEEP_CLIENT_BUFFER {
            self.parked = Vec::new();
        }
        if self.entries.capacity() > KEEP_CLIENT_BUFFER / size_of::<Entry>() {
            self.entries = VecDeque::new();
        }
    }

    #[inline(never)]
    fn park(&mut self, seq: Seq, reply: &[u8]) {
        if !matches!(self.entry(seq), Some(Entry::Owed | Entry::Split(_))) {
            return;
        }
        let parked = if reply.len() >= LARGE || self.parked.len() + reply.len() > u32::MAX as usize {
            Entry::Large(self.park_large(reply))
        } else {
            self.compact();
            let start = self.parked.len() as u32;
            self.parked.extend_from_slice(reply);
            self.parked_live += reply.len();
            Entry::Parked { start, len: reply.len() as u32 }
        };
        if let Some(entry) = self.entry(seq) {
            *entry = parked;
        }
    }

    /// Puts a large reply into a free place of `large`, of which there are no more than requests in flight.
    fn park_large(&mut self, reply: &[u8]) -> u32 {
        self.large_live += reply.len();
        let free = self.large.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.large.push(None);
            self.large.len() - 1
        });
        if let Some(place) = self.large.get_mut(index) {
            *place = Some(reply.to_vec());
        }
        index as u32
    }

    /// Moves the live bytes together when more than half are dead; each byte is moved for one that died.
    fn compact(&mut self) {
        if self.parked.len() < PARKED_GARBAGE || self.parked_live > self.parked.len() / 2 {
            return;
        }
        let mut live = Vec::with_capacity(self.parked_live);
        for entry in &mut self.entries {
            if let Entry::Parked { start, len } = entry {
                let from = *start as usize;
                *start = live.len() as u32;
                live.extend_from_slice(self.parked.get(from..from + *len as usize).unwrap_or_default());
            }
        }
        self.parked = live;
    }

    fn entry(&mut self, seq: Seq) -> Option<&mut Entry> {
        self.entries.get_mut(seq.wrapping_sub(self.first) as usize)
    }

    fn pop(&mut self) {
        self.entries.pop_front();
        self.first = self.first.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_the_requests() {
        let mut pipeline = Pipeline::default();
        let mut out = Vec::new();
        let seqs: Vec<Seq> = (0..4).map(|_| pipeline.reserve()).collect();
        pipeline.fill(seqs[2], b"c", &mut out);
        pipeline.fill(seqs[1], b"b", &mut out);
        assert_eq!(out, b"");
        pipeline.fill(seqs[0], b"a", &mut out);
        assert_eq!(out, b"abc");
        pipeline.fill(seqs[2], b"again", &mut out);
        pipeline.fill(seqs[3], b"d", &mut out);
        assert_eq!(out, b"abcd");
        assert!(pipeline.is_empty());
    }

    #[test]
    fn order_holds_when_numbers_wrap_and_parked_bytes_are_moved() {
        let mut pipeline = Pipeline { first: u32::MAX - 500, ..Pipeline::default() };
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        let mut owed = VecDeque::new();
        for round in 0..2000_u32 {
            let reply = vec![(round % 251) as u8; 100 + (round % 7) as usize * 100];
            expected.extend_from_slice(&reply);
            owed.push_back((pipeline.reserve(), reply));
            // The second oldest is answered first, so the pipeline never runs empty and always holds something parked.
            if owed.len() > 64 {
                let (seq, reply) = owed.remove(1).unwrap();
                pipeline.fill(seq, &reply, &mut out);
                if round % 2 == 0 {
                    let (seq, reply) = owed.pop_front().unwrap();
                    pipeline.fill(seq, &reply, &mut out);
                }
            }
        }
        for (seq, reply) in owed {
            pipeline.fill(seq, &reply, &mut out);
        }
        assert_eq!(out, expected);
        assert_eq!(pipeline.parked_bytes(), 0);
    }

    #[test]
    fn a_large_reply_waits_its_turn_too() {
        let mut pipeline = Pipeline::default();
        let mut out = Vec::new();
        let (first, second) = (pipeline.reserve(), pipeline.reserve());
        pipeline.fill(second, &vec![b'x'; LARGE], &mut out);
        assert_eq!(pipeline.parked_bytes(), LARGE);
        pipeline.fill(first, b"a", &mut out);
        assert_eq!(out.len(), LARGE + 1);
        assert_eq!(pipeline.parked_bytes(), 0);
    }

    #[test]
    fn a_pipeline_of_large_replies_that_never_runs_empty_keeps_places_for_those_in_flight_only() {
        let mut pipeline = Pipeline::default();
        let mut out = Vec::new();
        let mut oldest = pipeline.reserve();
        for _ in 0..1000 {
            let (second, next) = (pipeline.reserve(), pipeline.reserve());
            pipeline.fill(second, &[b'x'; LARGE], &mut out);
            pipeline.fill(oldest, b"a", &mut out);
            assert_eq!(out.len(), LARGE + 1);
            out.clear();
            oldest = next;
        }
        assert_eq!(pipeline.large.len(), 1);
    }
}
