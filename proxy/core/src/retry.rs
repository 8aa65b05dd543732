//! What a node's error reply means for the command that it answers. A pure function; C4 of the contract lives here.
//!
//! Must not know: connections, queues, clocks.

use std::time::Duration;

use tsubaki_protocol::redirect::{Endpoint, Refusal};

use crate::limits::{MAX_REDIRECTS, RETRY_PAUSE};

/// What to do with a command that a node refused without running it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// The slot lives elsewhere: learn it, send there.
    Moved(Endpoint<'a>),
    /// This one command goes elsewhere, behind ASKING.
    Ask(Endpoint<'a>),
    /// Send again by the map, after a pause.
    Pause,
    /// Enough redirects: give up.
    Loop,
}

/// Decides about a refusal; `redirects` counts those that the command followed before.
pub(crate) fn verdict<'a>(refusal: &Refusal<'a>, redirects: u8) -> Verdict<'a> {
    match refusal {
        Refusal::Moved { .. } | Refusal::Ask { .. } if redirects >= MAX_REDIRECTS => Verdict::Loop,
        Refusal::Moved { endpoint, .. } => Verdict::Moved(*endpoint),
        Refusal::Ask { endpoint, .. } => Verdict::Ask(*endpoint),
        Refusal::TryAgain
        | Refusal::ClusterDown
        | Refusal::Loading
        | Refusal::ReadOnly
        | Refusal::MasterDown => Verdict::Pause,
    }
}

/// How long to wait before attempt number `attempt` (1 is the first repetition).
///
/// The first two redirects are followed at once: an honest cluster needs no more. Where two nodes point at each other,
/// which they do for the moment in which a slot changes hands, waiting ends it.
pub(crate) fn pause(attempt: u8, redirected: bool) -> Duration {
    if redirected && attempt <= 2 {
        return Duration::ZERO;
    }
    let (first, longest) = RETRY_PAUSE;
    let doublings = if redirected {
        2 * u32::from(attempt.saturating_sub(2))
    } else {
        u32::from(attempt.saturating_sub(1))
    };
    longest.min(first * 2_u32.saturating_pow(doublings.min(10)))
}
