//! What tests ask of nodes directly.

use tsubaki::dev_cluster::{DevCluster, Reply};

use crate::harness::wait_until;

/// True if node `i` runs and is a master, whatever it was built as.
pub(crate) fn is_master(cluster: &DevCluster, i: usize) -> bool {
    let Ok(Reply::Array(role)) = cluster.call(i, &["ROLE"]) else { return false };
    role.first().and_then(Reply::text).is_some_and(|role| role == "master")
}

/// Gives an order that must be obeyed.
pub(crate) fn order(cluster: &DevCluster, i: usize, command: &[&str]) {
    let reply = cluster.call(i, command).unwrap();
    assert!(!matches!(reply, Reply::Error(_)), "{command:?} was answered with {reply:?}");
}

/// Waits until `replica` has all that `master` has written so far.
pub(crate) fn wait_until_replicated(cluster: &DevCluster, master: usize, replica: usize) {
    let wanted = info(cluster, master, "replication", "master_repl_offset");
    wait_until("the replica is in step", || {
        info(cluster, replica, "replication", "slave_repl_offset") >= wanted
    });
}

/// A number in a section of a node's INFO.
pub(crate) fn info(cluster: &DevCluster, i: usize, section: &str, field: &str) -> u64 {
    let text = cluster.call(i, &["INFO", section]).unwrap().text().unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {text}")).parse().unwrap()
}
