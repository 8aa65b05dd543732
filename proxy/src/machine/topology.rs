//! NUMA nodes and CPUs: `/sys/devices/system/node` and `/sys/devices/system/cpu`.

use tsubaki_config::CpuList;

use super::files::Root;

/// A NUMA node that is online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its number; numbers may have holes.
    pub(crate) id: usize,
    /// Its CPUs that are online; there may be none.
    pub(crate) cpus: CpuList,
    /// Its memory in KiB; there may be none.
    pub(crate) memory_kib: u64,
    /// How far each online node is, in the order of their numbers: 10 is itself. Empty where the machine does not say.
    pub(crate) distances: Vec<u32>,
}

/// A CPU that is online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// Its number.
    pub(crate) id: usize,
    /// The number of its node.
    pub(crate) node: usize,
    /// The CPUs of the same core that are online, itself among them.
    pub(crate) siblings: CpuList,
}

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// The nodes; where the kernel knows none, one with all CPUs and all memory.
pub(super) fn nodes(root: &Root, online: &CpuList) -> Vec<Node> {
    let numbers = root.list(format!("{NODES}/online")).unwrap_or_default();
    if numbers.is_empty() {
        let memory_kib = root.text("proc/meminfo").and_then(|text| memory_kib(&text)).unwrap_or_default();
        return vec![Node { id: 0, cpus: online.clone(), memory_kib, distances: Vec::new() }];
    }
    let node = |id: usize| {
        let file = |name: &str| format!("{NODES}/node{id}/{name}");
        let cpus = root.list(file("cpulist")).unwrap_or_default();
        let distances = root.text(file("distance")).unwrap_or_default();
        Node {
            id,
            // The kernel lists only CPUs that are online here; a copy that was written by hand may not.
            cpus: cpus.iter().filter(|cpu| online.contains(*cpu)).collect(),
            memory_kib: root.text(file("meminfo")).and_then(|text| memory_kib(&text)).unwrap_or_default(),
            distances: distances.split_whitespace().map_while(|distance| distance.parse().ok()).collect(),
        }
    };
    numbers.iter().map(node).collect()
}

/// The CPUs of these nodes.
pub(super) fn cpus(root: &Root, nodes: &[Node], online: &CpuList) -> Vec<Cpu> {
    let cpu = |id: usize, node: usize| {
        let siblings = root.list(format!("{CPUS}/cpu{id}/topology/thread_siblings_list"));
        let siblings = siblings.map(|list| list.iter().filter(|cpu| online.contains(*cpu)).collect());
        let alone = || [id].into_iter().collect();
        Cpu { id, node, siblings: siblings.filter(|list: &CpuList| list.contains(id)).unwrap_or_else(alone) }
    };
    let mut cpus: Vec<Cpu> =
        nodes.iter().flat_map(|node| node.cpus.iter().map(|id| cpu(id, node.id))).collect();
    cpus.sort_by_key(|cpu| cpu.id);
    cpus
}

/// The CPUs that are online; where the machine does not say, or says it of other CPUs than a container may use, the latter.
pub(super) fn online(root: &Root, allowed: &CpuList) -> CpuList {
    let online = root.list(format!("{CPUS}/online")).unwrap_or_default();
    let known = !online.is_empty() && (allowed.is_empty() || online.iter().any(|cpu| allowed.contains(cpu)));
    match (known, allowed.is_empty()) {
        (true, _) => online,
        (false, false) => allowed.clone(),
        (false, true) => [0].into_iter().collect(),
    }
}

/// `MemTotal` of a node's or the machine's meminfo.
fn memory_kib(meminfo: &str) -> Option<u64> {
    let (_, rest) = meminfo.split_once("MemTotal:")?;
    rest.split_whitespace().next()?.parse().ok()
}
