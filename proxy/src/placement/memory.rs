//! From which NUMA node a thread's memory comes: two system calls that no safe crate has.
//!
//! Must not know: plans.
#![expect(unsafe_code, reason = "set_mempolicy(2) and migrate_pages(2) take pointers to masks of nodes")]

use std::io;

use libc::{MPOL_BIND, MPOL_DEFAULT, MPOL_PREFERRED, SYS_migrate_pages, SYS_set_mempolicy, c_long, c_ulong};
use tsubaki_config::MemoryPolicy;

/// Nodes that a mask has room for: Linux is built for 1024 at most.
const NODES: usize = 1024;

const WORD_BITS: usize = c_ulong::BITS as usize;

type Mask = [c_ulong; NODES / WORD_BITS];

/// Has the calling thread, and threads that it starts, allocate from `node` from now on.
///
/// # Errors
///
/// The kernel's refusal: a node that does not exist or has no memory, a system without NUMA.
pub(super) fn allocate_from(node: usize, policy: MemoryPolicy) -> io::Result<()> {
    let mode = match policy {
        MemoryPolicy::Preferred => MPOL_PREFERRED,
        MemoryPolicy::Strict => MPOL_BIND,
    };
    let mask = mask([node])?;
    // SAFETY: the kernel reads NODES bits behind the pointer, which is how many `mask` has, and keeps no pointer.
    let result = unsafe { libc::syscall(SYS_set_mempolicy, c_long::from(mode), mask.as_ptr(), NODES) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Undoes [`allocate_from`], of this thread or of the one that started it: memory comes from where the thread runs.
///
/// # Errors
///
/// The kernel's refusal: a system without NUMA.
pub(super) fn allocate_nearby() -> io::Result<()> {
    // SAFETY: without nodes the kernel reads nothing.
    let result = unsafe {
        libc::syscall(SYS_set_mempolicy, c_long::from(MPOL_DEFAULT), std::ptr::null::<c_ulong>(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves what the process has already allocated from other nodes to `node`, as far as there is room.
///
/// # Errors
///
/// The kernel's refusal.
pub(super) fn bring_to(node: usize, others: impl IntoIterator<Item = usize>) -> io::Result<()> {
    const THIS_PROCESS: c_long = 0;
    let (from, to) = (mask(others)?, mask([node])?);
    // SAFETY: the kernel reads NODES bits behind each pointer, which is how many each mask has, and keeps no pointer.
    let left = unsafe { libc::syscall(SYS_migrate_pages, THIS_PROCESS, NODES, from.as_ptr(), to.as_ptr()) };
    // Pages that could not be moved are counted: they stay where they are.
    if left >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn mask(nodes: impl IntoIterator<Item = usize>) -> io::Result<Mask> {
    let mut mask = [0; NODES / WORD_BITS];
    for node in nodes {
        // The kernel leaves the highest bit out of account.
        let word = mask.get_mut(node / WORD_BITS).filter(|_| node < NODES - 1);
        *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % WORD_BITS);
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bits_of_its_nodes() {
        let mask = mask([0, 3, 64]).unwrap();
        assert_eq!((mask[0], mask[1], mask[2]), (0b1001, 1, 0));
        for node in [NODES - 1, NODES, usize::MAX] {
            assert_eq!(super::mask([node]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// The policy that the kernel says of each mapping of the thread.
    fn policies() -> String {
        std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap_or_default()
    }

    #[test]
    fn the_kernel_knows_the_policy_of_the_thread_and_of_no_other() {
        let thread = std::thread::spawn(|| {
            let seen = |policy| allocate_from(0, policy).map(|()| policies());
            (
                seen(MemoryPolicy::Preferred),
                seen(MemoryPolicy::Strict),
                allocate_nearby().map(|()| policies()),
            )
        });
        let (preferred, strict, nearby) = thread.join().unwrap();
        // A kernel without NUMA, or a container that forbids the call, shows nothing.
        if let (Ok(preferred), Ok(strict), Ok(nearby)) = (preferred, strict, nearby) {
            assert!(preferred.contains(" prefer") && !preferred.contains(" bind"), "{preferred}");
            assert!(strict.contains(" bind:0"), "{strict}");
            assert!(!nearby.contains(" prefer") && !nearby.contains(" bind"), "{nearby}");
        }
        assert!(!policies().contains(" bind"));
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused_and_the_thread_runs_on() {
        let refused = std::thread::spawn(|| allocate_from(1000, MemoryPolicy::Preferred).is_err());
        assert!(refused.join().unwrap());
        assert!(bring_to(1000, [0]).is_err());
    }
}
