//! Several connections of one kind to a node: each client keeps to one, and all that holds for one holds for them together.

use std::num::NonZeroU8;

use tsubaki_core::settings::ReadPolicy;

use crate::harness::{B, B1, Behaviour, C, Cluster, ms};

fn with_connections(count: u8) -> Cluster {
    Cluster::with(|settings| settings.connections_per_node = NonZeroU8::new(count).unwrap())
}

#[test]
fn a_client_keeps_to_one_connection_and_clients_are_spread_over_all() {
    let cluster = with_connections(2);
    let (first, second, third) = (cluster.client(), cluster.client(), cluster.client());
    first.send("SET b 1");
    second.send("SET b 2");
    third.send("SET b 3");
    first.send("SET b1 4");
    let node = cluster.node(B);
    node.expect_all(["SET b 1", "SET b 3", "SET b1 4"]);
    node.reply("+1\r\n+3\r\n+4\r\n");
    node.serve("SET b 2", "+2\r\n");
    first.expect("+1\r\n+4\r\n");
    second.expect("+2\r\n");
    third.expect("+3\r\n");
    assert_eq!(node.dialled(), 2);
}

#[test]
fn whoever_comes_after_one_that_left_takes_over_its_connection() {
    let cluster = with_connections(3);
    let clients: Vec<_> = (0..3).map(|_| cluster.client()).collect();
    clients[1].close();
    let successor = cluster.client();
    clients[0].send("SET b 0");
    successor.send("SET b 1");
    clients[2].send("SET b 2");
    for (client, number) in [(&clients[0], 0), (&successor, 1), (&clients[2], 2)] {
        cluster.node(B).serve(&format!("SET b {number}"), "+OK\r\n");
        client.expect("+OK\r\n");
    }
    assert_eq!(cluster.node(B).dialled(), 3);
}

#[test]
fn each_protocol_and_role_has_as_many() {
    let cluster = Cluster::with(|settings| {
        settings.connections_per_node = NonZeroU8::new(2).unwrap();
        settings.read_policy = ReadPolicy::Replica;
    });
    let clients: Vec<_> = (0..4).map(|_| cluster.client()).collect();
    clients[..2].iter().for_each(|client| drop(client.ask("HELLO 3")));
    for (client, reply) in clients.iter().zip(["+0\r\n", "+1\r\n", "+2\r\n", "+3\r\n"]) {
        client.send("SET b x");
        cluster.node(B).serve("SET b x", reply);
        client.expect(reply);
    }
    assert_eq!(cluster.node(B).dialled(), 4);
    // The first read of a connection opens it, and then it is the other replica's turn.
    for client in clients.iter().cycle().take(8) {
        client.send("GET b");
        let replica =
            [B1, "b2:7000"].into_iter().find(|replica| cluster.node(replica).got_something()).unwrap();
        cluster.node(replica).serve("GET b", "$-1\r\n");
        client.received();
    }
    assert!(cluster.node(B1).dialled() <= 4 && cluster.node("b2:7000").dialled() <= 4);
}

#[test]
fn a_slot_that_moved_is_waited_for_on_every_connection() {
    let cluster = with_connections(2);
    let (first, second) = (cluster.client(), cluster.client());
    first.send("APPEND b 1");
    second.send("APPEND b1 2");
    second.send("APPEND b 3");
    let node = cluster.node(B);
    node.expect_all(["APPEND b1 2", "APPEND b 3"]);
    node.serve("APPEND b 1", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("APPEND b 1", ":1\r\n");
    first.expect(":1\r\n");
    second.send("APPEND b 4");
    cluster.expect_nothing_sent();
    node.reply_to(1, ":1\r\n-MOVED 3300 c:7000\r\n");
    cluster.node(C).expect_all(["APPEND b 3", "APPEND b 4"]);
    cluster.node(C).reply(":2\r\n:3\r\n");
    second.expect(":1\r\n:2\r\n:3\r\n");
}

#[test]
fn asking_and_its_command_travel_as_a_pair_on_the_clients_own_connection() {
    let cluster = with_connections(2);
    let (first, second) = (cluster.client(), cluster.client());
    second.send("SET c x");
    cluster.node(C).serve("SET c x", "+OK\r\n");
    second.expect("+OK\r\n");
    first.send("SET b 1");
    second.send("SET b 2");
    cluster.node(B).serve("SET b 1", "-ASK 3300 c:7000\r\n");
    cluster.node(B).serve("SET b 2", "-ASK 3300 c:7000\r\n");
    for (client, line) in [(&second, "SET b 2"), (&first, "SET b 1")] {
        cluster.node(C).expect_all(["ASKING", line]);
        cluster.node(C).reply("+OK\r\n+OK\r\n");
        client.expect("+OK\r\n");
    }
    assert_eq!(cluster.node(C).dialled(), 2);
}

#[test]
fn a_connection_that_dies_takes_nothing_of_the_others_with_it() {
    let cluster = with_connections(2);
    let (first, second) = (cluster.client(), cluster.client());
    first.send("INCR b");
    second.send("INCR b");
    (0..2).for_each(|_| cluster.node(B).expect("INCR b"));
    cluster.node(B).close_one(0);
    assert!(String::from_utf8(first.received()).unwrap().contains("it may have run"));
    second.expect_nothing();
    cluster.node(B).reply(":1\r\n");
    second.expect(":1\r\n");
    second.send("INCR b");
    cluster.node(B).serve("INCR b", ":2\r\n");
    second.expect(":2\r\n");
}

#[test]
fn connections_that_fail_together_count_as_one_failure() {
    let cluster = with_connections(8);
    let clients: Vec<_> = (0..8).map(|_| cluster.client()).collect();
    clients.iter().for_each(|client| client.send("GET b"));
    (0..8).for_each(|_| cluster.node(B).expect("GET b"));
    cluster.node(B).behave(Behaviour::Refuses);
    cluster.node(B).close();
    let before = cluster.node(B).dialled();
    // The first pause is 50 ms at the longest, the second twice as long.
    cluster.advance(ms(51));
    assert!(cluster.node(B).dialled() > before);
    cluster.node(B).behave(Behaviour::Greets);
    cluster.advance(ms(101));
    (0..8).for_each(|_| cluster.node(B).serve("GET b", "$-1\r\n"));
    clients.iter().for_each(|client| client.expect("$-1\r\n"));
}

#[test]
fn nodes_shows_all_connections() {
    let cluster = with_connections(3);
    let clients: Vec<_> = (0..3).map(|_| cluster.client()).collect();
    clients.iter().for_each(|client| client.send("INCR b"));
    (0..3).for_each(|_| cluster.node(B).expect("INCR b"));
    let nodes = cluster.client().ask("TSUBAKI NODES");
    assert!(nodes.contains("b:7000 master 0-5460 state=ok connections=3 in-flight=3"), "{nodes}");
    assert_eq!(cluster.stats().backends, 3);
}
