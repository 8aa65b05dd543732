//! The plan: a pure function of the machine's description and of what the configuration asks for.
//!
//! CPUs in the order in which workers take them: the nodes of the cards that clients come through, then the others, the
//! nearest first; on each node whole cores before second threads of a core. Last of all, in the same order, those on whose
//! core another server is pinned.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use tsubaki_config::{CpuList, ListenAddr, Placement, PlacementMode};

use super::{Plan, Seat, queues};
use crate::machine::{Card, Cpu, Machine};

/// A configuration that this machine cannot fulfil.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum PlanError {
    #[error("placement.cores names CPU {missing}, but this process may use {there}: choose among these")]
    Cores { missing: CpuList, there: CpuList },
    #[error("placement.nodes names node {missing}, but this machine has {there}: choose among these")]
    Nodes { missing: CpuList, there: CpuList },
    #[error("placement.interfaces names {missing}, but this machine has {there}: choose among these")]
    Interfaces { missing: String, there: String },
    #[error(
        "placement.nodes and placement.cores leave no CPU of those that this process may use, {there}: widen them"
    )]
    Nothing { there: CpuList },
    #[error(
        "placement.workers is {workers}, but there is a CPU of its own for {cpus}: of CPU {there}. Lower it, let the \
         process use more CPUs, or set placement.mode to off"
    )]
    Workers { workers: usize, cpus: usize, there: CpuList },
}

/// Where workers go on this machine, if clients connect to these addresses.
///
/// # Errors
///
/// What is asked for is not there.
pub(crate) fn plan(machine: &Machine, wishes: &Placement, listen: &[ListenAddr]) -> Result<Plan, PlanError> {
    check_names(machine, wishes)?;
    let cards = cards(machine, wishes, listen);
    let candidates = candidates(machine, wishes, &cards)?;
    let (spare, free) = spare(machine, wishes, &candidates);
    let chosen = limit_per_node(&free, wishes.workers_per_node);
    let count = count(machine, wishes, &chosen)?;
    let (workers, reason) = seats(machine, wishes, (&free, &chosen), count);
    let queues = queues::assign(&workers, &cards);
    let changes = queues::changes(machine, wishes, &workers, &queues);
    Ok(Plan {
        control: control(machine, &workers, &candidates, spare),
        arrivals: queues::arrivals(machine, &workers, &queues, &changes),
        workers,
        reason,
        queues,
        changes,
    })
}

fn check_names(machine: &Machine, wishes: &Placement) -> Result<(), PlanError> {
    let missing: CpuList = wishes.cores.iter().filter(|cpu| !machine.allowed.contains(*cpu)).collect();
    if !missing.is_empty() {
        return Err(PlanError::Cores { missing, there: machine.allowed.clone() });
    }
    let there: CpuList = machine.nodes.iter().map(|node| node.id).collect();
    let missing: CpuList = wishes.nodes.iter().filter(|node| !there.contains(*node)).collect();
    if !missing.is_empty() {
        return Err(PlanError::Nodes { missing, there });
    }
    match wishes.interfaces.iter().find(|name| machine.card(name).is_none()) {
        Some(missing) => {
            let there: Vec<&str> = machine.cards.iter().map(|card| &*card.name).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            Err(PlanError::Interfaces { missing: missing.clone(), there })
        }
        None => Ok(()),
    }
}

/// The physical cards that clients come through.
fn cards<'a>(machine: &'a Machine, wishes: &'a Placement, listen: &[ListenAddr]) -> Vec<&'a Card> {
    if !wishes.interfaces.is_empty() {
        return machine.physical(wishes.interfaces.iter().map(String::as_str));
    }
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let addresses = listen.iter().flat_map(|listen| match listen {
        ListenAddr::Ip(address) => vec![address.ip()],
        ListenAddr::Any { .. } => vec![v4, v6],
    });
    let names: Vec<&str> = addresses.flat_map(|address| machine.routes.interfaces(address)).collect();
    machine.physical(names).into_iter().filter(|card| card.is_up).collect()
}

/// The CPUs that workers may take, in the order in which they do.
fn candidates<'a>(
    machine: &'a Machine,
    wishes: &Placement,
    cards: &[&Card],
) -> Result<Vec<&'a Cpu>, PlanError> {
    let cpu = |id: usize| machine.cpus.iter().find(|cpu| cpu.id == id);
    if wishes.mode == PlacementMode::Manual {
        return Ok(wishes.cores.iter().filter_map(cpu).collect());
    }
    let usable = |id: &usize| wishes.cores.is_empty() || wishes.cores.contains(*id);
    let mut cpus: Vec<&Cpu> = machine.allowed.iter().filter(usable).filter_map(cpu).collect();
    cpus.retain(|cpu| wishes.nodes.is_empty() || wishes.nodes.contains(cpu.node));
    if cpus.is_empty() && !machine.allowed.is_empty() {
        return Err(PlanError::Nothing { there: machine.allowed.clone() });
    }
    let usable: CpuList = cpus.iter().map(|cpu| cpu.id).collect();
    let homes: Vec<usize> = cards.iter().filter_map(|card| card.node).collect();
    let rank = |cpu: &&Cpu| {
        let thread = cpu.siblings.iter().filter(|id| usable.contains(*id)).position(|id| id == cpu.id);
        (distance(machine, &homes, cpu.node), thread, cpu.id)
    };
    cpus.sort_by_key(rank);
    // A core that somebody else is pinned to gives half a core: less than one of another node.
    let taken: CpuList = machine.taken().collect();
    let is_taken = |cpu: &&Cpu| cpu.siblings.iter().any(|id| taken.contains(id));
    let (shared, free): (Vec<&Cpu>, Vec<&Cpu>) = cpus.into_iter().partition(is_taken);
    Ok([in_turn(&homes, free), in_turn(&homes, shared)].concat())
}

/// How far a node is from the nearest home, then its number: what orders the nodes.
fn distance(machine: &Machine, homes: &[usize], node: usize) -> (u32, usize) {
    let far = |home: usize| {
        let home = machine.nodes.iter().find(|known| known.id == home)?;
        let index = machine.nodes.iter().position(|known| known.id == node)?;
        home.distances.get(index).copied()
    };
    if homes.contains(&node) {
        return (0, 0);
    }
    (homes.iter().filter_map(|home| far(*home)).min().unwrap_or(u32::MAX), node)
}

/// Takes the CPUs of several homes in turn, so that each card has workers; the other nodes' after them.
fn in_turn<'a>(homes: &[usize], cpus: Vec<&'a Cpu>) -> Vec<&'a Cpu> {
    let (at_home, away): (Vec<&Cpu>, Vec<&Cpu>) = cpus.into_iter().partition(|cpu| homes.contains(&cpu.node));
    let turn =
        |index: usize, cpu: &Cpu| at_home.iter().take(index).filter(|other| other.node == cpu.node).count();
    let home = |cpu: &Cpu| homes.iter().position(|home| *home == cpu.node);
    let mut ordered: Vec<_> =
        at_home.iter().enumerate().map(|(index, cpu)| (turn(index, cpu), home(cpu), *cpu)).collect();
    ordered.sort_by_key(|(turn, home, _)| (*turn, *home));
    ordered.into_iter().map(|(.., cpu)| cpu).chain(away).collect()
}

/// The core that is left to others, if one is asked for and two are there; and the CPUs without it.
fn spare<'a>(machine: &Machine, wishes: &Placement, candidates: &[&'a Cpu]) -> (CpuList, Vec<&'a Cpu>) {
    let none = || (CpuList::default(), candidates.to_vec());
    if !wishes.spare_core || wishes.mode != PlacementMode::Auto {
        return none();
    }
    // The lowest of the home's: where interrupts go by themselves, and CPU 0 does the system's own work.
    let Some(home) = candidates.first().map(|cpu| cpu.node) else { return none() };
    let Some(first) = candidates.iter().filter(|cpu| cpu.node == home).min_by_key(|cpu| cpu.id) else {
        return none();
    };
    let core: CpuList = first.siblings.iter().filter(|cpu| machine.allowed.contains(*cpu)).collect();
    let rest: Vec<&Cpu> = candidates.iter().copied().filter(|cpu| !core.contains(cpu.id)).collect();
    if rest.is_empty() { none() } else { (core, rest) }
}

fn limit_per_node<'a>(cpus: &[&'a Cpu], limit: Option<NonZeroU16>) -> Vec<&'a Cpu> {
    let limit = limit.map_or(usize::MAX, |limit| usize::from(limit.get()));
    let before = |index: usize, node: usize| cpus.iter().take(index).filter(|cpu| cpu.node == node).count();
    let within = |(index, cpu): &(usize, &&'a Cpu)| before(*index, cpu.node) < limit;
    cpus.iter().enumerate().filter(within).map(|(_, cpu)| *cpu).collect()
}

/// How many workers there are.
fn count(machine: &Machine, wishes: &Placement, chosen: &[&Cpu]) -> Result<usize, PlanError> {
    let cpus = chosen.len().max(1);
    let Some(workers) = wishes.workers.map(|workers| usize::from(workers.get())) else {
        let by_quota = binding_quota(machine).map_or(cpus, |quota| quota.div_ceil(1000).max(1));
        return Ok(if wishes.mode == PlacementMode::Manual { cpus } else { cpus.min(by_quota) });
    };
    if workers > cpus && wishes.mode != PlacementMode::Off {
        let there = chosen.iter().map(|cpu| cpu.id).collect();
        return Err(PlanError::Workers { workers, cpus, there });
    }
    Ok(workers)
}

/// The workers' seats, and why they are these. `free`: the CPUs that there are for workers; `chosen`: of these, as many a
/// node as allowed.
fn seats(
    machine: &Machine,
    wishes: &Placement,
    (free, chosen): (&[&Cpu], &[&Cpu]),
    count: usize,
) -> (Vec<Seat>, &'static str) {
    let on_core = |cpu: &&Cpu| seat(machine, [cpu.id].into_iter().collect(), Some(cpu.node));
    let on_node = |cpu: &&Cpu| {
        let cpus = free.iter().filter(|other| other.node == cpu.node).map(|cpu| cpu.id).collect();
        seat(machine, cpus, Some(cpu.node))
    };
    let pinned = || chosen.iter().take(count).map(on_core).collect();
    let nearby = || chosen.iter().take(count).map(on_node).collect();
    // What the settings leave out stays out, also where nobody is pinned.
    let anywhere = || {
        let narrowed = free.len() < machine.allowed.len();
        let cpus = free.iter().filter(|_| narrowed).map(|cpu| cpu.id).collect();
        vec![seat(machine, cpus, None); count]
    };
    let several_nodes = nodes_of(machine, machine.allowed.iter()).len() > 1;
    let quota = binding_quota(machine).is_some();
    match wishes.mode {
        PlacementMode::Off => (vec![Seat::default(); count], "placement.mode is off"),
        PlacementMode::Manual => (pinned(), "placement.cores names each worker's CPU"),
        PlacementMode::Auto if quota && several_nodes => {
            (nearby(), "each worker stays on a NUMA node, but on no one CPU, as a CPU quota applies")
        }
        PlacementMode::Auto if quota => {
            (anywhere(), "a CPU quota applies, and a pinned worker could not use another CPU's share")
        }
        PlacementMode::Auto if count == free.len() => (pinned(), "each worker has a CPU of its own"),
        // A proxy in the next container would choose the same CPUs, unseen.
        PlacementMode::Auto if several_nodes && machine.is_fenced => (
            nearby(),
            "each worker stays on a NUMA node, but on no one CPU, as other containers' processes cannot be seen",
        ),
        PlacementMode::Auto if several_nodes => {
            (pinned(), "each worker has a CPU of its own, on few NUMA nodes")
        }
        // A second proxy would choose the same ones.
        PlacementMode::Auto => {
            (anywhere(), "there are more allowed CPUs than workers, and others may use some")
        }
    }
}

/// The quota, if it is less than the allowed CPUs have anyway.
fn binding_quota(machine: &Machine) -> Option<usize> {
    machine.quota_millis.filter(|quota| *quota < 1000 * machine.allowed.len())
}

fn nodes_of(machine: &Machine, cpus: impl Iterator<Item = usize>) -> CpuList {
    cpus.filter_map(|cpu| machine.node_of(cpu)).collect()
}

/// The control thread: on the spare core, or on what the workers leave of their node, or beside them.
fn control(machine: &Machine, workers: &[Seat], candidates: &[&Cpu], spare: CpuList) -> Seat {
    if !spare.is_empty() {
        let node = spare.iter().next().and_then(|cpu| machine.node_of(cpu));
        return seat(machine, spare, node);
    }
    let Some(first) = workers.first() else { return Seat::default() };
    let Some(node) = first.node else { return first.clone() };
    let of_node = || candidates.iter().filter(|cpu| cpu.node == node).map(|cpu| cpu.id);
    let left: CpuList = of_node().filter(|id| !workers.iter().any(|seat| seat.cpu() == Some(*id))).collect();
    seat(machine, if left.is_empty() { of_node().collect() } else { left }, Some(node))
}

/// A seat on these CPUs. Without a choice of memory, or where the node has none, the kernel's own rule is as good.
fn seat(machine: &Machine, cpus: CpuList, node: Option<usize>) -> Seat {
    let has_memory = |id: usize| machine.nodes.iter().any(|node| node.id == id && node.memory_kib > 0);
    let choice = machine.memory_nodes.iter().filter(|node| has_memory(*node)).count() > 1;
    let memory = node.filter(|node| choice && has_memory(*node) && machine.memory_nodes.contains(*node));
    Seat { cpus, node, memory }
}
