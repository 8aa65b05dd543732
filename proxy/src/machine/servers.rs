//! Processes on the same machine that compete for its cores: Redis and Valkey servers, other proxies, irqbalance.

use tsubaki_config::CpuList;

use super::files::Root;
use super::status_list;

/// A Redis or Valkey server, or another tsubaki.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its process id.
    pub(crate) pid: u32,
    /// Its program's name.
    pub(crate) name: String,
    /// The CPUs that its main thread may use.
    pub(crate) allowed: CpuList,
    /// The CPUs on which a thread of it is pinned alone.
    pub(crate) pinned: CpuList,
}

const SERVERS: [&str; 3] = ["redis-server", "valkey-server", "tsubaki"];

/// Whether irqbalance runs, and the servers.
pub(super) fn read(root: &Root) -> (bool, Vec<Server>) {
    let own = std::process::id() as usize;
    let is_own = |pid: &usize| *pid == own && !root.is_copy();
    let mut irqbalance = false;
    let mut servers = Vec::new();
    for pid in root.numbered("proc", "").into_iter().filter(|pid| !is_own(pid)) {
        let Some(name) = root.text(format!("proc/{pid}/comm")) else { continue };
        irqbalance |= name == "irqbalance";
        if SERVERS.contains(&&*name) {
            servers.extend(server(root, pid, name));
        }
    }
    (irqbalance, servers)
}

/// True in another PID namespace than the machine's first.
pub(super) fn is_fenced(root: &Root) -> bool {
    /// `PROC_PID_INIT_INO` of include/linux/proc_ns.h.
    const FIRST: &str = "pid:[4026531836]";
    let namespace = std::fs::read_link(root.path("proc/self/ns/pid"));
    namespace.is_ok_and(|namespace| namespace.as_os_str() != FIRST)
}

/// `None` if it has gone meanwhile.
fn server(root: &Root, pid: usize, name: String) -> Option<Server> {
    let allowed = |folder: String| status_list(&root.text(format!("{folder}/status"))?, "Cpus_allowed_list");
    let threads = root.numbered(format!("proc/{pid}/task"), "");
    let alone = threads
        .into_iter()
        .filter_map(|thread| allowed(format!("proc/{pid}/task/{thread}")))
        .filter(|cpus| cpus.len() == 1)
        .flat_map(|cpus| cpus.iter().collect::<Vec<_>>());
    Some(Server {
        pid: u32::try_from(pid).ok()?,
        name,
        allowed: allowed(format!("proc/{pid}"))?,
        pinned: alone.collect(),
    })
}
