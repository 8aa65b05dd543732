//! Connections to nodes that die or fall silent, and clients that leave: what is sent again, and what no one gets.

use tsubaki_core::action::RefreshReason;

use crate::harness::{B, Behaviour, C, Cluster, D, command, ms};

const LOST: &str =
    "-ERR the connection to the node of slot 3300 was lost after the command was sent; it may have run\r\n";

/// Every attempt of a command was spent within the same millisecond, on connections that were all dead.
#[test]
fn a_command_waits_for_the_reconnection_before_it_is_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "GET c", "GET d"]);
    for node in [B, C, D] {
        cluster.node(node).expect(&format!("GET {}", &node[..1]));
        cluster.node(node).behave(Behaviour::Refuses);
    }
    [B, C, D].iter().for_each(|node| cluster.node(node).close());
    cluster.advance(ms(500));
    client.expect_nothing();
    [B, C, D].iter().for_each(|node| cluster.node(node).behave(Behaviour::Greets));
    cluster.advance(ms(500));
    for node in [B, C, D] {
        cluster.node(node).serve(&format!("GET {}", &node[..1]), "$-1\r\n");
    }
    client.expect("$-1\r\n".repeat(3));
}

#[test]
fn a_lost_connection_asks_for_a_refresh() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(B).close();
    assert_eq!(cluster.refreshes(), [(RefreshReason::Connection, None)]);
}

#[test]
fn a_write_that_was_sent_is_never_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("INCR b");
    cluster.node(B).expect("INCR b");
    cluster.node(B).close();
    client.expect(LOST);
    cluster.advance(ms(20_000));
    assert_eq!(cluster.stats().lost, 1);
}

#[test]
fn a_read_that_was_sent_is_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    for _ in 0..3 {
        cluster.node(B).expect("GET b");
        cluster.node(B).close();
        cluster.advance(ms(400));
    }
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n");
}

#[test]
fn a_read_whose_connections_all_die_gets_an_error() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    for _ in 0..4 {
        cluster.node(B).expect("GET b");
        cluster.node(B).close();
        cluster.advance(ms(400));
    }
    client.expect(LOST);
}

#[test]
fn a_script_that_was_sent_is_never_sent_again_even_if_it_only_reads() {
    for script in ["EVAL x 1 b", "EVAL_RO x 1 b", "FCALL_RO x 1 b"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send(script);
        cluster.node(B).expect(script);
        cluster.node(B).close();
        client.expect(LOST);
        cluster.advance(ms(20_000));
    }
}

#[test]
fn a_write_whose_last_byte_was_not_sent_is_sent_again() {
    let set = command("SET b 1");
    for taken in 0..set.len() {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", "$-1\r\n");
        cluster.node(B).take_only(taken);
        client.send("SET b 1");
        cluster.node(B).expect_bytes(&set[..taken]);
        cluster.node(B).close();
        cluster.advance(ms(50));
        cluster.node(B).serve("SET b 1", "+OK\r\n");
        client.expect("$-1\r\n+OK\r\n");
    }
}

/// The rest of a reply was taken for the beginning of the next connection's first.
#[test]
fn a_connection_that_dies_in_a_reply_leaves_nothing_behind() {
    let replies = "$1\r\n1\r\n*2\r\n$1\r\n2\r\n$1\r\n3\r\n";
    for said in 0..replies.len() {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send_all(["GETDEL b", "LPOP b 2", "GET b"]);
        cluster.node(B).expect_all(["GETDEL b", "LPOP b 2", "GET b"]);
        cluster.node(B).reply(&replies[..said]);
        cluster.node(B).close();
        cluster.advance(ms(50));
        cluster.node(B).serve("GET b", "$1\r\n4\r\n");
        let first = if said < 7 { LOST } else { "$1\r\n1\r\n" };
        client.expect(format!("{first}{LOST}$1\r\n4\r\n"));
    }
}

#[test]
fn a_silent_node_is_given_up_after_fifteen_seconds() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "GET b"]);
    cluster.node(B).expect_all(["SET b 1", "GET b"]);
    cluster.advance(ms(14_999));
    client.expect_nothing();
    cluster.advance(ms(1));
    client.expect(LOST);
    cluster.advance(ms(50));
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n");
    assert_eq!(cluster.node(B).dialled(), 2);
}

#[test]
fn a_node_that_says_something_now_and_then_is_not_silent() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "SET b 2"]);
    cluster.node(B).expect_all(["SET b 1", "SET b 2"]);
    cluster.advance(ms(10_000));
    cluster.node(B).reply("+OK\r\n+");
    cluster.advance(ms(10_000));
    cluster.node(B).reply("OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
}

#[test]
fn a_node_that_owes_nothing_may_be_silent() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    cluster.advance(ms(60_000));
    client.send("SET b 2");
    cluster.node(B).expect("SET b 2");
    cluster.advance(ms(14_999));
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
    assert_eq!(cluster.node(B).dialled(), 1);
}

#[test]
fn the_reply_of_a_client_that_left_reaches_no_one() {
    let cluster = Cluster::new();
    let (gone, client) = (cluster.client(), cluster.client());
    gone.send_all(["GET b", "GET {b}2"]);
    client.send("GET {b}3");
    cluster.node(B).expect_all(["GET b", "GET {b}2", "GET {b}3"]);
    cluster.node(B).reply("$1\r\n1\r\n");
    gone.expect("$1\r\n1\r\n");
    gone.close();
    let heir = cluster.client();
    heir.send("GET {b}4");
    cluster.node(B).expect("GET {b}4");
    cluster.node(B).reply("$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n");
    client.expect("$1\r\n3\r\n");
    heir.expect("$1\r\n4\r\n");
    gone.expect_nothing();
    assert_eq!(cluster.stats().orphans, 1);
}

#[test]
fn a_client_may_leave_at_any_byte_of_its_reply() {
    let reply = "$1\r\n1\r\n*2\r\n$1\r\n2\r\n$-1\r\n";
    for said in 0..=reply.len() {
        let cluster = Cluster::new();
        let (gone, client) = (cluster.client(), cluster.client());
        gone.send_all(["GET b", "MGET {b}2 {b}3", "MGET b c"]);
        client.send("GET b");
        cluster.node(B).expect_all(["GET b", "MGET {b}2 {b}3", "MGET b", "GET b"]);
        cluster.node(C).expect("MGET c");
        cluster.node(B).reply(&reply[..said]);
        gone.close();
        cluster.node(B).reply(format!("{}*1\r\n$-1\r\n$1\r\nv\r\n", &reply[said..]));
        cluster.node(C).reply("*1\r\n$-1\r\n");
        client.expect("$1\r\nv\r\n");
        gone.received();
    }
}

/// The proxy crashed on the replies that a dead node still owed to clients that had left.
#[test]
fn a_node_may_die_while_it_owes_replies_to_clients_that_left() {
    let cluster = Cluster::new();
    let (gone, client) = (cluster.client(), cluster.client());
    gone.send_all(["GET b", "SET b 1", "MSET b 1 c 2", "EVAL x 1 b"]);
    client.send("GET b");
    cluster.node(B).expect_all(["GET b", "SET b 1", "MSET b 1", "EVAL x 1 b", "GET b"]);
    cluster.node(C).expect("MSET c 2");
    gone.close();
    cluster.node(B).close();
    cluster.node(C).close();
    cluster.advance(ms(50));
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n");
    assert_eq!(cluster.stats().orphans, 5);
}

#[test]
fn a_client_may_leave_while_its_command_waits() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send_all(["SET b 1", "SET b 2"]);
    client.close();
    cluster.node(B).behave(Behaviour::Greets);
    cluster.advance(ms(2000));
    cluster.expect_nothing_sent();
}
