//! Replies by which a node says that it did not run a command: sent again at a measured pace, never where it may have run.

use tsubaki_core::action::RefreshReason;

use crate::harness::{B, C, Cluster, KEYS, ms, shards};

const TRYAGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
const CLUSTERDOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";
const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";
const READONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
const MASTERDOWN: &str =
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";

#[test]
fn a_refused_command_is_sent_again_after_a_pause() {
    for refusal in [TRYAGAIN, CLUSTERDOWN, LOADING, READONLY, MASTERDOWN] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("SET b 1");
        cluster.node(B).serve("SET b 1", refusal);
        cluster.expect_nothing_sent();
        cluster.advance(ms(5));
        cluster.node(B).serve("SET b 1", "+OK\r\n");
        client.expect("+OK\r\n");
    }
}

#[test]
fn a_command_that_stays_refused_gets_the_nodes_own_words_in_the_end() {
    for refusal in [TRYAGAIN, CLUSTERDOWN, LOADING, READONLY, MASTERDOWN] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("SET b 1");
        let mut tries = 0;
        for _ in 0..1499 {
            if cluster.node(B).got_something() {
                cluster.node(B).serve("SET b 1", refusal);
                tries += 1;
            }
            cluster.advance(ms(1));
        }
        client.expect_nothing();
        cluster.advance(ms(101));
        client.expect(refusal);
        assert!((10..=25).contains(&tries), "sent {tries} times in 1.5 s");
        client.send("SET b 2");
        cluster.node(B).serve("SET b 2", "+OK\r\n");
        client.expect("+OK\r\n");
    }
}

#[test]
fn a_refusal_that_a_new_view_may_cure_asks_for_one() {
    for (refusal, reason) in [(CLUSTERDOWN, RefreshReason::ClusterDown), (READONLY, RefreshReason::ReadOnly)]
    {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("SET b 1");
        cluster.node(B).serve("SET b 1", refusal);
        assert_eq!(cluster.refreshes(), [(reason, None)]);
        let mut newer = shards();
        newer[0].master = "b1:7000".to_owned();
        cluster.learn(newer);
        cluster.advance(ms(5));
        cluster.node("b1:7000").serve("SET b 1", "+OK\r\n");
        client.expect("+OK\r\n");
    }
}

/// A read of several keys in a slot that is half migrated showed nil for keys that exist.
#[test]
fn keys_of_one_moving_slot_are_asked_for_together_until_they_are() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("MGET {b}1 {b}2");
    cluster.node(B).serve("MGET {b}1 {b}2", TRYAGAIN);
    cluster.advance(ms(5));
    cluster.node(B).serve("MGET {b}1 {b}2", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "MGET {b}1 {b}2"]);
    cluster.node(C).reply(format!("+OK\r\n{TRYAGAIN}"));
    cluster.advance(ms(10));
    cluster.node(B).serve("MGET {b}1 {b}2", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    client.expect("*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn a_part_of_a_split_command_is_sent_again_alone() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("MSET b 1 {b}2 2 c 3");
    cluster.node(B).serve("MSET b 1 {b}2 2", TRYAGAIN);
    cluster.node(C).serve("MSET c 3", "+OK\r\n");
    cluster.advance(ms(5));
    cluster.node(B).serve("MSET b 1 {b}2 2", "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_script_is_sent_again_after_the_servers_own_words_only() {
    for refusal in [TRYAGAIN, CLUSTERDOWN, LOADING, READONLY, MASTERDOWN] {
        for script in [
            "EVAL x 1 b",
            "EVALSHA x 1 b",
            "FCALL x 1 b",
            "EVAL_RO x 1 b",
            "EVALSHA_RO x 1 b",
            "FCALL_RO x 1 b",
        ] {
            let cluster = Cluster::new();
            let client = cluster.client();
            client.send(script);
            cluster.node(B).serve(script, refusal);
            cluster.advance(ms(5));
            cluster.node(B).serve(script, ":1\r\n");
            client.expect(":1\r\n");
        }
    }
}

#[test]
fn a_script_may_have_written_before_any_other_error() {
    for refusal in [
        TRYAGAIN,
        CLUSTERDOWN,
        LOADING,
        READONLY,
        MASTERDOWN,
        "-MOVED 3300 c:7000\r\n",
        "-ASK 3300 c:7000\r\n",
    ] {
        let own = refusal.replace("\r\n", " script: x, on @user_script:1.\r\n");
        for script in ["EVAL x 1 b", "EVALSHA x 1 b", "FCALL x 1 b", "EVAL_RO x 1 b"] {
            let cluster = Cluster::new();
            let client = cluster.client();
            client.send(script);
            cluster.node(B).serve(script, &own);
            client.expect(&own);
            cluster.advance(ms(2000));
        }
    }
}

#[test]
fn a_script_follows_moved_and_ask() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("EVAL x 1 b");
    cluster.node(B).serve("EVAL x 1 b", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "EVAL x 1 b"]);
    cluster.node(C).reply("+OK\r\n-NOSCRIPT No matching script.\r\n");
    client.expect("-NOSCRIPT No matching script.\r\n");
    client.send("FCALL x 1 b");
    cluster.node(B).serve("FCALL x 1 b", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "FCALL x 1 b"]);
    cluster.node(C).reply("+OK\r\n:1\r\n");
    client.expect(":1\r\n");
}

/// A script can return any error text: it must not make the proxy dial an address and tell it the nodes' password.
#[test]
fn a_redirect_of_a_script_to_an_unknown_node_waits_for_a_view_that_knows_it() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("EVAL x 1 b");
    cluster.node(B).serve("EVAL x 1 b", "-MOVED 3300 x:7000\r\n");
    cluster.expect_nothing_sent();
    cluster.advance(ms(5));
    cluster.node(B).serve("EVAL x 1 b", "-MOVED 3300 x:7000\r\n");
    let mut moved = shards();
    moved[0].master = "x:7000".to_owned();
    cluster.learn(moved);
    cluster.advance(ms(100));
    cluster.node("x:7000").serve("EVAL x 1 b", ":1\r\n");
    client.expect(":1\r\n");
}

#[test]
fn a_script_that_goes_on_naming_an_unknown_node_gets_an_error_in_the_end() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("EVAL x 1 b");
    let mut sent = 0;
    for _ in 0..400 {
        if cluster.node(B).got_something() {
            cluster.node(B).serve("EVAL x 1 b", "-MOVED 3300 x:7000\r\n");
            sent += 1;
        }
        cluster.advance(ms(5));
    }
    assert!(sent > 1, "it was not tried again");
    client.expect("-CLUSTERDOWN the nodes do not agree on who serves slot 3300; try again later\r\n");
}

#[test]
fn a_redirect_of_a_script_for_another_slot_is_its_own_reply() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("EVAL x 1 b");
    cluster.node(B).serve("EVAL x 1 b", "-MOVED 3301 d:7000\r\n");
    client.expect("-MOVED 3301 d:7000\r\n");
}

#[test]
fn a_script_goes_by_its_keys_and_not_by_its_digest() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for (node, [key, ..]) in KEYS {
        let script = format!("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 {key} argument");
        client.send(&script);
        cluster.node(node).serve(&script, "$-1\r\n");
    }
    client.expect("$-1\r\n".repeat(3));
}

#[test]
fn a_script_without_keys_goes_to_one_master_and_is_answered() {
    let cluster = Cluster::new();
    for _ in 0..3 {
        let client = cluster.client();
        client.send_all(["EVAL x 0", "EVAL x 0", "FCALL f 0"]);
        let nodes = cluster.connections();
        let node =
            nodes.iter().map(|node| cluster.node(node)).find(|node| node.got_something()).expect("a master");
        node.expect_all(["EVAL x 0", "EVAL x 0", "FCALL f 0"]);
        node.reply(":0\r\n:1\r\n:2\r\n");
        client.expect(":0\r\n:1\r\n:2\r\n");
    }
    assert_eq!(cluster.connections().len(), 3, "clients take different masters");
}
