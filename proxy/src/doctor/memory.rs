//! Memory of the NUMA nodes: watermarks, page cache, allocations and migrations across nodes.

use super::check::{Subject, Verdict, sysctl};
use crate::machine::Root;

/// A zone of a node, in pages.
struct Zone {
    node: usize,
    name: String,
    min: u64,
    high: u64,
    managed: u64,
}

/// Zones smaller than this are left out: those for old devices say nothing.
const SMALL_ZONE_PAGES: u64 = 64 * 1024;

/// This machine's; a copy's may be another's.
fn kib_a_page() -> u64 {
    rustix::param::page_size() as u64 / 1024
}

/// A watermark scale factor from which on it is no finding.
const LEAST: u64 = 100;

/// From this share of allocations on, in per cent, other nodes' memory counts as a finding.
const MISSES_PERCENT: f64 = 10.0;

/// Migrations a second from which they count as a finding.
const MIGRATIONS: f64 = 10.0;

pub(super) fn watermarks(subject: &Subject<'_>) -> Verdict {
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    if !subject.has_redis() {
        return Verdict::no_redis();
    }
    let Some(factor) = subject.setting("vm.watermark_scale_factor") else {
        return Verdict::unreadable("vm.watermark_scale_factor");
    };
    let zones = zones(subject.root);
    if factor.unsigned_abs() >= LEAST {
        return Verdict::Ok(format!("{factor}: {}", reserves(&zones, factor.unsigned_abs())));
    }
    let (now, wanted) = (reserves(&zones, factor.unsigned_abs()), wanted(&zones));
    Verdict::finding(
        format!("{factor}. Reclaim begins and ends at {now}; with {wanted} at {}", reserves(&zones, wanted)),
        "Page cache of AOF and RDB files fills a node until its processes get memory of other nodes: kswapd starts too late \
         and stops too early. What lies below the watermarks is kept free.",
        sysctl("vm.watermark_scale_factor", wanted),
    )
}

/// 1000, as was measured on database hosts; less where the low watermark of the largest zone would pass 13 GiB.
fn wanted(zones: &[Zone]) -> u64 {
    const MEASURED: u64 = 1000;
    const ENOUGH_KIB: u64 = 13 << 20;
    let largest = zones.iter().map(|zone| zone.managed * kib_a_page()).max().unwrap_or_default();
    (ENOUGH_KIB * 10_000).checked_div(largest).map_or(MEASURED, |factor| factor.clamp(LEAST, MEASURED))
}

/// `node 0 Normal 63/126 MiB`: the low and high watermark of each zone with this factor.
fn reserves(zones: &[Zone], factor: u64) -> String {
    let mib = |pages: u64| pages * kib_a_page() / 1024;
    let zone = |zone: &Zone| {
        // mm/page_alloc.c, __setup_per_zone_wmarks: a quarter of min at least.
        let step = (zone.managed * factor / 10_000).max(zone.min / 4);
        format!("node {} {} {}/{} MiB", zone.node, zone.name, mib(zone.min + step), mib(zone.min + 2 * step))
    };
    zones.iter().map(zone).collect::<Vec<_>>().join(", ")
}

/// The large zones of `/proc/zoneinfo`.
fn zones(root: &Root) -> Vec<Zone> {
    let text = root.text("proc/zoneinfo").unwrap_or_default();
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some((node, name)) = line.strip_prefix("Node ").and_then(|rest| rest.split_once(", zone")) {
            let node = node.parse().unwrap_or_default();
            zones.push(Zone { node, name: name.trim().to_owned(), min: 0, high: 0, managed: 0 });
        } else if let Some(zone) = zones.last_mut() {
            let mut words = line.split_whitespace();
            let (Some(key), Some(value), None) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(value) = value.parse() else { continue };
            match key {
                "min" => zone.min = value,
                "high" => zone.high = value,
                "managed" => zone.managed = value,
                _ => {}
            }
        }
    }
    zones.retain(|zone| zone.managed >= SMALL_ZONE_PAGES);
    zones
}

pub(super) fn page_cache(subject: &Subject<'_>) -> Verdict {
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    let zones = zones(subject.root);
    let mut found = Vec::new();
    let mut full = Vec::new();
    // With high watermarks little is free by design, and reclaim is early enough.
    let is_low =
        subject.setting("vm.watermark_scale_factor").is_none_or(|factor| factor.unsigned_abs() < LEAST);
    for node in subject.machine.nodes.iter().filter(|node| node.memory_kib > 0) {
        let counters = subject.root.counters(format!("sys/devices/system/node/node{}/vmstat", node.id));
        let get = |name: &str| counters.get(name).copied();
        let (Some(free), Some(inactive), Some(active)) =
            (get("nr_free_pages"), get("nr_inactive_file"), get("nr_active_file"))
        else {
            continue;
        };
        let high: u64 = zones.iter().filter(|zone| zone.node == node.id).map(|zone| zone.high).sum();
        let percent = |pages: u64| pages * kib_a_page() * 100 / node.memory_kib;
        let text =
            format!("node {}: {}% free, {}% page cache", node.id, percent(free), percent(inactive + active));
        // Reclaim is at work or near, and what fills the node are files.
        if is_low && free < 2 * high && percent(inactive + active) >= 25 {
            full.push(text.clone());
        }
        found.push(text);
    }
    match (found.is_empty(), full.is_empty()) {
        (true, _) => Verdict::unreadable("the nodes' vmstat"),
        (false, true) => Verdict::Ok(found.join("; ")),
        (false, false) => Verdict::finding(
            full.join("; "),
            "Page cache has filled a node: its processes get memory of other nodes, or wait for reclaim.",
            vec![format!("sysctl -w vm.watermark_scale_factor={}", wanted(&zones))],
        ),
    }
}

pub(super) fn numa_miss(subject: &Subject<'_>) -> Verdict {
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    let mut found = Vec::new();
    let mut missed = false;
    for node in &subject.machine.nodes {
        let counters = subject.root.counters(format!("sys/devices/system/node/node{}/numastat", node.id));
        let get = |name: &str| counters.get(name).copied();
        let (Some(hit), Some(miss), Some(foreign)) = (get("numa_hit"), get("numa_miss"), get("numa_foreign"))
        else {
            continue;
        };
        // Foreign: wanted here, given elsewhere.
        let percent = foreign as f64 * 100.0 / ((hit + foreign).max(1)) as f64;
        missed |= percent > MISSES_PERCENT;
        found.push(format!(
            "node {}: {percent:.1}% of what was wanted here came from elsewhere, {miss} pages for others",
            node.id
        ));
    }
    // What was long ago is mended perhaps.
    let now = subject.sample.rate("numa_miss").zip(subject.sample.rate("numa_hit"));
    if let Some((miss, hit)) = now {
        let percent = miss * 100.0 / (hit + miss).max(1.0);
        missed = percent > MISSES_PERCENT && miss > MIGRATIONS;
        found.push(format!("right now {percent:.1}% come from another node than wanted"));
    }
    match (found.is_empty(), missed) {
        (true, _) => Verdict::unreadable("the nodes' numastat"),
        (false, false) => Verdict::Ok(found.join("; ")),
        (false, true) => Verdict::finding(
            found.join("; "),
            "Allocations often come from another node than the one that they are for: a node is or was full.",
            vec![format!("sysctl -w vm.watermark_scale_factor={}", wanted(&zones(subject.root)))],
        ),
    }
}

pub(super) fn migrations(subject: &Subject<'_>) -> Verdict {
    const COUNTER: &str = "numa_pages_migrated";
    if !subject.is_numa() {
        return Verdict::one_node();
    }
    let Some(count) = subject.sample.count(COUNTER) else { return Verdict::unreadable(COUNTER) };
    let Some(rate) = subject.sample.rate(COUNTER) else {
        return Verdict::NotApplicable(format!(
            "{count} since the start; a copy does not tell how many a second"
        ));
    };
    judge_migrations(count, rate, subject.setting("kernel.numa_balancing").unwrap_or_default())
}

fn judge_migrations(count: u64, rate: f64, balancing: i64) -> Verdict {
    let found = format!("{count} since the start, {rate:.0} a second");
    if rate < MIGRATIONS {
        return Verdict::Ok(found);
    }
    Verdict::finding(
        found,
        "Pages move between nodes right now, inside page faults of whoever uses them.",
        // Without its mode 1, whose migrations these are.
        sysctl("kernel.numa_balancing", balancing & !1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_migrate_right_now_are_found_and_those_of_long_ago_not() {
        assert_eq!(
            judge_migrations(1_000_000, 9.0, 1),
            Verdict::Ok("1000000 since the start, 9 a second".to_owned())
        );
        assert!(matches!(judge_migrations(10, 10.0, 1), Verdict::Finding { .. }));
    }
}
