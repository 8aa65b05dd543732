//! When batches leave for a node: at once, unless the node is short of CPU and many wait for it.

use std::time::Duration;

use crate::harness::{B, C, Client, Cluster, command, ms};

/// As many commands as make a crowd.
const CROWD: usize = 32;
const NIL: &str = "$-1\r\n";

fn gets(count: usize) -> Vec<u8> {
    command("GET b").repeat(count)
}

/// `count` commands go to B, which takes `time` to answer them.
#[track_caller]
fn exchange(cluster: &Cluster, client: &Client, count: usize, time: Duration) {
    client.send_bytes(gets(count));
    cluster.node(B).expect_bytes(gets(count));
    cluster.advance(time);
    cluster.node(B).reply(NIL.repeat(count));
    client.expect(NIL.repeat(count));
}

/// A cluster in which B was quick and then kept a crowd waiting.
fn strained() -> (Cluster, Client) {
    let cluster = Cluster::new();
    let client = cluster.client();
    exchange(&cluster, &client, 1, ms(0));
    exchange(&cluster, &client, CROWD, ms(4));
    (cluster, client)
}

#[track_caller]
fn expect_no_wait(cluster: &Cluster, client: &Client) {
    exchange(cluster, client, 1, ms(0));
    assert_eq!(cluster.stats().paced_batches, 0);
}

#[test]
fn a_batch_for_a_strained_node_waits_a_millisecond_for_more() {
    let (cluster, client) = strained();
    for _ in 0..3 {
        client.send_bytes(gets(1));
        cluster.advance(ms(1) / 2);
        client.send_bytes(gets(2));
        assert!(!cluster.node(B).got_something());
        cluster.advance(ms(1) / 2);
        cluster.node(B).expect_bytes(gets(3));
        cluster.node(B).reply(NIL.repeat(3));
        client.expect(NIL.repeat(3));
    }
    assert_eq!(cluster.stats().paced_batches, 3);
}

#[test]
fn half_of_those_that_waited_are_enough() {
    let (cluster, client) = strained();
    client.send_bytes(gets(CROWD / 2 - 1));
    assert!(!cluster.node(B).got_something());
    client.send_bytes(gets(1));
    cluster.node(B).expect_bytes(gets(CROWD / 2));
    // What comes next has a millisecond of its own.
    client.send_bytes(gets(1));
    cluster.advance(ms(1) / 2);
    assert!(!cluster.node(B).got_something());
    cluster.advance(ms(1) / 2);
    cluster.node(B).expect_bytes(gets(1));
}

#[test]
fn a_node_is_strained_for_as_long_as_it_kept_them_waiting() {
    let (cluster, client) = strained();
    cluster.advance(ms(4));
    expect_no_wait(&cluster, &client);
}

#[test]
fn who_is_left_alone_waits_once() {
    let (cluster, client) = strained();
    client.send_bytes(gets(1));
    cluster.advance(ms(1));
    cluster.node(B).expect_bytes(gets(1));
    cluster.node(B).reply(NIL);
    client.expect(NIL);
    exchange(&cluster, &client, 1, ms(0));
    assert_eq!(cluster.stats().paced_batches, 1);
}

#[test]
fn who_came_later_waited_too() {
    let cluster = Cluster::new();
    let client = cluster.client();
    exchange(&cluster, &client, 1, ms(0));
    client.send_bytes(gets(1));
    client.send_bytes(gets(CROWD - 1));
    cluster.node(B).expect_bytes(gets(CROWD));
    cluster.advance(ms(4));
    cluster.node(B).reply(NIL.repeat(CROWD));
    client.expect(NIL.repeat(CROWD));
    client.send_bytes(gets(1));
    assert!(!cluster.node(B).got_something());
    cluster.advance(ms(1));
    cluster.node(B).expect_bytes(gets(1));
}

#[test]
fn few_do_not_wait_for_more() {
    let cluster = Cluster::new();
    let client = cluster.client();
    exchange(&cluster, &client, 1, ms(0));
    exchange(&cluster, &client, CROWD - 1, ms(4));
    expect_no_wait(&cluster, &client);
}

#[test]
fn a_node_that_is_far_away_is_not_strained() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for _ in 0..3 {
        exchange(&cluster, &client, CROWD, ms(20));
    }
    expect_no_wait(&cluster, &client);
}

#[test]
fn a_little_slower_than_ever_is_not_strained() {
    let cluster = Cluster::new();
    let client = cluster.client();
    exchange(&cluster, &client, 1, ms(1));
    exchange(&cluster, &client, CROWD, ms(5) - Duration::from_micros(1));
    expect_no_wait(&cluster, &client);
}

#[test]
fn nodes_do_not_wait_for_each_other() {
    let (cluster, client) = strained();
    client.send_all(["GET b", "GET c"]);
    assert!(!cluster.node(B).got_something());
    cluster.node(C).serve("GET c", NIL);
    cluster.advance(ms(1));
    cluster.node(B).serve("GET b", NIL);
    client.expect(NIL.repeat(2));
}

#[test]
fn what_waits_when_its_connection_dies_goes_over_the_next() {
    let (cluster, client) = strained();
    client.send_bytes(command("SET b 1"));
    assert!(!cluster.node(B).got_something());
    cluster.node(B).close();
    cluster.advance(ms(100));
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    client.expect("+OK\r\n");
}
