//! Nodes that hang, are gone from the start, or serve only a part of the slots.

use std::time::{Duration, Instant};

use tsubaki::dev_cluster::{DevCluster, Options, Server};
use tsubaki_protocol::slot::Slot;

use crate::harness::client::{Client, Reply};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};
use crate::nodes::order;
use crate::slots::tags_of;

const CONNECT: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_millis(700);
const SILENCE: Duration = Duration::from_millis(1000);

/// What a loaded machine may add to a time that is waited for.
const LATENESS: Duration = Duration::from_secs(3);

/// Three masters that go on without each other and take long to call each other dead.
fn masters(server: Server) -> DevCluster {
    cluster(Options {
        node_config: vec!["cluster-require-full-coverage no".to_owned()],
        node_timeout: Duration::from_secs(30),
        ..Options::new(server)
    })
}

fn impatient(seeds: &[std::net::SocketAddr]) -> Start {
    let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
    Start::before(seeds)
        .set("TSUBAKI_CLUSTER_CONNECT_TIMEOUT", milliseconds(CONNECT))
        .set("TSUBAKI_CLUSTER_WAIT_TIMEOUT", milliseconds(WAIT))
        .set("TSUBAKI_CLUSTER_SILENCE_TIMEOUT", milliseconds(SILENCE))
}

/// A key of each master.
fn keys(cluster: &DevCluster) -> [String; 3] {
    [0, 1, 2].map(|master| tags_of(cluster, master, 1).remove(0))
}

fn timed(call: impl FnOnce() -> Reply) -> (Reply, Duration) {
    let start = Instant::now();
    let reply = call();
    (reply, start.elapsed())
}

fn assert_error(reply: &Reply, text: &str) {
    assert!(reply.error().is_some_and(|error| error.contains(text)), "{reply:?} instead of {text:?}");
}

fn a_node_that_hangs_costs_its_own_keys_a_bounded_time(server: Server) {
    let mut cluster = masters(server);
    let [hung, other, _] = keys(&cluster);
    let proxy = impatient(&cluster.seeds()).ready();
    let [mut writer, mut reader, mut neighbour] = [(); 3].map(|()| proxy.connect());
    for client in [&mut writer, &mut reader, &mut neighbour] {
        assert!(client.call(&["SET", &hung, "before"]).is_ok());
        assert!(client.call(&["SET", &other, "before"]).is_ok());
    }

    cluster.pause(0).unwrap();
    let (written, after) = timed(|| writer.call(&["INCRBY", &format!("{{{hung}}}n"), "1"]));
    assert_error(&written, "was lost after the command was sent; it may have run");
    assert!((SILENCE..SILENCE + LATENESS).contains(&after), "a write was answered after {after:?}");
    assert!(neighbour.call(&["SET", &other, "meanwhile"]).is_ok());

    // It is known to be down: nothing is sent there, so nothing can have run.
    for client in [&mut writer, &mut reader] {
        let (reply, after) = timed(|| client.call(&["GET", &hung]));
        let subject =
            format!("CLUSTERDOWN the node of slot {} cannot be reached", Slot::of(hung.as_bytes()).index());
        assert_error(&reply, &subject);
        assert!(after < CONNECT + WAIT + LATENESS, "a read was answered after {after:?}");
        assert_eq!(client.call(&["GET", &other]).bulk(), Some(&b"meanwhile"[..]));
    }
    assert_error(&writer.call(&["MGET", &other, &hung]), "cannot be reached");
    assert_error(&writer.call(&["MSET", &hung, "lost", &other, "its part"]), "cannot be reached");
    assert_eq!(writer.call(&["GET", &other]).bulk(), Some(&b"its part"[..]));

    cluster.resume(0).unwrap();
    wait_until("the node's keys are served again", || reader.call(&["GET", &hung]).error().is_none());
    assert_eq!(reader.call(&["GET", &hung]).bulk(), Some(&b"before"[..]));
    proxy.stop();
}

#[test]
fn a_redis_node_that_hangs_costs_its_own_keys_a_bounded_time() {
    if let Some(server) = required(Server::redis()) {
        a_node_that_hangs_costs_its_own_keys_a_bounded_time(server);
    }
}

#[test]
fn a_valkey_node_that_hangs_costs_its_own_keys_a_bounded_time() {
    if let Some(server) = required(Server::valkey()) {
        a_node_that_hangs_costs_its_own_keys_a_bounded_time(server);
    }
}

#[test]
fn a_read_from_a_node_that_hangs_is_tried_again_and_answered_late() {
    let Some(server) = required(Server::redis()) else { return };
    let mut cluster = masters(server);
    let [hung, ..] = keys(&cluster);
    let proxy = impatient(&cluster.seeds()).set("TSUBAKI_CLUSTER_WAIT_TIMEOUT", "20s").ready();
    let mut client = proxy.connect();
    assert!(client.call(&["SET", &hung, "value"]).is_ok());

    cluster.pause(0).unwrap();
    client.send(b"*2\r\n$3\r\nGET\r\n");
    client.send(format!("${}\r\n{hung}\r\n", hung.len()).as_bytes());
    wait_until("the read's connection was given up", || {
        proxy.metric("tsubaki_node_disconnects_total", "") > 0
    });
    cluster.resume(0).unwrap();
    assert_eq!(client.receive().bulk(), Some(&b"value"[..]));
    proxy.stop();
}

#[test]
fn one_seed_that_is_down_is_no_obstacle() {
    let Some(server) = required(Server::redis()) else { return };
    let mut cluster = masters(server);
    let [gone, other, third] = keys(&cluster);
    cluster.kill(0).unwrap();
    let proxy = impatient(&cluster.seeds()).ready();

    let mut client = proxy.connect();
    assert!(client.call(&["SET", &other, "value"]).is_ok());
    assert!(client.call(&["SET", &third, "value"]).is_ok());
    assert_error(&client.call(&["SET", &gone, "value"]), "CLUSTERDOWN");

    cluster.restart(0).unwrap();
    wait_until("the node is served", || client.call(&["SET", &gone, "value"]).is_ok());
    proxy.stop();
}

#[test]
fn clients_that_come_before_the_cluster_get_an_error_and_stay() {
    let Some(server) = required(Server::redis()) else { return };
    let mut cluster = masters(server);
    let keys = keys(&cluster);
    (0..3).for_each(|i| cluster.kill(i).unwrap());
    let proxy = impatient(&cluster.seeds()).listening();

    let mut client = proxy.connect();
    assert_eq!(client.call(&["PING"]).0, b"+PONG\r\n");
    let (reply, after) = timed(|| client.call(&["GET", &keys[0]]));
    assert_error(&reply, "CLUSTERDOWN no node of the cluster has answered yet");
    assert!((WAIT..WAIT + LATENESS).contains(&after), "answered after {after:?}");
    assert!(!proxy.is_ready());
    assert!(proxy.log().contains("no node of the cluster answers"), "{}", proxy.log());

    (0..3).for_each(|i| cluster.restart(i).unwrap());
    wait_until("all keys are served", || keys.iter().all(|key| client.call(&["SET", key, "value"]).is_ok()));
    assert!(proxy.is_ready());
    proxy.stop();
}

/// The third master's slots are taken from it, so that nobody serves them.
fn uncover_the_third(cluster: &DevCluster) {
    let slots = cluster.nodes()[2].slots().unwrap();
    let (first, last) = (slots.start().to_string(), slots.end().to_string());
    // All at once, for the owner's gossip would bring them back to the others.
    for i in [2, 0, 1] {
        order(cluster, i, &["CLUSTER", "DELSLOTSRANGE", &first, &last]);
    }
}

#[test]
fn slots_that_nobody_serves_are_told_apart_from_those_that_are_served() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = masters(server);
    let [first, second, uncovered] = keys(&cluster);
    uncover_the_third(&cluster);
    let proxy = impatient(&cluster.seeds()).ready();

    let mut client = proxy.connect();
    assert!(client.call(&["MSET", &first, "1", &second, "2"]).is_ok());
    assert_uncovered(&mut client, &["GET", &uncovered]);
    assert_uncovered(&mut client, &["MGET", &first, &uncovered, &second]);
    assert_eq!(client.call(&["MGET", &first, &second]).elements().len(), 2);

    let slots = cluster.nodes()[2].slots().unwrap();
    order(&cluster, 2, &["CLUSTER", "ADDSLOTSRANGE", &slots.start().to_string(), &slots.end().to_string()]);
    wait_until("the slots are served", || client.call(&["SET", &uncovered, "3"]).is_ok());
    proxy.stop();
}

fn assert_uncovered(client: &mut Client, command: &[&str]) {
    let (reply, after) = timed(|| client.call(command));
    assert_error(&reply, "CLUSTERDOWN Hash slot not served");
    assert!((WAIT..WAIT + LATENESS).contains(&after), "answered after {after:?}");
}

#[test]
fn keys_are_served_again_soon_after_a_node_is_back() {
    let Some(server) = required(Server::redis()) else { return };
    let mut cluster = masters(server);
    let [key, ..] = keys(&cluster);
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    assert!(client.call(&["SET", &key, "1"]).is_ok());

    cluster.kill(0).unwrap();
    assert_error(&client.call(&["SET", &key, "2"]), "");
    cluster.restart(0).unwrap();
    cluster.wait_ok().unwrap();
    let (reply, after) = timed(|| client.call(&["SET", &key, "3"]));
    assert!(reply.is_ok(), "{reply:?} after {after:?}");
    proxy.stop();
}
