//! The three replies about a cluster, as real servers give them in both protocol versions, tell the same.
//!
//! A server that is not installed is skipped, unless `TSUBAKI_REQUIRE_SERVERS` is set.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::Ipv4Addr;

use tsubaki_protocol::cluster::{Host, NodeRecord, Role, nodes, shards, slots};
use tsubaki_protocol::resp::reply::bulk;
use tsubaki_protocol::resp::tree::{self, Value};

#[allow(dead_code, reason = "written for tests that ask more of a server")]
#[path = "command_live/server.rs"]
mod server;
use server::{Connection, Server, wait_until};

/// A master lists a replica from its first ping to it on, which these settings bring forward.
const CLUSTER: &[&str] =
    &["--cluster-enabled", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];

/// A master of all slots but one, and its replica.
struct Pair {
    master: Server,
    replica: Server,
}

impl Pair {
    fn start(master: Server, options: &[&str]) -> Option<Self> {
        let replica = Server::start(master.kind, options)?;
        let mut asked = master.connect();
        asked.ask(&[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"99", b"101", b"16383"]);
        let (port, bus_port) = (replica.port.to_string(), replica.bus_port.to_string());
        asked.ask(&[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus_port.as_bytes()]);
        let pair = Self { master, replica };
        pair.join();
        Some(pair)
    }

    fn join(&self) {
        let mut asked = self.replica.connect();
        let mut id = String::new();
        wait_until("the replica knows its master", || {
            let records = view(&mut asked);
            let master = records.iter().find(|node| !node.flags.myself && !node.flags.handshake);
            id = master.map(|node| node.id.clone()).unwrap_or_default();
            !id.is_empty()
        });
        asked.ask(&[b"CLUSTER", b"REPLICATE", id.as_bytes()]);
        let mut asked = self.master.connect();
        wait_until("the master lists its replica", || {
            slots::parse(&reply(&mut asked, b"SLOTS")).is_ok_and(|records| records.len() == 2)
        });
    }
}

/// CLUSTER NODES of this node.
fn view(connection: &mut Connection) -> Vec<NodeRecord> {
    let reply = connection.ask_raw(&[b"CLUSTER", b"NODES"], 0);
    nodes::parse(std::str::from_utf8(bulk(&reply).unwrap()).unwrap()).unwrap()
}

fn reply(connection: &mut Connection, subcommand: &[u8]) -> Value {
    tree::decode(&connection.ask_raw(&[b"CLUSTER", subcommand], 0)).unwrap()
}

fn sorted(mut records: Vec<NodeRecord>) -> Vec<NodeRecord> {
    records.sort_by(|left, right| left.id.cmp(&right.id));
    records
}

/// What all three replies tell of a node.
fn common(node: &NodeRecord) -> impl PartialEq + std::fmt::Debug + use<> {
    (node.id.clone(), node.port, node.role, node.master_id.clone(), node.slots.clone())
}

#[test]
fn nodes_slots_and_shards_tell_the_same() {
    for pair in server::each(CLUSTER).filter_map(|master| Pair::start(master, CLUSTER)) {
        let mut asked = pair.master.connect();
        for version in [&b"2"[..], b"3"] {
            asked.ask(&[b"HELLO", version]);
            let seen = sorted(view(&mut asked));
            assert_eq!(
                seen.iter().map(|node| node.port).max(),
                Some(pair.master.port.max(pair.replica.port))
            );
            let master = seen.iter().find(|node| node.flags.myself).unwrap();
            assert_eq!(master.slots, [0..=99, 101..=16383]);
            let expected = seen.iter().map(common).collect::<Vec<_>>();

            let by_slots = sorted(slots::parse(&reply(&mut asked, b"SLOTS")).unwrap());
            assert_eq!(by_slots.iter().map(common).collect::<Vec<_>>(), expected);
            let by_shards = sorted(shards::parse(&reply(&mut asked, b"SHARDS")).unwrap());
            assert_eq!(by_shards.iter().map(common).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn a_slot_on_its_way_stays_with_its_owner() {
    for pair in server::each(CLUSTER).filter_map(|master| Pair::start(master, CLUSTER)) {
        let mut asked = pair.master.connect();
        let mut lone = pair.replica.connect();
        let id = view(&mut lone).iter().find(|node| node.flags.myself).unwrap().id.clone();
        let other = Server::start(pair.master.kind, CLUSTER).unwrap();
        let (port, bus_port) = (other.port.to_string(), other.bus_port.to_string());
        asked.ask(&[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus_port.as_bytes()]);
        let mut target = String::new();
        wait_until("the third node is met", || {
            let met = view(&mut asked);
            let found = met.iter().find(|node| !node.flags.myself && node.id != id && !node.flags.handshake);
            target = found.map(|node| node.id.clone()).unwrap_or_default();
            !target.is_empty()
        });
        asked.ask(&[b"CLUSTER", b"SETSLOT", b"7", b"MIGRATING", target.as_bytes()]);
        let text = asked.ask_raw(&[b"CLUSTER", b"NODES"], 0);
        assert!(String::from_utf8_lossy(&text).contains("[7->-"));
        let seen = view(&mut asked);
        let owner = seen.iter().find(|node| node.flags.myself).unwrap();
        assert_eq!(owner.slots, [0..=99, 101..=16383]);
    }
}

#[test]
fn announced_host_names_are_read() {
    let announced = [CLUSTER, &["--cluster-announce-hostname", "node.example.com"]].concat();
    for (preferred, host) in [
        ("ip", Host::Named("127.0.0.1".to_owned())),
        ("hostname", Host::Named("node.example.com".to_owned())),
        ("unknown-endpoint", Host::Same),
    ] {
        let options = [&announced[..], &["--cluster-preferred-endpoint-type", preferred]].concat();
        for pair in server::each(&options).filter_map(|master| Pair::start(master, &options)) {
            let mut asked = pair.master.connect();
            // A node learns its own address from others; the replica's is known.
            let replica = |records: Vec<NodeRecord>| {
                records.into_iter().find(|node| node.role == Role::Replica).unwrap()
            };
            let mut by_nodes = replica(view(&mut asked));
            wait_until("the host name has come", || {
                by_nodes = replica(view(&mut asked));
                by_nodes.hostname.is_some()
            });
            assert_eq!(by_nodes.hostname.as_deref(), Some("node.example.com"));
            assert_eq!(by_nodes.ip, Some(Ipv4Addr::LOCALHOST.to_string()));
            for record in [
                replica(slots::parse(&reply(&mut asked, b"SLOTS")).unwrap()),
                replica(shards::parse(&reply(&mut asked, b"SHARDS")).unwrap()),
            ] {
                assert_eq!(
                    (&record.host, record.hostname.as_deref()),
                    (&host, Some("node.example.com")),
                    "{preferred}"
                );
            }
        }
    }
}
