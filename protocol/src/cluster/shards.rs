//! CLUSTER SHARDS: one entry a shard, with its slots and its nodes (Redis 7.0 and newer).
//!
//! Must not know: other replies.
//!
//! ```text
//! {slots: [first, last, first, last, ...], nodes: [{id, port, ip, endpoint, hostname, role, health}, ...]}
//! ```

use std::ops::RangeInclusive;

use super::{ClusterError, NodeFlags, NodeRecord, Role, slot_range};
use crate::redirect::Host;
use crate::resp::tree::Value;

const COMMAND: &str = "CLUSTER SHARDS";

/// Reads the reply of CLUSTER SHARDS, of RESP2 or RESP3: one record a node.
///
/// # Errors
/// An entry that cannot be read, or none at all.
pub fn parse(reply: &Value) -> Result<Vec<NodeRecord>, ClusterError> {
    let entries = super::entries(reply, COMMAND)?;
    let mut records = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let shard =
            shard(entry).map_err(|what| ClusterError::Entry { command: COMMAND, entry: index + 1, what })?;
        records.extend(shard);
    }
    if records.is_empty() { Err(ClusterError::Empty { command: COMMAND }) } else { Ok(records) }
}

fn shard(entry: &Value) -> Result<Vec<NodeRecord>, String> {
    let slots = entry.field("slots").and_then(Value::as_list).ok_or("it has no list 'slots'")?;
    let slots =
        slots.chunks(2).map(range).collect::<Option<Vec<_>>>().ok_or("its 'slots' are no ranges of slots")?;
    let nodes = entry.field("nodes").and_then(Value::as_list).ok_or("it has no list 'nodes'")?;
    let mut records = nodes.iter().map(node).collect::<Result<Vec<_>, _>>()?;

    // After a failover the old master may be listed beside the new one: down, but still a master.
    let masters = || records.iter().enumerate().filter(|(_, node)| node.role == Role::Master);
    let owner = masters().find(|(_, node)| !node.flags.failed).or_else(|| masters().next());
    if let Some((owner, id)) = owner.map(|(index, node)| (index, node.id.clone())) {
        for (index, node) in records.iter_mut().enumerate() {
            if index == owner {
                node.slots.clone_from(&slots);
            } else if node.role == Role::Replica {
                node.master_id = Some(id.clone());
            }
        }
    }
    Ok(records)
}

fn range(pair: &[Value]) -> Option<RangeInclusive<u16>> {
    let [first, last] = pair else { return None };
    slot_range(first.as_integer()?, last.as_integer()?)
}

fn node(value: &Value) -> Result<NodeRecord, String> {
    let text = |name| value.field(name).and_then(Value::as_str);
    let id = text("id").ok_or("a node has no 'id'")?.to_owned();
    let bad = |field: &str| format!("node {id} has no legal '{field}'");
    let host = match value.field("endpoint") {
        Some(endpoint) => super::host(endpoint).ok_or_else(|| bad("endpoint"))?,
        None => Host::from_text(text("ip").ok_or_else(|| bad("endpoint"))?).into_owned(),
    };
    // A node with TLS only has no 'port'.
    let port = match value.field("port") {
        Some(port) => super::port(port).ok_or_else(|| bad("port"))?,
        None => 0,
    };
    let role = match text("role") {
        Some("master") => Role::Master,
        Some("replica" | "slave") => Role::Replica,
        _ => return Err(bad("role")),
    };
    let health = text("health").unwrap_or("online");
    let flags = NodeFlags { failed: health == "fail", loading: health == "loading", ..NodeFlags::default() };
    Ok(NodeRecord {
        ip: text("ip").filter(|ip| !ip.is_empty()).map(str::to_owned),
        hostname: text("hostname").filter(|name| !name.is_empty()).map(str::to_owned),
        id,
        host,
        port,
        role,
        master_id: None,
        flags,
        config_epoch: 0,
        link_up: true,
        slots: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::tree::decode;

    /// A node of a shard; each field is a name and a value in RESP, with spaces for line ends.
    fn node(id: &str, role: &str, health: &str) -> String {
        let id_and_port = format!("$2 id ${} {id} $4 port :6379 $2 ip $7 1.2.3.4", id.len());
        let rest = format!("$4 role ${} {role} $6 health ${} {health}", role.len(), health.len());
        format!("*14 {id_and_port} $8 endpoint $1 h {rest} $18 replication-offset :72156")
    }

    fn parse_reply(reply: &str) -> Result<Vec<NodeRecord>, ClusterError> {
        parse(&decode(reply.replace(' ', "\r\n").as_bytes()).unwrap())
    }

    fn shard(nodes: &[String]) -> Vec<NodeRecord> {
        let list = nodes.join(" ");
        parse_reply(&format!("*1 *4 $5 slots *4 :0 :9 :20 :20 $5 nodes *{} {list} ", nodes.len())).unwrap()
    }

    #[test]
    fn a_shard_is_its_slots_and_nodes() {
        let records = shard(&[node("m", "master", "online"), node("r", "replica", "loading")]);
        let [master, replica] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!((master.id.as_str(), master.role, master.port), ("m", Role::Master, 6379));
        assert_eq!(master.slots, [0..=9, 20..=20]);
        assert_eq!((&master.host, master.ip.as_deref()), (&Host::Named("h".to_owned()), Some("1.2.3.4")));
        assert_eq!((replica.role, replica.master_id.as_deref()), (Role::Replica, Some("m")));
        assert!(replica.flags.loading && !replica.flags.failed && replica.slots.is_empty());
    }

    #[test]
    fn resp3_maps_are_read_alike() {
        let node = "%4 +id +m +port :1 +endpoint _ +role +master";
        let records = parse_reply(&format!("*1 %2 +slots *2 :0 :9 +nodes *1 {node} ")).unwrap();
        assert_eq!((records[0].id.as_str(), &records[0].host), ("m", &Host::Same));
        assert_eq!(records[0].slots, [0..=9]);
    }

    #[test]
    fn of_two_masters_the_one_that_lives_owns_the_slots() {
        let records = shard(&[
            node("old", "master", "fail"),
            node("new", "master", "online"),
            node("r", "replica", "online"),
        ]);
        let [old, new, replica] = records.as_slice() else { panic!("{records:?}") };
        assert!(old.flags.failed && old.slots.is_empty());
        assert_eq!(new.slots.len(), 2);
        assert_eq!(replica.master_id.as_deref(), Some("new"));
    }

    #[test]
    fn a_bad_entry_is_named_with_its_number_and_fault() {
        for (entry, fault) in [
            (":1", "it has no list 'slots'"),
            ("*4 $5 slots *1 :0 $5 nodes *0", "its 'slots' are no ranges of slots"),
            ("*2 $5 slots *0", "it has no list 'nodes'"),
            ("*4 $5 slots *0 $5 nodes *1 *0", "a node has no 'id'"),
            ("*4 $5 slots *0 $5 nodes *1 *2 $2 id $1 m", "node m has no legal 'endpoint'"),
            ("*4 $5 slots *0 $5 nodes *1 *4 $2 id $1 m $2 ip $1 a", "node m has no legal 'role'"),
            ("*4 $5 slots *0 $5 nodes *1 *6 $2 id $1 m $2 ip $1 a $4 port :-1", "node m has no legal 'port'"),
        ] {
            let error = parse_reply(&format!("*1 {entry} ")).expect_err("refused");
            assert_eq!(error.to_string(), format!("CLUSTER SHARDS entry 1: {fault}"), "{entry}");
        }
        assert_eq!(parse_reply("*0 "), Err(ClusterError::Empty { command: COMMAND }));
    }
}
