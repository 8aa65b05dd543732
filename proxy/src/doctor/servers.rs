//! Redis and Valkey servers on the same machine, and where they run.

use super::check::{Subject, Verdict};
use crate::machine::{Memory, Server, memory_by_node};

/// From this share of a server's memory on, in per cent, other nodes count as a finding.
const ELSEWHERE_PERCENT: u64 = 10;

pub(super) fn placement(subject: &Subject<'_>) -> Verdict {
    let servers = &subject.machine.servers;
    if servers.is_empty() {
        return Verdict::NotApplicable("no redis-server or valkey-server runs here".to_owned());
    }
    let mut mend = Vec::new();
    let mut bad = Vec::new();
    let mut unseen = false;
    for server in servers {
        let who = format!("{} {}", server.name, server.pid);
        if let Some(worker) = shared_core(subject, server) {
            bad.push(format!("{who} is pinned to the CPU of worker {worker}"));
            mend.push("# set placement.cores to CPUs on which no other server is pinned".to_owned());
        }
        if !subject.is_numa() {
            continue;
        }
        let nodes: Vec<usize> = nodes_of(subject, server);
        let [node] = nodes.as_slice() else {
            bad.push(format!("{who} may run on nodes {}", join(&nodes)));
            if let Some(home) = subject.machine.nodes.iter().find(|node| !node.cpus.is_empty()) {
                mend.push(format!("taskset -acp {} {}   # or another node's CPUs", home.cpus, server.pid));
            }
            continue;
        };
        let memory = memory_by_node(subject.root, &server.pid.to_string(), Memory::Anonymous);
        let total: u64 = memory.values().sum();
        let own = memory.get(node).copied().unwrap_or_default();
        unseen |= total == 0;
        if total > 0 && (total - own) * 100 / total > ELSEWHERE_PERCENT {
            bad.push(format!(
                "{who} runs on node {node} and has {}% of its memory elsewhere",
                (total - own) * 100 / total
            ));
            let others: Vec<usize> = memory.keys().copied().filter(|other| other != node).collect();
            mend.push(format!("migratepages {} {} {node}", server.pid, join(&others)));
        }
    }
    mend.dedup();
    if bad.is_empty() {
        let each =
            servers.iter().map(|server| format!("{} {} on CPU {}", server.name, server.pid, server.allowed));
        let hint = if unseen { "; where their memory lies only root sees" } else { "" };
        return Verdict::Ok(each.collect::<Vec<_>>().join("; ") + hint);
    }
    Verdict::finding(
        bad.join("; "),
        "Servers that move between NUMA nodes, or away from their memory, lose a sixth of their throughput; two on one CPU half.",
        mend,
    )
}

/// The worker whose CPU a thread of the server is pinned to, where it could have another.
fn shared_core(subject: &Subject<'_>, server: &Server) -> Option<usize> {
    if subject.machine.cpus.len() < 2 {
        return None;
    }
    subject.plan.workers.iter().position(|seat| seat.cpu().is_some_and(|cpu| server.pinned.contains(cpu)))
}

fn nodes_of(subject: &Subject<'_>, server: &Server) -> Vec<usize> {
    let mut nodes: Vec<usize> =
        server.allowed.iter().filter_map(|cpu| subject.machine.node_of(cpu)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn join(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
