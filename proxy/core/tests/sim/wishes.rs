//! What clients wish for: commands that meet on few keys.

use tsubaki_protocol::resp::Resp;

use crate::keys::{Key, Keyspace, Kind};
use crate::ops::{Op, SCRIPT_ERRORS};
use crate::rng::Rng;
use crate::world::World;

impl World {
    /// A command, drawn by chance.
    pub(crate) fn wish(&mut self) -> Op {
        let rng = &mut self.rng;
        let keys = self.cluster.keys.len();
        let key = |rng: &mut Rng, kind: Kind| loop {
            let key = Key(rng.below(keys));
            if key.kind() == kind {
                return key;
            }
        };
        // Most commands meet on one key.
        let text = if rng.percent(40) { Key(0) } else { key(rng, Kind::Text) };
        let truth = &mut self.cluster.truth;
        match rng.below(100) {
            0..22 => Op::Get(text),
            22..25 => Op::GetInline(text),
            25..43 => {
                let padding =
                    if rng.percent(self.chaos.long_values) { rng.below(50_000) } else { rng.below(40) };
                Op::Set(text, truth.token(), padding)
            }
            43..48 => Op::Append(text, truth.token()),
            48..54 => Op::Increment(key(rng, Kind::Counter)),
            54..58 => Op::Push(key(rng, Kind::List), truth.token()),
            58..62 => Op::Range(key(rng, Kind::List)),
            62..72 => Op::Mget(some_keys(rng, keys)),
            72..79 => {
                Op::Mset(texts(some_keys(rng, keys)).into_iter().map(|key| (key, truth.token())).collect())
            }
            79..82 => Op::Count(rng.pick(&["EXISTS", "TOUCH"]), some_keys(rng, keys)),
            82..85 => {
                let mut keys = some_keys(rng, keys);
                keys.sort();
                keys.dedup();
                Op::Delete(rng.pick(&["DEL", "UNLINK"]), keys)
            }
            85..89 => {
                let error = rng.percent(40).then(|| rng.pick(&SCRIPT_ERRORS));
                Op::Script(text, truth.token(), error)
            }
            89..92 => Op::Publish(truth.token()),
            92..94 => Op::Echo(rng.below(1_000_000)),
            94..96 => Op::Hello(rng.pick(&[Resp::V2, Resp::V3])),
            96 => Op::Info,
            97 if rng.percent(50) => Op::Unknown,
            97 => Op::WrongArity,
            98 => Op::CrossSlot(Key(0), Key(keys - 1)),
            _ if !self.chaos.leavers || self.mended => Op::Echo(7),
            _ if rng.percent(50) => Op::Quit,
            _ => Op::Garbage,
        }
    }
}

fn some_keys(rng: &mut Rng, keys: usize) -> Vec<Key> {
    let count = 1 + rng.below(5);
    if rng.percent(50) {
        let tag = if rng.percent(50) { 0 } else { Key(rng.below(keys)).tag() };
        let of_tag: Vec<Key> = Keyspace::of_tag(tag).collect();
        return (0..count).map(|_| rng.pick(&of_tag)).collect();
    }
    (0..count).map(|_| Key(rng.below(keys))).collect()
}

/// MSET writes texts only, or the lists and counters would be none.
fn texts(mut keys: Vec<Key>) -> Vec<Key> {
    keys.retain(|key| key.kind() == Kind::Text);
    if keys.is_empty() { vec![Key(1)] } else { keys }
}
