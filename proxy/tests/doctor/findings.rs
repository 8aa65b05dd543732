//! What the doctor finds, and with which exit code.

use serde_json::Value;

use crate::machines;
use crate::tree::{Finished, Tree};

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["id"] == id)
        .unwrap_or_else(|| panic!("no {id}"))
}

fn report(tree: &Tree, args: &[&str]) -> (Value, Option<i32>) {
    let Finished { code, stdout, stderr } =
        tree.doctor(&[&["--json", "--listen", "*:6380"], args].concat(), &[]);
    assert_eq!(stderr, "");
    (serde_json::from_str(&stdout).unwrap(), code)
}

/// A machine on which everything is as it should be, as far as it can be told.
fn healthy() -> Tree {
    machines::bond_of_two_nodes()
        .file("proc/sys/kernel/numa_balancing", "0")
        .file("proc/sys/vm/watermark_scale_factor", "1000")
        .file("proc/sys/vm/zone_reclaim_mode", "0")
        .file("proc/sys/vm/dirty_ratio", "10")
        .file("proc/sys/vm/dirty_background_ratio", "5")
        .file("proc/sys/vm/overcommit_memory", "1")
        .file("proc/sys/vm/swappiness", "1")
        .file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        .file("proc/sys/net/core/somaxconn", "4096")
        .file("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096")
        .file("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999")
        .file("proc/self/limits", "Limit Soft Hard Units\nMax open files            1024                 1048576              files")
        .file("proc/vmstat", "numa_pages_migrated 12")
}

/// What spoils one check of the healthy machine: its name, the file, what it holds then, and what is found.
const SPOILT: &[(&str, &str, &str, &str)] = &[
    ("kernel.numa_balancing", "proc/sys/kernel/numa_balancing", "1", "1"),
    (
        "vm.watermark_scale_factor",
        "proc/sys/vm/watermark_scale_factor",
        "10",
        "10. Reclaim begins and ends at ",
    ),
    ("vm.zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode", "1", "1"),
    ("vm.dirty_ratio", "proc/sys/vm/dirty_ratio", "20", "20, more than 10"),
    ("vm.dirty_background_ratio", "proc/sys/vm/dirty_background_ratio", "10", "10, more than 5"),
    ("vm.overcommit_memory", "proc/sys/vm/overcommit_memory", "0", "0"),
    ("vm.swappiness", "proc/sys/vm/swappiness", "60", "60, more than 10, and there is swap"),
    (
        "transparent_hugepage",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never",
        "always",
    ),
    ("net.core.somaxconn", "proc/sys/net/core/somaxconn", "128", "128, but backlog is 4096"),
    (
        "net.ipv4.tcp_max_syn_backlog",
        "proc/sys/net/ipv4/tcp_max_syn_backlog",
        "512",
        "512, but backlog is 4096",
    ),
    (
        "net.ipv4.ip_local_port_range",
        "proc/sys/net/ipv4/ip_local_port_range",
        "1024 65535",
        "1024 to 65535, and the proxy listens at 6380,16380",
    ),
    (
        "open_files",
        "proc/self/limits",
        "Max open files 1024 4096 files",
        "4096, but max_clients and connections to nodes need ",
    ),
    ("cpu_governor", "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave", "powersave"),
    ("irqbalance", "proc/55/comm", "irqbalance", "it runs"),
    ("gro_flush_timeout", "sys/class/net/ens3f0/gro_flush_timeout", "200000", "ens3f0 200 us"),
    ("rps", "sys/class/net/ens1f0/queues/rx-1/rps_cpus", "ff", "on for 1 receive queues"),
];

#[test]
fn each_check_finds_its_fault_and_only_that() {
    let (healthy_report, _) = report(&healthy(), &["--redis", "--workers", "4"]);
    for (id, file, text, found) in SPOILT {
        assert_ne!(check(&healthy_report, id)["status"], "finding", "{id}");
        let tree = healthy().file(file, text);
        let (report, code) = report(&tree, &["--redis", "--workers", "4"]);
        let spoilt = check(&report, id);
        assert_eq!(code, Some(1));
        assert_eq!(spoilt["status"], "finding", "{id}");
        assert!(spoilt["found"].as_str().unwrap().starts_with(found), "{id}: {}", spoilt["found"]);
        assert!(
            !spoilt["why"].as_str().unwrap().is_empty() && !spoilt["mend"][0].as_str().unwrap().is_empty(),
            "{id}"
        );
        let findings = |report: &Value| report["findings"].as_u64().unwrap();
        assert_eq!(findings(&report), findings(&healthy_report) + 1, "{id}: {report:#}");
    }
}

#[test]
fn nothing_found_is_exit_code_0() {
    let tree = healthy();
    let finished = tree.doctor(&["--redis"], &[]);
    assert_eq!(finished.code, Some(0), "{}", finished.stdout);
    assert!(
        finished.stdout.ends_with(" not applicable\n") && finished.stdout.contains("\n0 found, "),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_configuration_that_is_none_is_exit_code_2() {
    let finished = healthy().doctor(&["--workers", "many"], &[]);
    assert_eq!((finished.code, &*finished.stdout), (Some(2), ""));
    assert!(finished.stderr.starts_with("tsubaki: --workers (placement.workers) = \"many\" is not allowed"));
}

#[test]
fn what_matters_to_redis_alone_is_left_out_where_none_runs() {
    let tree = healthy().file("proc/sys/vm/overcommit_memory", "0");
    let (without, _) = report(&tree, &[]);
    assert_eq!(check(&without, "vm.overcommit_memory")["status"], "not_applicable");
    let tree = tree.process(700, "redis-server", "0-7");
    let (with, _) = report(&tree, &[]);
    assert_eq!(check(&with, "vm.overcommit_memory")["status"], "finding");
}

#[test]
fn queues_that_differ_from_the_plan_come_with_the_commands_that_mend_it() {
    let (report, _) = report(&healthy(), &["--workers", "4"]);
    let irq = check(&report, "irq_affinity");
    assert_eq!(irq["found"], "4 of the workers' queues differ from the plan (tsubaki doctor --plan)");
    assert_eq!(irq["mend"][0], "echo 0 > /proc/irq/60/smp_affinity_list");
    assert_eq!(check(&report, "xps")["mend"][2], "echo 100 > /sys/class/net/ens3f0/queues/tx-0/xps_cpus");
}

#[test]
fn too_few_receive_queues_are_found() {
    let (report, _) = report(&machines::bond_of_two_nodes(), &["--workers", "8"]);
    let queues = check(&report, "receive_queues");
    assert_eq!(queues["found"], "ens1f0 has 2 for 4 workers; ens3f0 has 2 for 4 workers");
    assert_eq!(queues["mend"][0], "ethtool -L ens1f0 combined 4   # as far as the card can");
}

#[test]
fn watermarks_are_computed_for_the_machines_zones() {
    let zone = |node: usize, name: &str, min: u64, managed: u64| {
        format!(
            "Node {node}, zone   {name}\n  pages free     1\n        boost    0\n        min      {min}\n        low      2\n        \
             high     3\n        spanned  4\n        present  5\n        managed  {managed}\n"
        )
    };
    let zones =
        zone(0, "DMA", 3, 3840) + &zone(0, "Normal", 5600, 10_000_000) + &zone(1, "Normal", 6000, 12_000_000);
    let tree = healthy().file("proc/zoneinfo", &zones).file("proc/sys/vm/watermark_scale_factor", "10");
    let (report, _) = report(&tree, &["--redis"]);
    // min + managed x factor / 10,000 and min + twice that, in pages of 4 KiB.
    assert_eq!(
        check(&report, "vm.watermark_scale_factor")["found"],
        "10. Reclaim begins and ends at node 0 Normal 60/100 MiB, node 1 Normal 70/117 MiB; \
         with 1000 at node 0 Normal 3928/7834 MiB, node 1 Normal 4710/9398 MiB"
    );
}

#[test]
fn a_node_full_of_page_cache_and_allocations_that_miss_are_found() {
    let vmstat =
        |free: u64| format!("nr_free_pages {free}\nnr_inactive_file 5000000\nnr_active_file 1000000");
    let zone = "Node 0, zone Normal\n min 5000\n low 10000\n high 15000\n managed 11000000\n";
    let tree = healthy()
        .file("proc/zoneinfo", zone)
        .file("proc/sys/vm/watermark_scale_factor", "10")
        .file("sys/devices/system/node/node0/vmstat", &vmstat(20_000))
        .file("sys/devices/system/node/node1/vmstat", &vmstat(4_000_000))
        .file("sys/devices/system/node/node0/numastat", "numa_hit 800\nnuma_miss 0\nnuma_foreign 200")
        .file("sys/devices/system/node/node1/numastat", "numa_hit 1000\nnuma_miss 200\nnuma_foreign 0");
    let (report, _) = report(&tree, &[]);
    assert_eq!(check(&report, "page_cache")["found"], "node 0: 0% free, 50% page cache");
    assert_eq!(
        check(&report, "numa_miss")["found"],
        "node 0: 20.0% of what was wanted here came from elsewhere, 0 pages for others; \
         node 1: 0.0% of what was wanted here came from elsewhere, 200 pages for others"
    );
}

#[test]
fn servers_that_move_between_nodes_or_have_their_memory_elsewhere_are_found() {
    let tree = healthy()
        .process(700, "redis-server", "0-31")
        .process(701, "redis-server", "0-7")
        .process(702, "valkey-server", "8")
        .file("proc/701/numa_maps", "7f00 default anon=100 dirty=100 N0=60 N1=40 kernelpagesize_kB=4");
    let (report, _) = report(&tree, &["--workers", "32"]);
    let servers = check(&report, "servers");
    let worker = "valkey-server 702 is pinned to the CPU of worker ";
    assert_eq!(
        servers["found"].as_str().unwrap().split(worker).next().unwrap(),
        "redis-server 700 may run on nodes 0,1; redis-server 701 runs on node 0 and has 40% of its memory elsewhere; "
    );
    let mend = servers["mend"].to_string();
    assert!(mend.contains("taskset -acp 0-7,16-23 700") && mend.contains("migratepages 701 1 0"), "{mend}");
}

#[test]
fn deep_idle_states_are_found() {
    let mut tree = healthy();
    for (state, name, latency, disabled) in
        [(0, "POLL", "0", "0"), (1, "C1", "2", "0"), (2, "C6", "170", "0"), (3, "C7", "300", "1")]
    {
        let folder = format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}");
        tree = tree
            .file(&format!("{folder}/name"), name)
            .file(&format!("{folder}/latency"), latency)
            .file(&format!("{folder}/disable"), disabled);
    }
    let (report, _) = report(&tree, &[]);
    assert_eq!(check(&report, "cpu_idle_states")["found"], "C6 (170 us)");
}

#[test]
fn what_proxies_that_crashed_had_changed_is_set_back() {
    let tree = machines::bond_of_two_nodes();
    let note =
        r#"[{"path":"proc/irq/60/smp_affinity_list","kind":"irq_affinity","before":"0-31","after":"4"}]"#;
    tree.write("run/tsubaki/placement-77.json", note);
    tree.write("proc/irq/60/smp_affinity_list", "4");
    let finished = tree.doctor(&["--restore"], &[]);
    assert_eq!((finished.code, &*finished.stdout), (Some(0), "/proc/irq/60/smp_affinity_list: 0-31 again\n"));
    assert_eq!(tree.read("proc/irq/60/smp_affinity_list"), "0-31");
    let again = tree.doctor(&["--restore"], &[]);
    assert!(again.stdout.starts_with("nothing to set back"), "{}", again.stdout);

    std::os::unix::fs::symlink("/dev/null", tree.path().join("run/tsubaki/placement-no.json")).unwrap();
    // Whatever somebody else made of it since.
    tree.write("run/tsubaki/placement-78.json", note);
    tree.write("proc/irq/60/smp_affinity_list", "7");
    let unable = tree.doctor(&["--restore"], &[]);
    let left = "/proc/irq/60/smp_affinity_list: left as it is, somebody has changed it since\n";
    assert_eq!((unable.code, &*unable.stdout), (Some(2), left));
    assert!(unable.stderr.contains("placement-no.json"), "{}", unable.stderr);
}

#[test]
fn a_folder_that_is_no_machine_is_exit_code_2() {
    let tree = Tree::new("0");
    std::fs::remove_file(tree.path().join("proc/self/status")).unwrap();
    let finished = tree.doctor(&[], &[]);
    assert_eq!((finished.code, &*finished.stdout), (Some(2), ""));
    assert!(
        finished.stderr.starts_with("tsubaki: there is no machine to look at below "),
        "{}",
        finished.stderr
    );
}

#[test]
fn the_proxy_itself_is_no_fault_of_the_machine() {
    let settings = ["--workers", "4"];
    let (without, code) = report(&healthy(), &settings);
    let running = healthy().process(800, "tsubaki", "0").process(801, "tsubaki", "8");
    let (with, with_code) = report(&running, &settings);
    assert_eq!((with, with_code), (without, code));
}

#[test]
fn reserved_ports_stay_reserved() {
    let tree = healthy()
        .file("proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
        .file("proc/sys/net/ipv4/ip_local_reserved_ports", "16380,30000-30009");
    let (report, _) = report(&tree, &[]);
    let ports = check(&report, "net.ipv4.ip_local_port_range");
    assert_eq!(ports["mend"][0], "sysctl -w net.ipv4.ip_local_reserved_ports=16380,30000-30009,6380");
}
