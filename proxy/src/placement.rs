//! Which worker runs where, with which memory and which network queues: planned, shown, applied, restored.
//!
//! ```text
//!   Machine, [placement], listen --> plan (pure) --> Plan --> table: what `tsubaki doctor --plan` shows
//!                                                     |
//!                                                     +-----> seat: a thread's CPUs and memory
//!                                                     +-----> system: interrupts and XPS, noted in a state file, restored
//! ```
//!
//! Must not know: sockets, the engine.

mod memory;
mod plan;
mod queues;
mod seat;
mod system;
mod table;

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use tsubaki_config::CpuList;

pub(crate) use self::plan::{PlanError, plan};
pub(crate) use self::queues::arrivals;
pub(crate) use self::seat::{settle_control, take};
pub(crate) use self::system::{Applied, Restored, apply, restore};
pub(crate) use self::table::table;

/// Where everything goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Plan {
    /// One seat a worker, in their order.
    pub(crate) workers: Vec<Seat>,
    /// Where the control thread runs and what the system does beside the workers; no CPUs: anywhere.
    pub(crate) control: Seat,
    /// Why the workers are where they are.
    pub(crate) reason: &'static str,
    /// The queues that belong to workers.
    pub(crate) queues: Vec<QueueSeat>,
    /// What has to be written so that they do.
    pub(crate) changes: Vec<Change>,
    /// Which worker takes in a client.
    pub(crate) arrivals: Arrivals,
}

/// A thread's place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Seat {
    /// The CPUs that it may use: one if it is pinned, none if it runs where the kernel likes.
    #[serde(serialize_with = "as_text")]
    pub(crate) cpus: CpuList,
    /// The NUMA node of all these CPUs.
    pub(crate) node: Option<usize>,
    /// The node that its memory comes from; `None` where there is no choice, or the kernel's is as good.
    pub(crate) memory: Option<usize>,
}

/// A pair of queues of a card, or one of them, and its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QueueSeat {
    /// The card's name.
    pub(crate) card: String,
    /// The queue's number at the card.
    pub(crate) queue: usize,
    /// The worker's number.
    pub(crate) worker: usize,
    /// The interrupts of its receive side.
    pub(crate) receive: Vec<usize>,
    /// The interrupts of its transmit side.
    pub(crate) transmit: Vec<usize>,
}

/// One file to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// Below the root, without a slash in front.
    pub(crate) path: String,
    /// What it is about.
    pub(crate) kind: ChangeKind,
    /// The CPUs that it holds; `None` if it cannot be read.
    #[serde(serialize_with = "as_text_or_none")]
    pub(crate) before: Option<CpuList>,
    /// The CPU that it shall hold.
    pub(crate) after: usize,
    /// What forbids it; `None`: it will be written.
    pub(crate) forbidden: Option<&'static str>,
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    /// The CPU to which an interrupt goes: a list of CPUs.
    IrqAffinity,
    /// The CPU that sends through a queue: a mask.
    Xps,
}

/// Which worker takes in a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub(crate) enum Arrivals {
    /// The worker on whose CPU its packets arrive, unless that one has far more than others.
    Cpu,
    /// The one with the fewest clients.
    Count {
        /// Why not the former.
        why: String,
    },
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("each client at the worker on whose CPU its packets arrive"),
            Self::Count { why } => write!(f, "clients spread evenly: {why}"),
        }
    }
}

impl Seat {
    /// The one CPU of a thread that is pinned.
    pub(crate) fn cpu(&self) -> Option<usize> {
        if self.cpus.len() == 1 { self.cpus.iter().next() } else { None }
    }
}

fn as_text<S: Serializer>(list: &CpuList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(list)
}

fn as_text_or_none<S: Serializer>(list: &Option<CpuList>, serializer: S) -> Result<S::Ok, S::Error> {
    match list {
        Some(list) => serializer.collect_str(list),
        None => serializer.serialize_none(),
    }
}
