//! The keys of a simulation: few, so that commands meet on them; a handful a slot.

use std::collections::BTreeMap;

use tsubaki_protocol::slot::Slot;

/// One key, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Counter,
    List,
}

const KINDS: [Kind; 5] = [Kind::Text, Kind::Text, Kind::Text, Kind::Counter, Kind::List];

/// All keys, grouped by hash tag: the keys of one tag are in one slot, and no two tags share a slot.
pub(crate) struct Keyspace {
    names: Vec<Vec<u8>>,
    numbers: BTreeMap<Vec<u8>, Key>,
    slots: Vec<u16>,
}

impl Keyspace {
    pub(crate) fn new(tags: usize) -> Self {
        let mut names = Vec::new();
        for tag in 0..tags {
            names.extend((0..KINDS.len()).map(|place| format!("{{t{tag}}}k{place}").into_bytes()));
        }
        let numbers = names.iter().enumerate().map(|(number, name)| (name.clone(), Key(number))).collect();
        let slots = (0..tags).map(|tag| Slot::of(format!("t{tag}").as_bytes()).index() as u16).collect();
        Self { names, numbers, slots }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn tags(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn name(&self, key: Key) -> &[u8] {
        &self.names[key.0]
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<Key> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn slot(&self, tag: usize) -> u16 {
        self.slots[tag]
    }

    pub(crate) fn of_tag(tag: usize) -> impl Iterator<Item = Key> {
        (tag * KINDS.len()..(tag + 1) * KINDS.len()).map(Key)
    }
}

impl Key {
    pub(crate) fn tag(self) -> usize {
        self.0 / KINDS.len()
    }

    pub(crate) fn kind(self) -> Kind {
        KINDS[self.0 % KINDS.len()]
    }
}
