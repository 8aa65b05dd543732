//! Masters change, die and cut connections while clients use them.

use std::time::Duration;

use tsubaki::dev_cluster::{DevCluster, Options, Reply, Server};

use crate::connections::SETTING;
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};
use crate::load::Load;
use crate::nodes::{is_master, order, wait_until_replicated};
use crate::slots::tags_of;

const CLIENTS: usize = 50;
const FAILOVERS: usize = 6;
const DEATHS: usize = 2;
const CUTS: usize = 30;

/// Longer than an election takes on a loaded machine.
const WAIT: (&str, &str) = ("TSUBAKI_CLUSTER_WAIT_TIMEOUT", "20s");

/// Three masters with a replica each; the replica of master `i` is node `i + 3`.
///
/// A node that gets no CPU for as long as `node_timeout` is taken for dead, and what it had answered last is lost.
fn pairs(server: Server, node_timeout: Duration) -> DevCluster {
    cluster(Options {
        replicas: 1,
        node_timeout,
        node_config: vec!["cluster-require-full-coverage no".to_owned()],
        ..Options::new(server)
    })
}

/// Who is which among the two nodes of a shard.
fn master_and_replica(cluster: &DevCluster, shard: usize) -> (usize, usize) {
    if is_master(cluster, shard) { (shard, shard + 3) } else { (shard + 3, shard) }
}

fn load_on_all(cluster: &DevCluster, proxy: &Proxy, clients: usize) -> Load {
    let tags: Vec<String> = (0..3).flat_map(|master| tags_of(cluster, master, 2)).collect();
    let load = Load::start(proxy.addr(), clients, &tags);
    load.wait_for(BETWEEN_BLOWS);
    load
}

/// Commands that clients must get through before the next blow falls, so that none gets more blows than it can take.
const BETWEEN_BLOWS: u64 = 20_000;

fn fail_over(cluster: &DevCluster, master: usize, replica: usize) {
    let id = |i| cluster.call(i, &["CLUSTER", "MYID"]).unwrap().text().unwrap();
    let (master_id, replica_id) = (id(master), id(replica));
    // A master ignores the wish of a replica that it has not heard of yet, and so do those who vote.
    let knows_both = |i| {
        let replicas = cluster.call(i, &["CLUSTER", "REPLICAS", &master_id]).unwrap();
        let Reply::Array(lines) = replicas else { return false };
        lines.iter().filter_map(Reply::text).any(|line| line.starts_with(&replica_id))
    };
    wait_until("all nodes know who is whose replica", || (0..cluster.nodes().len()).all(knows_both));
    order(cluster, replica, &["CLUSTER", "FAILOVER"]);
    wait_until("the replica is master", || is_master(cluster, replica));
}

fn no_reply_is_wrong_while_replicas_take_over(server: Server, connections: &str) {
    let cluster = pairs(server.clone(), Duration::from_secs(10));
    let proxy = Start::before(&cluster.seeds()).set(WAIT.0, WAIT.1).set(SETTING, connections).ready();
    let load = load_on_all(&cluster, &proxy, CLIENTS);

    for round in 0..FAILOVERS {
        let shard = round % 3;
        let (master, replica) = master_and_replica(&cluster, shard);
        fail_over(&cluster, master, replica);
        load.wait_for(BETWEEN_BLOWS);
        cluster.wait_ok().unwrap();
    }
    let seen = load.finish();

    let moved = proxy.metric("tsubaki_redirects_total", "moved");
    eprintln!(
        "{server}: {} commands during {FAILOVERS} failovers: {moved} MOVED at the proxy; {} commands overtaken",
        seen.commands, seen.errors.overtaken
    );
    assert!(moved > 0, "the proxy met no old master");
    assert_eq!(seen.errors.may_have_run, 0);
    proxy.stop();
}

#[test]
fn no_reply_is_wrong_while_replicas_of_a_redis_cluster_take_over() {
    if let Some(server) = required(Server::redis()) {
        no_reply_is_wrong_while_replicas_take_over(server, "1");
    }
}

#[test]
fn no_reply_is_wrong_while_replicas_of_a_valkey_cluster_take_over_several_connections() {
    if let Some(server) = required(Server::valkey()) {
        no_reply_is_wrong_while_replicas_take_over(server, "3");
    }
}

/// A master that dies takes with it what it had answered and not yet replicated. So that every key can be foretold, each
/// is killed while it holds its writes back and its replica has the rest; reads run until the end.
fn kill_in_step(cluster: &mut DevCluster, master: usize, replica: usize) {
    order(cluster, master, &["CLIENT", "PAUSE", "60000", "WRITE"]);
    wait_until_replicated(cluster, master, replica);
    cluster.kill(master).unwrap();
}

fn a_killed_master_costs_only_what_was_on_its_way(server: Server, connections: u64) {
    let mut cluster = pairs(server.clone(), Duration::from_secs(3));
    let proxy =
        Start::before(&cluster.seeds()).set(WAIT.0, WAIT.1).set(SETTING, connections.to_string()).ready();
    let load = load_on_all(&cluster, &proxy, CLIENTS / 3);
    let mut client = proxy.connect();
    let mut served_meanwhile = false;

    for round in 0..DEATHS {
        let shard = round % 2;
        let (master, replica) = master_and_replica(&cluster, shard);
        let [of_the_dead, of_another] = [shard, 2].map(|master| tags_of(&cluster, master, 1).remove(0));
        let disconnects = proxy.metric("tsubaki_node_disconnects_total", "");
        kill_in_step(&mut cluster, master, replica);

        assert!(client.call(&["SET", &of_another, "served"]).is_ok());
        served_meanwhile |= !is_master(&cluster, replica);
        assert!(client.call(&["SET", &of_the_dead, "served"]).is_ok(), "round {round}");
        assert!(is_master(&cluster, replica));
        load.wait_for(BETWEEN_BLOWS);
        // Two workers; each tries again after 50 ms at the soonest and then ever more seldom.
        let attempts = proxy.metric("tsubaki_node_disconnects_total", "") - disconnects;
        assert!(attempts < 60 * connections, "{attempts} connections to a dead node");

        cluster.restart(master).unwrap();
        cluster.wait_ok().unwrap();
    }
    let seen = load.finish();

    eprintln!(
        "{server}: {} commands during {DEATHS} deaths: {} that may have run; {} commands overtaken",
        seen.commands, seen.errors.may_have_run, seen.errors.overtaken
    );
    assert!(served_meanwhile, "every election was over before another node's answer");
    assert!(seen.errors.may_have_run > 0, "nothing was on its way to a master that died");
    proxy.stop();
}

#[test]
fn a_killed_redis_master_costs_only_what_was_on_its_way() {
    if let Some(server) = required(Server::redis()) {
        a_killed_master_costs_only_what_was_on_its_way(server, 1);
    }
}

#[test]
fn a_killed_valkey_master_costs_only_what_was_on_its_way_over_several_connections() {
    if let Some(server) = required(Server::valkey()) {
        a_killed_master_costs_only_what_was_on_its_way(server, 3);
    }
}

#[test]
fn nothing_runs_twice_when_nodes_cut_connections() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Proxy::before(&cluster);
    let load = load_on_all(&cluster, &proxy, CLIENTS);

    for cut in 0..CUTS {
        order(&cluster, cut % 3, &["CLIENT", "KILL", "TYPE", "normal"]);
        load.wait_for(BETWEEN_BLOWS);
    }
    let seen = load.finish();

    assert!(seen.errors.may_have_run > 0, "nothing was on its way when a connection was cut");
    proxy.stop();
}
