//! What of this machine counts for placement, as sysfs and procfs tell it; the one place that reads them.
//!
//! ```text
//!   files (a root, "/" or a copy) --> cpus, memory, quota, cards, servers --> Machine --> placement, doctor, metrics
//! ```
//!
//! Must not know: what is made of it. Nothing here fails: what cannot be read is left out, and a machine that tells
//! nothing has one node with one CPU.

mod cards;
mod files;
mod interrupts;
mod mask;
mod pages;
mod quota;
mod routes;
mod servers;
mod topology;

use tsubaki_config::CpuList;

pub(crate) use self::cards::{Card, Queue};
pub(crate) use self::files::Root;
pub(crate) use self::interrupts::{Interrupt, Interrupts};
pub(crate) use self::mask::{mask, parse_mask};
pub(crate) use self::pages::{Memory, memory_by_node};
pub(crate) use self::routes::Routes;
pub(crate) use self::servers::Server;
pub(crate) use self::topology::{Cpu, Node};

/// A machine's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Its NUMA nodes that are online, by number: at least one, some perhaps without CPUs or without memory.
    pub(crate) nodes: Vec<Node>,
    /// Its CPUs that are online, by number.
    pub(crate) cpus: Vec<Cpu>,
    /// Of these, the CPUs that this process may use.
    pub(crate) allowed: CpuList,
    /// The nodes that this process may have memory from.
    pub(crate) memory_nodes: CpuList,
    /// CPU time that its control group may use, in thousandths of a CPU; `None`: no limit.
    pub(crate) quota_millis: Option<usize>,
    /// Network interfaces, loopback left out, by name.
    pub(crate) cards: Vec<Card>,
    /// Which interface leads where.
    pub(crate) routes: Routes,
    /// True if irqbalance runs.
    pub(crate) irqbalance: bool,
    /// True in a container: processes outside of it are not seen.
    pub(crate) is_fenced: bool,
    /// Redis, Valkey and other tsubaki processes beside this one.
    pub(crate) servers: Vec<Server>,
}

impl Machine {
    /// Reads the machine below `root`.
    pub(crate) fn read(root: &Root) -> Self {
        let status = root.text("proc/self/status").unwrap_or_default();
        let allowed = status_list(&status, "Cpus_allowed_list").unwrap_or_default();
        let online = topology::online(root, &allowed);
        let nodes = topology::nodes(root, &online);
        let cpus = topology::cpus(root, &nodes, &online);
        let allowed =
            cpus.iter().map(|cpu| cpu.id).filter(|cpu| allowed.is_empty() || allowed.contains(*cpu));
        let allowed: CpuList = allowed.collect();
        let memory_nodes = status_list(&status, "Mems_allowed_list");
        let (irqbalance, servers) = servers::read(root);
        Self {
            memory_nodes: memory_nodes.unwrap_or_else(|| nodes.iter().map(|node| node.id).collect()),
            quota_millis: quota::quota(root),
            cards: cards::read(root, &Interrupts::read(root)),
            routes: Routes::read(root),
            nodes,
            cpus,
            allowed,
            is_fenced: servers::is_fenced(root),
            irqbalance,
            servers,
        }
    }

    /// The node of a CPU that is online.
    pub(crate) fn node_of(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().find(|known| known.id == cpu).map(|known| known.node)
    }

    /// An interface by name.
    pub(crate) fn card(&self, name: &str) -> Option<&Card> {
        self.cards.iter().find(|card| card.name == name)
    }

    /// The physical cards below these interfaces, which may be bonds or VLANs: each once, in order.
    pub(crate) fn physical<'a>(&'a self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a Card> {
        let mut found: Vec<&Card> = Vec::new();
        let mut waiting: Vec<&str> = names.into_iter().collect();
        let mut seen: Vec<&str> = Vec::new();
        waiting.reverse();
        while let Some(name) = waiting.pop() {
            let Some(card) = self.card(name).filter(|_| !seen.contains(&name)) else { continue };
            seen.push(name);
            // A card may itself be over another: Azure's synthetic one over the virtual function that does its work.
            if card.lower.is_empty() {
                found.extend(Some(card).filter(|card| card.is_physical));
            } else {
                waiting.extend(card.lower.iter().rev().map(String::as_str));
            }
        }
        found
    }

    /// CPUs on which a thread of another server is pinned alone.
    pub(crate) fn taken(&self) -> impl Iterator<Item = usize> {
        self.servers.iter().flat_map(|server| server.pinned.iter())
    }
}

/// A list of `/proc/…/status`.
pub(super) fn status_list(status: &str, key: &str) -> Option<CpuList> {
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.parse().ok()
}
