//! The order of replies, and of one client's commands on one slot while that slot moves.

use crate::harness::{B, C, Cluster, D, command, ms, shards};

const OVERTAKEN: &str =
    "-TRYAGAIN the slot is moving and a later command on the same key has run already\r\n";

#[test]
fn replies_come_in_the_order_of_the_requests_whatever_order_nodes_answer_in() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "PING", "GET c", "MGET d b1", "NOSUCH", "GET d"]);
    cluster.node(D).expect_all(["MGET d", "GET d"]);
    cluster.node(D).reply("*1\r\n$1\r\n4\r\n$1\r\n6\r\n");
    cluster.node(C).serve("GET c", "$1\r\n3\r\n");
    client.expect_nothing();
    cluster.node(B).expect_all(["GET b", "MGET b1"]);
    cluster.node(B).reply("$1\r\n1\r\n");
    client.expect("$1\r\n1\r\n+PONG\r\n$1\r\n3\r\n");
    cluster.node(B).reply("*1\r\n$1\r\n5\r\n");
    let unknown = "-ERR unknown command 'NOSUCH', with args beginning with: \r\n";
    client.expect(format!("*2\r\n$1\r\n4\r\n$1\r\n5\r\n{unknown}$1\r\n6\r\n"));
}

#[test]
fn an_error_takes_the_place_of_one_reply() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["INCR b", "GET b", "SINTER b c", "GET c"]);
    cluster.node(C).serve("GET c", "$1\r\n4\r\n");
    cluster.node(B).expect_all(["INCR b", "GET b"]);
    cluster.node(B).reply("-ERR value is not an integer or out of range\r\n$1\r\n2\r\n");
    let received = String::from_utf8(client.received()).unwrap();
    let lines: Vec<&str> = received.split_inclusive("\r\n").collect();
    assert_eq!(lines[..3].concat(), "-ERR value is not an integer or out of range\r\n$1\r\n2\r\n");
    assert!(lines[3].starts_with("-CROSSSLOT "), "{received}");
    assert_eq!(lines[4..].concat(), "$1\r\n4\r\n");
}

#[test]
fn refused_commands_of_one_slot_go_again_in_their_order() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["APPEND b 1", "APPEND b 2", "APPEND b 3"]);
    cluster.node(B).expect_all(["APPEND b 1", "APPEND b 2", "APPEND b 3"]);
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n-MOVED 3300 c:7000\r\n");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n");
    cluster.node(C).expect_all(["APPEND b 1", "APPEND b 2", "APPEND b 3"]);
    cluster.node(C).reply(":1\r\n:2\r\n:3\r\n");
    client.expect(":1\r\n:2\r\n:3\r\n");
}

#[test]
fn new_commands_wait_behind_a_refused_one_of_their_slot() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-TRYAGAIN x\r\n");
    client.send_all(["SET b 2", "SET b1 3", "SET c 4"]);
    cluster.node(B).serve("SET b1 3", "+OK\r\n");
    cluster.node(C).serve("SET c 4", "+OK\r\n");
    cluster.expect_nothing_sent();
    cluster.advance(ms(5));
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    cluster.node(B).serve("SET b 2", "+OK\r\n");
    client.expect("+OK\r\n".repeat(4));
}

#[test]
fn one_clients_refused_command_holds_up_no_other_client() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(), cluster.client());
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-TRYAGAIN x\r\n");
    other.send("SET b 2");
    cluster.node(B).serve("SET b 2", "+OK\r\n");
    other.expect("+OK\r\n");
    cluster.advance(ms(5));
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_command_that_a_later_one_on_its_key_overtook_is_not_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "SET b 2"]);
    cluster.node(B).expect_all(["SET b 1", "SET b 2"]);
    cluster.node(B).reply("-TRYAGAIN x\r\n+OK\r\n");
    client.expect(format!("{OVERTAKEN}+OK\r\n"));
    cluster.advance(ms(2000));
    assert_eq!(cluster.stats().overtaken, 1);
}

#[test]
fn a_command_that_a_later_one_on_another_key_overtook_is_sent_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "SET {b}2 2"]);
    cluster.node(B).expect_all(["SET b 1", "SET {b}2 2"]);
    cluster.node(B).reply("-ASK 3300 c:7000\r\n+OK\r\n");
    cluster.node(C).expect_all(["ASKING", "SET b 1"]);
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
}

#[test]
fn after_a_move_new_commands_wait_for_those_in_flight_at_the_old_master() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).expect("SET b 1");
    let mut newer = shards();
    newer[0].master = D.to_owned();
    cluster.learn(newer);
    client.send("SET b 2");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("-MOVED 3300 d:7000\r\n");
    cluster.node(D).expect_all(["SET b 1", "SET b 2"]);
    cluster.node(D).reply("+OK\r\n+OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
}

#[test]
fn a_moved_seen_by_another_client_keeps_ones_own_order() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(), cluster.client());
    other.send("GET {b}x");
    client.send("SET b 1");
    cluster.node(B).expect_all(["GET {b}x", "SET b 1"]);
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("GET {b}x", "$-1\r\n");
    client.send("SET b 2");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n");
    cluster.node(C).expect_all(["SET b 1", "SET b 2"]);
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
    other.expect("$-1\r\n");
}

#[test]
fn an_asked_command_and_those_behind_it_go_one_destination_at_a_time() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    client.send("SET b 2");
    cluster.node(C).expect_all(["ASKING", "SET b 1"]);
    cluster.expect_nothing_sent();
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    cluster.node(B).serve("SET b 2", "+OK\r\n");
    client.expect("+OK\r\n+OK\r\n");
}

#[test]
fn commands_that_were_not_sent_go_again_slot_by_slot_in_the_order_in_which_they_came() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    cluster.node(B).take_only(0);
    client.send_all(["SET b 1", "SET b1 2", "SET b5 3", "SET b 4"]);
    cluster.node(B).close();
    cluster.advance(ms(100));
    cluster.node(B).expect_all(["SET b 1", "SET b 4", "SET b1 2", "SET b5 3"]);
    cluster.node(B).reply("+OK\r\n".repeat(4));
    client.expect("$-1\r\n".to_owned() + &"+OK\r\n".repeat(4));
}

#[test]
fn a_command_that_waits_for_all_replies_is_looked_at_when_they_are_here() {
    const COMMANDS: usize = 20_000;
    let cluster = Cluster::with(|settings| settings.max_in_flight = 10 * COMMANDS);
    let client = cluster.client();
    client.send_bytes(command("GET b").repeat(COMMANDS));
    cluster.node(B).expect_bytes(command("GET b").repeat(COMMANDS));
    client.send_bytes(command(&format!("HELLO 9{}", " x".repeat(1_000_000))));
    // If each had the long command read again, this would not end.
    for _ in 0..COMMANDS {
        cluster.node(B).reply("$-1\r\n");
    }
    client.expect("$-1\r\n".repeat(COMMANDS) + "-NOPROTO unsupported protocol version\r\n");
}
