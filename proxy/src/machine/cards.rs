//! Network interfaces: their NUMA node, their queues, and the interrupts of these.

use std::path::PathBuf;

use tsubaki_config::CpuList;

use super::files::Root;
use super::interrupts::{Interrupt, Interrupts, Serves, serves};
use super::mask::parse_mask;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// Its name, such as `eth0`.
    pub(crate) name: String,
    /// False for bonds, VLANs, bridges and the like.
    pub(crate) is_physical: bool,
    /// False if it has no carrier, or is switched off.
    pub(crate) is_up: bool,
    /// The interfaces below it: a bond's cards, a VLAN's parent.
    pub(crate) lower: Vec<String>,
    /// How long it may hold received packets back to merge them, in nanoseconds, where the kernel says.
    pub(crate) holds_ns: Option<u64>,
    /// The NUMA node that its device is attached to, if it has one and the machine says which.
    pub(crate) node: Option<usize>,
    /// Its receive queues, by number.
    pub(crate) receive: Vec<Queue>,
    /// Its transmit queues, by number.
    pub(crate) transmit: Vec<Queue>,
}

/// A receive or transmit queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Its number at its card.
    pub(crate) number: usize,
    /// Its interrupts; none where the driver's names do not tell.
    pub(crate) interrupts: Vec<Interrupt>,
    /// Receive: the CPUs to which packets are passed on (RPS). Transmit: the CPUs that send through it (XPS). `None` where
    /// the kernel does not say.
    pub(crate) steering: Option<CpuList>,
    /// Receive: flows that are passed on to the CPU that reads them (RFS).
    pub(crate) flows: u64,
}

const CARDS: &str = "sys/class/net";

pub(super) fn read(root: &Root, interrupts: &Interrupts) -> Vec<Card> {
    let names = root.names(CARDS);
    // `bonding_masters` is a file.
    let is_card = |name: &String| name != "lo" && root.path(CARDS).join(name).is_dir();
    names.into_iter().filter(is_card).map(|name| card(root, interrupts, name)).collect()
}

fn card(root: &Root, interrupts: &Interrupts, name: String) -> Card {
    let folder = format!("{CARDS}/{name}");
    // A virtio card's device is the virtio bus' own: node and interrupts are the PCI device's above it.
    let device = root.ancestors(format!("{folder}/device"));
    let own: Vec<Interrupt> = device_interrupts(root, &device)
        .into_iter()
        .filter_map(|number| interrupts.find(root, number))
        .collect();
    let queues = |kind: &str, steering: &str, of: fn(Serves) -> Option<usize>| {
        let queue = |number: usize| Queue {
            number,
            interrupts: own
                .iter()
                .filter(|interrupt| serves(&interrupt.name, &name).and_then(of) == Some(number))
                .cloned()
                .collect(),
            steering: root
                .text(format!("{folder}/queues/{kind}-{number}/{steering}"))
                .and_then(|text| parse_mask(&text)),
            flows: root.value(format!("{folder}/queues/{kind}-{number}/rps_flow_cnt")).unwrap_or_default(),
        };
        root.numbered(format!("{folder}/queues"), &format!("{kind}-")).into_iter().map(queue).collect()
    };
    Card {
        is_physical: !device.is_empty(),
        is_up: root.text(format!("{folder}/operstate")).is_none_or(|state| state != "down"),
        holds_ns: root.value(format!("{folder}/gro_flush_timeout")),
        lower: root
            .names(&folder)
            .iter()
            .filter_map(|name| name.strip_prefix("lower_"))
            .map(str::to_owned)
            .collect(),
        node: device
            .iter()
            // -1 where the firmware does not say.
            .find_map(|folder| root.value::<usize>(folder.join("numa_node"))),
        receive: queues("rx", "rps_cpus", |serves| match serves {
            Serves::Receive(number) | Serves::Both(number) => Some(number),
            Serves::Transmit(_) => None,
        }),
        transmit: queues("tx", "xps_cpus", |serves| match serves {
            Serves::Transmit(number) | Serves::Both(number) => Some(number),
            Serves::Receive(_) => None,
        }),
        name,
    }
}

/// The interrupts of the nearest device that has some.
fn device_interrupts(root: &Root, device: &[PathBuf]) -> Vec<usize> {
    let of = |folder: &PathBuf| root.numbered(folder.join("msi_irqs"), "");
    device.iter().map(of).find(|numbers| !numbers.is_empty()).unwrap_or_default()
}
