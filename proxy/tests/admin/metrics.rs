//! `/metrics`: a page that any scraper can read, whose figures are those of the traffic.

use std::collections::BTreeMap;
use std::thread;

use tsubaki::dev_cluster::{DevCluster, Options, Server};

use crate::exposition::{Family, Kind, labels, read};
use crate::harness::client::push_command;
use crate::harness::proxy::Proxy;
use crate::harness::{cluster, required, wait_until};

const WORKERS: [&str; 2] = ["0", "1"];

fn three_masters() -> Option<DevCluster> {
    Some(cluster(Options::new(required(Server::find())?)))
}

fn scrape(proxy: &Proxy) -> BTreeMap<String, Family> {
    let page = proxy.page("/metrics").unwrap();
    assert_eq!(page.status, 200);
    read(&page.body).unwrap_or_else(|error| panic!("{error}\n{}", page.body))
}

/// Some of everything that is counted.
fn traffic(proxy: &Proxy) {
    let mut client = proxy.connect();
    for number in 0..100 {
        assert!(client.call(&["SET", &format!("key:{number}"), "value"]).is_ok());
    }
    assert_eq!(client.call(&["MGET", "key:1", "key:2", "key:3"]).elements().len(), 3);
    assert_eq!(client.call(&["PING"]).0, b"+PONG\r\n");
    assert!(client.call(&["LPUSH", "key:1", "x"]).error().unwrap().starts_with("WRONGTYPE"));
    assert!(client.call(&["SUBSCRIBE", "channel"]).error().unwrap().contains("not supported yet"));
    client.send(b"*1\r\n:1\r\n");
    assert!(client.receive().error().unwrap().contains("Protocol error"));
}

#[test]
fn the_page_is_well_formed_before_and_after_traffic() {
    let Some(cluster) = three_masters() else { return };
    let proxy = Proxy::before(&cluster);
    let before = scrape(&proxy);
    traffic(&proxy);
    let after = scrape(&proxy);

    let names = |families: &BTreeMap<String, Family>| -> Vec<String> {
        families.values().flat_map(|family| family.samples.keys().cloned()).collect()
    };
    assert_eq!(names(&before), names(&after), "series that come with traffic cannot be added up over time");
    assert!(before.keys().all(|name| name.starts_with("tsubaki_")), "{:?}", before.keys());
    for (name, family) in &after {
        assert_eq!(family.kind == Kind::Counter, before[name].kind == Kind::Counter);
        for (series, value) in &family.samples {
            let worker = labels(series).unwrap().get("worker").cloned();
            assert!(worker.is_none_or(|worker| WORKERS.contains(&worker.as_str())), "{series}");
            assert!(
                family.kind == Kind::Gauge || *value >= before[name].samples[series],
                "{series} went down"
            );
        }
    }
    proxy.stop();
}

#[test]
fn the_figures_are_those_of_the_traffic() {
    let Some(cluster) = three_masters() else { return };
    let proxy = Proxy::before(&cluster);
    let figure = |name: &str, label: &str| proxy.metric(&format!("tsubaki_{name}"), label);
    assert_eq!((figure("slots_covered", ""), figure("masters", ""), figure("replicas", "")), (16384, 3, 0));
    assert_eq!(figure("commands_total", ""), 0);
    traffic(&proxy);

    for (name, label, expected) in [
        ("client_connections_total", "kind=\"rejected\"", 0),
        ("commands_total", "", 104),
        ("local_commands_total", "", 1),
        ("split_commands_total", "", 1),
        ("node_requests_total", "", 104),
        ("errors_total", "kind=\"node\"", 1),
        ("errors_total", "kind=\"unsupported\"", 1),
        ("errors_total", "kind=\"protocol\"", 1),
        ("errors_total", "", 3),
        ("redirects_total", "", 0),
        ("refusals_total", "", 0),
        ("retries_total", "", 0),
        ("orphan_replies_total", "", 0),
        ("replica_reads_total", "", 0),
        ("command_duration_seconds_count", "", 104),
        ("batch_commands_sum", "", 104),
    ] {
        assert_eq!(figure(name, label), expected, "{name} {label}");
    }
    for name in ["client_bytes_total", "node_bytes_total"] {
        for direction in ["kind=\"in\"", "kind=\"out\""] {
            assert!(figure(name, direction) > 400, "{name} {direction}");
        }
    }
    assert!((1..=6).contains(&figure("node_connections", "")));
    assert!(figure("refreshes_total", "") >= 1);
    wait_until("the client has left", || figure("clients", "") == 0);
    let _clients = [proxy.connect(), proxy.connect()];
    wait_until("two clients are there", || figure("clients", "") == 2);
    proxy.stop();
}

#[test]
fn a_node_that_is_gone_is_counted() {
    let Some(server) = required(Server::find()) else { return };
    let node_config = vec!["cluster-require-full-coverage no".to_owned()];
    let mut cluster = cluster(Options { node_config, ..Options::new(server) });
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    let node = cluster.master_of(b"key");
    assert!(client.call(&["SET", "key", "value"]).is_ok());

    cluster.kill(node).unwrap();
    let reply = client.call(&["SET", "key", "value"]);
    assert!(reply.error().is_some_and(|error| error.starts_with("CLUSTERDOWN")), "{reply:?}");
    assert_eq!(proxy.metric("tsubaki_errors_total", "kind=\"wait_timeout\""), 1);
    assert!(proxy.metric("tsubaki_node_disconnects_total", "") >= 2);
    proxy.stop();
}

#[test]
fn scrapes_may_come_at_once() {
    let Some(cluster) = three_masters() else { return };
    let proxy = Proxy::before(&cluster);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| scrape(&proxy));
        }
    });
    proxy.stop();
}

#[test]
fn a_large_pipeline_shows_as_large_batches() {
    let Some(cluster) = three_masters() else { return };
    let proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    assert!(client.call(&["SET", "key", "value"]).is_ok());
    let mut pipeline = Vec::new();
    (0..1000).for_each(|_| push_command(&mut pipeline, &["GET", "key"]));
    client.send(&pipeline);
    (0..1000).for_each(|_| assert_eq!(client.receive().bulk(), Some(&b"value"[..])));
    let (commands, writes) =
        (proxy.metric("tsubaki_batch_commands_sum", ""), proxy.metric("tsubaki_batch_commands_count", ""));
    assert_eq!(commands, 1001);
    assert!(writes < 100, "{writes} writes for {commands} commands");
    proxy.stop();
}
