//! CLUSTER SLOTS: one entry a range of slots, with its master and replicas.
//!
//! Must not know: other replies.
//!
//! ```text
//! [first, last, [endpoint, port, id, [name, value, ...]], replica...]     id: Redis 4.0; names: Redis 7.0
//! ```

use super::{ClusterError, NodeFlags, NodeRecord, Role, slot_range};
use crate::redirect::Host;
use crate::resp::tree::Value;

const COMMAND: &str = "CLUSTER SLOTS";

/// Reads the reply of CLUSTER SLOTS: one record a node, in the order of first mention.
///
/// # Errors
/// An entry that cannot be read, or none at all.
pub fn parse(reply: &Value) -> Result<Vec<NodeRecord>, ClusterError> {
    let entries = super::entries(reply, COMMAND)?;
    let mut records = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        add(&mut records, entry).map_err(|what| ClusterError::Entry {
            command: COMMAND,
            entry: index + 1,
            what,
        })?;
    }
    if records.is_empty() { Err(ClusterError::Empty { command: COMMAND }) } else { Ok(records) }
}

fn add(records: &mut Vec<NodeRecord>, entry: &Value) -> Result<(), String> {
    let [first, last, nodes @ ..] = entry.as_list().unwrap_or_default() else {
        return Err("it is not a list of two slots and nodes".to_owned());
    };
    let slots = first.as_integer().zip(last.as_integer()).and_then(|(first, last)| slot_range(first, last));
    let slots = slots.ok_or("its first two elements are no range of slots")?;
    let mut master_id = None;
    for value in nodes {
        let mut node = node(value)?;
        node.master_id.clone_from(&master_id);
        if master_id.is_none() {
            master_id = Some(node.id.clone());
            node.slots.push(slots.clone());
        } else {
            node.role = Role::Replica;
        }
        match records.iter_mut().find(|known| known.id == node.id) {
            Some(known) => known.slots.append(&mut node.slots),
            None => records.push(node),
        }
    }
    if master_id.is_none() { Err("it names no node".to_owned()) } else { Ok(()) }
}

fn node(value: &Value) -> Result<NodeRecord, String> {
    let [endpoint, port, more @ ..] = value.as_list().unwrap_or_default() else {
        return Err("a node is not a list of endpoint and port".to_owned());
    };
    let host = super::host(endpoint).ok_or("a node's endpoint is neither text nor null")?;
    let port = super::port(port).ok_or("a node's port is no port")?;
    let id = match more.first().and_then(Value::as_str) {
        Some(id) => id.to_owned(),
        None => nameless(&host, port),
    };
    // The names that follow leave out the one that is the endpoint.
    let (ip, name) = super::ip_or_name(&host);
    let names = more.get(1);
    let named = |name| names.and_then(|names| names.field(name)).and_then(Value::as_str).map(str::to_owned);
    Ok(NodeRecord {
        id,
        ip: named("ip").or(ip),
        hostname: named("hostname").or(name),
        host,
        port,
        role: Role::Master,
        master_id: None,
        flags: NodeFlags::default(),
        config_epoch: 0,
        link_up: true,
        slots: Vec::new(),
    })
}

fn nameless(host: &Host<String>, port: u16) -> String {
    match host {
        Host::Named(name) => format!("{name}:{port}"),
        Host::Same => format!(":{port}"),
        Host::Unknown => format!("?:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::tree::decode;

    fn parse_reply(reply: &str) -> Result<Vec<NodeRecord>, ClusterError> {
        parse(&decode(reply.replace(' ', "\r\n").as_bytes()).unwrap())
    }

    /// One range of slots, served by one node with this endpoint.
    fn endpoint(endpoint: &str, port: u16) -> NodeRecord {
        parse_reply(&format!("*1 *3 :0 :9 *3 {endpoint} :{port} $2 id ")).unwrap().remove(0)
    }

    #[test]
    fn ranges_of_one_node_are_joined() {
        let master = "*4 $9 127.0.0.1 :1 $1 m *2 $8 hostname $1 a";
        let replica = "*4 $1 b :2 $1 r *2 $2 ip $7 1.2.3.4";
        let records = parse_reply(&format!("*2 *4 :0 :9 {master} {replica} *3 :20 :20 {master} ")).unwrap();
        let [master, replica] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!((master.role, master.slots.as_slice()), (Role::Master, &[0..=9, 20..=20][..]));
        assert_eq!((master.ip.as_deref(), master.hostname.as_deref()), (Some("127.0.0.1"), Some("a")));
        assert_eq!((replica.role, replica.master_id.as_deref(), replica.port), (Role::Replica, Some("m"), 2));
        assert_eq!((&replica.host, replica.ip.as_deref()), (&Host::Named("b".to_owned()), Some("1.2.3.4")));
        assert_eq!(replica.hostname.as_deref(), Some("b"));
        assert!(replica.slots.is_empty());
    }

    #[test]
    fn a_host_that_is_empty_or_null_is_the_one_that_was_asked() {
        assert_eq!(endpoint("$0 ", 6379).host, Host::Same);
        assert_eq!(endpoint("$-1", 6379).host, Host::Same);
    }

    #[test]
    fn a_host_that_is_not_known_is_nobody() {
        assert_eq!(endpoint("$1 ?", 6379).host, Host::Unknown);
        assert_eq!(endpoint("$1 h", 0).port, 0);
    }

    #[test]
    fn a_server_without_node_ids_is_read() {
        let records = parse_reply("*1 *4 :0 :9 *2 $1 a :1 *2 $1 b :2 ").unwrap();
        assert_eq!(records.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["a:1", "b:2"]);
        assert_eq!(records[1].master_id.as_deref(), Some("a:1"));
    }

    #[test]
    fn a_bad_entry_is_named_with_its_number_and_fault() {
        let good = "*3 :0 :9 *3 $1 a :1 $1 m";
        for (entry, fault) in [
            (":1", "it is not a list of two slots and nodes"),
            ("*2 :0 :9", "it names no node"),
            ("*3 :0 :16384 *2 $1 a :1", "its first two elements are no range of slots"),
            ("*3 :9 :0 *2 $1 a :1", "its first two elements are no range of slots"),
            ("*3 :0 :9 *1 $1 a", "a node is not a list of endpoint and port"),
            ("*3 :0 :9 *2 $1 a :65536", "a node's port is no port"),
            ("*3 :0 :9 *2 :1 :1", "a node's endpoint is neither text nor null"),
        ] {
            let error = parse_reply(&format!("*2 {good} {entry} ")).expect_err("refused");
            assert_eq!(error.to_string(), format!("CLUSTER SLOTS entry 2: {fault}"), "{entry}");
        }
    }

    #[test]
    fn a_reply_that_is_no_list_or_empty_is_an_error() {
        let error = parse(&Value::Error("ERR This instance has cluster support disabled".to_owned()));
        let text = "CLUSTER SLOTS was answered by the error 'ERR This instance has cluster support disabled' instead of a list";
        assert_eq!(error.expect_err("refused").to_string(), text);
        assert_eq!(parse(&Value::List(Vec::new())), Err(ClusterError::Empty { command: COMMAND }));
        assert!(parse(&Value::Null).is_err());
    }
}
