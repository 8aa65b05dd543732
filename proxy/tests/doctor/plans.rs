//! The plan for each machine.

use crate::machines;
use crate::tree::Tree;

/// Workers' rows of a plan: CPU, node, memory, queues.
fn seats(plan: &str) -> Vec<[String; 4]> {
    let rows = plan.lines().skip_while(|line| !line.starts_with("worker")).skip(1);
    let rows = rows.take_while(|line| !line.starts_with("control"));
    let row = |line: &str| {
        let mut cells = line.split_whitespace().skip(1).map(str::to_owned);
        let [cpu, node, memory] = std::array::from_fn(|_| cells.next().unwrap());
        [cpu, node, memory, cells.collect::<Vec<_>>().join(" ")]
    };
    rows.map(row).collect()
}

fn cpus(plan: &str) -> String {
    seats(plan).into_iter().map(|[cpu, ..]| cpu).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_whole_plan_reads_like_this() {
    let plan = machines::xeon_alternating()
        .plan(&[("TSUBAKI_WORKERS", "2"), ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true")]);
    let expected = "\
2 workers: each worker has a CPU of its own, on few NUMA nodes.

worker   CPU                                                  node  memory  queues
0        1                                                    1     1       eth2 0,2,4,6
1        3                                                    1     1       eth2 1,3,5,7
control  5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39  1     1

A client is taken in by the worker on whose CPU its packets arrive.

The system differs from the plan:

file                                     holds  planned     change
/proc/irq/97/smp_affinity_list           0-39   1           at the start
/sys/class/net/eth2/queues/tx-0/xps_cpus  none   1 (mask 2)  no: placement.xps is false
";
    let squeezed = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&plan)[..squeezed(expected).len()], squeezed(expected));
}

#[test]
fn the_cards_node_is_filled_first_and_whole_cores_before_their_second_threads() {
    let tree = machines::xeon_alternating();
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_WORKERS", "12")])), "1 3 5 7 9 11 13 15 17 19 21 23");
    let all = tree.plan(&[]);
    assert_eq!(seats(&all).len(), 40);
    assert_eq!(seats(&all)[20], ["0", "0", "0", "-"].map(str::to_owned), "then the other node");
    assert_eq!(seats(&all)[8][3], "-", "eight queues for twenty workers of their node");
}

#[test]
fn each_queue_has_a_worker_of_the_cards_node() {
    let plan = machines::epyc_four_nodes().plan(&[("TSUBAKI_WORKERS", "16")]);
    assert_eq!(cpus(&plan), "16 17 18 19 20 21 22 23 48 49 50 51 52 53 54 55");
    assert_eq!(seats(&plan)[9], ["49", "2", "2", "enp65s0f0 9"].map(str::to_owned));
    assert!(
        plan.contains("Clients are spread evenly: the interrupts of worker 0's queues go to other CPUs."),
        "{plan}"
    );
}

#[test]
fn other_nodes_follow_the_nearest_first() {
    let plan = machines::kunpeng().plan(&[]);
    let nodes: Vec<String> = seats(&plan).into_iter().map(|[_, node, ..]| node).collect();
    let blocks: Vec<(&str, usize)> =
        nodes.chunk_by(|a, b| a == b).map(|block| (&*block[0], block.len())).collect();
    assert_eq!(blocks, [("2", 32), ("3", 32), ("1", 32), ("0", 32)]);
}

#[test]
fn a_laptop_with_all_its_cpus_is_pinned_and_with_fewer_workers_not() {
    let tree = machines::laptop();
    assert_eq!(cpus(&tree.plan(&[])), "0 2 4 6 8 10 12 13 14 15 16 17 18 19 1 3 5 7 9 11");
    let few = tree.plan(&[("TSUBAKI_WORKERS", "2")]);
    assert_eq!(seats(&few), vec![["any", "any", "any", "-"].map(str::to_owned); 2]);
    assert!(few.starts_with("2 workers: there are more allowed CPUs than workers"), "{few}");
}

#[test]
fn with_one_queue_clients_are_spread_evenly() {
    let plan = machines::cloud_one_queue()
        .plan(&[("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true"), ("TSUBAKI_PLACEMENT_XPS", "true")]);
    assert_eq!(
        seats(&plan),
        [["0", "0", "any", "eth0 0"], ["1", "0", "any", "-"]].map(|row| row.map(str::to_owned))
    );
    assert!(plan.contains("Clients are spread evenly: worker 1 has no receive queue of its own."), "{plan}");
    assert!(!plan.contains("xps_cpus"), "the only transmit queue needs no choice: {plan}");
}

#[test]
fn a_bonds_cards_have_their_workers_each_on_its_node() {
    let settings = [("TSUBAKI_WORKERS", "4"), ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true")];
    let plan = machines::bond_of_two_nodes().plan(&settings);
    let expected = [
        ["0", "0", "0", "ens1f0 0"],
        ["8", "1", "1", "ens3f0 0"],
        ["1", "0", "0", "ens1f0 1"],
        ["9", "1", "1", "ens3f0 1"],
    ];
    assert_eq!(seats(&plan), expected.map(|row| row.map(str::to_owned)));
    assert!(plan.contains("by the worker on whose CPU its packets arrive"), "{plan}");
}

#[test]
fn node_numbers_may_have_holes_and_nodes_neither_cpus_nor_memory() {
    let plan = machines::power_with_holes().plan(&[("TSUBAKI_WORKERS", "65")]);
    let seats = seats(&plan);
    assert_eq!(seats[0], ["64", "8", "8", "enP5p1s0f0 0"].map(str::to_owned));
    assert_eq!(seats[64], ["0", "0", "0", "-"].map(str::to_owned));
}

#[test]
fn cpus_that_are_offline_are_nobodys() {
    let plan = machines::power_threads_off().plan(&[]);
    assert_eq!(cpus(&plan), "0 8 16 24 32 40 48 56 64 72");
    assert!(
        plan.contains("Clients are spread evenly: clients come through no network card that is known."),
        "{plan}"
    );
}

#[test]
fn a_node_without_memory_leaves_the_choice_to_the_kernel() {
    let plan = machines::memoryless_node().plan(&[("TSUBAKI_WORKERS", "3")]);
    assert_eq!(
        seats(&plan)[..2],
        [["4", "1", "any", "eth0 0"], ["5", "1", "any", "eth0 1"]].map(|row| row.map(str::to_owned))
    );
}

#[test]
fn a_container_uses_the_cpus_that_it_may() {
    let plan = machines::container().plan(&[]);
    assert_eq!(cpus(&plan), "18 50");
    assert_eq!(seats(&plan)[0][2], "any", "there is no choice of memory");
}

#[test]
fn a_quota_binds_workers_to_nodes_and_not_to_cpus() {
    let tree = machines::epyc_four_nodes()
        .file("proc/self/cgroup", "0::/pod")
        .file("sys/fs/cgroup/pod/cpu.max", "300000 100000");
    let plan = tree.plan(&[]);
    assert_eq!(seats(&plan), vec![["16-23,48-55", "2", "2", "-"].map(str::to_owned); 3]);
    let one_node = machines::laptop()
        .file("proc/self/cgroup", "0::/pod")
        .file("sys/fs/cgroup/pod/cpu.max", "300000 100000");
    assert_eq!(seats(&one_node.plan(&[])), vec![["any", "any", "any", "-"].map(str::to_owned); 3]);
}

#[test]
fn a_machine_that_tells_nothing_has_one_worker() {
    let tree = Tree::new("0");
    assert_eq!(seats(&tree.plan(&[])), [["0", "0", "any", "-"].map(str::to_owned)]);
}

#[test]
fn settings_choose_nodes_cores_and_how_many() {
    let tree = machines::epyc_four_nodes();
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_PLACEMENT_NODES", "0,3"), ("TSUBAKI_WORKERS", "3")])), "0 1 2");
    assert_eq!(
        cpus(&tree.plan(&[("TSUBAKI_PLACEMENT_CORES", "0,16,48,17"), ("TSUBAKI_WORKERS", "4")])),
        "16 17 48 0"
    );
    let per_node = [("TSUBAKI_PLACEMENT_WORKERS_PER_NODE", "1")];
    assert_eq!(cpus(&tree.plan(&per_node)), "16 0 8 24");
    let manual = [("TSUBAKI_PLACEMENT_MODE", "manual"), ("TSUBAKI_PLACEMENT_CORES", "49,3")];
    assert_eq!(
        seats(&tree.plan(&manual))[0],
        ["49", "2", "2", "enp65s0f0 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"].map(str::to_owned)
    );
    assert_eq!(cpus(&tree.plan(&manual)), "49 3");
    let off = [("TSUBAKI_PLACEMENT_MODE", "off"), ("TSUBAKI_WORKERS", "100")];
    assert_eq!(cpus(&tree.plan(&off)), ["any"; 100].join(" "));
}

#[test]
fn a_spare_core_is_left_to_interrupts_and_the_control_thread() {
    let plan = machines::epyc_four_nodes()
        .plan(&[("TSUBAKI_PLACEMENT_SPARE_CORE", "true"), ("TSUBAKI_WORKERS", "2")]);
    assert_eq!(cpus(&plan), "17 18");
    let control = plan.lines().find(|line| line.starts_with("control")).unwrap();
    assert_eq!(control.split_whitespace().collect::<Vec<_>>(), ["control", "16,48", "2", "2"]);
}

#[test]
fn interfaces_decide_whose_node_is_filled_first() {
    let tree = machines::bond_of_two_nodes();
    let plan = tree.plan(&[("TSUBAKI_PLACEMENT_INTERFACES", "ens3f0"), ("TSUBAKI_WORKERS", "2")]);
    assert_eq!(cpus(&plan), "8 9");
    let loopback = tree.doctor(&["--plan"], &[("TSUBAKI_WORKERS", "2")]).stdout;
    assert_eq!(cpus(&loopback), "0 1", "clients on loopback come through no card");
}

#[test]
fn cpus_on_which_other_servers_are_pinned_come_last() {
    let tree = machines::epyc_four_nodes()
        .process(700, "redis-server", "16")
        .process(701, "valkey-server", "17")
        .process(702, "redis-server", "0-63")
        .process(703, "sshd", "18");
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_WORKERS", "2")])), "18 19");
    // 48 and 49 share the cores of 16 and 17: after all free ones, here of other nodes.
    let many = tree.plan(&[("TSUBAKI_WORKERS", "61")]);
    assert!(cpus(&many).ends_with(" 63 16"), "{many}");
}

#[test]
fn a_second_proxy_takes_another_node_rather_than_the_same_cpus() {
    let tree = machines::small().process(70, "valkey-server", "2").process(71, "valkey-server", "3");
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_WORKERS", "2")])), "0 1");
}

#[test]
fn what_settings_leave_out_stays_out_where_nobody_is_pinned() {
    let tree = machines::laptop();
    let fenced = tree.plan(&[("TSUBAKI_PLACEMENT_CORES", "12-19"), ("TSUBAKI_WORKERS", "2")]);
    assert_eq!(seats(&fenced), vec![["12-19", "any", "any", "-"].map(str::to_owned); 2]);
    let spare = tree.plan(&[("TSUBAKI_PLACEMENT_SPARE_CORE", "true"), ("TSUBAKI_WORKERS", "2")]);
    assert_eq!(seats(&spare)[0][0], "2,4,6,8,10,12-19,3,5,7,9,11");
    let limited = tree.plan(&[("TSUBAKI_PLACEMENT_WORKERS_PER_NODE", "2")]);
    assert_eq!(cpus(&limited), "any any");
}

#[test]
fn a_quota_that_the_cpus_cannot_reach_binds_nobody() {
    let tree = machines::container()
        .file("proc/self/cgroup", "0::/pod")
        .file("sys/fs/cgroup/pod/cpu.max", "200000 100000");
    assert_eq!(cpus(&tree.plan(&[])), "18 50");
}

#[test]
fn one_node_of_many_is_one_node() {
    let tree = machines::epyc_four_nodes().allowed("16-23", "0-3");
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_WORKERS", "2")])), "any any");
}

#[test]
fn where_the_cards_node_may_not_be_used_the_nearest_is() {
    let tree = machines::kunpeng().allowed("0-63", "0-3");
    assert_eq!(seats(&tree.plan(&[("TSUBAKI_WORKERS", "33")]))[0][1], "1");
}

#[test]
fn packets_that_are_passed_on_say_nothing_of_where_they_arrive() {
    let tree = machines::small();
    let settings = [("TSUBAKI_WORKERS", "2"), ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true")];
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "f");
    let plan = tree.plan(&settings);
    assert!(plan.contains("what worker 1's queues receive is passed on to other CPUs (RPS)"), "{plan}");
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "8");
    assert!(tree.plan(&settings).contains("by the worker on whose CPU its packets arrive"));
}

#[test]
fn a_card_without_carrier_or_with_a_link_local_address_alone_is_no_clients() {
    let tree = machines::bond_of_two_nodes().default_route("ens3f0");
    let v6 = "fe800000000000000000000000000001 04 40 20 80     ens1f0";
    assert_eq!(cpus(&tree.file("proc/net/if_inet6", v6).plan(&[("TSUBAKI_WORKERS", "2")])), "8 9");
    let down = machines::bond_of_two_nodes();
    down.write("sys/class/net/ens1f0/operstate", "down");
    assert_eq!(cpus(&down.plan(&[("TSUBAKI_WORKERS", "2")])), "8 9");
}

#[test]
fn in_a_container_what_cannot_be_seen_may_be_there() {
    let tree = machines::small();
    std::fs::create_dir_all(tree.path().join("proc/self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[4026532200]", tree.path().join("proc/self/ns/pid")).unwrap();
    let settings = [("TSUBAKI_WORKERS", "4"), ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true")];
    let plan = tree.plan(&settings);
    assert!(plan.contains("no: irqbalance may run unseen"), "{plan}");
    assert_eq!(cpus(&tree.plan(&[("TSUBAKI_WORKERS", "2")])), "2-3 2-3", "another container may use either");
}

#[test]
fn without_sys_the_allowed_cpus_are_those_that_there_are() {
    let tree = Tree::new("").allowed("4-7", "0");
    assert_eq!(cpus(&tree.plan(&[])), "4 5 6 7");
}

#[test]
fn what_holds_already_is_not_changed_and_irqbalance_forbids_it() {
    let settings = [
        ("TSUBAKI_WORKERS", "2"),
        ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true"),
        ("TSUBAKI_PLACEMENT_XPS", "true"),
    ];
    let tree = machines::small();
    for (irq, cpu) in [(26, "2"), (27, "2"), (28, "3")] {
        tree.write(&format!("proc/irq/{irq}/smp_affinity_list"), cpu);
    }
    tree.write("sys/class/net/eth0/queues/tx-1/xps_cpus", "8");
    let plan = tree.plan(&settings);
    let changes: Vec<&str> = plan.lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(changes.len(), 2, "{plan}");
    assert!(
        changes[0].starts_with("/sys/class/net/eth0/queues/tx-0/xps_cpus")
            && changes[0].ends_with("at the start"),
        "{plan}"
    );
    assert!(changes[1].starts_with("/proc/irq/29/smp_affinity_list"), "{plan}");

    tree.write("proc/irq/28/smp_affinity_list", "0-3");
    let balanced = tree.process(9, "irqbalance", "0-3");
    let plan = balanced.plan(&settings);
    assert!(plan.contains("no: irqbalance runs (placement.despite_irqbalance is false)"), "{plan}");
    assert!(plan.contains("Clients are spread evenly"), "{plan}");
    let nevertheless =
        balanced.plan(&[&settings[..], &[("TSUBAKI_PLACEMENT_DESPITE_IRQBALANCE", "true")]].concat());
    assert!(nevertheless.contains("by the worker on whose CPU its packets arrive"), "{nevertheless}");
}

#[test]
fn json_says_the_same() {
    let tree = machines::bond_of_two_nodes();
    let finished = tree.doctor(&["--plan", "--json", "--listen", "*:6380", "--workers", "2"], &[]);
    let plan: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(plan["workers"][1], serde_json::json!({ "cpus": "8", "node": 1, "memory": 1 }));
    assert_eq!(plan["queues"][0]["card"], "ens1f0");
    assert_eq!(plan["arrivals"]["by"], "count");
    assert_eq!(plan["changes"][0]["kind"], "irq_affinity");
}

#[test]
fn the_manual_shows_a_plan_as_it_is() {
    let plan =
        machines::small().plan(&[("TSUBAKI_WORKERS", "2"), ("TSUBAKI_PLACEMENT_IRQ_AFFINITY", "true")]);
    let manual = include_str!("../../../docs/placement.md");
    assert!(manual.contains(&format!("```\n{plan}```\n")), "{plan}");
}
