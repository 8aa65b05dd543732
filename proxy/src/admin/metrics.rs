//! The workers' plain figures as Prometheus metrics: names, labels and help texts, each defined once.
//!
//! Counters and gauges go through the `metrics` crate and its exporter. The histograms do not: the exporter takes single
//! samples, and a worker makes hundreds of thousands a second; their text is written from the workers' buckets.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use tsubaki_core::stats::{Histogram, Stats};

use super::system::System;
use crate::control::Status;

/// A counter: its name, its `kind` label if it shares the name, its help, where it is in the figures.
type Row = (&'static str, Option<&'static str>, &'static str, fn(&Stats) -> u64);

const COUNTERS: [Row; 34] = [
    ("tsubaki_client_connections_total", Some("accepted"), "Client connections.", |s| s.accepted),
    ("tsubaki_client_connections_total", Some("rejected"), "Client connections.", |s| s.rejected),
    ("tsubaki_commands_total", None, "Commands read from clients.", |s| s.commands),
    ("tsubaki_node_requests_total", None, "Commands, or parts of split ones, queued for nodes.", |s| {
        s.requests
    }),
    ("tsubaki_local_commands_total", None, "Commands that the proxy answered itself.", |s| s.local),
    ("tsubaki_split_commands_total", None, "Commands split over several slots.", |s| s.split),
    ("tsubaki_replica_reads_total", None, "Reads sent to replicas.", |s| s.replica_reads),
    ("tsubaki_client_bytes_total", Some("in"), "Bytes from and to clients.", |s| s.client_in_bytes),
    ("tsubaki_client_bytes_total", Some("out"), "Bytes from and to clients.", |s| s.client_out_bytes),
    ("tsubaki_node_bytes_total", Some("in"), "Bytes from and to nodes.", |s| s.node_in_bytes),
    ("tsubaki_node_bytes_total", Some("out"), "Bytes from and to nodes.", |s| s.node_out_bytes),
    ("tsubaki_errors_total", Some("node"), "Error replies to clients, by who made them and why.", |s| {
        s.node_errors
    }),
    (
        "tsubaki_errors_total",
        Some("unsupported"),
        "Error replies to clients, by who made them and why.",
        |s| s.refused,
    ),
    ("tsubaki_errors_total", Some("protocol"), "Error replies to clients, by who made them and why.", |s| {
        s.protocol_errors
    }),
    (
        "tsubaki_errors_total",
        Some("wait_timeout"),
        "Error replies to clients, by who made them and why.",
        |s| s.wait_timeouts,
    ),
    ("tsubaki_errors_total", Some("lost"), "Error replies to clients, by who made them and why.", |s| s.lost),
    ("tsubaki_errors_total", Some("overtaken"), "Error replies to clients, by who made them and why.", |s| {
        s.overtaken
    }),
    (
        "tsubaki_errors_total",
        Some("redirect_loop"),
        "Error replies to clients, by who made them and why.",
        |s| s.redirect_loops,
    ),
    (
        "tsubaki_large_values_total",
        Some("request"),
        "Large requests that streamed, and large replies.",
        |s| s.large_requests,
    ),
    ("tsubaki_large_values_total", Some("reply"), "Large requests that streamed, and large replies.", |s| {
        s.large_replies
    }),
    (
        "tsubaki_paced_batches_total",
        None,
        "Batches that waited for more because their node was strained.",
        |s| s.paced_batches,
    ),
    ("tsubaki_errors_total", Some("client"), "Error replies to clients, by who made them and why.", |s| {
        s.own_errors.saturating_sub(s.refused + s.protocol_errors)
    }),
    ("tsubaki_output_limit_closes_total", None, "Clients closed for leaving replies unread.", |s| {
        s.output_limit
    }),
    ("tsubaki_orphan_replies_total", None, "Replies and waiting commands whose client had left.", |s| {
        s.orphans
    }),
    ("tsubaki_redirects_total", Some("moved"), "Refusals by nodes that sent a command elsewhere.", |s| {
        s.moved
    }),
    ("tsubaki_redirects_total", Some("ask"), "Refusals by nodes that sent a command elsewhere.", |s| s.ask),
    ("tsubaki_refusals_total", Some("tryagain"), "Refusals by nodes that put a command off.", |s| s.tryagain),
    ("tsubaki_refusals_total", Some("clusterdown"), "Refusals by nodes that put a command off.", |s| {
        s.clusterdown
    }),
    ("tsubaki_refusals_total", Some("loading"), "Refusals by nodes that put a command off.", |s| s.loading),
    ("tsubaki_refusals_total", Some("readonly"), "Refusals by nodes that put a command off.", |s| s.readonly),
    ("tsubaki_refusals_total", Some("masterdown"), "Refusals by nodes that put a command off.", |s| {
        s.masterdown
    }),
    ("tsubaki_retries_total", None, "Commands sent again.", |s| s.retries),
    ("tsubaki_node_connects_total", None, "Node connections opened.", |s| s.connects),
    ("tsubaki_node_disconnects_total", None, "Node connections that failed or were lost.", |s| s.disconnects),
];

const GAUGES: [Row; 2] = [
    ("tsubaki_clients", None, "Client connections open.", |s| s.clients),
    ("tsubaki_node_connections", None, "Node connections open.", |s| s.backends),
];

/// A figure of the whole process: its name, its help, where it is.
type ProcessRow = (&'static str, &'static str, fn(&Status) -> u64);

const PROCESS_COUNTERS: [ProcessRow; 2] = [
    ("tsubaki_refreshes_total", "Fetches of the cluster's topology.", |s| {
        s.refreshes.load(Ordering::Relaxed)
    }),
    ("tsubaki_refresh_failures_total", "Fetches in which no node answered.", |s| {
        s.failures.load(Ordering::Relaxed)
    }),
];

const PROCESS_GAUGES: [ProcessRow; 3] = [
    ("tsubaki_slots_covered", "Slots that have a master.", |s| s.covered.load(Ordering::Relaxed)),
    ("tsubaki_masters", "Masters with slots.", |s| s.masters.load(Ordering::Relaxed)),
    ("tsubaki_replicas", "Replicas that are up, as far as the masters know.", |s| {
        s.replicas.load(Ordering::Relaxed)
    }),
];

/// Upper bounds of the latency buckets, in seconds: 50 us to 10 s.
const LATENCY_BOUNDS: [f64; 17] = [
    0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0,
    10.0,
];

const BATCH_BOUNDS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

pub(super) struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    system: System,
}

impl Metrics {
    pub(super) fn new(system: System) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        with_local_recorder(&recorder, || {
            COUNTERS.iter().for_each(|(name, _, help, _)| describe_counter!(*name, Unit::Count, *help));
            GAUGES.iter().for_each(|(name, _, help, _)| describe_gauge!(*name, Unit::Count, *help));
            PROCESS_COUNTERS.iter().for_each(|(name, help, _)| describe_counter!(*name, Unit::Count, *help));
            PROCESS_GAUGES.iter().for_each(|(name, help, _)| describe_gauge!(*name, Unit::Count, *help));
            System::describe();
        });
        Self { recorder, handle, system }
    }

    /// The page for one scrape: `workers` in the order of their numbers.
    pub(super) fn render(&self, workers: &[Stats], status: &Status) -> String {
        with_local_recorder(&self.recorder, || {
            for (index, stats) in workers.iter().enumerate() {
                record_worker(index, stats);
            }
            for (name, _, value) in PROCESS_COUNTERS {
                counter!(name).absolute(value(status));
            }
            for (name, _, value) in PROCESS_GAUGES {
                gauge!(name).set(value(status) as f64);
            }
            self.system.record();
        });
        let mut page = self.handle.render();
        self.system.write_worker_cpu(&mut page);
        write_histogram(
            &mut page,
            ("tsubaki_command_duration_seconds", "Time from a command's arrival to its reply by a node."),
            workers.iter().map(|stats| &stats.latency),
            (&LATENCY_BOUNDS, 1e-6),
        );
        write_histogram(
            &mut page,
            ("tsubaki_batch_commands", "Commands that one write to a node carried."),
            workers.iter().map(|stats| &stats.batch),
            (&BATCH_BOUNDS, 1.0),
        );
        page
    }
}

fn record_worker(index: usize, stats: &Stats) {
    let worker = index.to_string();
    for (name, kind, _, value) in COUNTERS {
        match kind {
            Some(kind) => counter!(name, "worker" => worker.clone(), "kind" => kind).absolute(value(stats)),
            None => counter!(name, "worker" => worker.clone()).absolute(value(stats)),
        }
    }
    for (name, _, _, value) in GAUGES {
        gauge!(name, "worker" => worker.clone()).set(value(stats) as f64);
    }
}

/// `bounds`: the buckets' upper bounds, and how much of their unit one counted unit is.
fn write_histogram<'a>(
    page: &mut String,
    (name, help): (&str, &str),
    workers: impl Iterator<Item = &'a Histogram>,
    (bounds, unit): (&[f64], f64),
) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (worker, histogram) in workers.enumerate() {
        let mut buckets = histogram.buckets().peekable();
        let mut below = 0;
        for bound in bounds {
            while let Some((_, count)) = buckets.next_if(|(top, _)| *top as f64 * unit <= *bound) {
                below += count;
            }
            let _ = writeln!(page, "{name}_bucket{{worker=\"{worker}\",le=\"{bound}\"}} {below}");
        }
        let (count, sum) = (histogram.count(), histogram.sum() as f64 * unit);
        let _ = writeln!(page, "{name}_bucket{{worker=\"{worker}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(
            page,
            "{name}_sum{{worker=\"{worker}\"}} {sum}\n{name}_count{{worker=\"{worker}\"}} {count}"
        );
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_figure_is_on_the_page_with_its_help() {
        let mut stats = Stats { commands: 7, moved: 3, clients: 2, ..Stats::default() };
        stats.latency.record(150);
        stats.latency.record(3_000_000);
        stats.batch.record(5);
        let page = Metrics::new(System::none()).render(&[stats.clone(), stats], &Status::default());
        for line in [
            "tsubaki_commands_total{worker=\"1\"} 7",
            "tsubaki_clients{worker=\"0\"} 2",
            "tsubaki_slots_covered 0",
            "tsubaki_command_duration_seconds_bucket{worker=\"0\",le=\"0.0001\"} 0",
            "tsubaki_command_duration_seconds_bucket{worker=\"0\",le=\"0.0002\"} 1",
            "tsubaki_command_duration_seconds_bucket{worker=\"0\",le=\"+Inf\"} 2",
            "tsubaki_command_duration_seconds_count{worker=\"0\"} 2",
            "tsubaki_batch_commands_bucket{worker=\"1\",le=\"8\"} 1",
            "# TYPE tsubaki_redirects_total counter",
            "# HELP tsubaki_clients Client connections open.",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\nis missing in\n{page}");
        }
        assert!(page.contains("tsubaki_redirects_total{worker=\"0\",kind=\"moved\"} 3"), "{page}");
    }

    #[test]
    fn a_second_scrape_shows_the_newest_figures() {
        let metrics = Metrics::new(System::none());
        metrics.render(&[Stats { commands: 1, clients: 5, ..Stats::default() }], &Status::default());
        let page =
            metrics.render(&[Stats { commands: 4, clients: 3, ..Stats::default() }], &Status::default());
        assert!(page.contains("tsubaki_commands_total{worker=\"0\"} 4\n"));
        assert!(page.contains("tsubaki_clients{worker=\"0\"} 3\n"));
    }

    #[test]
    fn the_manual_names_every_metric() {
        let manual = include_str!("../../../docs/operations.md");
        let process = PROCESS_COUNTERS.iter().chain(&PROCESS_GAUGES).map(|(name, ..)| *name);
        let histograms = ["tsubaki_command_duration_seconds", "tsubaki_batch_commands"];
        for name in COUNTERS.iter().chain(&GAUGES).map(|(name, ..)| *name).chain(process).chain(histograms) {
            assert!(manual.contains(&format!("`{name}`")), "{name} is missing in docs/operations.md");
        }
    }

    #[test]
    fn names_follow_the_conventions_and_no_row_stands_twice() {
        let mut seen = BTreeSet::new();
        for (name, kind, ..) in COUNTERS {
            assert!(name.starts_with("tsubaki_") && name.ends_with("_total"), "{name}");
            assert!(seen.insert((name, kind)), "{name} {kind:?}");
        }
    }
}
