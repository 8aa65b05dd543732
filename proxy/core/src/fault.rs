//! Deliberate faults, so that tests can show that they would find the real ones.
//!
//! Without the feature `faults` there is no way to switch one on, and every question whether one is on is a constant no.

/// One deliberate fault of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The place of a client that left is taken out of its connection's queue, so that its reply goes to the next.
    DroppedTombstone,
    /// Two replies in a row go to each other's clients.
    SwappedReplies,
    /// A write whose connection died is sent again although it may have run.
    ResentWrite,
    /// A script whose connection died is sent again as if it only read.
    ResentScript,
    /// An error whose code looks like a refusal makes a script run again, whatever its text.
    ScriptRefusedByCode,
    /// ASKING comes behind its command instead of in front of it.
    AskingApart,
    /// A view from before a MOVED undoes it.
    StaleView,
    /// A new command does not wait behind those of its client that are held.
    IgnoredHold,
    /// What is in flight at a slot's old owner is not waited for.
    UntrackedMove,
    /// Held commands are sent again although a later one on the same key has run.
    IgnoredOvertaking,
    /// A hold is not looked at again when what it waited for came back.
    MissedWake,
    /// The parts of a split command are put together in another order.
    MisorderedParts,
    /// The part of a split command that failed is shown as nil.
    FailedPartAsNil,
    /// After five redirects the client is shown the sixth.
    LeakedRedirect,
    /// A reply whose client left goes to the client that has its place now.
    ReusedPlace,
    /// A client that speaks RESP3 is served over a connection that speaks RESP2.
    WrongLane,
    /// The commands of one client travel on any of a node's connections.
    StrayedCommand,
    /// The bytes of half a reply are kept for the connection that follows.
    KeptFragment,
    /// A node that owes replies may be silent for ever.
    IgnoredSilence,
    /// A client may leave any amount unread.
    IgnoredOutputLimit,
    /// A large reply is passed on although it is not its turn, in the midst of others.
    InterleavedReply,
    /// A node connection that was paused for a slow reader is not read again.
    ForgottenResume,
    /// A client that has the beginning of a reply whose rest was lost is not closed, but told so.
    PatchedReply,
    /// What is in flight behind a large reply is not waited for by what goes another way.
    UntrackedDetour,
    /// A large request goes although commands before it are not answered.
    OvertakingUpload,
}

/// Which fault is on, if any.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    #[cfg(feature = "faults")]
    pub(crate) on: Option<Fault>,
    /// Half a reply of a connection that ended.
    #[cfg(feature = "faults")]
    pub(crate) fragment: Vec<u8>,
}

impl Switch {
    #[cfg(feature = "faults")]
    pub(crate) fn is(&self, fault: Fault) -> bool {
        self.on == Some(fault)
    }

    #[cfg(not(feature = "faults"))]
    #[inline]
    pub(crate) fn is(&self, _: Fault) -> bool {
        false
    }
}
