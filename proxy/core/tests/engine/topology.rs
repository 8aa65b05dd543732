//! Views of several nodes joined into one: whose word counts, and which addresses come of it.

use std::collections::BTreeMap;

use tsubaki_core::time::Time;
use tsubaki_core::topology::{AddressMap, Shard, Topology, View, merge};
use tsubaki_protocol::cluster::nodes;

/// What the node at `host` says: a line a node, of which the times are left out.
fn view(host: &str, lines: &[&str]) -> View {
    let line = |line: &&str| {
        let [id, address, flags, master, epoch, link, slots] =
            line.split(' ').collect::<Vec<_>>().try_into().expect("seven fields");
        format!("{id} {address} {flags} {master} 0 0 {epoch} {link} {}\n", slots.replace(',', " "))
    };
    let text: String = lines.iter().map(line).collect();
    View { host: host.to_owned(), nodes: nodes::parse(&text).expect("lines of CLUSTER NODES") }
}

fn joined(views: &[View]) -> Topology {
    merge(views, &[], &AddressMap::default(), Time::default())
}

fn shard(master: &str, replicas: &[&str], slots: &[(u16, u16)]) -> Shard {
    let replicas = replicas.iter().map(|replica| (*replica).to_owned()).collect();
    Shard { master: master.to_owned(), replicas, slots: slots.to_vec() }
}

#[test]
fn masters_come_with_their_slots_and_replicas() {
    let topology = joined(&[view(
        "10.0.0.1",
        &[
            "m1 10.0.0.1:7000@17000 myself,master - 1 connected 0-99,200,[300->-m2]",
            "m2 10.0.0.2:7000@17000,name master - 2 connected 100-199,201-16383",
            "r1 10.0.0.3:7000@17000 slave m1 1 connected ",
            "r2 10.0.0.4:7000@17000 slave m1 1 connected ",
        ],
    )]);
    assert_eq!(
        topology.shards,
        [
            shard("10.0.0.1:7000", &["10.0.0.3:7000", "10.0.0.4:7000"], &[(0, 99), (200, 200)]),
            shard("10.0.0.2:7000", &[], &[(100, 199), (201, 16383)]),
        ]
    );
    assert_eq!(topology.covered(), 16384);
}

#[test]
fn of_two_owners_of_a_slot_the_one_with_the_higher_epoch_is_right() {
    let before =
        view("a", &["m1 a:1@2 myself,master - 5 connected 0-9", "m2 b:1@2 master - 6 connected 10-19"]);
    let after =
        view("b", &["m2 b:1@2 myself,master - 7 connected 5-19", "m1 a:1@2 master - 5 connected 0-9"]);
    for views in [[before.clone(), after.clone()], [after, before]] {
        assert_eq!(joined(&views).shards, [shard("a:1", &[], &[(0, 4)]), shard("b:1", &[], &[(5, 19)])]);
    }
}

#[test]
fn after_a_failover_the_new_master_serves_whoever_is_asked() {
    let old = view("a", &["m1 a:1@2 myself,master - 5 connected 0-9", "r1 b:1@2 slave m1 5 connected "]);
    let new =
        view("b", &["r1 b:1@2 myself,master - 6 connected 0-9", "m1 a:1@2 master,fail - 5 disconnected "]);
    let topology = joined(&[old, new]);
    assert_eq!(topology.shards, [shard("b:1", &[], &[(0, 9)])]);
}

/// Reads went to replicas that were dead or not in step yet, since the map still listed them.
#[test]
fn a_replica_that_failed_or_is_not_linked_serves_no_reads() {
    let topology = joined(&[view(
        "a",
        &[
            "m1 a:1@2 myself,master - 1 connected 0-9",
            "r1 b:1@2 slave,fail m1 1 connected ",
            "r2 c:1@2 slave m1 1 disconnected ",
            "r3 :0@0 slave,noaddr m1 1 connected ",
            "r4 d:1@2 slave m1 1 connected ",
        ],
    )]);
    assert_eq!(topology.shards, [shard("a:1", &["d:1"], &[(0, 9)])]);
}

#[test]
fn an_empty_host_is_the_one_that_was_asked_and_an_unknown_one_is_no_node() {
    let lines =
        ["m1 :7000@17000 myself,master - 1 connected 0-9", "m2 ?:7000@17000 master - 1 connected 10-19"];
    assert_eq!(joined(&[view("seed", &lines)]).shards, [shard("seed:7000", &[], &[(0, 9)])]);
    let lines = ["m1 10.0.0.1:0@17000 myself,master - 1 connected 0-9"];
    assert_eq!(joined(&[view("seed", &lines)]).shards, []);
}

#[test]
fn an_ipv6_address_gets_brackets() {
    let lines = [
        "m1 2001:db8::1:7000@17000 myself,master - 1 connected 0-9",
        "r1 ::2:7000@17000 slave m1 1 connected ",
    ];
    assert_eq!(
        joined(&[view("::3", &lines)]).shards,
        [shard("[2001:db8::1]:7000", &["[::2]:7000"], &[(0, 9)])]
    );
    let lines = ["m1 :7000@17000 myself,master - 1 connected 0-9"];
    assert_eq!(joined(&[view("::3", &lines)]).shards, [shard("[::3]:7000", &[], &[(0, 9)])]);
}

#[test]
fn the_address_map_rewrites_what_is_announced() {
    let lines = [
        "m1 10.0.0.1:7000@17000 myself,master - 1 connected 0-9",
        "r1 10.0.0.2:7001@17001 slave m1 1 connected ",
    ];
    let map = BTreeMap::from([
        ("10.0.0.1:7000".to_owned(), "nat:30001".to_owned()),
        ("10.0.0.2".to_owned(), "2001:db8::2".to_owned()),
    ]);
    let topology = merge(&[view("10.0.0.1", &lines)], &[], &AddressMap::new(map), Time::default());
    assert_eq!(topology.shards, [shard("nat:30001", &["[2001:db8::2]:7001"], &[(0, 9)])]);
}

#[test]
fn what_no_node_serves_is_not_covered() {
    let topology = joined(&[view("a", &["m1 a:1@2 myself,master - 1 connected 0,2-3"])]);
    assert_eq!(topology.covered(), 3);
    assert_eq!(joined(&[]).covered(), 0);
}
