//! A node as a test plays it.

use std::cell::RefCell;
use std::rc::Rc;

use super::command;
use super::world::{Behaviour, Link, World};

/// A node of the cluster. What it says goes over the connection on which the test last expected something.
pub(crate) struct Node {
    world: Rc<RefCell<World>>,
    address: String,
}

impl Node {
    pub(super) fn new(world: &Rc<RefCell<World>>, address: &str) -> Self {
        Self { world: Rc::clone(world), address: address.to_owned() }
    }

    /// The next command on one of this node's connections is this.
    #[track_caller]
    pub(crate) fn expect(&self, line: &str) {
        self.expect_all([line]);
    }

    /// The next commands on one of this node's connections are these, with nothing between them.
    #[track_caller]
    pub(crate) fn expect_all<const N: usize>(&self, lines: [&str; N]) {
        self.expect_bytes(lines.map(command).concat());
    }

    #[track_caller]
    pub(crate) fn expect_bytes(&self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut world = self.world.borrow_mut();
        let mut links: Vec<usize> = self.links(&world);
        // The connection of the last word goes on, if it does.
        links.sort_by_key(|index| Some(*index) != world.speaker);
        let found = links.iter().copied().find(|index| world.links[*index].received.starts_with(expected));
        let Some(index) = found else {
            let unread: Vec<String> =
                links.iter().map(|index| world.links[*index].received.escape_ascii().to_string()).collect();
            panic!(
                "{} got\n  {}\ninstead of\n  {}",
                self.address,
                unread.join("\n  "),
                expected.escape_ascii()
            );
        };
        world.links[index].received.drain(..expected.len());
        world.speaker = Some(index);
    }

    /// Takes the next command on this node's connections, whatever it is, as words.
    pub(crate) fn take_command(&self) -> Option<Vec<String>> {
        let mut world = self.world.borrow_mut();
        let links = self.links(&world);
        links.into_iter().find_map(|index| {
            let words = world.links[index].take_command()?;
            world.speaker = Some(index);
            Some(words)
        })
    }

    /// True if there is something that the test did not expect yet.
    pub(crate) fn got_something(&self) -> bool {
        let world = self.world.borrow();
        self.links(&world).into_iter().any(|index| !world.links[index].received.is_empty())
    }

    /// Sends bytes over the connection of the last word, or over the only one.
    #[track_caller]
    pub(crate) fn reply(&self, bytes: impl AsRef<[u8]>) {
        let mut world = self.world.borrow_mut();
        let index = self.speaker(&world);
        world.node_says(index, bytes.as_ref());
    }

    /// The same over this node's connection of that number, from 0, in the order in which they were opened.
    #[track_caller]
    pub(crate) fn reply_on(&self, number: usize, bytes: impl AsRef<[u8]>) {
        let mut world = self.world.borrow_mut();
        let mine = world.links.iter().enumerate().filter(|(_, link)| link.address == self.address);
        let index = mine.map(|(index, _)| index).nth(number).expect("so many connections");
        world.node_says(index, bytes.as_ref());
    }

    /// Sends bytes over the open connection that was opened as number `number`.
    #[track_caller]
    pub(crate) fn reply_to(&self, number: usize, bytes: impl AsRef<[u8]>) {
        let mut world = self.world.borrow_mut();
        let index = self.links(&world)[number];
        world.node_says(index, bytes.as_ref());
    }

    /// Takes one command and answers it.
    #[track_caller]
    pub(crate) fn serve(&self, line: &str, reply: impl AsRef<[u8]>) {
        self.expect(line);
        self.reply(reply);
    }

    /// Loses all connections.
    pub(crate) fn close(&self) {
        let mut world = self.world.borrow_mut();
        for index in self.links(&world) {
            world.lose(index, "connection reset by peer");
        }
    }

    /// Loses the open connection that was opened as number `number`.
    #[track_caller]
    pub(crate) fn close_one(&self, number: usize) {
        let mut world = self.world.borrow_mut();
        let index = self.links(&world)[number];
        world.lose(index, "connection reset by peer");
    }

    /// What happens to the next connections.
    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.world.borrow_mut().behaviours.insert(self.address.clone(), behaviour);
    }

    /// The open connection's socket takes no more than `room` bytes from now on.
    #[track_caller]
    pub(crate) fn take_only(&self, room: usize) {
        let mut world = self.world.borrow_mut();
        let index = self.speaker(&world);
        world.links[index].room = room;
        world.pump();
    }

    /// The commands of the newest connection's handshake.
    #[track_caller]
    pub(crate) fn handshake(&self) -> Vec<String> {
        let world = self.world.borrow();
        let newest = world.links.iter().rfind(|link| link.address == self.address);
        newest.expect("a connection").greeting.clone()
    }

    /// True while the proxy does not read from one of the connections.
    pub(crate) fn is_paused(&self) -> bool {
        let world = self.world.borrow();
        self.links(&world).into_iter().any(|index| world.links[index].paused)
    }

    /// How often the proxy dialled this node.
    pub(crate) fn dialled(&self) -> usize {
        self.world.borrow().links.iter().filter(|link| link.address == self.address).count()
    }

    #[track_caller]
    fn speaker(&self, world: &World) -> usize {
        let links = self.links(world);
        let only = || (links.len() == 1).then(|| links[0]);
        let speaker = world.speaker.filter(|index| links.contains(index)).or_else(only);
        speaker.expect("one connection, or one that was heard last")
    }

    fn links(&self, world: &World) -> Vec<usize> {
        let is_mine = |link: &Link| link.open && link.address == self.address;
        world.links.iter().enumerate().filter(|(_, link)| is_mine(link)).map(|(index, _)| index).collect()
    }
}
