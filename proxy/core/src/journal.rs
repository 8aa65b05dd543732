//! The bytes for one node connection, kept from the moment a command is accepted until its reply came.
//!
//! Kept, so that a command that was not executed (MOVED, a lost connection before its last byte) can be sent again
//! without a copy of every command that is. They lie in chunks, of which none is moved and only the last grows: many
//! small commands in one, a long one in its own. Must not know: what the bytes mean.
//!
//! ```text
//!   |  answered  |  sent, unanswered  |        |  sent  |  not yet sent  |        |  not yet sent  |
//!   0           head                           0       sent                       0
//!   first chunk                       (more)   the one that is being sent (more)  last
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::limits::KEEP_BUFFER;

#[derive(Debug)]
pub(crate) struct Journal {
    /// The most bytes that are put together.
    chunk: usize,
    /// The chunks before the last; none has only answered bytes.
    full: VecDeque<Vec<u8>>,
    last: Vec<u8>,
    /// Answered bytes of the first chunk.
    head: usize,
    /// Which chunk is being sent.
    sending: usize,
    /// The bytes of it that the socket took.
    sent: usize,
    /// The memory of a chunk that was answered, for the next.
    spare: Vec<u8>,
}

impl Journal {
    pub(crate) const fn new(chunk: usize) -> Self {
        Self {
            chunk,
            full: VecDeque::new(),
            last: Vec::new(),
            head: 0,
            sending: 0,
            sent: 0,
            spare: Vec::new(),
        }
    }

    /// Adds a command, or a piece of one that is never asked for again; returns its length. A long one that is given away is
    /// taken as it is.
    #[inline(always)]
    pub(crate) fn append(&mut self, command: &mut Cow<'_, [u8]>) -> usize {
        let bytes: &[u8] = command;
        let len = bytes.len();
        if self.last.len() + len <= self.chunk {
            self.last.extend_from_slice(bytes);
        } else {
            self.append_chunk(std::mem::take(command));
        }
        len
    }

    #[inline(never)]
    fn append_chunk(&mut self, bytes: Cow<'_, [u8]>) {
        let chunk = if bytes.len() > self.chunk {
            bytes.into_owned()
        } else {
            let mut chunk = std::mem::take(&mut self.spare);
            chunk.reserve_exact(self.chunk);
            chunk.extend_from_slice(&bytes);
            chunk
        };
        let before = std::mem::replace(&mut self.last, chunk);
        if before.is_empty() {
            self.keep(before);
        } else {
            self.full.push_back(before);
            self.send_next();
        }
    }

    /// What the socket should take next; there may be more behind it.
    #[inline]
    pub(crate) fn unsent(&self) -> &[u8] {
        self.sending_chunk().get(self.sent..).unwrap_or_default()
    }

    #[inline]
    fn sending_chunk(&self) -> &[u8] {
        if self.full.is_empty() { &self.last } else { self.full.get(self.sending).unwrap_or(&self.last) }
    }

    /// All bytes that the socket has not taken.
    pub(crate) fn unsent_len(&self) -> usize {
        let full: usize = self.full.iter().skip(self.sending).map(Vec::len).sum();
        full + self.last.len() - self.sent
    }

    /// The socket took `count` bytes of [`Self::unsent`].
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent = self.sending_chunk().len().min(self.sent + count);
        if !self.full.is_empty() {
            self.send_next();
        }
    }

    /// Goes on with the chunk behind one that was sent.
    #[inline(never)]
    fn send_next(&mut self) {
        if self.full.get(self.sending).is_some_and(|chunk| self.sent == chunk.len()) {
            self.sending += 1;
            self.sent = 0;
        }
    }

    /// The oldest `len` unanswered bytes, those of one command.
    pub(crate) fn front(&self, len: usize) -> &[u8] {
        let chunk = self.full.front().unwrap_or(&self.last);
        chunk.get(self.head..self.head + len).unwrap_or_default()
    }

    /// True if the socket took the last of the oldest `len` unanswered bytes.
    #[inline]
    pub(crate) fn front_was_sent(&self, len: usize) -> bool {
        self.head + len <= self.sent || (self.sending > 0 && len <= self.sent_len())
    }

    /// The bytes that were sent and are not answered.
    fn sent_len(&self) -> usize {
        self.full.iter().take(self.sending).map(Vec::len).sum::<usize>() + self.sent - self.head
    }

    /// The oldest `len` unanswered bytes are no longer needed.
    #[inline]
    pub(crate) fn drop_front(&mut self, len: usize) {
        self.head += len;
        if !self.full.is_empty() {
            self.drop_chunks();
        }
        if self.sending == 0 {
            self.sent = self.sent.max(self.head);
        }
        if self.full.is_empty() && self.head >= self.last.len() {
            self.head = 0;
            self.sent = 0;
            self.last.clear();
            if self.last.capacity() > KEEP_BUFFER {
                self.last = std::mem::take(&mut self.spare);
            }
        }
    }

    /// Lets go of the chunks that the head is beyond. What was streamed may lie in several.
    #[inline(never)]
    fn drop_chunks(&mut self) {
        while self.full.front().is_some_and(|first| self.head >= first.len())
            && let Some(chunk) = self.full.pop_front()
        {
            self.head -= chunk.len();
            match self.sending {
                0 => self.sent = 0,
                _ => self.sending -= 1,
            }
            self.keep(chunk);
        }
    }

    fn keep(&mut self, mut chunk: Vec<u8>) {
        if chunk.capacity() <= KEEP_BUFFER {
            chunk.clear();
            self.spare = chunk;
        }
    }

    /// What was sent is no longer needed; returns how many bytes that were.
    pub(crate) fn forget_sent(&mut self) -> usize {
        let sent = self.sent_len();
        self.drop_front(sent);
        sent
    }

    /// Unanswered bytes, sent or not.
    pub(crate) fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len() - self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CHUNK;

    #[test]
    fn bytes_stay_until_they_are_answered() {
        let mut journal = Journal::new(CHUNK);
        journal.append(&mut b"first".into());
        journal.append(&mut b"second".into());
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
    fn commands_of_all_lengths_leave_whole_and_in_order() {
        const LENGTHS: [usize; 6] = [20, 3_000, CHUNK - 20, CHUNK, CHUNK + 1, 3 * CHUNK];
        let mut journal = Journal::new(CHUNK);
        let mut commands = VecDeque::new();
        // Bytes of `commands` that were sent.
        let mut sent = 0;
        let mut random = 1_u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        for round in 0..5_000 {
            let command = vec![round as u8; LENGTHS[below(LENGTHS.len())]];
            let is_given = below(2) == 0;
            journal.append(&mut if is_given { command.clone().into() } else { (&command).into() });
            commands.push_back(command);
            for _ in 0..below(4) {
                let wanted: Vec<u8> = commands.iter().flatten().skip(sent).take(100).copied().collect();
                let unsent = journal.unsent();
                assert_eq!(unsent[..unsent.len().min(100)], wanted[..unsent.len().min(100)]);
                let taken = unsent.len().min(below(2 * CHUNK));
                journal.advance(taken);
                sent += taken;
            }
            // At times also commands that were not sent are taken back.
            while commands.len() > 8 || (below(3) > 0 && !commands.is_empty()) {
                let command: Vec<u8> = commands.pop_front().unwrap();
                assert_eq!(journal.front_was_sent(command.len()), command.len() <= sent);
                assert_eq!(journal.front(command.len()), command);
                journal.drop_front(command.len());
                sent = sent.saturating_sub(command.len());
            }
            let len: usize = commands.iter().map(Vec::len).sum();
            assert_eq!((journal.len(), journal.unsent_len()), (len, len - sent));
            assert_eq!(journal.unsent().is_empty(), sent == len);
        }
    }

    #[test]
    fn what_was_sent_can_be_forgotten() {
        let mut journal = Journal::new(CHUNK);
        for _ in 0..5 {
            journal.append(&mut vec![0; CHUNK - 10].into());
        }
        journal.advance(CHUNK - 10);
        journal.advance(100);
        assert_eq!(journal.forget_sent(), CHUNK + 90);
        assert_eq!(journal.len(), journal.unsent_len());
        assert_eq!(journal.forget_sent(), 0);
    }

    #[test]
    fn what_came_piece_by_piece_was_sent_with_its_last_byte() {
        let mut journal = Journal::new(CHUNK);
        for _ in 0..3 {
            journal.append(&mut vec![0; CHUNK - 10].into());
        }
        let len = 3 * (CHUNK - 10);
        journal.advance(CHUNK - 10);
        journal.advance(CHUNK - 10);
        journal.advance(CHUNK - 11);
        assert!(!journal.front_was_sent(len));
        journal.advance(1);
        assert!(journal.front_was_sent(len));
        journal.drop_front(len);
        assert_eq!((journal.len(), journal.unsent_len()), (0, 0));
    }

    #[test]
    fn a_journal_that_never_runs_empty_stays_small() {
        let mut journal = Journal::new(CHUNK);
        journal.append(&mut vec![0; 100].into());
        for _ in 0..100_000 {
            journal.append(&mut (&[1; 100]).into());
            journal.advance(100);
            journal.drop_front(100);
            assert_eq!(journal.len(), 100);
        }
        let held: usize = journal.full.iter().chain([&journal.last, &journal.spare]).map(Vec::capacity).sum();
        assert!(held <= 4 * CHUNK);
    }

    #[test]
    fn a_long_command_leaves_no_memory_behind() {
        let mut journal = Journal::new(CHUNK);
        journal.append(&mut b"short".into());
        journal.append(&mut vec![0; 10 * CHUNK].into());
        journal.drop_front(5);
        journal.drop_front(10 * CHUNK);
        let held: usize = journal.full.iter().chain([&journal.last, &journal.spare]).map(Vec::capacity).sum();
        assert!(held <= CHUNK);
    }
}
