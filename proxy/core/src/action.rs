//! Every wish of the engine, as data: the caller makes it come true.
//!
//! Must not know: how it is done.

use crate::arena::Id;
use crate::local::Wanted;
use crate::stats::Stats;
use crate::{BackendId, ClientId};

/// What the caller must do. Output is not among these: see `Worker::dirty_backend` and `Worker::dirty_client`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open a connection to `address` (`host:port`), then call `handle_backend_connected`, or `handle_backend_closed` if that fails.
    Connect {
        /// The connection to be.
        backend: BackendId,
        /// Where to.
        address: String,
    },
    /// Close this node connection at once; the engine has forgotten it.
    CloseBackend(BackendId),
    /// Close this client at once; the engine has forgotten it.
    CloseClient(ClientId),
    /// Read this client again: it was paused by [`Flow::Pause`].
    ResumeClient(ClientId),
    /// Read this node connection again: it was paused by [`Flow::Pause`].
    ResumeBackend(BackendId),
    /// Fetch the cluster's topology soon and hand it to `handle_topology`.
    Refresh {
        /// Why, for logs and metrics.
        reason: RefreshReason,
        /// The node to ask first (`host:port`).
        hint: Option<String>,
    },
    /// Collect the figures and client lists of all workers, this one included, then call `handle_gathered`.
    Gather(GatherId),
    /// Something that an operator may want to read.
    Report(Event),
}

/// Names one waiting INFO or CLIENT LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatherId {
    /// Who asked.
    pub client: ClientId,
    /// Its request.
    pub seq: u32,
    /// True if the lists of clients are wanted, not just figures.
    pub clients: bool,
    /// What is to be shown of it.
    pub(crate) wanted: Id<Wanted>,
}

/// The answer to [`Action::Gather`].
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// The figures of all workers, added up.
    pub stats: Stats,
    /// One line a client, as CLIENT LIST shows it.
    pub clients: String,
}

/// Whether to go on reading a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Read,
    /// Stop until [`Action::ResumeClient`] or [`Action::ResumeBackend`], or for good if the connection is being closed.
    Pause,
}

/// Why a topology refresh is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefreshReason {
    /// A node said MOVED.
    Moved,
    /// A connection to a node was lost or refused.
    Connection,
    /// A master answered READONLY.
    ReadOnly,
    /// A node said CLUSTERDOWN.
    ClusterDown,
    /// A command asked for a slot that no node serves.
    Uncovered,
}

impl RefreshReason {
    /// How many reasons there are.
    pub const COUNT: usize = 5;
}

/// What happened, for the log; texts never hold keys, values or passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A node's connection failed, was refused or lost.
    NodeDown {
        /// `host:port`.
        address: String,
        /// What was seen.
        reason: String,
    },
    /// A node answers again.
    NodeUp {
        /// `host:port`.
        address: String,
    },
    /// A client broke the protocol and is closed.
    ClientProtocol {
        /// The client's address.
        client: String,
        /// The error that it was told.
        error: String,
    },
    /// A client left more replies unread than allowed and is closed.
    OutputLimit {
        /// The client's address.
        client: String,
        /// Unread bytes.
        bytes: usize,
    },
    /// A node's connection was lost in the middle of a reply whose beginning its client has: the client is closed.
    ReplyCut {
        /// The client's address.
        client: String,
    },
    /// A client sent nothing more of a large request while others waited for its place, and is closed.
    RequestStalled {
        /// The client's address.
        client: String,
    },
    /// The worker took over a view of the cluster in which slots had moved.
    TopologyChanged {
        /// Slots whose master is another than before.
        slots: usize,
    },
}
