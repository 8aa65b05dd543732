//! `/proc/interrupts`: which interrupt has which name, and how often it came; and what a name says about a queue.

use std::collections::BTreeMap;

use tsubaki_config::CpuList;

use super::files::Root;

/// One interrupt of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interrupt {
    /// Its number in `/proc/irq`.
    pub(crate) number: usize,
    /// What the driver calls it.
    pub(crate) name: String,
    /// The CPUs that it may go to.
    pub(crate) affinity: CpuList,
    /// The CPUs that it goes to; the former where the kernel does not say.
    pub(crate) effective: CpuList,
}

/// Names and counts of all interrupts that have a number.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(BTreeMap<usize, (String, u64)>);

/// What of a card an interrupt serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    Receive(usize),
    Transmit(usize),
    Both(usize),
}

impl Interrupts {
    /// Reads names and counts.
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.text("proc/interrupts").unwrap_or_default();
        let row = |line: &str| {
            let (number, rest) = line.split_once(':')?;
            let number = number.trim().parse().ok()?;
            let counts = rest.split_whitespace().map_while(|field| field.parse::<u64>().ok()).sum();
            Some((number, (rest.split_whitespace().last()?.to_owned(), counts)))
        };
        Self(text.lines().skip(1).filter_map(row).collect())
    }

    /// How often an interrupt came since the machine started, on all CPUs.
    pub(crate) fn count(&self, number: usize) -> Option<u64> {
        self.0.get(&number).map(|(_, count)| *count)
    }

    /// One interrupt, with where it goes.
    pub(super) fn find(&self, root: &Root, number: usize) -> Option<Interrupt> {
        let (name, _) = self.0.get(&number)?;
        let affinity = root.list(format!("proc/irq/{number}/smp_affinity_list"))?;
        let effective = root.list(format!("proc/irq/{number}/effective_affinity_list"));
        let effective = effective.filter(|list| !list.is_empty()).unwrap_or_else(|| affinity.clone());
        Some(Interrupt { number, name: name.clone(), affinity, effective })
    }
}

/// What an interrupt of the card called `card` serves; `None` if it is none of a queue.
///
/// Drivers name them as `virtio1-input.0`, `eth0-TxRx-3`, `i40e-eth0-TxRx-3`, `eth0-Tx-Rx-3`, `eth0-rx-3`,
/// `mlx5_comp3@pci:0000:5e:00.0`, `hns3-…-TxRx-3`; those of no queue as `virtio1-config`, `mlx5_async0@pci:…`.
pub(super) fn serves(name: &str, card: &str) -> Option<Serves> {
    let name = name.split('@').next().unwrap_or(name);
    // The card's own number is no queue's; that of `eth10` is not `eth1`'s.
    let after = |(_, rest): &(&str, &str)| !rest.starts_with(|c: char| c.is_ascii_digit());
    let name = match name.split_once(card).filter(after) {
        Some((before, rest)) => format!("{before}{rest}"),
        None => name.to_owned(),
    };
    let name = name.to_ascii_lowercase();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(stem.len()..)?.parse().ok()?;
    let stem = stem.trim_end_matches(['-', '.', '_']);
    // Those of the card's own business end like a queue's: i40e's flow director, ice's control.
    if stem.contains("fdir") || stem.contains("ctrl") {
        return None;
    }
    let receives = stem.contains("rx") || stem.contains("input");
    let transmits = stem.contains("tx") || stem.contains("output");
    match (receives, transmits) {
        (true, true) => Some(Serves::Both(number)),
        (true, false) => Some(Serves::Receive(number)),
        (false, true) => Some(Serves::Transmit(number)),
        // Drivers with one kind of interrupt for a pair of queues: mlx5's completions, bnx2x' fast path, mlx4's bare number.
        (false, false) if stem.ends_with("comp") || stem.ends_with("fp") || stem.is_empty() => {
            Some(Serves::Both(number))
        }
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Serves::{Both, Receive, Transmit};
    use super::*;

    #[test]
    fn names_of_drivers_tell_the_queue() {
        for (name, card, expected) in [
            ("virtio1-input.0", "eth0", Some(Receive(0))),
            ("virtio1-output.12", "eth0", Some(Transmit(12))),
            ("virtio1-config", "eth0", None),
            ("eth0-TxRx-3", "eth0", Some(Both(3))),
            ("i40e-ens1f0-TxRx-17", "ens1f0", Some(Both(17))),
            ("i40e-0000:17:00.0:misc", "ens1f0", None),
            ("ens5-Tx-Rx-1", "ens5", Some(Both(1))),
            ("ena-mgmnt@pci:0000:00:05.0", "ens5", None),
            ("mlx5_comp7@pci:0000:5e:00.0", "ens1", Some(Both(7))),
            ("mlx5_async0@pci:0000:5e:00.0", "ens1", None),
            ("eth2-rx-1", "eth2", Some(Receive(1))),
            ("eth10-TxRx-3", "eth1", Some(Both(3))),
            ("eth0-fp-2", "eth0", Some(Both(2))),
            ("eth6-7", "eth6", Some(Both(7))),
            ("mlx4-async@pci:0000:04:00.0", "eth6", None),
            ("eth0_rxq0", "eth0", Some(Receive(0))),
            ("hns3-0000:7d:00.0-TxRx-0", "enp125s0f0", Some(Both(0))),
            ("ice-lan1-TxRx-0", "lan1", Some(Both(0))),
            ("i40e-0000:01:00.0:fdir-TxRx-0", "eth0", None),
            ("ice-0000:65:00.0:ctrl-TxRx-0", "lan1", None),
            ("gve-ntfy-blk0@pci:0000:00:04.0", "eth0", None),
            ("virtio0-virtqueues", "eth0", None),
            ("eno1", "eno1", None),
            ("rx0", "rx0", None),
        ] {
            assert_eq!(serves(name, card), expected, "{name}");
        }
    }

    #[test]
    fn counts_of_all_cpus_are_added_and_rows_without_a_number_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("proc/irq/27")).unwrap();
        let table = "           CPU0       CPU1\n  0:         20          0   IO-APIC    2-edge      timer\n \
                     27:          5          7   PCI-MSI 81920-edge      virtio1-input.0\nNMI:          1          1   Non-maskable interrupts\n";
        std::fs::write(root.path("proc/interrupts"), table).unwrap();
        std::fs::write(root.path("proc/irq/27/smp_affinity_list"), "0-1\n").unwrap();
        let interrupts = Interrupts::read(&root);
        assert_eq!(
            (interrupts.count(27), interrupts.count(0), interrupts.count(1)),
            (Some(12), Some(20), None)
        );
        let found = interrupts.find(&root, 27).unwrap();
        assert_eq!((&*found.name, found.effective.to_string()), ("virtio1-input.0", "0-1".to_owned()));
    }
}
