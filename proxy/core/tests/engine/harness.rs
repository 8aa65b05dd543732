//! One worker between clients and nodes that a test plays by hand, under a clock that the test moves.
//!
//! Nodes accept connections and answer the handshake by themselves until a test says otherwise. When a [`Cluster`]
//! is dropped, every command at a node and every reply at a client must have been expected by a line of the test.
//!
//! ```text
//!   Client  --send-->  Worker  --expect-->  Node
//!           <-expect-          <--reply---
//! ```

mod client;
pub(crate) mod large;
mod node;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::panicking;
use std::time::Duration;

use tsubaki_core::action::{Event, RefreshReason};
use tsubaki_core::settings::{ReadPolicy, Settings};
use tsubaki_core::stats::Stats;
use tsubaki_core::time::Time;
use tsubaki_core::topology::{Shard, Topology};
use tsubaki_protocol::resp::write;

pub(crate) use self::client::Client;
pub(crate) use self::node::Node;
pub(crate) use self::world::Behaviour;
use self::world::World;

/// The masters; each serves the slots of the keys that begin with its letter and are named in [`KEYS`].
pub(crate) const B: &str = "b:7000";
pub(crate) const C: &str = "c:7000";
pub(crate) const D: &str = "d:7000";

/// The replicas of B.
pub(crate) const B1: &str = "b1:7000";
pub(crate) const B2: &str = "b2:7000";

/// Keys of one slot each, by master; `b` is of slot 3300, `c` of 7365, `d` of 11298.
pub(crate) const KEYS: [(&str, [&str; 4]); 3] =
    [(B, ["b", "b1", "b5", "b9"]), (C, ["c", "c3", "c4", "c7"]), (D, ["d", "d4", "d8", "d13"])];

/// A worker, its clients, its nodes and its clock.
pub(crate) struct Cluster {
    world: Rc<RefCell<World>>,
}

impl Cluster {
    /// Three masters with two replicas each; reads go to the masters.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same under other settings.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let cluster = Self::unknown(change);
        cluster.learn(shards());
        cluster
    }

    /// Reads go by `policy`.
    pub(crate) fn reading(policy: ReadPolicy) -> Self {
        Self::with(|settings| settings.read_policy = policy)
    }

    /// A worker that has not heard of any node yet.
    pub(crate) fn unknown(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self { world: Rc::new(RefCell::new(World::new(settings))) }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.world)
    }

    pub(crate) fn node(&self, address: &str) -> Node {
        Node::new(&self.world, address)
    }

    /// The worker gets a view that was fetched just now.
    pub(crate) fn learn(&self, shards: Vec<Shard>) {
        let fetched = self.world.borrow().now;
        self.learn_topology(Topology { fetched, shards, redis_version: Some("7.0.15".to_owned()) });
    }

    pub(crate) fn learn_topology(&self, topology: Topology) {
        self.world.borrow_mut().learn(&topology);
    }

    /// Time passes; what falls due on the way is done in its moment.
    pub(crate) fn advance(&self, duration: Duration) {
        self.world.borrow_mut().advance(duration);
    }

    pub(crate) fn now(&self) -> Time {
        self.world.borrow().now
    }

    pub(crate) fn stop(&self) {
        self.world.borrow_mut().stop();
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.world.borrow().worker.is_drained()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.world.borrow().worker.stats()
    }

    /// What was asked of the topology's refresher since the last look.
    pub(crate) fn refreshes(&self) -> Vec<(RefreshReason, Option<String>)> {
        std::mem::take(&mut self.world.borrow_mut().refreshes)
    }

    /// What was reported since the last look.
    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.world.borrow_mut().events)
    }

    /// What the process' other workers have to add to INFO and CLIENT LIST.
    pub(crate) fn set_other_workers(&self, stats: Stats, clients: &str) {
        let mut world = self.world.borrow_mut();
        world.elsewhere.stats = stats;
        clients.clone_into(&mut world.elsewhere.clients);
    }

    /// From now on the other workers take their time, until [`Self::finish_gathering`].
    pub(crate) fn delay_gathering(&self) {
        self.world.borrow_mut().gathers_wait = true;
    }

    pub(crate) fn finish_gathering(&self) {
        self.world.borrow_mut().finish_gathering();
    }

    /// The addresses of the open node connections, in the order in which they were opened.
    pub(crate) fn connections(&self) -> Vec<String> {
        let world = self.world.borrow();
        world.links.iter().filter(|link| link.open).map(|link| link.address.clone()).collect()
    }

    /// Bytes that the worker holds for sockets that have not taken them.
    pub(crate) fn held(&self) -> usize {
        let world = self.world.borrow();
        let of_clients = world.ends.iter().map(|end| world.worker.client_output(end.id).len());
        of_clients.chain(world.links.iter().map(|link| world.worker.backend_output(link.id).len())).sum()
    }

    /// Gives back the memory that the played ends grew to.
    pub(crate) fn shrink(&self) {
        let mut world = self.world.borrow_mut();
        world.links.iter_mut().for_each(|link| link.received.shrink_to_fit());
        world.ends.iter_mut().for_each(|end| end.received.shrink_to_fit());
    }

    /// No node has a command that the test did not expect yet.
    #[track_caller]
    pub(crate) fn expect_nothing_sent(&self) {
        for link in &self.world.borrow().links {
            let received = link.received.escape_ascii();
            assert!(link.received.is_empty(), "{} got what it should not have: {received}", link.address);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if panicking() {
            return;
        }
        self.expect_nothing_sent();
        for end in &self.world.borrow().ends {
            assert!(end.received.is_empty(), "a client got more: {}", end.received.escape_ascii());
        }
    }
}

/// B, C and D in equal parts, each with two replicas.
pub(crate) fn shards() -> Vec<Shard> {
    [("b", 0, 5460), ("c", 5461, 10922), ("d", 10923, 16383)]
        .map(|(name, first, last)| Shard {
            master: format!("{name}:7000"),
            replicas: vec![format!("{name}1:7000"), format!("{name}2:7000")],
            slots: vec![(first, last)],
        })
        .to_vec()
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A command as an array of bulks; `''` in the line is an empty word.
pub(crate) fn command(line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> =
        line.split(' ').map(|word| if word == "''" { b"".as_slice() } else { word.as_bytes() }).collect();
    let mut bytes = Vec::new();
    write::command(&mut bytes, words.iter().copied());
    bytes
}

pub(crate) fn commands<const N: usize>(lines: [&str; N]) -> Vec<u8> {
    lines.map(command).concat()
}

/// A bulk reply.
pub(crate) fn bulk(body: &str) -> String {
    format!("${}\r\n{body}\r\n", body.len())
}
