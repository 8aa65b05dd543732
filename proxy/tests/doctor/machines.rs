//! Machines whose topology somebody has published, and where. What the publication does not say is made up, and said so.

use crate::tree::{Driver, Tree};

/// Two Xeons of ten cores with two threads, CPUs of the two nodes alternating as Dell numbers them.
///
/// Nodes, memory and distances: the Wukong project's description of its cluster (SJTU IPADS). Siblings (n, n + 20) and a
/// ConnectX at node 0: "Building Mu" (EPFL), of the same layout. Here the card is at node 1, and has eight queues.
pub(crate) fn xeon_alternating() -> Tree {
    let even = "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38";
    let odd = "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39";
    Tree::new("0-39")
        .nodes(&[(0, even, 62, "10 21"), (1, odd, 62, "21 10")])
        .threads_apart(0..20, 20)
        .card("eth2", 1, 8, Driver::Mlx5, (96, "0-39"))
        .default_route("eth2")
}

/// One EPYC 7543P, 32 cores with two threads, four nodes (NPS4).
///
/// `numactl --hardware` and siblings (n, n + 32): the VASP wiki's page on parallelisation. The card is made up.
pub(crate) fn epyc_four_nodes() -> Tree {
    Tree::new("0-63")
        .nodes(&[
            (0, "0-7,32-39", 125, "10 12 12 12"),
            (1, "8-15,40-47", 125, "12 10 12 12"),
            (2, "16-23,48-55", 125, "12 12 10 12"),
            (3, "24-31,56-63", 125, "12 12 12 10"),
        ])
        .threads_apart(0..32, 32)
        .card("enp65s0f0", 2, 16, Driver::I40e, (120, "0-63"))
        .default_route("enp65s0f0")
}

/// Two Kunpeng 920 of 64 cores without threads, four nodes with uneven distances.
///
/// hwloc, tests/hwloc/linux/128arm-2pa2n8cluster4co. The card is made up.
pub(crate) fn kunpeng() -> Tree {
    Tree::new("0-127")
        .nodes(&[
            (0, "0-31", 125, "10 16 32 33"),
            (1, "32-63", 126, "16 10 25 32"),
            (2, "64-95", 126, "32 25 10 16"),
            (3, "96-127", 125, "33 32 16 10"),
        ])
        .card("enp125s0f0", 2, 4, Driver::I40e, (300, "64-95"))
        .default_route("enp125s0f0")
}

/// A laptop's i7-1370P: six cores with two threads and eight without.
///
/// hwloc, tests/hwloc/linux/20em64t-hybrid-1p6c2t+2ca4co1t. Its card is left out: clients come through none that is known.
pub(crate) fn laptop() -> Tree {
    Tree::new("0-19")
        .nodes(&[(0, "0-19", 31, "10")])
        .cores(["0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12", "13", "14", "15", "16", "17", "18", "19"])
}

/// A cloud's virtual machine with two CPUs and a virtio card of one queue, whose node nobody knows.
///
/// Names of interrupts: netutils-linux, tests/server-info-show.tests/vscale-vm; numa_node -1: its issue 13.
pub(crate) fn cloud_one_queue() -> Tree {
    Tree::new("0-1")
        .nodes(&[(0, "0-1", 4, "10")])
        .card("eth0", -1, 1, Driver::Virtio, (26, "0-1"))
        .default_route("eth0")
}

/// Two Xeon Silver 4108 of eight cores with two threads, and a bond of two cards, one on each node.
///
/// CPUs, nodes, siblings: hwloc, tests/hwloc/linux/32intel64-2p8co2t+8ve. Names and nodes of the two cards: OpenShift's
/// cnf-features-deploy, cn-ran-overlays. That they form a bond, with a VLAN over it, is made up.
pub(crate) fn bond_of_two_nodes() -> Tree {
    Tree::new("0-31")
        .nodes(&[(0, "0-7,16-23", 45, "10 21"), (1, "8-15,24-31", 47, "21 10")])
        .threads_apart(0..16, 16)
        .card("ens1f0", 0, 2, Driver::I40e, (60, "0-31"))
        .card("ens3f0", 1, 2, Driver::I40e, (70, "0-31"))
        .over("bond0", &["ens1f0", "ens3f0"])
        .over("bond0.205", &["bond0"])
        .default_route("bond0.205")
}

/// A POWER9 with nodes 0 and 8, and four more with neither CPUs nor memory.
///
/// `numactl -H` of an 8335-GTH; each node's 64 CPUs, memory and distances 10 and 40. Threads are taken as cores. The card
/// is made up.
pub(crate) fn power_with_holes() -> Tree {
    let far = "80 80 80 80 80 80";
    Tree::new("0-127")
        .nodes(&[
            (0, "0-63", 123, "10 40 80 80 80 80"),
            (8, "64-127", 127, "40 10 80 80 80 80"),
            (252, "", 0, far),
            (253, "", 0, far),
            (254, "", 0, far),
            (255, "", 0, far),
        ])
        .card("enP5p1s0f0", 8, 2, Driver::Mlx5, (400, "0-127"))
        .default_route("enP5p1s0f0")
}

/// A POWER8 with threads switched off: every eighth CPU is online.
///
/// `lscpu` in a report to linuxppc-dev, 2019-08-26. Memory and distances are made up; there is no card.
pub(crate) fn power_threads_off() -> Tree {
    Tree::new("0,8,16,24,32,40,48,56,64,72")
        .nodes(&[(0, "0-39", 64, "10 20"), (1, "40-79", 64, "20 10")])
        .cores(["0-7", "8-15", "40-47", "72-79"])
}

/// A machine whose node with the card has CPUs and no memory.
///
/// As Threadrippers have them; numbers of CPUs and the card are made up.
pub(crate) fn memoryless_node() -> Tree {
    Tree::new("0-7")
        .nodes(&[(0, "0-3", 32, "10 16"), (1, "4-7", 0, "16 10")])
        .threads_apart(0..2, 2)
        .cores(["4,6", "5,7"])
        .card("eth0", 1, 2, Driver::Virtio, (40, "0-7"))
        .default_route("eth0")
}

/// Four CPUs on two nodes, a card with two pairs of queues on node 1: what `make e2e-numa` boots.
pub(crate) fn small() -> Tree {
    Tree::new("0-3")
        .nodes(&[(0, "0-1", 1, "10 20"), (1, "2-3", 1, "20 10")])
        .card("eth0", 1, 2, Driver::Virtio, (25, "0-3"))
        .default_route("eth0")
}

/// A container that may use two CPUs of the EPYC's 64, and memory of their node alone.
pub(crate) fn container() -> Tree {
    epyc_four_nodes().allowed("18,50", "2")
}
