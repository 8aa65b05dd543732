//! Reusable byte buffers: output that a socket has not taken yet, and the pool that idle owners give theirs back to.
//!
//! Must not know: whose bytes they are.

use crate::limits::KEEP_BUFFER;

/// Bytes on their way to a socket.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Where new bytes go: append to it, never shorten it.
    pub(crate) fn tail(&mut self, pool: &mut Pool) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0
            && let Some(bytes) = pool.free.pop()
        {
            self.bytes = bytes;
        }
        &mut self.bytes
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The socket took `count` bytes of [`Self::unsent`].
    pub(crate) fn advance(&mut self, count: usize, pool: &mut Pool) {
        self.sent = self.bytes.len().min(self.sent + count);
        if self.sent == self.bytes.len() {
            pool.give(std::mem::take(&mut self.bytes));
            self.sent = 0;
        } else if self.sent >= KEEP_BUFFER && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Empty buffers for whoever needs one next; owners that are idle hold none.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// Buffers kept: as many as a turn of the event loop has busy clients (an epoll batch of tokio is 1024 events).
    const KEEP: usize = 1024;

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && buffer.capacity() <= KEEP_BUFFER && self.free.len() < Self::KEEP {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_leaves_in_order_whatever_the_socket_takes() {
        let mut pool = Pool::default();
        let mut output = Output::default();
        let (mut expected, mut seen) = (Vec::new(), Vec::new());
        for round in 0..3000_usize {
            let bytes = vec![round as u8; round % 700];
            expected.extend_from_slice(&bytes);
            output.tail(&mut pool).extend_from_slice(&bytes);
            let taken = output.unsent().len() * (round % 3) / 2;
            let taken = taken.min(output.len());
            seen.extend_from_slice(&output.unsent()[..taken]);
            output.advance(taken, &mut pool);
        }
        seen.extend_from_slice(output.unsent());
        output.advance(output.len(), &mut pool);
        assert!(output.is_empty());
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_idle_owner_holds_no_buffer() {
        let mut pool = Pool::default();
        let mut output = Output::default();
        output.tail(&mut pool).extend_from_slice(b"+OK\r\n");
        output.advance(5, &mut pool);
        assert_eq!(output.bytes.capacity(), 0);
        assert!(pool.take().capacity() > 0);
    }
}
