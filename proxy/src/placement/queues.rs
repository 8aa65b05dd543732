//! Which queue of a card belongs to which worker, what has to be written for it, and whether clients can then be taken in
//! where their packets arrive.

use tsubaki_config::{CpuList, Placement};

use super::{Arrivals, Change, ChangeKind, QueueSeat, Seat};
use crate::machine::{Card, Interrupt, Machine, Queue};

/// Deals each card's queues out to the workers of its node, or to all where the node is not known or has no worker.
pub(super) fn assign(workers: &[Seat], cards: &[&Card]) -> Vec<QueueSeat> {
    let pinned = |worker: &usize| workers.get(*worker).is_some_and(|seat| seat.cpu().is_some());
    let all: Vec<usize> = (0..workers.len()).filter(pinned).collect();
    let mut seats = Vec::new();
    for card in cards {
        let here = |worker: &usize| {
            card.node.is_some() && workers.get(*worker).is_some_and(|seat| seat.node == card.node)
        };
        let near: Vec<usize> = all.iter().copied().filter(here).collect();
        let owners = if near.is_empty() { &all } else { &near };
        let numbers = card.receive.len().max(card.transmit.len());
        seats.extend(owners.iter().cycle().zip(0..numbers).map(|(worker, queue)| QueueSeat {
            card: card.name.clone(),
            queue,
            worker: *worker,
            receive: interrupts(&card.receive, queue).map(|interrupt| interrupt.number).collect(),
            transmit: interrupts(&card.transmit, queue).map(|interrupt| interrupt.number).collect(),
        }));
    }
    seats
}

/// What has to be written so that each queue works for its worker's CPU; what holds already is left out.
pub(super) fn changes(
    machine: &Machine,
    wishes: &Placement,
    workers: &[Seat],
    queues: &[QueueSeat],
) -> Vec<Change> {
    let balanced = (machine.irqbalance || machine.is_fenced) && !wishes.despite_irqbalance;
    let forbidden = |allowed: bool, setting: &'static str| match (allowed, balanced) {
        (false, _) => Some(setting),
        (true, true) if machine.irqbalance => Some("irqbalance runs (placement.despite_irqbalance is false)"),
        (true, true) => Some("irqbalance may run unseen (placement.despite_irqbalance is false)"),
        (true, false) => None,
    };
    let mut changes: Vec<Change> = Vec::new();
    for seat in queues {
        let Some(card) = machine.card(&seat.card) else { continue };
        let Some(cpu) = workers.get(seat.worker).and_then(Seat::cpu) else { continue };
        let is_there = |list: &CpuList| list.len() == 1 && list.contains(cpu);
        let of_queue = interrupts(&card.receive, seat.queue).chain(interrupts(&card.transmit, seat.queue));
        for interrupt in of_queue.filter(|interrupt| !is_there(&interrupt.affinity)) {
            let path = irq_file(interrupt.number);
            // A pair of queues may share one.
            if !changes.iter().any(|change| change.path == path) {
                changes.push(Change {
                    path,
                    kind: ChangeKind::IrqAffinity,
                    before: Some(interrupt.affinity.clone()),
                    after: cpu,
                    forbidden: forbidden(wishes.irq_affinity, "placement.irq_affinity is false"),
                });
            }
        }
        let transmit = card.transmit.iter().find(|queue| queue.number == seat.queue);
        // The only queue needs no choice among queues, and the kernel refuses to make one.
        if let Some(queue) = transmit.filter(|_| card.transmit.len() > 1)
            && !queue.steering.as_ref().is_some_and(is_there)
        {
            changes.push(Change {
                path: format!("sys/class/net/{}/queues/tx-{}/xps_cpus", card.name, queue.number),
                kind: ChangeKind::Xps,
                before: queue.steering.clone(),
                after: cpu,
                forbidden: forbidden(wishes.xps, "placement.xps is false"),
            });
        }
    }
    changes
}

/// Whether every worker's CPU has a receive queue of its own, once these changes are made.
pub(crate) fn arrivals(
    machine: &Machine,
    workers: &[Seat],
    queues: &[QueueSeat],
    changes: &[Change],
) -> Arrivals {
    let evenly = |why: &str| Arrivals::Count { why: why.to_owned() };
    if workers.iter().any(|seat| seat.cpu().is_none()) {
        return evenly("workers are not pinned each to a CPU");
    }
    if queues.is_empty() {
        return evenly("clients come through no network card that is known");
    }
    for (number, seat) in workers.iter().enumerate() {
        let own: Vec<&Queue> = queues
            .iter()
            .filter(|queue| queue.worker == number)
            .filter_map(|own| machine.card(&own.card)?.receive.iter().find(|queue| queue.number == own.queue))
            .collect();
        let is_own = |cpu: usize| seat.cpu() == Some(cpu);
        if own.iter().filter_map(|queue| queue.steering.as_ref()).any(|cpus| !cpus.iter().all(is_own)) {
            return evenly(&format!(
                "what worker {number}'s queues receive is passed on to other CPUs (RPS)"
            ));
        }
        let mut interrupts = own.iter().flat_map(|queue| &queue.interrupts).peekable();
        if interrupts.peek().is_none() {
            return evenly(&format!("worker {number} has no receive queue of its own"));
        }
        let feeds = |interrupt: &Interrupt| seat.cpu().is_some_and(|cpu| will_go_to(interrupt, cpu, changes));
        if !interrupts.all(feeds) {
            return evenly(&format!("the interrupts of worker {number}'s queues go to other CPUs"));
        }
    }
    Arrivals::Cpu
}

fn will_go_to(interrupt: &Interrupt, cpu: usize, changes: &[Change]) -> bool {
    let path = irq_file(interrupt.number);
    match changes.iter().find(|change| change.path == path) {
        Some(change) => change.forbidden.is_none() && change.after == cpu,
        None => interrupt.effective.contains(cpu),
    }
}

fn irq_file(number: usize) -> String {
    format!("proc/irq/{number}/smp_affinity_list")
}

fn interrupts(queues: &[Queue], number: usize) -> impl Iterator<Item = &Interrupt> {
    queues.iter().filter(move |queue| queue.number == number).flat_map(|queue| &queue.interrupts)
}
