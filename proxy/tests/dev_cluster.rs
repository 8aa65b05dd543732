//! `dev-cluster` from outside: real clusters of both servers, and that nothing is left of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

#[path = "support/harness.rs"]
mod harness;

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tsubaki::dev_cluster::{DevCluster, DevClusterError, Options, Reply, Role, Server};

use crate::harness::{cluster, required, wait_until};

fn listens(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok()
}

fn a_cluster_of_six_is_ok(server: Server) {
    let valkey = server.is_valkey();
    let cluster = cluster(Options {
        replicas: 1,
        password: Some("p w\"1".to_owned()),
        node_config: vec!["maxmemory 64mb".to_owned()],
        ..Options::new(server)
    });

    assert_eq!(cluster.nodes().len(), 6);
    for (i, node) in cluster.nodes().iter().enumerate() {
        let info = cluster.call(i, &["CLUSTER", "INFO"]).unwrap().text().unwrap();
        assert!(info.contains("cluster_state:ok") && info.contains("cluster_size:3"), "{info}");
        let Reply::Array(role) = cluster.call(i, &["ROLE"]).unwrap() else { panic!("node {i}: no ROLE") };
        let expected = if matches!(node.role(), Role::Master(_)) { "master" } else { "slave" };
        assert_eq!(role.first().and_then(Reply::text).as_deref(), Some(expected), "node {i}");
        let info = cluster.call(i, &["INFO"]).unwrap().text().unwrap();
        assert_eq!(info.contains("valkey_version:"), valkey);
        assert!(info.contains("maxmemory:67108864\r\n"), "{info}");
    }
    // foo is in slot 12182, which the third master has.
    assert_eq!(cluster.call(2, &["SET", "foo", "bar"]).unwrap(), Reply::Simple("OK".to_owned()));
    let elsewhere = cluster.call(0, &["GET", "foo"]).unwrap();
    assert_eq!(elsewhere, Reply::Error(format!("MOVED 12182 {}", cluster.nodes()[2].addr())));

    let anonymous = tsubaki::dev_cluster::Client::connect(cluster.seeds()[0], None).unwrap().call(&["PING"]);
    assert!(matches!(anonymous, Ok(Reply::Error(text)) if text.starts_with("NOAUTH")));
}

#[test]
fn a_redis_cluster_with_replicas_and_a_password_is_ok() {
    if let Some(server) = required(Server::redis()) {
        a_cluster_of_six_is_ok(server);
    }
}

#[test]
fn a_valkey_cluster_with_replicas_and_a_password_is_ok() {
    if let Some(server) = required(Server::valkey()) {
        a_cluster_of_six_is_ok(server);
    }
}

#[test]
fn nothing_is_left_of_a_dropped_cluster_not_even_of_a_paused_node() {
    let Some(server) = required(Server::find()) else { return };
    let mut cluster = cluster(Options::new(server));
    cluster.pause(1).unwrap();
    let (seeds, dir) = (cluster.seeds(), cluster.dir());
    assert!(seeds.iter().all(|&addr| listens(addr)) && dir.exists());

    drop(cluster);
    assert!(!seeds.iter().any(|&addr| listens(addr)));
    assert!(!dir.exists());
}

#[test]
fn a_cluster_outlives_the_thread_that_started_it() {
    let Some(server) = required(Server::find()) else { return };
    let cluster =
        thread::spawn(move || cluster(Options { masters: 1, ..Options::new(server) })).join().unwrap();
    cluster.wait_ok().unwrap();
}

#[test]
fn a_killed_node_comes_back_as_the_same_node() {
    let Some(server) = required(Server::find()) else { return };
    let node_config = vec!["cluster-require-full-coverage no".to_owned()];
    let mut cluster = cluster(Options { node_config, ..Options::new(server) });
    let id = cluster.call(1, &["CLUSTER", "MYID"]).unwrap();

    cluster.kill(1).unwrap();
    assert_eq!(cluster.nodes()[1].pid(), None);
    assert!(matches!(cluster.call(1, &["PING"]), Err(DevClusterError::Talk { .. })));
    assert!(matches!(cluster.pause(1), Err(DevClusterError::Dead { .. })));

    cluster.restart(1).unwrap();
    cluster.wait_ok().unwrap();
    assert_eq!(cluster.call(1, &["CLUSTER", "MYID"]).unwrap(), id);
}

#[test]
fn a_paused_node_goes_on_where_it_was() {
    let Some(server) = required(Server::find()) else { return };
    let mut cluster = cluster(Options { masters: 1, ..Options::new(server) });
    cluster.call(0, &["SET", "foo", "bar"]).unwrap();

    cluster.pause(0).unwrap();
    let status = format!("/proc/{}/stat", cluster.nodes()[0].pid().unwrap());
    wait_until("the node is stopped", || std::fs::read_to_string(&status).unwrap().contains(") T "));

    cluster.resume(0).unwrap();
    assert_eq!(cluster.call(0, &["GET", "foo"]).unwrap(), Reply::Bulk(b"bar".to_vec()));
}

#[test]
fn a_node_that_refuses_its_configuration_is_reported_with_its_reason() {
    let Some(server) = required(Server::find()) else { return };
    let node_config = vec!["no-such-directive yes".to_owned()];
    let Err(error) = DevCluster::start(Options { node_config, ..Options::new(server) }, &mut |_| {}) else {
        panic!("the cluster started")
    };
    assert!(matches!(error, DevClusterError::Dead { .. }), "{error}");
    assert!(error.to_string().contains("no-such-directive"), "{error}");
}

/// The command with one node on a free port, once it has said that it is ready.
fn dev_cluster_command() -> (Child, SocketAddr) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tsubaki"))
        .args(["dev-cluster", "--masters", "1", "--replicas", "0", "--base-port", &port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = format!("ready: tsubaki run --cluster 127.0.0.1:{port}");
    assert!(lines.any(|line| line.unwrap() == ready), "it ended before it was ready");
    (child, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_command_ends_its_nodes_when_it_is_terminated() {
    if required(Server::find()).is_some() {
        let (mut child, addr) = dev_cluster_command();
        assert!(listens(addr));
        signal(&child, Signal::TERM);
        assert!(child.wait().unwrap().success());
        assert!(!listens(addr));
    }
}

#[test]
fn the_nodes_end_even_when_the_command_is_killed() {
    if required(Server::find()).is_some() {
        let (mut child, addr) = dev_cluster_command();
        assert!(listens(addr));
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        wait_until("the node is gone", || !listens(addr));
    }
}
