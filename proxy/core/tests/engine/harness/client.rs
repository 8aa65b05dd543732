//! A client as a test plays it.

use std::cell::RefCell;
use std::rc::Rc;

use super::world::{End, World};
use super::{command, commands};

pub(crate) struct Client {
    world: Rc<RefCell<World>>,
    index: usize,
}

impl Client {
    pub(super) fn connect(world: &Rc<RefCell<World>>) -> Self {
        let index = world.borrow_mut().accept();
        Self { world: Rc::clone(world), index }
    }

    /// Sends one command, its words parted by spaces.
    pub(crate) fn send(&self, line: &str) {
        self.send_bytes(command(line));
    }

    /// Sends several commands in one piece.
    pub(crate) fn send_all<const N: usize>(&self, lines: [&str; N]) {
        self.send_bytes(commands(lines));
    }

    pub(crate) fn send_bytes(&self, bytes: impl AsRef<[u8]>) {
        self.world.borrow_mut().send(self.index, bytes.as_ref());
    }

    /// All that came since the last look is exactly this.
    #[track_caller]
    pub(crate) fn expect(&self, expected: impl AsRef<[u8]>) {
        let received = self.received();
        let expected = expected.as_ref();
        assert!(
            received == expected,
            "the client got\n  {}\ninstead of\n  {}",
            shorten(&received),
            shorten(expected)
        );
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        self.expect("");
    }

    /// How often the worker asked for this client's output to be written, since the last look.
    pub(crate) fn writes(&self) -> usize {
        std::mem::take(&mut self.world.borrow_mut().ends[self.index].writes)
    }

    /// Takes all that came.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.end(|end| std::mem::take(&mut end.received))
    }

    /// Sends a command and takes all that comes back at once.
    pub(crate) fn ask(&self, line: &str) -> String {
        self.send(line);
        String::from_utf8_lossy(&self.received()).into_owned()
    }

    /// From now on the client's socket takes no more than `room` bytes.
    pub(crate) fn read_only(&self, room: usize) {
        self.end(|end| end.room = room);
        self.world.borrow_mut().pump();
    }

    /// The client hangs up.
    pub(crate) fn close(&self) {
        self.world.borrow_mut().hang_up(self.index);
    }

    /// The client says that it will send nothing more.
    pub(crate) fn finish(&self) {
        self.world.borrow_mut().finish(self.index);
    }

    /// True if the proxy closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.end(|end| end.closed)
    }

    /// True while the proxy does not read from the client.
    pub(crate) fn is_paused(&self) -> bool {
        self.end(|end| end.paused)
    }

    fn end<T>(&self, look: impl FnOnce(&mut End) -> T) -> T {
        look(&mut self.world.borrow_mut().ends[self.index])
    }
}

fn shorten(bytes: &[u8]) -> String {
    const SHOWN: usize = 3000;
    let dots = if bytes.len() > SHOWN { "…" } else { "" };
    format!("{}{dots}", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}
