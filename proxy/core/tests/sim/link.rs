//! One connection between the engine and a fake node: bytes in both directions that take their time, and may never come.

use std::collections::VecDeque;

use tsubaki_core::BackendId;

use crate::node::Session;

/// Bytes on their way in one direction, in order.
#[derive(Default)]
pub(crate) struct Pipe {
    /// When the last of them comes.
    last: u64,
    in_flight: usize,
    /// Of those in flight, how many still come; the connection is cut behind them.
    left: Option<usize>,
    /// What a black hole keeps back.
    pub(crate) kept: Vec<Vec<u8>>,
}

impl Pipe {
    /// A piece goes in; returns when it comes out: never before those in front of it.
    pub(crate) fn send(&mut self, len: usize, at: u64) -> u64 {
        self.in_flight += len;
        self.last = self.last.max(at);
        self.last
    }

    /// A piece comes out. Returns how many of its bytes do.
    pub(crate) fn receive(&mut self, len: usize) -> usize {
        self.in_flight -= len;
        let Some(left) = &mut self.left else { return len };
        let received = len.min(*left);
        *left -= received;
        received
    }

    /// Cuts behind the first `left` bytes in flight.
    pub(crate) fn cut(&mut self, left: usize) {
        let in_flight = self.in_flight;
        self.left.get_or_insert_with(|| left.min(in_flight));
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// True if nothing more will come.
    pub(crate) fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.left.is_some()
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

/// Bytes of `<` and a number, at the most.
const LONGEST_TOKEN: usize = 10;

pub(crate) struct Link {
    pub(crate) backend: BackendId,
    pub(crate) node: usize,
    /// The engine's side has a socket.
    pub(crate) open: bool,
    /// The engine's side is closed, or was never opened.
    pub(crate) closed: bool,
    /// The node's side is closed, or was never opened.
    pub(crate) node_closed: bool,
    /// The engine does not want to read it.
    pub(crate) paused: bool,
    /// Arrived, not read by the engine.
    pub(crate) kept: VecDeque<Vec<u8>>,
    /// Nothing gets through, and nobody is told.
    pub(crate) black: bool,
    /// For ever.
    pub(crate) lost: bool,
    pub(crate) session: Session,
    /// The last bytes that the engine's socket took.
    tail: Vec<u8>,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// Bytes that the engine's socket and the node's take together before they must be read.
    pub(crate) capacity: usize,
    /// Bytes that arrived since the node last read.
    pub(crate) unread: usize,
    /// Bytes written by the node, and of these received by the engine.
    pub(crate) written: usize,
    pub(crate) received: usize,
    /// MOVEDs on their way: where each ends, its tag and its target.
    pub(crate) moved: VecDeque<(usize, usize, usize)>,
}

impl Link {
    pub(crate) fn new(backend: BackendId, node: usize, capacity: usize) -> Self {
        Self {
            backend,
            node,
            open: false,
            closed: false,
            node_closed: true,
            paused: false,
            kept: VecDeque::new(),
            black: false,
            lost: false,
            session: Session::default(),
            tail: Vec::new(),
            up: Pipe::default(),
            down: Pipe::default(),
            capacity,
            unread: 0,
            written: 0,
            received: 0,
            moved: VecDeque::new(),
        }
    }

    /// The engine's socket takes `bytes`; they come back behind the last that it took before, in which a token may begin.
    pub(crate) fn taken(&mut self, bytes: &[u8]) -> Vec<u8> {
        let all = [&self.tail, bytes].concat();
        self.tail = all[all.len().saturating_sub(LONGEST_TOKEN)..].to_vec();
        all
    }

    /// How many bytes the engine's socket takes now.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.up.in_flight() + self.unread)
    }
}
