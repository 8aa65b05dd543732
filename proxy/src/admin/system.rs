//! What the kernel counts of this machine and this process, as Prometheus metrics: NUMA migrations and misses, reclaim,
//! memory by node, CPU time of workers, interrupts of their queues. Read anew for a scrape every few seconds.
//!
//! Must not know: the engine. What the kernel does not say is left out of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::gate::Away;
use crate::machine::{Interrupts, Memory, Root, memory_by_node};
use crate::placement::QueueSeat;

/// Where to look.
pub(crate) struct System {
    root: Root,
    queues: Vec<QueueSeat>,
    several_nodes: bool,
    away: Away,
    last: Mutex<Option<Instant>>,
}

/// The kernel is asked no more often: whoever may scrape shall not keep it busy.
const PAUSE: Duration = Duration::from_secs(5);

/// A counter of `/proc/vmstat`: its metric, its `kind` label, its name there, its help.
type Row = (&'static str, Option<&'static str>, &'static str, &'static str);

const ALLOCATIONS: &str =
    "Pages allocated on the node that they were for (hit), on another (miss), elsewhere than here (foreign).";
const KSWAPD: &str = "Pages that kswapd looked at, and pages that it freed.";

const COUNTERS: [Row; 6] = [
    (
        "tsubaki_system_numa_pages_migrated_total",
        None,
        "numa_pages_migrated",
        "Pages that NUMA balancing moved.",
    ),
    ("tsubaki_system_numa_allocations_total", Some("hit"), "numa_hit", ALLOCATIONS),
    ("tsubaki_system_numa_allocations_total", Some("miss"), "numa_miss", ALLOCATIONS),
    ("tsubaki_system_numa_allocations_total", Some("foreign"), "numa_foreign", ALLOCATIONS),
    ("tsubaki_system_kswapd_pages_total", Some("scanned"), "pgscan_kswapd", KSWAPD),
    ("tsubaki_system_kswapd_pages_total", Some("freed"), "pgsteal_kswapd", KSWAPD),
];

const GROUP_MIGRATED: (&str, &str) =
    ("tsubaki_cgroup_numa_pages_migrated_total", "The same in the proxy's own control group (version 2).");
const WORKER_CPU: (&str, &str) = ("tsubaki_worker_cpu_seconds_total", "CPU time of each worker.");
const INTERRUPTS: (&str, &str) =
    ("tsubaki_queue_interrupts_total", "Interrupts of the workers' network queues.");
const AWAY: (&str, &str) = (
    "tsubaki_clients_off_core_total",
    "Clients taken in by another worker than that of the CPU where their packets arrive.",
);
const NODE_MEMORY: (&str, &str) = ("tsubaki_memory_bytes", "Resident memory of the proxy by NUMA node.");

impl System {
    pub(crate) fn new(root: Root, queues: Vec<QueueSeat>, several_nodes: bool, away: Away) -> Self {
        Self { root, queues, several_nodes, away, last: Mutex::new(None) }
    }

    pub(super) fn describe() {
        COUNTERS.iter().for_each(|(name, .., help)| describe_counter!(*name, Unit::Count, *help));
        describe_counter!(GROUP_MIGRATED.0, Unit::Count, GROUP_MIGRATED.1);
        describe_counter!(INTERRUPTS.0, Unit::Count, INTERRUPTS.1);
        describe_counter!(AWAY.0, Unit::Count, AWAY.1);
        describe_gauge!(NODE_MEMORY.0, Unit::Bytes, NODE_MEMORY.1);
    }

    pub(super) fn record(&self) {
        counter!(AWAY.0).absolute(self.away.count());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        *last = Some(Instant::now());
        self.record_kernel();
        self.record_queues();
        // Not free, and of no use with one node.
        if self.several_nodes {
            for (node, bytes) in memory_by_node(&self.root, "self", Memory::Resident) {
                gauge!(NODE_MEMORY.0, "node" => node.to_string()).set(bytes as f64);
            }
        }
    }

    fn record_kernel(&self) {
        let counters = self.root.counters("proc/vmstat");
        for (metric, kind, name, _) in COUNTERS {
            match (counters.get(name), kind) {
                (Some(value), Some(kind)) => counter!(metric, "kind" => kind).absolute(*value),
                (Some(value), None) => counter!(metric).absolute(*value),
                (None, _) => {}
            }
        }
        let group = self.root.own_group().map(|group| self.root.counters(group.join("memory.stat")));
        if let Some(migrated) = group.as_ref().and_then(|counters| counters.get("numa_pages_migrated")) {
            counter!(GROUP_MIGRATED.0).absolute(*migrated);
        }
    }

    /// The metrics crate counts in whole numbers, and seconds are not: this one is written as text.
    pub(super) fn write_worker_cpu(&self, page: &mut String) {
        let (name, help) = WORKER_CPU;
        // Writing to a String cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
        for thread in self.root.numbered("proc/self/task", "") {
            let file = |name: &str| self.root.text(format!("proc/self/task/{thread}/{name}"));
            let Some(comm) = file("comm") else { continue };
            let Some(worker) = comm.strip_prefix("worker-") else { continue };
            let run_ns =
                file("schedstat").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
            if let Some(run_ns) = run_ns {
                let _ = writeln!(page, "{name}{{worker=\"{worker}\"}} {}", run_ns as f64 / 1e9);
            }
        }
        page.push('\n');
    }

    fn record_queues(&self) {
        if self.queues.is_empty() {
            return;
        }
        let interrupts = Interrupts::read(&self.root);
        let mut counts: BTreeMap<(String, String, String), u64> = BTreeMap::new();
        for seat in &self.queues {
            let labels = (seat.card.clone(), seat.queue.to_string(), seat.worker.to_string());
            let numbers =
                seat.receive.iter().chain(seat.transmit.iter().filter(|irq| !seat.receive.contains(irq)));
            *counts.entry(labels).or_default() +=
                numbers.filter_map(|irq| interrupts.count(*irq)).sum::<u64>();
        }
        for ((interface, queue, worker), count) in counts {
            counter!(INTERRUPTS.0, "interface" => interface, "queue" => queue, "worker" => worker)
                .absolute(count);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::gate::Gate;

    impl System {
        /// Of a machine that tells nothing.
        pub(in super::super) fn none() -> Self {
            Self::new(Root::at("/nowhere"), Vec::new(), false, Gate::all(1, 1)[0].away())
        }
    }

    #[test]
    fn what_the_kernel_says_is_on_the_page() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            (
                "proc/vmstat",
                "numa_hit 90\nnuma_miss 10\nnuma_foreign 3\nnuma_pages_migrated 7\npgscan_kswapd 5\npgsteal_kswapd 4\n",
            ),
            ("proc/self/cgroup", "0::/box\n"),
            ("sys/fs/cgroup/box/memory.stat", "anon 1\nnuma_pages_migrated 2\n"),
            ("proc/self/task/70/comm", "worker-1\n"),
            ("proc/self/task/70/schedstat", "1500000000 1 2\n"),
            ("proc/self/task/71/comm", "tokio\n"),
            ("proc/self/numa_maps", "7f00 default anon=2 N0=1 N1=1 kernelpagesize_kB=4\n"),
            (
                "proc/interrupts",
                " CPU0 CPU1\n 30: 4 5 PCI-MSI 1-edge virtio1-input.0\n 31: 1 1 PCI-MSI 2-edge virtio1-output.0\n",
            ),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let seat =
            QueueSeat { card: "eth0".to_owned(), queue: 0, worker: 1, receive: vec![30], transmit: vec![31] };
        let system = System::new(Root::at(folder.path()), vec![seat], true, Gate::all(1, 1)[0].away());
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || {
            System::describe();
            system.record();
        });
        let mut page = recorder.handle().render();
        system.write_worker_cpu(&mut page);
        for line in [
            "tsubaki_system_numa_pages_migrated_total 7",
            "tsubaki_cgroup_numa_pages_migrated_total 2",
            "tsubaki_system_numa_allocations_total{kind=\"miss\"} 10",
            "tsubaki_system_kswapd_pages_total{kind=\"freed\"} 4",
            "tsubaki_worker_cpu_seconds_total{worker=\"1\"} 1.5",
            "tsubaki_memory_bytes{node=\"1\"} 4096",
            "tsubaki_queue_interrupts_total{interface=\"eth0\",queue=\"0\",worker=\"1\"} 11",
            "tsubaki_clients_off_core_total 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis missing in\n{page}");
        }
    }

    #[test]
    fn the_manual_names_every_metric() {
        let manual = include_str!("../../../docs/operations.md");
        let others = [GROUP_MIGRATED, WORKER_CPU, INTERRUPTS, NODE_MEMORY, AWAY].map(|(name, _)| name);
        for name in COUNTERS.iter().map(|(name, ..)| *name).chain(others) {
            assert!(manual.contains(&format!("`{name}`")), "{name} is missing in docs/operations.md");
        }
    }
}
