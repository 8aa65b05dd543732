//! The checks: one row each, one function each, from what is there to a verdict.

use tsubaki_config::Config;

use super::sample::Sample;
use super::{cpus, kernel, memory, network, servers};
use crate::machine::{Machine, Root};
use crate::placement::Plan;

/// What is looked at.
pub(super) struct Subject<'a> {
    pub(super) root: &'a Root,
    pub(super) machine: &'a Machine,
    pub(super) config: &'a Config,
    pub(super) plan: &'a Plan,
    pub(super) sample: Sample,
    /// True: look at it as at a machine for Redis servers, though none runs.
    pub(super) redis: bool,
}

/// One thing to look at.
pub(super) struct Check {
    /// What it is called in JSON and in text; a setting of the kernel has its own name.
    pub(super) id: &'static str,
    pub(super) look: fn(&Subject<'_>) -> Verdict,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should be.
    Ok(String),
    /// Something stands in the way.
    Finding {
        /// What was found.
        found: String,
        /// Why it matters.
        why: &'static str,
        /// Commands that mend it.
        mend: Vec<String>,
    },
    /// It does not matter here, or cannot be seen.
    NotApplicable(String),
}

pub(super) const CHECKS: &[Check] = &[
    Check { id: "kernel.numa_balancing", look: kernel::numa_balancing },
    Check { id: "vm.watermark_scale_factor", look: memory::watermarks },
    Check { id: "vm.zone_reclaim_mode", look: kernel::zone_reclaim },
    Check { id: "vm.dirty_ratio", look: kernel::dirty_ratio },
    Check { id: "vm.dirty_background_ratio", look: kernel::dirty_background_ratio },
    Check { id: "vm.overcommit_memory", look: kernel::overcommit },
    Check { id: "vm.swappiness", look: kernel::swappiness },
    Check { id: "transparent_hugepage", look: kernel::huge_pages },
    Check { id: "net.core.somaxconn", look: network::somaxconn },
    Check { id: "net.ipv4.tcp_max_syn_backlog", look: network::syn_backlog },
    Check { id: "net.ipv4.ip_local_port_range", look: network::local_ports },
    Check { id: "open_files", look: network::open_files },
    Check { id: "cpu_governor", look: cpus::governor },
    Check { id: "cpu_idle_states", look: cpus::idle_states },
    Check { id: "irqbalance", look: network::irqbalance },
    Check { id: "receive_queues", look: network::receive_queues },
    Check { id: "irq_affinity", look: network::irq_affinity },
    Check { id: "xps", look: network::xps },
    Check { id: "rps", look: network::rps },
    Check { id: "gro_flush_timeout", look: network::held_packets },
    Check { id: "page_cache", look: memory::page_cache },
    Check { id: "numa_miss", look: memory::numa_miss },
    Check { id: "numa_pages_migrated", look: memory::migrations },
    Check { id: "servers", look: servers::placement },
];

impl Subject<'_> {
    /// The value of a kernel setting.
    pub(super) fn setting(&self, name: &str) -> Option<i64> {
        self.root.value(format!("proc/sys/{}", name.replace('.', "/")))
    }

    /// True if the machine has memory on several NUMA nodes.
    pub(super) fn is_numa(&self) -> bool {
        self.machine.nodes.iter().filter(|node| node.memory_kib > 0).count() > 1
    }

    /// True if Redis or Valkey servers run here, or are about to.
    pub(super) fn has_redis(&self) -> bool {
        self.redis || !self.machine.servers.is_empty()
    }
}

impl Verdict {
    pub(super) fn finding(found: impl Into<String>, why: &'static str, mend: Vec<String>) -> Self {
        Self::Finding { found: found.into(), why, mend }
    }

    /// The verdict for what cannot be read.
    pub(super) fn unreadable(what: &str) -> Self {
        Self::NotApplicable(format!("{what} cannot be read here"))
    }

    /// The verdict for what matters to several NUMA nodes.
    pub(super) fn one_node() -> Self {
        Self::NotApplicable("this machine has one NUMA node".to_owned())
    }

    /// The verdict for what matters to Redis servers.
    pub(super) fn no_redis() -> Self {
        Self::NotApplicable(
            "no redis-server or valkey-server runs here (--redis looks nevertheless)".to_owned(),
        )
    }
}

/// The commands that set a kernel setting now and at every start.
pub(super) fn sysctl(name: &str, value: impl std::fmt::Display) -> Vec<String> {
    vec![
        format!("sysctl -w {name}={value}"),
        // A file for each: to run it twice does no harm.
        format!("echo '{name} = {value}' > /etc/sysctl.d/90-{name}.conf"),
    ]
}
