//! Plans that a machine cannot fulfil: the doctor could not look, and says what there is.

use crate::machines;

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let tree = machines::bond_of_two_nodes();
    for (settings, message) in [
        (
            &[("TSUBAKI_PLACEMENT_CORES", "30-33")][..],
            "placement.cores names CPU 32-33, but this process may use 0-31: choose among these",
        ),
        (
            &[("TSUBAKI_PLACEMENT_NODES", "0,2,3")],
            "placement.nodes names node 2-3, but this machine has 0-1: choose among these",
        ),
        (
            &[("TSUBAKI_PLACEMENT_INTERFACES", "ens1f0,eth7")],
            "placement.interfaces names eth7, but this machine has bond0, bond0.205, ens1f0, ens3f0: choose among these",
        ),
        (
            &[("TSUBAKI_PLACEMENT_NODES", "0"), ("TSUBAKI_PLACEMENT_CORES", "8-15")],
            "placement.nodes and placement.cores leave no CPU of those that this process may use, 0-31: widen them",
        ),
        (&[("TSUBAKI_WORKERS", "33")], "placement.workers is 33, but there is a CPU of its own for 32"),
        (
            &[("TSUBAKI_WORKERS", "3"), ("TSUBAKI_PLACEMENT_WORKERS_PER_NODE", "1")],
            "placement.workers is 3, but there is a CPU of its own for 2",
        ),
    ] {
        let finished = tree.doctor(&["--plan"], settings);
        assert_eq!((finished.code, &*finished.stdout), (Some(2), ""), "{settings:?}");
        assert!(finished.stderr.starts_with(&format!("tsubaki: {message}")), "{}", finished.stderr);
    }
}

#[test]
fn a_cpu_that_the_container_may_not_use_is_refused() {
    let finished = machines::container().doctor(&["--plan"], &[("TSUBAKI_PLACEMENT_CORES", "16")]);
    assert!(finished.stderr.contains("but this process may use 18,50"), "{}", finished.stderr);
}
