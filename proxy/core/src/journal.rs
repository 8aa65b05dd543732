//! The bytes for one node connection, kept from the moment a command is accepted until its reply came.
//!
//! Kept, so that a command that was not executed (MOVED, a lost connection before its last byte) can be sent again
//! without a copy of every command that is. Must not know: what the bytes mean, or where one command ends.
//!
//! ```text
//!   |  answered  |  sent, unanswered  |  not yet sent  |
//!   0           head                 sent             len
//! ```

use crate::limits::KEEP_BUFFER;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    bytes: Vec<u8>,
    head: usize,
    sent: usize,
}

impl Journal {
    /// Where the bytes of the next command go: append to it, never shorten it.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// The socket took `count` bytes of [`Self::unsent`].
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent = self.bytes.len().min(self.sent + count);
    }

    /// The oldest `len` unanswered bytes.
    pub(crate) fn front(&self, len: usize) -> &[u8] {
        self.bytes.get(self.head..self.head + len).unwrap_or_default()
    }

    /// True if the socket took the last of the oldest `len` unanswered bytes.
    pub(crate) fn front_was_sent(&self, len: usize) -> bool {
        self.head + len <= self.sent
    }

    /// The oldest `len` unanswered bytes are no longer needed.
    #[inline]
    pub(crate) fn drop_front(&mut self, len: usize) {
        self.head = self.bytes.len().min(self.head + len);
        self.sent = self.sent.max(self.head);
        if self.head == self.bytes.len() {
            self.head = 0;
            self.sent = 0;
            if self.bytes.capacity() > KEEP_BUFFER {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
        } else if self.head >= KEEP_BUFFER / 2 {
            self.compact();
        }
    }

    /// Each byte moves at most once for every byte that was answered: constant cost a command.
    #[cold]
    fn compact(&mut self) {
        if self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.sent -= self.head;
            self.head = 0;
        }
    }

    /// What was sent is no longer needed; returns how many bytes that were.
    pub(crate) fn forget_sent(&mut self) -> usize {
        let sent = self.sent - self.head;
        self.drop_front(sent);
        sent
    }

    /// Unanswered bytes, sent or not.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_until_they_are_answered() {
        let mut journal = Journal::default();
        journal.tail().extend_from_slice(b"first");
        journal.tail().extend_from_slice(b"second");
        journal.advance(7);
        assert_eq!(journal.unsent(), b"cond");
        assert!(journal.front_was_sent(5));
        assert_eq!(journal.front(5), b"first");
        journal.drop_front(5);
        assert_eq!(journal.front(6), b"second");
        assert!(!journal.front_was_sent(6), "its last byte is still here");
        journal.drop_front(6);
        assert_eq!(journal.len(), 0);
        assert_eq!(journal.unsent(), b"");
    }

    #[test]
    fn a_journal_that_never_runs_empty_stays_small() {
        let mut journal = Journal::default();
        journal.tail().extend_from_slice(&[0; 100]);
        for _ in 0..100_000 {
            journal.tail().extend_from_slice(&[1; 100]);
            journal.advance(100);
            journal.drop_front(100);
            assert_eq!(journal.len(), 100);
        }
        assert!(journal.bytes.capacity() <= 2 * KEEP_BUFFER);
    }
}
