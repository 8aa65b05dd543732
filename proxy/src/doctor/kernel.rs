//! Settings of the kernel that are right or wrong by their value.

use super::check::{Subject, Verdict, sysctl};

pub(super) fn numa_balancing(subject: &Subject<'_>) -> Verdict {
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    match subject.setting("kernel.numa_balancing") {
        None => Verdict::unreadable("kernel.numa_balancing"),
        // 2 moves pages between fast and slow memory alone.
        Some(value) if value & 1 == 0 => Verdict::Ok(value.to_string()),
        Some(value) => Verdict::finding(
            value.to_string(),
            "The kernel unmaps pages to see who uses them and migrates them inside page faults: latency rises in bursts.",
            sysctl("kernel.numa_balancing", value & !1),
        ),
    }
}

pub(super) fn zone_reclaim(subject: &Subject<'_>) -> Verdict {
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    exactly(
        subject,
        "vm.zone_reclaim_mode",
        0,
        "An allocation first reclaims page cache of its own node, although another has free memory.",
    )
}

/// For a setting that is right with one value alone.
fn exactly(subject: &Subject<'_>, name: &'static str, wanted: i64, why: &'static str) -> Verdict {
    match subject.setting(name) {
        None => Verdict::unreadable(name),
        Some(value) if value == wanted => Verdict::Ok(value.to_string()),
        Some(value) => Verdict::finding(value.to_string(), why, sysctl(name, wanted)),
    }
}

pub(super) fn dirty_ratio(subject: &Subject<'_>) -> Verdict {
    dirty(subject, "vm.dirty_ratio", "vm.dirty_bytes", 10)
}

pub(super) fn dirty_background_ratio(subject: &Subject<'_>) -> Verdict {
    dirty(subject, "vm.dirty_background_ratio", "vm.dirty_background_bytes", 5)
}

/// `bytes` replaces `ratio` where it is set.
fn dirty(subject: &Subject<'_>, ratio: &'static str, bytes: &str, most: i64) -> Verdict {
    if !subject.has_redis() {
        return Verdict::no_redis();
    }
    match (subject.setting(bytes), subject.setting(ratio)) {
        (Some(bytes_set), _) if bytes_set > 0 => Verdict::Ok(format!("{bytes} is {bytes_set}")),
        (_, None) => Verdict::unreadable(ratio),
        (_, Some(value)) if value <= most => Verdict::Ok(value.to_string()),
        (_, Some(value)) => Verdict::finding(
            format!("{value}, more than {most}"),
            "Unwritten pages of AOF and RDB files pile up, and then writers wait while all are written at once.",
            sysctl(ratio, most),
        ),
    }
}

pub(super) fn overcommit(subject: &Subject<'_>) -> Verdict {
    if !subject.has_redis() {
        return Verdict::no_redis();
    }
    exactly(
        subject,
        "vm.overcommit_memory",
        1,
        "Redis forks to save and to synchronise replicas; the kernel may refuse the fork although it would hardly use memory.",
    )
}

pub(super) fn swappiness(subject: &Subject<'_>) -> Verdict {
    const MOST: i64 = 10;
    let Some(swaps) = subject.root.text("proc/swaps") else { return Verdict::unreadable("/proc/swaps") };
    if swaps.lines().count() < 2 {
        return Verdict::NotApplicable("there is no swap".to_owned());
    }
    match subject.setting("vm.swappiness") {
        None => Verdict::unreadable("vm.swappiness"),
        Some(value) if value <= MOST => Verdict::Ok(value.to_string()),
        Some(value) => Verdict::finding(
            format!("{value}, more than {MOST}, and there is swap"),
            "Pages of data are swapped out in favour of page cache, and commands wait for the disk.",
            sysctl("vm.swappiness", 1),
        ),
    }
}

pub(super) fn huge_pages(subject: &Subject<'_>) -> Verdict {
    const FILE: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    match subject.root.text(FILE) {
        None => Verdict::NotApplicable("the kernel has no transparent huge pages".to_owned()),
        Some(text) if text.contains("[always]") => Verdict::finding(
            "always",
            "After a fork each small write copies 2 MiB, and memory is compacted while commands wait.",
            vec![format!("echo madvise > /{FILE}")],
        ),
        Some(text) => {
            let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            Verdict::Ok(chosen.map_or_else(|| text.clone(), |(chosen, _)| chosen.to_owned()))
        }
    }
}
