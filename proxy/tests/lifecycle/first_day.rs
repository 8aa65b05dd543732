//! The mistakes of a first day: each has its one line in the log that says what to do, and clients get CLUSTERDOWN.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use tsubaki::dev_cluster::{DevCluster, Options, ProcessGroup, Reply, Server, free_port};
use tsubaki_protocol::slot::Slot;

use crate::harness::client::Client;
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};

/// An address at which no node listens. On this machine: some networks answer for every address outside.
const NOWHERE: &str = "127.77.0.1";

/// A proxy whose commands do not wait long for a cluster.
fn start(seeds: &[SocketAddr]) -> Start {
    Start::before(seeds)
        .set("TSUBAKI_CLUSTER_WAIT_TIMEOUT", "200ms")
        .set("TSUBAKI_CLUSTER_CONNECT_TIMEOUT", "300ms")
}

/// Tries of the proxy's after which most of their lines must have been left out.
const TRIES: u64 = 6;

/// Clients connect, are answered what the proxy knows, and told that there is no cluster; the log says why in one line,
/// which is not repeated at each of the proxy's tries.
fn assert_down(proxy: &Proxy, tries: &str, line: &[&str]) {
    let mut client = proxy.connect();
    assert_eq!(client.call(&["PING"]).0, b"+PONG\r\n");
    let reply = client.call(&["GET", "key"]);
    assert!(reply.error().is_some_and(|error| error.starts_with("CLUSTERDOWN ")), "{reply:?}");

    wait_until("the log says why, and more tries", || {
        proxy.log().contains(line[0]) && proxy.metric(tries, "") >= TRIES
    });
    let (log, tries) = (proxy.log(), proxy.metric(tries, "") as usize);
    let lines: Vec<&str> = log.lines().filter(|found| found.contains(line[0])).collect();
    assert!(lines.len() * 2 <= tries, "{} lines in {tries} tries:\n{log}", lines.len());
    for part in line {
        assert!(lines[0].contains(part), "no {part:?} in {}", lines[0]);
    }
}

fn is_not_ready(proxy: &Proxy) -> bool {
    proxy.page("/health/ready").is_ok_and(|page| page.status == 503)
}

#[test]
fn a_wrong_node_password() {
    let Some(server) = required(Server::find()) else { return };
    let cluster = cluster(Options { masters: 1, password: Some("right".to_owned()), ..Options::new(server) });
    for start in [start(&cluster.seeds()), start(&cluster.seeds()).set("TSUBAKI_CLUSTER_PASSWORD", "wrong")] {
        let proxy = start.listening();
        let line = [
            "refuses the proxy's login",
            "set cluster.password",
            "TSUBAKI_CLUSTER_PASSWORD",
            &cluster.seeds()[0].to_string(),
        ];
        assert_down(&proxy, "tsubaki_refresh_failures_total", &line);
        assert!(is_not_ready(&proxy));
        proxy.stop();
    }
}

#[test]
fn a_seed_that_is_no_cluster() {
    let Some(server) = required(Server::find()) else { return };
    let seed = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let group = ProcessGroup::new(None).unwrap();
    let mut redis = Command::new(server.path());
    redis.args(["--port", &seed.port().to_string(), "--save", ""]).stdout(Stdio::null());
    let mut redis = group.spawn(&mut redis).unwrap();
    wait_until("the server answers", || Client::try_connect(seed).is_ok());

    let proxy = start(&[seed]).listening();
    assert_down(
        &proxy,
        "tsubaki_refresh_failures_total",
        &["runs without cluster mode", "cluster-enabled yes", &seed.to_string()],
    );
    assert!(is_not_ready(&proxy));
    proxy.stop();
    drop(group);
    redis.wait().unwrap();
}

#[test]
fn no_seed_alive() {
    let seeds = [free_port().unwrap(), free_port().unwrap()]
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let proxy = start(&seeds).listening();
    let line = [
        "no node of the cluster answers",
        "check cluster.seeds",
        &seeds[0].to_string(),
        &seeds[1].to_string(),
    ];
    assert_down(&proxy, "tsubaki_refresh_failures_total", &line);
    assert!(is_not_ready(&proxy));
    proxy.stop();
}

/// Three masters that announce an address that nobody has. Their node timeout is long, so that they do not notice.
fn behind_nat() -> Option<DevCluster> {
    let server = required(Server::find())?;
    let node_timeout = Duration::from_secs(600);
    let mut cluster = cluster(Options { node_timeout, ..Options::new(server) });
    (0..3).for_each(|node| cluster.kill(node).unwrap());
    for node in 0..3 {
        let file = cluster.dir().join(format!("node-{}/nodes.conf", cluster.nodes()[node].addr().port()));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("127.0.0.1", NOWHERE)).unwrap();
        cluster.restart(node).unwrap();
    }
    for node in 0..3 {
        wait_until("the node serves", || {
            let info = cluster.call(node, &["CLUSTER", "INFO"]).unwrap().text().unwrap();
            info.contains("cluster_state:ok")
        });
    }
    Some(cluster)
}

#[test]
fn announced_addresses_that_cannot_be_reached() {
    let Some(cluster) = behind_nat() else { return };
    let proxy = start(&cluster.seeds()).set("TSUBAKI_CLUSTER_REFRESH_INTERVAL", "300ms").listening();
    wait_until("the view is there", || proxy.log().contains("the cluster is known"));
    let node = format!("node={NOWHERE}:");
    let line = [
        "announces addresses that cannot be reached",
        "cluster.address_map",
        "cluster-announce-ip",
        &node,
        "others=2",
    ];
    assert_down(&proxy, "tsubaki_refreshes_total", &line);
    proxy.stop();
}

/// Gives the slot of `key` to the next master, as all are told at once.
fn give_away(cluster: &DevCluster, key: &str) {
    let to = id(cluster, next_master(cluster, key));
    (0..3).for_each(|node| set_slot(cluster, node, key, "NODE", &to));
}

/// Has the slot of `key` move to the next master, so that keys that are not there yet are asked for at that one.
fn begin_to_move(cluster: &DevCluster, key: &str) {
    let (from, to) = (cluster.master_of(key.as_bytes()), next_master(cluster, key));
    set_slot(cluster, to, key, "IMPORTING", &id(cluster, from));
    set_slot(cluster, from, key, "MIGRATING", &id(cluster, to));
}

fn next_master(cluster: &DevCluster, key: &str) -> usize {
    (cluster.master_of(key.as_bytes()) + 1) % 3
}

fn id(cluster: &DevCluster, node: usize) -> String {
    cluster.call(node, &["CLUSTER", "MYID"]).unwrap().text().unwrap()
}

fn set_slot(cluster: &DevCluster, node: usize, key: &str, state: &str, other: &str) {
    let slot = Slot::of(key.as_bytes()).index().to_string();
    let reply = cluster.call(node, &["CLUSTER", "SETSLOT", &slot, state, other]).unwrap();
    assert_eq!(reply, Reply::Simple("OK".to_owned()));
}

#[test]
fn the_address_map_repairs_the_view_moved_and_ask() {
    let Some(cluster) = behind_nat() else { return };
    let exact: Vec<String> =
        cluster.seeds().iter().map(|seed| format!("{NOWHERE}:{}={seed}", seed.port())).collect();
    for (map, keys) in [(format!("{NOWHERE}=127.0.0.1"), ["a", "b"]), (exact.join(","), ["c", "d"])] {
        // No refresh of the view, which would hide how redirects are followed.
        let proxy = Start::before(&cluster.seeds())
            .set("TSUBAKI_CLUSTER_ADDRESS_MAP", map)
            .set("TSUBAKI_CLUSTER_WAIT_TIMEOUT", "20s")
            .set("TSUBAKI_CLUSTER_REFRESH_INTERVAL", "3600s")
            .ready();
        let mut client = proxy.connect();
        for number in 0..50 {
            assert!(client.call(&["SET", &format!("key:{number}"), "value"]).is_ok());
        }
        let [moved, asked] = keys;
        give_away(&cluster, moved);
        assert!(client.call(&["SET", moved, "there"]).is_ok());
        assert_eq!(proxy.metric("tsubaki_redirects_total", "kind=\"moved\""), 1);

        begin_to_move(&cluster, asked);
        assert!(client.call(&["SET", asked, "there"]).is_ok());
        assert_eq!(proxy.metric("tsubaki_redirects_total", "kind=\"ask\""), 1);
        assert!(!proxy.log().contains("cannot be reached"), "{}", proxy.log());
        proxy.stop();
    }
}
