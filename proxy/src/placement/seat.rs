//! Takes a seat: binds the calling thread to its CPUs and its memory to its node.
//!
//! What the system refuses costs a warning, and the thread runs on where it is.

use rustix::thread::{CpuSet, sched_setaffinity};
use tsubaki_config::{CpuList, MemoryPolicy};

use super::{Seat, memory};
use crate::events;

/// Called by a worker's thread before it allocates anything, so that all that is its own lies on its node.
pub(crate) fn take(seat: &Seat, policy: MemoryPolicy, worker: usize) {
    let cpus = &seat.cpus;
    if let Err(error) = bind(cpus)
        && let Some(repeated) = events::admit("worker's CPU")
    {
        tracing::warn!(worker, %cpus, %error, repeated, "could not bind a worker to its CPUs; it runs where the control thread may");
    }
    let taken = match seat.memory {
        Some(node) => memory::allocate_from(node, policy),
        // The control thread's policy is inherited. Where there is none, there is nothing to undo.
        None => memory::allocate_nearby().or(Ok(())),
    };
    if let (Some(node), Err(error)) = (seat.memory, taken)
        && let Some(repeated) = events::admit("worker's memory")
    {
        tracing::warn!(worker, node, %error, repeated, "could not set where workers' memory comes from; the kernel takes it from \
            where they run");
    }
}

/// Called by the control thread before it starts others, which inherit its seat; brings what it has already allocated.
pub(crate) fn settle_control(seat: &Seat, nodes: impl IntoIterator<Item = usize>) {
    let cpus = &seat.cpus;
    if let Err(error) = bind(cpus) {
        tracing::warn!(%cpus, %error, "could not bind the control thread to its CPUs; it runs on any");
    }
    let Some(node) = seat.memory else { return };
    let others = nodes.into_iter().filter(|other| *other != node);
    let moved =
        memory::allocate_from(node, MemoryPolicy::Preferred).and_then(|()| memory::bring_to(node, others));
    if let Err(error) = moved {
        tracing::warn!(node, %error, "could not bring the control thread's memory to its NUMA node");
    }
}

fn bind(cpus: &CpuList) -> std::io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        if cpu >= CpuSet::MAX_CPU {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_thread_stays_on_the_cpus_of_its_seat_and_others_where_they_were() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        let seat = Seat { cpus: [cpu].into_iter().collect(), ..Seat::default() };
        std::thread::spawn(move || {
            take(&seat, MemoryPolicy::Preferred, 0);
            let set = sched_getaffinity(None).unwrap();
            assert!(set.is_set(cpu) && set.count() == 1);
            assert!(bind(&CpuList::default()).is_ok(), "no seat is no error");
        })
        .join()
        .unwrap();
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
