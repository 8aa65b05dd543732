//! Slots against `CLUSTER KEYSLOT`.

use redis::Value;
use tsubaki_protocol::slot::Slot;

use crate::arguments::Random;
use crate::server::each;

#[test]
fn slots_are_those_of_a_cluster_node() {
    for server in each(&["--cluster-enabled", "yes"]) {
        let mut random = Random::new(3);
        let keys: Vec<Vec<u8>> = (0..20_000).map(|_| key(&mut random)).collect();
        let questions: Vec<_> =
            keys.iter().map(|key| vec![b"CLUSTER".to_vec(), b"KEYSLOT".to_vec(), key.clone()]).collect();
        for (key, reply) in keys.iter().zip(server.connect().ask_all(&questions)) {
            let ours = Value::Int(Slot::of(key).index() as i64);
            assert_eq!(ours, reply, "'{}' on {}", key.escape_ascii(), server.kind);
        }
    }
}

/// Up to 40 bytes of any value, braces among them more often than chance has it.
fn key(random: &mut Random) -> Vec<u8> {
    let length = random.below(41);
    let byte = |_| match random.below(6) {
        0 => b'{',
        1 => b'}',
        _ => random.number() as u8,
    };
    (0..length).map(byte).collect()
}
