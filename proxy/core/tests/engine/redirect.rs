//! MOVED and ASK: followed, learned, and never shown to a client.

use std::collections::BTreeMap;

use tsubaki_core::action::RefreshReason;
use tsubaki_core::topology::{AddressMap, Topology};

use crate::harness::{B, C, Cluster, D, command, ms, shards};

/// As servers write hosts, and where the proxy then connects to; the one that says so is `b:7000`.
const HOSTS: [(&str, &str); 6] = [
    ("e:7000", "e:7000"),
    ("node-1.example.com:6379", "node-1.example.com:6379"),
    (":7009", "b:7009"),
    ("2001:db8::1:6379", "[2001:db8::1]:6379"),
    ("[2001:db8::1]:6379", "[2001:db8::1]:6379"),
    ("::1:6379", "[::1]:6379"),
];

#[test]
fn a_moved_command_is_answered_by_the_node_that_moved_names() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("SET b 1", "+OK\r\n");
    client.expect("+OK\r\n");
    assert_eq!(cluster.refreshes(), [(RefreshReason::Moved, Some(C.to_owned()))]);
}

#[test]
fn a_moved_is_learned_for_its_slot() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("GET b", "$-1\r\n");
    client.send_all(["GET b", "GET b1"]);
    cluster.node(C).serve("GET b", "$-1\r\n");
    cluster.node(B).serve("GET b1", "$-1\r\n");
    client.expect("$-1\r\n".repeat(3));
}

#[test]
fn moved_goes_to_the_host_however_it_is_written() {
    for (written, address) in HOSTS {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", format!("-MOVED 3300 {written}\r\n"));
        cluster.node(address).serve("GET b", "$1\r\nv\r\n");
        client.expect("$1\r\nv\r\n");
    }
}

#[test]
fn ask_goes_to_the_host_however_it_is_written() {
    for (written, address) in HOSTS {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", format!("-ASK 3300 {written}\r\n"));
        cluster.node(address).expect_all(["ASKING", "GET b"]);
        cluster.node(address).reply("+OK\r\n$1\r\nv\r\n");
        client.expect("$1\r\nv\r\n");
    }
}

#[test]
fn a_redirect_to_a_host_that_is_not_known_waits_for_a_better_view() {
    for redirect in ["MOVED 3300 ?:7000", "MOVED 3300 :0", "MOVED 3300 c:0", "ASK 3300 ?:7000"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        for _ in 0..3 {
            cluster.node(B).serve("GET b", format!("-{redirect}\r\n"));
        }
        client.expect_nothing();
        assert_eq!(cluster.connections(), [B], "{redirect}");
        let mut shards = shards();
        shards[0].master = C.to_owned();
        cluster.learn(shards);
        cluster.advance(ms(100));
        cluster.node(C).serve("GET b", "$1\r\nv\r\n");
        client.expect("$1\r\nv\r\n");
    }
}

/// Announced addresses behind NAT: the map that was applied to the topology was forgotten on redirects.
#[test]
fn the_address_map_applies_to_moved_and_ask() {
    let map =
        BTreeMap::from([("10.0.0.3:7000".to_owned(), C.to_owned()), ("10.0.0.4".to_owned(), "d".to_owned())]);
    for (announced, address) in [("10.0.0.3:7000", C), ("10.0.0.4:7000", D)] {
        let cluster = Cluster::with(|settings| settings.address_map = AddressMap::new(map.clone()));
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", format!("-ASK 3300 {announced}\r\n"));
        cluster.node(address).expect_all(["ASKING", "GET b"]);
        cluster.node(address).reply("+OK\r\n$-1\r\n");
        client.send("GET b");
        cluster.node(B).serve("GET b", format!("-MOVED 3300 {announced}\r\n"));
        cluster.node(address).serve("GET b", "$-1\r\n");
        client.expect("$-1\r\n$-1\r\n");
        assert_eq!(cluster.refreshes(), [(RefreshReason::Moved, Some(address.to_owned()))]);
    }
}

#[test]
fn an_ask_holds_for_one_command() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "GET b"]);
    cluster.node(C).reply("+OK\r\n$1\r\n1\r\n");
    client.send("GET b");
    cluster.node(B).serve("GET b", "$1\r\n2\r\n");
    client.expect("$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(cluster.refreshes(), []);
}

/// A slot moved on and was on its way back when a command at last followed its ASK: it wrote a key that was still at the
/// other node, so that there were two of it.
#[test]
fn an_ask_that_waited_long_is_asked_for_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "GET {b}2"]);
    cluster.node(B).expect_all(["GET b", "GET {b}2"]);
    cluster.node(B).reply("-ASK 3300 c:7000\r\n");
    cluster.advance(ms(60));
    cluster.node(B).reply("$1\r\n2\r\n");
    cluster.node(B).serve("GET b", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "GET b"]);
    cluster.node(C).reply("+OK\r\n$1\r\n1\r\n");
    client.expect("$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn each_asked_command_has_its_own_asking_with_nothing_between() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(), cluster.client());
    client.send_all(["GET b", "GET {b}2"]);
    cluster.node(B).expect_all(["GET b", "GET {b}2"]);
    other.send("GET c");
    cluster.node(C).expect("GET c");
    cluster.node(B).reply("-ASK 3300 c:7000\r\n-ASK 3300 c:7000\r\n");
    other.send("GET c");
    cluster.node(C).expect_all(["ASKING", "GET b", "ASKING", "GET {b}2", "GET c"]);
    cluster.node(C).reply("$1\r\n0\r\n+OK\r\n$1\r\n1\r\n+OK\r\n$1\r\n2\r\n$1\r\n3\r\n");
    client.expect("$1\r\n1\r\n$1\r\n2\r\n");
    other.expect("$1\r\n0\r\n$1\r\n3\r\n");
}

#[test]
fn an_asking_that_fails_shifts_no_reply_and_the_pair_is_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "GET c"]);
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["GET c", "ASKING", "SET b 1"]);
    let loading = "-LOADING Redis is loading the dataset in memory\r\n";
    cluster.node(C).reply(format!("$1\r\nc\r\n{loading}{loading}"));
    cluster.advance(ms(5));
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "SET b 1"]);
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    client.expect("+OK\r\n$1\r\nc\r\n");
}

#[test]
fn an_asking_whose_command_was_not_sent_is_done_again_as_a_pair() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET c");
    cluster.node(C).serve("GET c", "$-1\r\n");
    cluster.node(C).take_only(command("ASKING").len() + 3);
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_bytes([command("ASKING").as_slice(), b"*3\r"].concat());
    cluster.node(C).close();
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    cluster.advance(ms(100));
    cluster.node(C).expect_all(["ASKING", "SET b 1"]);
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    client.expect("$-1\r\n+OK\r\n");
}

#[test]
fn nodes_that_point_at_each_other_get_five_redirects_and_the_client_one_error() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    for (node, other) in [(B, C), (C, B), (B, C), (C, B), (B, C), (C, B)] {
        client.expect_nothing();
        cluster.advance(ms(100));
        cluster.node(node).serve("GET b", format!("-MOVED 3300 {other}\r\n"));
    }
    client.expect("-CLUSTERDOWN the nodes do not agree on who serves slot 3300; try again later\r\n");
    assert_eq!(cluster.stats().redirect_loops, 1);
}

#[test]
fn two_redirects_are_followed_at_once_and_more_are_paced() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("GET b", "-ASK 3300 d:7000\r\n");
    cluster.node(D).expect_all(["ASKING", "GET b"]);
    cluster.node(D).reply("+OK\r\n-MOVED 3300 c:7000\r\n");
    cluster.expect_nothing_sent();
    cluster.advance(ms(20));
    cluster.node(C).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

/// Commands of one node that had not moved failed with those that had, or ran twice.
#[test]
fn of_a_pipeline_over_two_slots_of_one_node_only_the_moved_one_goes_on() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["INCR b", "INCR b1", "INCR b", "INCR b1"]);
    cluster.node(B).expect_all(["INCR b", "INCR b1", "INCR b", "INCR b1"]);
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n:1\r\n-MOVED 3300 c:7000\r\n:2\r\n");
    cluster.node(C).expect_all(["INCR b", "INCR b"]);
    cluster.node(C).reply(":1\r\n:2\r\n");
    client.expect(":1\r\n:1\r\n:2\r\n:2\r\n");
}

#[test]
fn a_moved_from_a_node_that_no_longer_serves_the_slot_teaches_nothing() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).expect("GET b");
    let mut newer = shards();
    newer[0].master = D.to_owned();
    cluster.learn(newer);
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n");
    cluster.node(D).serve("GET b", "$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n");
}

#[test]
fn a_view_from_before_a_moved_does_not_undo_it_and_one_from_after_it_does() {
    let cluster = Cluster::new();
    let client = cluster.client();
    cluster.advance(ms(1));
    let fetched = cluster.now();
    cluster.advance(ms(1));
    client.send("GET b");
    cluster.node(B).serve("GET b", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("GET b", "$-1\r\n");
    cluster.learn_topology(Topology { fetched, shards: shards(), redis_version: None });
    client.send("GET b");
    cluster.node(C).serve("GET b", "$-1\r\n");
    cluster.advance(ms(1));
    cluster.learn(shards());
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n".repeat(3));
}

#[test]
fn a_view_that_was_overtaken_by_a_later_one_is_not_taken_over() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let fetched = cluster.now();
    cluster.advance(ms(1));
    let mut newer = shards();
    newer[0].master = D.to_owned();
    cluster.learn(newer);
    cluster.learn_topology(Topology { fetched, shards: shards(), redis_version: None });
    client.send("GET b");
    cluster.node(D).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn many_moved_at_once_ask_for_one_refresh() {
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..20).map(|_| cluster.client()).collect();
    clients.iter().for_each(|client| client.send("GET b"));
    for _ in &clients {
        cluster.node(B).serve("GET b", "-MOVED 3300 c:7000\r\n");
        cluster.node(C).serve("GET b", "$-1\r\n");
    }
    clients.iter().for_each(|client| client.expect("$-1\r\n"));
    assert_eq!(cluster.refreshes().len(), 1);
}

#[test]
fn what_only_looks_like_a_redirect_is_the_commands_own_error() {
    for error in ["-MOVED\r\n", "-MOVED 1 here\r\n", "-MOVEDX 3300 c:7000\r\n", "-ASK 99999 c:7000\r\n"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", error);
        client.expect(error);
    }
}

#[test]
fn a_value_that_reads_like_a_redirect_is_a_value() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "ECHO x", "LRANGE b 0 -1"]);
    let (value, list) = ("$20\r\n-MOVED 3300 c:7000\r\n\r\n", "*1\r\n+MOVED 3300 c:7000\r\n");
    cluster.node(B).expect_all(["GET b", "LRANGE b 0 -1"]);
    cluster.node(B).reply(format!("{value}{list}"));
    client.expect(format!("{value}$1\r\nx\r\n{list}"));
}
