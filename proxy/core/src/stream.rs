//! What is known of a large value on its way: one that is passed on while it comes, because holding it would cost too much.
//!
//! Must not know: how its bytes are moved, or over which connection.
//!
//! ```text
//!   request   Waiting --its node would take it--> Sending --last byte--> (answered like any other)
//!                |                                   |
//!                '--------- answered early ----------+--> Dropping --last byte--> (gone)
//!
//!   reply     Gathered --its client's turn--> Client --last byte--> (done)
//!                '------- its client left ------'-----> Nobody --last byte--> (done)
//! ```

use tsubaki_protocol::resp::stream::{ReplyStream, RequestStream};

use crate::BackendId;
use crate::pipeline::Seq;

/// A large request of one client, of which the end has not come.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) seq: Seq,
    pub(crate) stream: RequestStream,
    pub(crate) stage: Stage,
}

/// What is done with a large request's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// They stay with the client: earlier commands are not answered, or its node was not heard yet.
    Waiting,
    /// They go over this connection, which carries nothing else.
    Sending(BackendId),
    /// Nobody wants them: the request was answered before its end.
    Dropping,
}

/// A large reply at the front of one connection, of which the end has not come.
#[derive(Debug, Default)]
pub(crate) struct Download {
    pub(crate) stream: ReplyStream,
    pub(crate) sink: Sink,
}

/// Where a large reply's bytes go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    /// They are kept until the reply is whole, or its turn comes.
    Gathered(Vec<u8>),
    /// Into the output of their client: it is the reply's turn, and it stays so until its end.
    Client,
    /// Their client left.
    Nobody,
}

impl Default for Sink {
    fn default() -> Self {
        Self::Gathered(Vec::new())
    }
}

impl Sink {
    /// What was kept so far; it is kept no longer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Gathered(bytes) => std::mem::take(bytes),
            Self::Client | Self::Nobody => Vec::new(),
        }
    }
}
