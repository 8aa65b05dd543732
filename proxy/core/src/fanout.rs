//! One command over several slots: how it is cut, and how the replies become one.
//!
//! Cut by slot, not by node: a node refuses keys of two slots even if it owns both. Must not know: nodes, retries.

use std::ops::Range;

use tsubaki_protocol::command::Split;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::reply::{elements, integer};
use tsubaki_protocol::resp::write;
use tsubaki_protocol::slot::SLOTS;

use crate::ClientId;
use crate::pipeline::Seq;

/// A split command whose parts are at nodes or wait.
#[derive(Debug)]
pub(crate) struct Fanout {
    pub(crate) client: ClientId,
    pub(crate) seq: Seq,
    split: Split,
    room: Room,
    /// The parts' replies as they came, one behind the other.
    bytes: Vec<u8>,
    left: usize,
}

/// Memory of a fan-out that the next one can use.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// For each key in the order asked, the part that it went into.
    part_of_key: Vec<u16>,
    /// For each part the place of its reply, once it came.
    replies: Vec<Option<Range<usize>>>,
}

impl Room {
    /// How many keys it has room for.
    pub(crate) fn keys(&self) -> usize {
        self.part_of_key.capacity()
    }
}

/// How a command falls apart.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The parts, in the order of their first keys.
    pub(crate) parts: Vec<Part>,
    /// Arguments that go with a key: itself, and for MSET its value.
    per_key: usize,
    /// The positions of the keys, part by part.
    order: Vec<u32>,
    /// For each key in the order asked, the part that it goes into.
    part_of_key: Vec<u16>,
    /// For each slot its part; between two plans [`Plan::NONE`] for all, and before the first one empty.
    part_of_slot: Vec<u16>,
}

/// The keys of one slot.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) slot: u16,
    /// Where its keys lie in the plan's order.
    keys: Range<usize>,
}

/// The beginning that all parts of so many keys have in common, and still stands in the buffer.
#[derive(Debug, Default)]
pub(crate) struct Head {
    keys: usize,
    len: usize,
}

impl Plan {
    const NONE: u16 = u16::MAX;

    /// Groups the keys with these slots by slot.
    pub(crate) fn make(&mut self, split: Split, slots: &[u16]) {
        self.per_key = if split == Split::Mset { 2 } else { 1 };
        self.part_of_slot.resize(SLOTS, Self::NONE);
        self.parts.clear();
        self.part_of_key.clear();
        for slot in slots {
            let Some(number) = self.part_of_slot.get_mut(usize::from(*slot)) else { continue };
            if *number == Self::NONE {
                *number = self.parts.len() as u16;
                self.parts.push(Part { slot: *slot, keys: 0..0 });
            }
            self.part_of_key.push(*number);
            if let Some(part) = self.parts.get_mut(usize::from(*number)) {
                part.keys.end += 1;
            }
        }
        self.order_keys();
    }

    /// Gives each part its place in the order, and puts its keys there.
    fn order_keys(&mut self) {
        let mut start = 0;
        for part in &mut self.parts {
            if let Some(number) = self.part_of_slot.get_mut(usize::from(part.slot)) {
                *number = Self::NONE;
            }
            let next = start + part.keys.len();
            part.keys = start..start;
            start = next;
        }
        self.order.clear();
        self.order.resize(start, 0);
        for (number, position) in self.part_of_key.iter().zip(0..) {
            if let Some(part) = self.parts.get_mut(usize::from(*number))
                && let Some(place) = self.order.get_mut(part.keys.end)
            {
                *place = position;
                part.keys.end += 1;
            }
        }
    }

    /// Writes the request of one part in place of the part before it: the command's name and its share of the keys, with
    /// values for MSET.
    pub(crate) fn write_part(
        &self,
        part: &Part,
        args: &Args<'_>,
        keys: &[u32],
        head: &mut Head,
        out: &mut Vec<u8>,
    ) {
        let mine = self.order.get(part.keys.clone()).unwrap_or_default();
        let per_key = self.per_key;
        if head.keys != mine.len() {
            out.clear();
            write::array_header(out, 1 + per_key * mine.len());
            write::bulk(out, args.name());
            *head = Head { keys: mine.len(), len: out.len() };
        }
        out.truncate(head.len);
        for key in mine.iter().filter_map(|position| keys.get(*position as usize)) {
            out.extend_from_slice(args.raw(*key as usize, per_key).unwrap_or_default());
        }
    }
}

impl Fanout {
    /// `bytes` is an empty buffer.
    pub(crate) fn new(
        client: ClientId,
        seq: Seq,
        split: Split,
        plan: &Plan,
        mut room: Room,
        bytes: Vec<u8>,
    ) -> Self {
        let left = plan.parts.len();
        room.part_of_key.clear();
        room.part_of_key.extend_from_slice(&plan.part_of_key);
        room.replies.clear();
        room.replies.resize(left, None);
        Self { client, seq, split, room, bytes, left }
    }

    /// Takes the reply of one part. True when it was the last.
    pub(crate) fn put(&mut self, part: u16, reply: &[u8]) -> bool {
        if let Some(place @ None) = self.room.replies.get_mut(usize::from(part)) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(reply);
            *place = Some(start..self.bytes.len());
            self.left -= 1;
        }
        self.left == 0
    }

    /// The one reply. The first part's error, if any part has one: what could not be done is never shown as nil, 0 or OK.
    pub(crate) fn merge(&self, out: &mut Vec<u8>) {
        if let Some(error) = self.replies().find(|reply| matches!(reply.first(), Some(b'-' | b'!'))) {
            out.extend_from_slice(error);
            return;
        }
        let start = out.len();
        let merged = match self.split {
            Split::Mget => self.concatenate(out),
            Split::Mset => self.replies().all(|reply| reply == b"+OK\r\n").then(|| write::simple(out, "OK")),
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
        self.bytes.len()
    }

    /// What can be used again.
    pub(crate) fn into_memory(self) -> (Room, Vec<u8>) {
        (self.room, self.bytes)
    }

    fn replies(&self) -> impl Iterator<Item = &[u8]> {
        self.room.replies.iter().flatten().filter_map(|place| self.bytes.get(place.clone()))
    }

    fn sum(&self) -> Option<i64> {
        self.replies().try_fold(0_i64, |sum, reply| sum.checked_add(integer(reply)?))
    }

    fn concatenate(&self, out: &mut Vec<u8>) -> Option<()> {
        let keys = self.room.part_of_key.len();
        out.reserve(self.bytes.len());
        write::array_header(out, keys);
        if self.room.replies.len() == keys {
            // Each key is a part of its own, in the order asked.
            for reply in self.replies() {
                out.extend_from_slice(first_element(reply)?);
            }
            return Some(());
        }
        let mut parts = Vec::with_capacity(self.room.replies.len());
        for reply in self.replies() {
            parts.push(elements(reply).ok()?);
        }
        for part in &self.room.part_of_key {
            out.extend_from_slice(parts.get_mut(usize::from(*part))?.next()?);
        }
        Some(())
    }
}

/// The first element of a whole list. If it is the only one, it is all that stands behind the header.
fn first_element(list: &[u8]) -> Option<&[u8]> {
    match list.strip_prefix(b"*1\r\n") {
        Some(element) => Some(element),
        None => elements(list).ok()?.next(),
    }
}

#[cfg(test)]
mod tests {
    use tsubaki_protocol::resp::request::{RequestLimits, RequestScanner};

    use super::*;

    /// The requests of the parts of a command whose keys have these slots.
    fn parts(split: Split, words: &[&str], keys: &[u32], slots: &[u16]) -> Vec<String> {
        let mut frame = Vec::new();
        write::command(&mut frame, words.iter().map(|word| word.as_bytes()));
        let mut scanner = RequestScanner::new();
        scanner.scan(&frame, &RequestLimits::default()).unwrap();
        let args = Args::new(&frame, scanner.spans());
        let mut plan = Plan::default();
        // What one command leaves behind must not show in the next.
        plan.make(Split::Sum, &[0, 1, 7, 9, 7]);
        plan.make(split, slots);
        let (mut head, mut out) = (Head::default(), Vec::new());
        let request = |part| {
            plan.write_part(part, &args, keys, &mut head, &mut out);
            String::from_utf8_lossy(&out).replace("\r\n", " ")
        };
        plan.parts.iter().map(request).collect()
    }

    #[test]
    fn parts_come_by_their_first_keys_and_keep_the_order_of_keys() {
        let words = ["mget", "a", "b", "c", "d", "e"];
        assert_eq!(
            parts(Split::Mget, &words, &[1, 2, 3, 4, 5], &[9, 7, 9, 1, 7]),
            ["*3 $4 mget $1 a $1 c ", "*3 $4 mget $1 b $1 e ", "*2 $4 mget $1 d "]
        );
    }

    #[test]
    fn values_go_with_their_keys() {
        let words = ["MSET", "a", "1", "b", "", "c", "333"];
        assert_eq!(
            parts(Split::Mset, &words, &[1, 3, 5], &[9, 7, 9]),
            ["*5 $4 MSET $1 a $1 1 $1 c $3 333 ", "*3 $4 MSET $1 b $0  "]
        );
    }
}
