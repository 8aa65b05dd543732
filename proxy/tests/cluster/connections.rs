//! Several connections of a worker to a node: as many as are set, and all of them used.

use tsubaki::dev_cluster::{Options, Server};

use crate::harness::proxy::Start;
use crate::harness::{cluster, required, wait_until};
use crate::slots::tags_of;

pub(crate) const SETTING: &str = "TSUBAKI_CLUSTER_CONNECTIONS_PER_NODE";

#[test]
fn a_node_has_as_many_connections_as_are_set() {
    const WORKERS: usize = 2;
    const CONNECTIONS: usize = 3;
    let Some(server) = required(Server::find()) else { return };
    let cluster = cluster(Options::new(server));
    let proxy = Start::before(&cluster.seeds())
        .set("TSUBAKI_WORKERS", WORKERS.to_string())
        .set(SETTING, CONNECTIONS.to_string())
        .ready();
    let tags: Vec<String> = (0..3).map(|master| tags_of(&cluster, master, 1).remove(0)).collect();
    let mut clients: Vec<_> = (0..4 * WORKERS * CONNECTIONS).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        tags.iter().for_each(|tag| assert!(client.call(&["SET", tag, "value"]).is_ok()));
    }
    wait_until("all connections are shown", || {
        proxy.metric("tsubaki_node_connections", "") == (WORKERS * tags.len() * CONNECTIONS) as u64
    });
    let nodes = clients[0].call(&["TSUBAKI", "NODES"]);
    let nodes = String::from_utf8_lossy(nodes.bulk().unwrap()).into_owned();
    assert_eq!(nodes.matches(&format!("connections={CONNECTIONS} ")).count(), tags.len(), "{nodes}");
    proxy.stop();
}
