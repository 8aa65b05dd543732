//! Makes a cluster of running nodes, and waits until it is one.
//!
//! What `redis-cli --cluster create` does, without redis-cli: every master gets its slots and an epoch of
//! its own, everybody meets everybody (gossip alone takes seconds), replicas follow, and then the nodes are
//! asked until each of them sees the whole cluster.

use std::thread;
use std::time::{Duration, Instant};

use super::client::Reply;
use super::error::DevClusterError;
use super::node::{Node, Role};
use super::{DevCluster, PATIENCE, Step};

const POLL: Duration = Duration::from_millis(50);

pub(super) fn form(cluster: &mut DevCluster, on_step: &mut dyn FnMut(Step)) -> Result<(), DevClusterError> {
    on_step(Step::Joining);
    for (epoch, node) in cluster.nodes.iter().enumerate() {
        if let Role::Master(slots) = node.role() {
            let (first, last) = (slots.start().to_string(), slots.end().to_string());
            order(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        order(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()])?;
    }
    meet(&cluster.nodes)?;
    wait_until(cluster, |node| sees(node, cluster.nodes.len(), 0))?;

    on_step(Step::Replicating);
    let mut replicas = 0;
    for node in &cluster.nodes {
        if let Role::Replica(master) = *node.role() {
            let master = cluster.call(master, &["CLUSTER", "MYID"])?.text().unwrap_or_default();
            order(node, &["CLUSTER", "REPLICATE", &master])?;
            replicas += 1;
        }
    }

    on_step(Step::Settling);
    wait_until(cluster, |node| sees(node, cluster.nodes.len(), replicas))?;
    wait_until_ok(cluster)
}

fn meet(nodes: &[Node]) -> Result<(), DevClusterError> {
    for (i, node) in nodes.iter().enumerate() {
        for other in nodes.iter().skip(i + 1) {
            let (addr, bus) = (other.addr(), other.bus_port().to_string());
            order(node, &["CLUSTER", "MEET", &addr.ip().to_string(), &addr.port().to_string(), &bus])?;
        }
    }
    Ok(())
}

fn order(node: &Node, command: &[&str]) -> Result<(), DevClusterError> {
    match node.call(command)? {
        Reply::Error(reply) => {
            Err(DevClusterError::Refused { addr: node.addr(), command: command.join(" "), reply })
        }
        _ => Ok(()),
    }
}

/// Waits until every node that is up is ok; see [`DevCluster::wait_ok`].
pub(super) fn wait_until_ok(cluster: &DevCluster) -> Result<(), DevClusterError> {
    wait_until(cluster, is_ok)
}

/// Asks every node that is up until `done` has nothing against any of them.
fn wait_until(
    cluster: &DevCluster,
    done: impl Fn(&Node) -> Result<(), Waiting>,
) -> Result<(), DevClusterError> {
    let start = Instant::now();
    for node in cluster.nodes.iter().filter(|node| node.is_up()) {
        while let Err(Waiting(reason)) = done(node) {
            let waited = start.elapsed();
            if waited > PATIENCE {
                let reason = format!("node {} {reason}", node.addr());
                return Err(DevClusterError::Late { waited, reason, log: node.log_tail() });
            }
            thread::sleep(POLL);
        }
    }
    Ok(())
}

/// What a node has not got to; a clause that follows its name.
struct Waiting(String);

/// Whether `node` knows `nodes` nodes, `replicas` of them replicas, each connected and none in doubt.
fn sees(node: &Node, nodes: usize, replicas: usize) -> Result<(), Waiting> {
    let table = ask(node, &["CLUSTER", "NODES"])?;
    let flags = || table.lines().filter_map(|line| line.split(' ').nth(2));
    let sure = flags().filter(|flags| !flags.contains("handshake") && !flags.contains("fail")).count();
    let slaves = flags().filter(|flags| flags.contains("slave")).count();
    let connected = table.lines().filter(|line| line.contains(" connected")).count();
    if (sure, slaves, connected) == (nodes, replicas, nodes) {
        return Ok(());
    }
    Err(Waiting(format!(
        "sees {sure} of {nodes} nodes, is connected to {connected}, and knows {slaves} of {replicas} replicas"
    )))
}

fn is_ok(node: &Node) -> Result<(), Waiting> {
    let cluster = ask(node, &["CLUSTER", "INFO"])?;
    for line in ["cluster_state:ok", "cluster_slots_ok:16384"] {
        if !has_line(&cluster, line) {
            return Err(Waiting(format!("does not say {line}")));
        }
    }
    let replication = ask(node, &["INFO", "replication"])?;
    if has_line(&replication, "role:slave") && !has_line(&replication, "master_link_status:up") {
        return Err(Waiting("has no link to its master".to_owned()));
    }
    Ok(())
}

fn has_line(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| line == wanted)
}

fn ask(node: &Node, command: &[&str]) -> Result<String, Waiting> {
    let reply = node.call(command).map_err(|error| Waiting(format!("cannot be asked: {error}")))?;
    reply.text().ok_or_else(|| Waiting(format!("answers {}: {reply:?}", command.join(" "))))
}
