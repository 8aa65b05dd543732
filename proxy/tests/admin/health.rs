//! `/health/live` and `/health/ready`: from the start to the end.

use rustix::process::Signal;
use tsubaki::dev_cluster::{DevCluster, Options, Server, free_port};

use crate::harness::client::command;
use crate::harness::proxy::{Proxy, Start};
use crate::harness::{cluster, required, wait_until};

fn status(proxy: &Proxy, path: &str) -> u16 {
    proxy.page(path).unwrap().status
}

fn one_master(base_port: Option<u16>) -> Option<DevCluster> {
    let server = required(Server::find())?;
    Some(cluster(Options { masters: 1, base_port, ..Options::new(server) }))
}

#[test]
fn it_is_live_at_once_and_ready_when_the_cluster_is_known() {
    let port = free_port().unwrap();
    let proxy = Start::before(&[([127, 0, 0, 1], port).into()]).listening();
    assert_eq!(status(&proxy, "/health/live"), 200);
    let page = proxy.page("/health/ready").unwrap();
    assert_eq!((page.status, page.body.as_str()), (503, "the cluster is not known yet\n"));

    let Some(_cluster) = one_master(Some(port)) else { return };
    wait_until("it is ready", || status(&proxy, "/health/ready") == 200);
    assert!(proxy.connect().call(&["SET", "key", "value"]).is_ok(), "ready, and does not serve");
    assert_eq!(status(&proxy, "/health/live"), 200);
    proxy.stop();
}

#[test]
fn other_paths_are_not_found() {
    let Some(cluster) = one_master(None) else { return };
    let proxy = Proxy::before(&cluster);
    for path in ["/", "/health", "/metrics/", "/health/ready/x"] {
        assert_eq!(status(&proxy, path), 404, "{path}");
    }
    proxy.stop();
}

#[test]
fn a_stopping_proxy_still_answers_and_is_not_ready() {
    let Some(mut cluster) = one_master(None) else { return };
    let mut proxy = Proxy::before(&cluster);
    let mut client = proxy.connect();
    assert!(client.call(&["SET", "key", "value"]).is_ok());
    cluster.pause(0).unwrap();
    client.send(&command(&["GET", "key"]));
    wait_until("the command is at the node", || proxy.metric("tsubaki_node_requests_total", "") == 2);

    proxy.signal(Signal::TERM);
    wait_until("it is not ready", || status(&proxy, "/health/ready") == 503);
    assert_eq!(status(&proxy, "/health/live"), 200);
    assert!(proxy.page("/metrics").unwrap().body.contains("tsubaki_slots_covered 16384"));
    cluster.resume(0).unwrap();
    assert_eq!(client.receive().bulk(), Some(&b"value"[..]));
    assert_eq!(proxy.wait().code(), Some(0));
}
