//! One command over several slots: how it is cut, and how the replies become one.
//!
//! Cut by slot, not by node: a node refuses keys of two slots even if it owns both. Must not know: nodes, retries.

use std::ops::Range;

use tsubaki_protocol::command::Split;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::reply::{elements, integer};
use tsubaki_protocol::resp::write;
use tsubaki_protocol::slot::Slot;

use crate::ClientId;
use crate::pipeline::Seq;

/// A split command whose parts are at nodes or wait.
#[derive(Debug)]
pub(crate) struct Fanout {
    pub(crate) client: ClientId,
    pub(crate) seq: Seq,
    split: Split,
    /// For each key in the order asked, the part that it went into.
    part_of_key: Vec<u16>,
    replies: Vec<Option<Vec<u8>>>,
    left: usize,
}

/// How a command falls apart.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The parts, in the order of their first keys.
    pub(crate) parts: Vec<Part>,
    /// Slot and position of each key, sorted.
    order: Vec<(u16, u32)>,
    /// For each key in the order asked, the part that it goes into.
    part_of_key: Vec<u16>,
}

/// The keys of one slot.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) slot: u16,
    /// The position of its first key.
    first: u32,
    /// Where its keys lie in the plan's order.
    keys: Range<usize>,
}

impl Plan {
    /// Groups the keys at argument places `keys` by slot.
    pub(crate) fn make(&mut self, args: &Args<'_>, keys: &[u32]) {
        self.order.clear();
        self.order.extend(keys.iter().zip(0..).map(|(key, position)| {
            let slot = Slot::of(args.at(*key as usize).unwrap_or_default());
            (slot.index() as u16, position)
        }));
        self.order.sort_unstable();
        self.parts.clear();
        for (index, (slot, position)) in self.order.iter().enumerate() {
            match self.parts.last_mut() {
                Some(part) if part.slot == *slot => part.keys.end = index + 1,
                Some(_) | None => {
                    self.parts.push(Part { slot: *slot, first: *position, keys: index..index + 1 })
                }
            }
        }
        self.parts.sort_unstable_by_key(|part| part.first);
        self.part_of_key.clear();
        self.part_of_key.resize(keys.len(), 0);
        for (part, number) in self.parts.iter().zip(0..) {
            for (_, position) in self.order.get(part.keys.clone()).unwrap_or_default() {
                if let Some(of) = self.part_of_key.get_mut(*position as usize) {
                    *of = number;
                }
            }
        }
    }

    /// Writes the request of one part: the command's name and its share of the keys, with values for MSET.
    pub(crate) fn write_part(
        &self,
        part: &Part,
        split: Split,
        args: &Args<'_>,
        keys: &[u32],
        out: &mut Vec<u8>,
    ) {
        let mine = self.order.get(part.keys.clone()).unwrap_or_default();
        let per_key = if split == Split::Mset { 2 } else { 1 };
        write::array_header(out, 1 + per_key * mine.len());
        write::bulk(out, args.name());
        for key in mine.iter().filter_map(|(_, position)| keys.get(*position as usize)) {
            for offset in 0..per_key {
                write::bulk(out, args.at(*key as usize + offset).unwrap_or_default());
            }
        }
    }
}

impl Fanout {
    pub(crate) fn new(client: ClientId, seq: Seq, split: Split, plan: &Plan) -> Self {
        let parts = plan.parts.len();
        Self {
            client,
            seq,
            split,
            part_of_key: plan.part_of_key.clone(),
            replies: vec![None; parts],
            left: parts,
        }
    }

    /// Takes the reply of one part. True when it was the last.
    pub(crate) fn put(&mut self, part: u16, reply: &[u8]) -> bool {
        if let Some(place @ None) = self.replies.get_mut(usize::from(part)) {
            *place = Some(reply.to_vec());
            self.left -= 1;
        }
        self.left == 0
    }

    /// The one reply. The first part's error, if any part has one: what could not be done is never shown as nil, 0 or OK.
    pub(crate) fn merge(&self, out: &mut Vec<u8>) {
        let replies = || self.replies.iter().flatten().map(Vec::as_slice);
        if let Some(error) = replies().find(|reply| matches!(reply.first(), Some(b'-' | b'!'))) {
            out.extend_from_slice(error);
            return;
        }
        let start = out.len();
        let merged = match self.split {
            Split::Mget => self.concatenate(out),
            Split::Mset => replies().all(|reply| reply == b"+OK\r\n").then(|| write::simple(out, "OK")),
            Split::Sum => self.sum().map(|sum| write::integer(out, sum)),
        };
        if merged.is_none() {
            out.truncate(start);
            write::error(
                out,
                "ERR a node answered its part of a split command with a reply of another shape",
            );
        }
    }

    /// Bytes of the parts' replies.
    pub(crate) fn reply_bytes(&self) -> usize {
        self.replies.iter().flatten().map(Vec::len).sum()
    }

    fn sum(&self) -> Option<i64> {
        self.replies.iter().flatten().try_fold(0_i64, |sum, reply| sum.checked_add(integer(reply)?))
    }

    fn concatenate(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut parts = Vec::with_capacity(self.replies.len());
        for reply in self.replies.iter().flatten() {
            parts.push(elements(reply).ok()?);
        }
        write::array_header(out, self.part_of_key.len());
        for part in &self.part_of_key {
            out.extend_from_slice(parts.get_mut(usize::from(*part))?.next()?);
        }
        Some(())
    }
}
