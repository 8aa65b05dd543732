//! What one client knows of its own keys: it is the only one that writes them, so every reply but a few can be foretold.
//!
//! A command that may or may not have run leaves a key with more than one possible value, until a reply tells which.

use std::collections::{BTreeMap, VecDeque};

use crate::harness::client::{Reply, push_command};

/// C8: a command that was answered with this did not run, because a later one on the same key has.
const OVERTAKEN: &str = "TRYAGAIN the slot is moving and a later command on the same key has run already";

/// C4: the connection died under a command that had been sent and may not run twice.
const MAY_HAVE_RUN: &str = "was lost after the command was sent; it may have run";

const INCREMENT: &str = "return redis.call('INCR', KEYS[1])";

type Key = String;
/// `None`: there is no such key.
type Stored = Option<Vec<u8>>;

/// One command of a client.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Of one or several keys.
    Get(Vec<Key>),
    /// Of one or several keys, of one slot or of several.
    Set(Vec<(Key, Vec<u8>)>),
    /// Of one or several keys.
    Delete(Vec<Key>),
    Append(Key, Vec<u8>),
    Increment(Key),
    /// The same from a script.
    IncrementByScript(Key),
    /// Of a counter that other clients increment as well.
    IncrementShared(Key),
}

impl Op {
    pub(crate) fn write(&self, pipeline: &mut Vec<u8>) {
        let with = |name: &str, keys: &[Key]| {
            [name]
                .into_iter()
                .chain(keys.iter().map(String::as_str))
                .map(|arg| arg.as_bytes().to_vec())
                .collect()
        };
        let args: Vec<Vec<u8>> = match self {
            Self::Get(keys) if keys.len() == 1 => with("GET", keys),
            Self::Get(keys) => with("MGET", keys),
            Self::Delete(keys) => with("DEL", keys),
            Self::Set(pairs) => {
                let name = if pairs.len() == 1 { "SET" } else { "MSET" };
                let flat = pairs.iter().flat_map(|(key, value)| [key.as_bytes().to_vec(), value.clone()]);
                std::iter::once(name.as_bytes().to_vec()).chain(flat).collect()
            }
            Self::Append(key, tail) => vec![b"APPEND".to_vec(), key.as_bytes().to_vec(), tail.clone()],
            Self::Increment(key) | Self::IncrementShared(key) => with("INCR", std::slice::from_ref(key)),
            Self::IncrementByScript(key) => {
                with("EVAL", &[INCREMENT.to_owned(), "1".to_owned(), key.clone()])
            }
        };
        push_command(pipeline, &args);
    }

    fn keys(&self) -> Vec<&Key> {
        match self {
            Self::Get(keys) | Self::Delete(keys) => keys.iter().collect(),
            Self::Set(pairs) => pairs.iter().map(|(key, _)| key).collect(),
            Self::Append(key, _)
            | Self::Increment(key)
            | Self::IncrementByScript(key)
            | Self::IncrementShared(key) => vec![key],
        }
    }

    fn writes_to_a_slot_of(&self, other: &Self) -> bool {
        let tags = other.tags();
        !matches!(self, Self::Get(_)) && self.tags().iter().any(|tag| tags.contains(tag))
    }

    /// Each tag is of another slot.
    fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = self.keys().iter().filter_map(|key| key.split('}').next()).collect();
        tags.dedup();
        tags
    }
}

/// How many commands ended in one of the errors that are allowed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errors {
    pub(crate) overtaken: u64,
    pub(crate) may_have_run: u64,
}

/// One client's keys.
#[derive(Default)]
pub(crate) struct Model {
    keys: BTreeMap<Key, Vec<Stored>>,
    /// What increments of shared counters were answered; no other reply to any client is the same.
    pub(crate) shared: BTreeMap<Key, Vec<i64>>,
    /// Increments of shared counters that may have run.
    pub(crate) shared_uncertain: BTreeMap<Key, u64>,
    pub(crate) errors: Errors,
}

impl Model {
    /// Takes the reply to the oldest unanswered command, and fails if it is wrong. `later` are the unanswered ones behind.
    pub(crate) fn take(&mut self, op: &Op, reply: &Reply, later: &VecDeque<Op>) {
        match reply.error() {
            Some(OVERTAKEN) => {
                self.errors.overtaken += 1;
                self.did_not_run(op);
            }
            Some(error) if error.ends_with(MAY_HAVE_RUN) => {
                self.errors.may_have_run += 1;
                // A read is sent again, unless a later write on its slot may have run: it would see that write.
                let overtaken = || later.iter().any(|later| later.writes_to_a_slot_of(op));
                assert!(!matches!(op, Op::Get(_)) || overtaken(), "{op:?} was answered with {reply:?}");
                self.may_have_run(op);
            }
            Some(_) => panic!("{op:?} was answered with {reply:?}"),
            None => self.ran(op, reply),
        }
    }

    /// Keys of which it is not known what they hold.
    pub(crate) fn uncertain(&self) -> Vec<Key> {
        self.keys.iter().filter(|(_, values)| values.len() > 1).map(|(key, _)| key.clone()).collect()
    }

    /// All keys of this client.
    pub(crate) fn all(&self) -> Vec<Key> {
        self.keys.keys().cloned().collect()
    }

    fn ran(&mut self, op: &Op, reply: &Reply) {
        match op {
            Op::Get(keys) if keys.len() == 1 => self.holds(&keys[0], reply),
            Op::Get(keys) => {
                let elements = reply.elements();
                assert_eq!(elements.len(), keys.len(), "{op:?} was answered with {reply:?}");
                keys.iter().zip(&elements).for_each(|(key, element)| self.holds(key, element));
            }
            Op::Set(pairs) => {
                assert!(reply.is_ok(), "{op:?} was answered with {reply:?}");
                for (key, value) in pairs {
                    self.keys.insert(key.clone(), vec![Some(value.clone())]);
                }
            }
            Op::Delete(keys) => self.deleted(keys, reply),
            Op::Append(key, tail) => {
                let len = reply.integer();
                let mut values = self.values(key);
                values.retain(|value| Some((value.as_ref().map_or(0, Vec::len) + tail.len()) as i64) == len);
                self.learn(key, values.iter().map(|value| appended(value, tail)).collect(), reply);
            }
            Op::Increment(key) | Op::IncrementByScript(key) => {
                let number = reply.integer().map(|number| number.to_string().into_bytes());
                let mut values: Vec<Stored> = self.values(key).iter().map(incremented).collect();
                values.retain(|value| *value == number);
                self.learn(key, values, reply);
            }
            Op::IncrementShared(key) => {
                let answers = self.shared.entry(key.clone()).or_default();
                let number = reply.integer().unwrap_or_default();
                assert!(
                    answers.last().is_none_or(|last| number > *last),
                    "{op:?} was answered with {reply:?}"
                );
                answers.push(number);
            }
        }
    }

    fn holds(&mut self, key: &Key, reply: &Reply) {
        let stored = if reply.is_nil() { None } else { reply.bulk().map(<[u8]>::to_vec) };
        let possible = self.values(key).into_iter().filter(|value| *value == stored).collect();
        self.learn(key, possible, reply);
    }

    fn deleted(&mut self, keys: &[Key], reply: &Reply) {
        let deleted = reply.integer().unwrap_or(-1);
        let (mut least, mut most) = (0, 0);
        for key in keys {
            let values = self.values(key);
            least += i64::from(values.iter().all(Option::is_some));
            most += i64::from(values.iter().any(Option::is_some));
            self.keys.insert(key.clone(), vec![None]);
        }
        assert!((least..=most).contains(&deleted), "DEL {keys:?} was answered with {reply:?}");
    }

    /// What `key` may hold after a reply; it is wrong if that is nothing.
    fn learn(&mut self, key: &Key, possible: Vec<Stored>, reply: &Reply) {
        let before = self.keys.insert(key.clone(), possible);
        let before = || -> Vec<_> {
            let shown = |value: &Stored| value.as_ref().map(|value| value.escape_ascii().to_string());
            before.iter().flatten().map(shown).collect()
        };
        assert!(
            !self.keys[key].is_empty(),
            "{key}: the reply was {reply:?}, but the key held {:?}",
            before()
        );
    }

    /// Of a command on keys of several slots some parts may have run.
    fn did_not_run(&mut self, op: &Op) {
        if op.tags().len() > 1 {
            self.may_have_run(op);
        }
    }

    fn may_have_run(&mut self, op: &Op) {
        match op {
            Op::Get(_) => {}
            Op::Set(pairs) => pairs.iter().for_each(|(key, value)| self.maybe(key, |_| Some(value.clone()))),
            Op::Delete(keys) => keys.iter().for_each(|key| self.maybe(key, |_| None)),
            Op::Append(key, tail) => self.maybe(key, |value| appended(value, tail)),
            Op::Increment(key) | Op::IncrementByScript(key) => self.maybe(key, incremented),
            Op::IncrementShared(key) => *self.shared_uncertain.entry(key.clone()).or_default() += 1,
        }
    }

    fn maybe(&mut self, key: &Key, change: impl Fn(&Stored) -> Stored) {
        let mut values = self.values(key);
        values.extend(values.clone().iter().map(change));
        values.sort();
        values.dedup();
        self.keys.insert(key.clone(), values);
    }

    fn values(&self, key: &Key) -> Vec<Stored> {
        self.keys.get(key).cloned().unwrap_or_else(|| vec![None])
    }
}

fn appended(value: &Stored, tail: &[u8]) -> Stored {
    Some([value.as_deref().unwrap_or_default(), tail].concat())
}

fn incremented(value: &Stored) -> Stored {
    let number: i64 =
        value.as_ref().map_or(0, |digits| std::str::from_utf8(digits).unwrap().parse().unwrap());
    Some((number + 1).to_string().into_bytes())
}
