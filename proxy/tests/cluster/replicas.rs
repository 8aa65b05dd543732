//! Reads from replicas while these die and come back.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::harness::client::{Client, push_command};
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};
use crate::nodes::{info, order, wait_until_replicated};
use crate::random::Random;

const KEYS: usize = 500;
const READERS: usize = 6;
const DEATHS: usize = 2;
const DEPTH: usize = 20;

/// A master, node 0, with two replicas, nodes 1 and 2, that all hold every key.
fn filled(server: Server) -> DevCluster {
    let cluster = cluster(Options { masters: 1, replicas: 2, ..Options::new(server) });
    let mut client = Client::connect(cluster.nodes()[0].addr());
    for number in 0..KEYS {
        assert!(client.call(&["SET", &key(number), &value(number)]).is_ok());
    }
    for replica in [1, 2] {
        wait_until_replicated(&cluster, 0, replica);
    }
    cluster
}

fn key(number: usize) -> String {
    format!("key-{number}")
}

fn value(number: usize) -> String {
    format!("value of key {number}")
}

fn proxy_that_reads(cluster: &DevCluster, policy: &str) -> Proxy {
    Start::before(&cluster.seeds())
        .set("TSUBAKI_CLUSTER_READ_POLICY", policy)
        // A replica that is back shows itself at the next refresh.
        .set("TSUBAKI_CLUSTER_REFRESH_INTERVAL", "500ms")
        .ready()
}

/// Clients that read and compare until they are dropped.
struct Readers {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Readers {
    fn start(addr: SocketAddr) -> Self {
        let (stop, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..READERS)
            .map(|number| {
                let (stop, read) = (Arc::clone(&stop), Arc::clone(&read));
                let mut client = Client::connect(addr);
                let mut random = Random::new(number as u64);
                thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        read_some(&mut client, &mut random);
                        read.fetch_add(DEPTH as u64, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        Self { stop, read, clients }
    }

    fn wait_until_they_go_on(&self) {
        let read = self.read.load(Ordering::Relaxed);
        let failed = || self.clients.iter().any(JoinHandle::is_finished);
        wait_until("reads go on", || failed() || self.read.load(Ordering::Relaxed) > read + 5000);
    }

    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

fn read_some(client: &mut Client, random: &mut Random) {
    let mut pipeline = Vec::new();
    let asked: Vec<[usize; 3]> = (0..DEPTH).map(|_| [(); 3].map(|()| random.below(KEYS))).collect();
    for (place, [a, b, c]) in asked.iter().enumerate() {
        match place % 2 {
            0 => push_command(&mut pipeline, &["GET".to_owned(), key(*a)]),
            _ => push_command(&mut pipeline, &["MGET".to_owned(), key(*a), key(*b), key(*c)]),
        }
    }
    client.send(&pipeline);
    for (place, [a, b, c]) in asked.into_iter().enumerate() {
        let reply = client.receive();
        assert_eq!(reply.error(), None);
        let (replies, numbers) =
            if place % 2 == 0 { (vec![reply], vec![a]) } else { (reply.elements(), vec![a, b, c]) };
        let values: Vec<_> = replies
            .iter()
            .map(|reply| reply.bulk().map(<[u8]>::escape_ascii).map(|v| v.to_string()))
            .collect();
        let expected: Vec<_> = numbers.iter().map(|number| Some(value(*number))).collect();
        assert_eq!(values, expected);
    }
}

fn replica_reads(proxy: &Proxy) -> u64 {
    proxy.metric("tsubaki_replica_reads_total", "")
}

/// What a replica keeps of its last full synchronisation goes, as with a new disk or container.
fn lose_data(cluster: &DevCluster, i: usize) {
    let folder = format!("node-{}", cluster.nodes()[i].addr().port());
    fs::remove_file(cluster.dir().join(folder).join("dump.rdb")).unwrap();
}

fn reads_outlive_replicas(server: Server) {
    let mut cluster = filled(server);
    let proxies = ["prefer-replica", "any", "replica"].map(|policy| proxy_that_reads(&cluster, policy));
    let readers: Vec<Readers> = proxies.iter().map(|proxy| Readers::start(proxy.addr())).collect();
    // A restarted replica answers long before it has its data.
    order(&cluster, 0, &["CONFIG", "SET", "repl-diskless-sync-delay", "2"]);
    let everybody_reads = || readers.iter().for_each(Readers::wait_until_they_go_on);

    for _ in 0..DEATHS {
        everybody_reads();
        cluster.kill(1).unwrap();
        everybody_reads();
        lose_data(&cluster, 1);
        cluster.restart(1).unwrap();
        wait_until("the replica serves again", || info(&cluster, 1, "stats", "keyspace_hits") > 100);
    }
    everybody_reads();

    readers.into_iter().for_each(Readers::finish);
    assert_eq!(info(&cluster, 1, "stats", "keyspace_misses"), 0, "a replica served before it had its data");
    assert!(info(&cluster, 2, "stats", "keyspace_hits") > 1000);
    assert!(proxies.iter().all(|proxy| replica_reads(proxy) > 1000));
    proxies.into_iter().for_each(Proxy::stop);
}

#[test]
fn reads_outlive_redis_replicas() {
    if let Some(server) = required(Server::redis()) {
        reads_outlive_replicas(server);
    }
}

#[test]
fn reads_outlive_valkey_replicas() {
    if let Some(server) = required(Server::valkey()) {
        reads_outlive_replicas(server);
    }
}

#[test]
fn without_any_replica_the_policy_says_who_serves() {
    let Some(server) = required(Server::redis()) else { return };
    let mut cluster = filled(server);
    let [preferring, any, strict] =
        ["prefer-replica", "any", "replica"].map(|policy| proxy_that_reads(&cluster, policy));
    cluster.kill(1).unwrap();
    cluster.kill(2).unwrap();

    for proxy in [&preferring, &any] {
        let reply = proxy.connect().call(&["GET", &key(0)]);
        assert_eq!(reply.bulk(), Some(value(0).as_bytes()), "{reply:?}");
    }
    let mut client = strict.connect();
    let reply = client.call(&["GET", &key(0)]);
    assert!(reply.error().unwrap().starts_with("CLUSTERDOWN no replica of slot "), "{reply:?}");
    assert!(client.call(&["SET", &key(0), &value(0)]).is_ok(), "writes need no replica");

    cluster.restart(2).unwrap();
    wait_until("the replica serves", || client.call(&["GET", &key(0)]).error().is_none());
    assert_eq!(client.call(&["GET", &key(0)]).bulk(), Some(value(0).as_bytes()));
    [preferring, any, strict].into_iter().for_each(Proxy::stop);
}

#[test]
fn the_master_policy_sends_no_read_to_a_replica() {
    let Some(server) = required(Server::redis()) else { return };
    let cluster = filled(server);
    let proxy = Proxy::before(&cluster);
    let readers = Readers::start(proxy.addr());
    readers.wait_until_they_go_on();
    readers.finish();
    assert_eq!(replica_reads(&proxy), 0);
    assert_eq!(info(&cluster, 1, "stats", "keyspace_hits"), 0);
    proxy.stop();
}
