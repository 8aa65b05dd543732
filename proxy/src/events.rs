//! Log lines that may come often: each is said at once, then at most every few seconds with a count of what was left out.
//!
//! Never a key, a value or a password.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tsubaki_core::action::Event;

/// The first pause between two lines about the same thing, and the longest, to which it doubles.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Things remembered; beyond it the oldest is forgotten, so that addresses of passing clients fill no memory.
const REMEMBERED: usize = 256;

/// Repetition, held down.
#[derive(Default)]
struct Throttle(BTreeMap<String, Said>);

struct Said {
    at: Instant,
    pause: Duration,
    left_out: u64,
}

static THROTTLE: Mutex<Throttle> = Mutex::new(Throttle(BTreeMap::new()));

impl Throttle {
    /// May a line about `subject` be written? If so, how many before it were not.
    fn admit(&mut self, subject: &str, now: Instant) -> Option<u64> {
        if let Some(said) = self.0.get_mut(subject) {
            let quiet = now.duration_since(said.at);
            if quiet < said.pause {
                said.left_out += 1;
                return None;
            }
            said.pause = if quiet > 2 * PAUSE.1 { PAUSE.0 } else { PAUSE.1.min(said.pause * 2) };
            said.at = now;
            return Some(std::mem::take(&mut said.left_out));
        }
        if self.0.len() >= REMEMBERED
            && let Some(oldest) =
                self.0.iter().min_by_key(|(_, said)| said.at).map(|(subject, _)| subject.clone())
        {
            self.0.remove(&oldest);
        }
        self.0.insert(subject.to_owned(), Said { at: now, pause: PAUSE.0, left_out: 0 });
        Some(0)
    }
}

/// Whether a line about `subject` is due, and how many before it were left out.
pub(crate) fn admit(subject: &str) -> Option<u64> {
    let mut throttle = THROTTLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    throttle.admit(subject, Instant::now())
}

/// Logs what an engine reports.
pub(crate) fn log(event: &Event) {
    match event {
        Event::NodeDown { address, reason } => {
            if let Some(repeated) = admit(&format!("node {address}")) {
                tracing::warn!(node = %address, %reason, repeated, "a node cannot be used");
            }
        }
        Event::NodeUp { address } => {
            if let Some(repeated) = admit(&format!("node up {address}")) {
                tracing::info!(node = %address, repeated, "the node is back");
            }
        }
        Event::ClientProtocol { client, error } => {
            if let Some(repeated) = admit("client protocol") {
                tracing::warn!(%client, %error, repeated, "a client broke the protocol and was closed");
            }
        }
        Event::OutputLimit { client, bytes } => {
            if let Some(repeated) = admit("output limit") {
                tracing::warn!(%client, bytes, repeated, "a client left its replies unread and was closed (limits.output_buffer)");
            }
        }
        Event::ReplyCut { client } => {
            if let Some(repeated) = admit("reply cut") {
                tracing::warn!(%client, repeated, "a node was lost in the middle of a large reply; its client was closed");
            }
        }
        Event::RequestStalled { client } => {
            if let Some(repeated) = admit("request stalled") {
                tracing::warn!(%client, repeated, "a client stopped in the middle of a large request while others waited, and was closed");
            }
        }
        Event::TopologyChanged { slots } => {
            if let Some(repeated) = admit("topology") {
                tracing::info!(slots, repeated, "slots have moved");
            }
        }
    }
}

/// Logs that a client found no place.
pub(crate) fn clients_full() {
    if let Some(repeated) = admit("clients full") {
        tracing::warn!(repeated, "a client was turned away: max_clients is reached");
    }
}

/// Logs that the system had nothing left to accept a client with.
pub(crate) fn accept_paused(error: &io::Error) {
    if let Some(repeated) = admit("accept paused") {
        tracing::error!(%error, repeated, "accepting pauses; raise the limit of open files (LimitNOFILE, ulimit -n) or lower max_clients");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_is_counted_and_pauses_grow() {
        let mut throttle = Throttle::default();
        let start = Instant::now();
        assert_eq!(throttle.admit("a", start), Some(0));
        assert_eq!(throttle.admit("a", start), None);
        assert_eq!(throttle.admit("b", start), Some(0), "another subject is not held down");
        assert_eq!(throttle.admit("a", start + PAUSE.0), Some(1));
        assert_eq!(throttle.admit("a", start + PAUSE.0 * 2), None, "the second pause is longer");
        assert_eq!(throttle.admit("a", start + PAUSE.0 * 3), Some(1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut throttle = Throttle::default();
        for client in 0..10 * REMEMBERED {
            throttle.admit(&client.to_string(), Instant::now());
        }
        assert!(throttle.0.len() <= REMEMBERED);
    }
}
