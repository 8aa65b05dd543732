//! CLUSTER NODES: one line of text a node.
//!
//! Must not know: other replies.
//!
//! ```text
//! id ip:port[@cport[,hostname[,name=value]...]] flags master|- ping pong epoch link [slot | first-last | [moving]]...
//! ```
//!
//! Fields of servers newer than this code are passed over: unknown flags, and what follows the host name.

use std::ops::RangeInclusive;

use super::{ClusterError, NodeFlags, NodeRecord, Role, slot_range};
use crate::redirect::Host;

/// Reads the text of CLUSTER NODES (the body of its bulk or verbatim reply), in the order of its lines.
///
/// # Errors
/// A line that cannot be read, or none at all.
pub fn parse(text: &str) -> Result<Vec<NodeRecord>, ClusterError> {
    let mut records = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            records.push(record(line).map_err(|what| ClusterError::Line { line: index + 1, what })?);
        }
    }
    if records.is_empty() { Err(ClusterError::Empty { command: "CLUSTER NODES" }) } else { Ok(records) }
}

fn record(line: &str) -> Result<NodeRecord, String> {
    let mut fields = line.split_ascii_whitespace();
    let mut field = |name: &str| fields.next().ok_or_else(|| format!("the {name} is missing"));
    let id = field("node id")?.to_owned();
    let address = address(field("address")?)?;
    let (flags, replica) = flags(field("flags")?);
    let master_id = Some(field("master id")?).filter(|id| *id != "-").map(str::to_owned);
    field("time of the last ping")?;
    field("time of the last pong")?;
    let epoch = field("config epoch")?;
    let config_epoch = epoch.parse().map_err(|_| format!("the config epoch '{epoch}' is no number"))?;
    let link_up = match field("link state")? {
        "connected" => true,
        "disconnected" => false,
        other => return Err(format!("the link state '{other}' is neither connected nor disconnected")),
    };
    let slots = slots(fields)?;
    let role = if replica || master_id.is_some() { Role::Replica } else { Role::Master };
    let Address { host, port, hostname } = address;
    let (ip, name) = super::ip_or_name(&host);
    let hostname = hostname.or(name);
    Ok(NodeRecord { id, host, port, ip, hostname, role, master_id, flags, config_epoch, link_up, slots })
}

struct Address {
    host: Host<String>,
    port: u16,
    hostname: Option<String>,
}

/// `ip:port`, Redis 3; `ip:port@cport`, Redis 4; `ip:port@cport,hostname`, 7.0; `...,name=value`, 7.2.
fn address(text: &str) -> Result<Address, String> {
    let bad = || format!("the address '{text}' is not of the form ip:port@cport,hostname");
    let mut parts = text.split(',');
    let socket = parts.next().unwrap_or_default();
    let hostname = parts.next().filter(|name| !name.is_empty() && !name.contains('=')).map(str::to_owned);
    let socket = socket.split('@').next().unwrap_or_default();
    let (host, port) = socket.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().map_err(|_| bad())?;
    Ok(Address { host: Host::from_text(host).into_owned(), port, hostname })
}

/// The flags that matter, and whether the node is a replica.
fn flags(text: &str) -> (NodeFlags, bool) {
    let mut known = NodeFlags::default();
    let mut replica = false;
    for flag in text.split(',') {
        match flag {
            "myself" => known.myself = true,
            "fail" => known.failed = true,
            "fail?" => known.maybe_failed = true,
            "handshake" => known.handshake = true,
            "noaddr" => known.no_address = true,
            "slave" | "replica" => replica = true,
            _ => {}
        }
    }
    (known, replica)
}

fn slots<'a>(fields: impl Iterator<Item = &'a str>) -> Result<Vec<RangeInclusive<u16>>, String> {
    let mut ranges = Vec::new();
    for field in fields {
        if !is_moving(field)? {
            ranges.push(range(field).ok_or_else(|| format!("'{field}' is no slot and no range of slots"))?);
        }
    }
    Ok(ranges)
}

fn range(field: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = field.split_once('-').unwrap_or((field, field));
    slot_range(first.parse().ok()?, last.parse().ok()?)
}

/// `[93-<-id]`, importing, or `[77->-id]`, migrating: the owner has the slot among its ranges, so nothing more is kept.
fn is_moving(field: &str) -> Result<bool, String> {
    let Some(inner) = field.strip_prefix('[') else { return Ok(false) };
    let slot =
        inner.strip_suffix(']').and_then(|inner| inner.split_once("-<-").or_else(|| inner.split_once("->-")));
    match slot.and_then(|(slot, _)| range(slot)) {
        Some(_) => Ok(true),
        None => Err(format!("'{field}' is no slot on its way")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "master - 0 1700000000000 3 connected 0-5460";

    fn one(line: &str) -> NodeRecord {
        let mut records = parse(line).unwrap();
        assert_eq!(records.len(), 1, "{line}");
        records.remove(0)
    }

    fn reason(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn a_cluster_is_read_line_by_line() {
        let text = "\
            07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004,host4 slave e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected\n\
            67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 127.0.0.1:30002@31002,host2 master - 0 1426238316232 2 disconnected 5461-10922\n\
            e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 127.0.0.1:30001@31001,host1 myself,master - 0 0 1 connected 0-5459 5460 [77->-67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1]\n";
        let records = parse(text).unwrap();
        let [replica, other, myself] = records.as_slice() else { panic!("{records:?}") };

        assert_eq!((replica.role, replica.master_id.as_deref()), (Role::Replica, Some(myself.id.as_str())));
        assert_eq!(
            (replica.port, replica.hostname.as_deref(), replica.config_epoch),
            (30004, Some("host4"), 4)
        );
        assert!(replica.slots.is_empty());
        assert_eq!(
            (other.role, other.link_up, other.slots.as_slice()),
            (Role::Master, false, &[5461..=10922][..])
        );
        assert!(myself.flags.myself && myself.link_up && myself.master_id.is_none());
        assert_eq!(myself.slots, [0..=5459, 5460..=5460]);
        assert_eq!(
            (&myself.host, myself.ip.as_deref()),
            (&Host::Named("127.0.0.1".to_owned()), Some("127.0.0.1"))
        );
    }

    #[test]
    fn every_form_of_address_is_read() {
        for (address, host, port, hostname) in [
            ("10.0.0.1:6379", Host::Named("10.0.0.1"), 6379, None),
            ("10.0.0.1:6379@16379", Host::Named("10.0.0.1"), 6379, None),
            ("10.0.0.1:6379@16379,", Host::Named("10.0.0.1"), 6379, None),
            ("10.0.0.1:6379@16379,a.example.com", Host::Named("10.0.0.1"), 6379, Some("a.example.com")),
            ("10.0.0.1:6379@16379,a,tls-port=0,shard-id=69bc", Host::Named("10.0.0.1"), 6379, Some("a")),
            ("10.0.0.1:6379@16379,,tls-port=0,shard-id=69bc", Host::Named("10.0.0.1"), 6379, None),
            ("10.0.0.1:6379@16379,shard-id=69bc", Host::Named("10.0.0.1"), 6379, None),
            ("2001:db8::1:6379@16379", Host::Named("2001:db8::1"), 6379, None),
            ("[2001:db8::1]:6379@16379,b", Host::Named("2001:db8::1"), 6379, Some("b")),
            (":6379@16379", Host::Same, 6379, None),
            (":0@0", Host::Same, 0, None),
            ("?:6379@16379", Host::Unknown, 6379, None),
        ] {
            let record = one(&format!("id {address} {TAIL}"));
            assert_eq!((record.host, record.port), (host.into_owned(), port), "{address}");
            assert_eq!(record.hostname.as_deref(), hostname, "{address}");
        }
    }

    #[test]
    fn flags_that_matter_are_read_and_unknown_ones_passed_over() {
        let flags = |flags: &str| one(&format!("id h:1@2 {flags} - 0 0 0 connected")).flags;
        let none = NodeFlags::default();
        assert_eq!(flags("myself,master,nofailover,invented"), NodeFlags { myself: true, ..none });
        assert_eq!(flags("master,fail"), NodeFlags { failed: true, ..none });
        assert_eq!(flags("master,fail?"), NodeFlags { maybe_failed: true, ..none });
        assert_eq!(flags("handshake,noaddr"), NodeFlags { handshake: true, no_address: true, ..none });
        assert_eq!(flags("noflags"), none);
    }

    #[test]
    fn slots_on_their_way_stay_with_their_owner() {
        let line = "id h:1@2 master - 0 0 0 connected 93 [93-<-292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f] 0-1 [77->-e7d1]";
        assert_eq!(one(line).slots, [93..=93, 0..=1]);
    }

    #[test]
    fn blank_lines_and_cr_lf_are_passed_over() {
        assert_eq!(parse(&format!("\r\nid h:1@2 {TAIL}\r\n\r\n")).unwrap().len(), 1);
    }

    #[test]
    fn a_bad_line_is_named_with_its_number_and_fault() {
        for (line, fault) in [
            ("id", "the address is missing"),
            ("id h:1@2", "the flags is missing"),
            ("id h master - 0 0 0 connected", "the address 'h' is not of the form ip:port@cport,hostname"),
            ("id h:70000@2 master - 0 0 0 connected", "the address 'h:70000@2' is not of the form"),
            ("id h:1@2 master - 0 0", "the config epoch is missing"),
            ("id h:1@2 master - 0 0 x connected", "the config epoch 'x' is no number"),
            ("id h:1@2 master - 0 0 1 up", "the link state 'up'"),
            ("id h:1@2 master - 0 0 1 connected 16384", "'16384' is no slot"),
            ("id h:1@2 master - 0 0 1 connected 9-3", "'9-3' is no slot"),
            ("id h:1@2 master - 0 0 1 connected 1-2-3", "'1-2-3' is no slot"),
            ("id h:1@2 master - 0 0 1 connected [77->x", "'[77->x' is no slot on its way"),
        ] {
            let reason = reason(&format!("id h:1@2 {TAIL}\n{line}\n"));
            assert!(reason.starts_with(&format!("CLUSTER NODES line 2: {fault}")), "{line}: {reason}");
        }
    }

    #[test]
    fn no_node_at_all_is_an_error() {
        for text in ["", "\n\n"] {
            assert_eq!(reason(text), "CLUSTER NODES describes no node; is the server a cluster node?");
        }
    }
}
