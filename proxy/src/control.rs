//! The control thread's work besides signals: one view of the cluster for the whole process.
//!
//! ```text
//!   workers (MOVED, lost connections, ...) --RefreshRequest--> refresher --Topology--> every worker's mailbox
//!                                                   ^    |
//!                                                timer   '--CLUSTER NODES, INFO--> a few nodes
//! ```

mod diagnosis;
mod known;
mod node;
mod refresher;

use tsubaki_core::action::RefreshReason;

pub(crate) use self::node::Access;
pub(crate) use self::refresher::{Refresher, Status};

/// A worker wants a newer view.
#[derive(Debug, Clone)]
pub(crate) struct RefreshRequest {
    pub(crate) reason: RefreshReason,
    /// Whom to ask first, `host:port`.
    pub(crate) hint: Option<String>,
}
