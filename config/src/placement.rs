//! Workers, the cores that they run on, and what of the machine may be changed for them: `[placement]`.

use std::fmt;
use std::num::NonZeroU16;
use std::path::PathBuf;

use crate::cpu_list::CpuList;
use crate::error::ConfigError;
use crate::resolve::{Choice, Resolver};

/// How many workers there are, where each stays, and what may be changed on the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// `mode`. Default: `auto`.
    pub mode: PlacementMode,
    /// `workers`: worker threads, up to 1024. Default: `None`, in the file 0, which is as many as the machine
    /// grants: the smaller of the allowed CPUs and the cgroup's quota; in manual mode one for each core.
    pub workers: Option<NonZeroU16>,
    /// `workers_per_node`: workers on one NUMA node at most, up to 1024. Default: `None`, in the file 0, which is
    /// no limit.
    pub workers_per_node: Option<NonZeroU16>,
    /// `nodes`: the NUMA nodes that workers may use. Default: none, which is all.
    pub nodes: CpuList,
    /// `cores`: the CPUs that workers may use; in manual mode each worker's CPU, in their order. Default: none,
    /// which is all that the process is allowed to use.
    pub cores: CpuList,
    /// `interfaces`: the network interfaces that clients come through, to whose NUMA nodes workers go first.
    /// Default: none, which is those of the listening addresses.
    pub interfaces: Vec<String>,
    /// `spare_core`: true: one core is left to interrupts and the control thread. Default: false.
    pub spare_core: bool,
    /// `memory`: how strictly a worker's memory is its node's. Default: `preferred`.
    pub memory: MemoryPolicy,
    /// `irq_affinity`: true: the interrupts of a worker's queues are bound to its core. Default: false.
    pub irq_affinity: bool,
    /// `xps`: true: a worker's core sends through a transmit queue of its own. Default: false.
    pub xps: bool,
    /// `despite_irqbalance`: true: the system is changed also where irqbalance runs. Default: false.
    pub despite_irqbalance: bool,
    /// `state_dir`: the folder that remembers what was changed on the system, to restore it. Default:
    /// `/run/tsubaki`.
    pub state_dir: PathBuf,
}

/// Whether workers are pinned to cores, and who chooses the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlacementMode {
    /// `off`: the kernel moves workers as it likes.
    Off,
    /// `auto`: the machine's description decides.
    #[default]
    Auto,
    /// `manual`: each worker on the core that `cores` names for it.
    Manual,
}

/// How strictly a worker's memory comes from its NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// `preferred`: from its node as long as there is any, then from others.
    #[default]
    Preferred,
    /// `strict`: from its node alone; where none is left, the kernel ends a process.
    Strict,
}

const INTERFACES: &str = "names of network interfaces such as eth0";

impl Default for Placement {
    fn default() -> Self {
        Self {
            mode: PlacementMode::default(),
            workers: None,
            workers_per_node: None,
            nodes: CpuList::default(),
            cores: CpuList::default(),
            interfaces: Vec::new(),
            spare_core: false,
            memory: MemoryPolicy::default(),
            irq_affinity: false,
            xps: false,
            despite_irqbalance: false,
            state_dir: PathBuf::from("/run/tsubaki"),
        }
    }
}

impl Placement {
    pub(crate) fn resolve(resolver: &Resolver<'_>) -> Result<Self, ConfigError> {
        let default = Self::default();
        let placement = Self {
            mode: resolver.choice("placement.mode", default.mode)?,
            workers: NonZeroU16::new(resolver.quantity("placement.workers", 0, 0..=1024)?),
            workers_per_node: NonZeroU16::new(resolver.quantity(
                "placement.workers_per_node",
                0,
                0..=1024,
            )?),
            nodes: resolver.cpu_list("placement.nodes")?,
            cores: resolver.cpu_list("placement.cores")?,
            interfaces: resolver.list_or_none("placement.interfaces", INTERFACES, interface)?,
            spare_core: resolver.flag("placement.spare_core", default.spare_core)?,
            memory: resolver.choice("placement.memory", default.memory)?,
            irq_affinity: resolver.flag("placement.irq_affinity", default.irq_affinity)?,
            xps: resolver.flag("placement.xps", default.xps)?,
            despite_irqbalance: resolver.flag("placement.despite_irqbalance", default.despite_irqbalance)?,
            state_dir: resolver.folder("placement.state_dir", default.state_dir)?,
        };
        placement.check_manual()?;
        Ok(placement)
    }

    fn check_manual(&self) -> Result<(), ConfigError> {
        let cores = self.cores.len();
        match (self.mode, self.workers) {
            (PlacementMode::Manual, _) if cores == 0 => Err(ConfigError::NoCores),
            (PlacementMode::Manual, Some(workers)) if usize::from(workers.get()) != cores => {
                Err(ConfigError::WorkersAndCores { workers: workers.get(), cores })
            }
            _ => Ok(()),
        }
    }
}

/// As Linux' `dev_valid_name`: 1 to 15 bytes, no slash, colon or space.
fn interface(name: &str) -> Option<String> {
    let strange = |c: char| c == '/' || c == ':' || c.is_whitespace();
    let valid = (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.contains(strange);
    valid.then(|| name.to_owned())
}

impl Choice for PlacementMode {
    const ALL: &'static [Self] = &[Self::Off, Self::Auto, Self::Manual];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Manual => "manual",
        }
    }
}

impl Choice for MemoryPolicy {
    const ALL: &'static [Self] = &[Self::Preferred, Self::Strict];

    fn name(self) -> &'static str {
        match self {
            Self::Preferred => "preferred",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<NonZeroU16>| count.map_or(0, NonZeroU16::get);
        writeln!(f, "[placement]")?;
        writeln!(f, "mode = \"{}\"", self.mode.name())?;
        writeln!(f, "workers = {}", count(self.workers))?;
        writeln!(f, "workers_per_node = {}", count(self.workers_per_node))?;
        writeln!(f, "nodes = \"{}\"", self.nodes)?;
        writeln!(f, "cores = \"{}\"", self.cores)?;
        let interfaces: Vec<_> = self.interfaces.iter().map(|name| toml::Value::from(&**name)).collect();
        writeln!(f, "interfaces = {}", toml::Value::from(interfaces))?;
        writeln!(f, "spare_core = {}", self.spare_core)?;
        writeln!(f, "memory = \"{}\"", self.memory.name())?;
        writeln!(f, "irq_affinity = {}", self.irq_affinity)?;
        writeln!(f, "xps = {}", self.xps)?;
        writeln!(f, "despite_irqbalance = {}", self.despite_irqbalance)?;
        writeln!(f, "state_dir = {}", toml::Value::from(&*self.state_dir.to_string_lossy()))
    }
}
