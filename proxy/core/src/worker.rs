//! All state of one core, and the ways in and out of it.
//!
//! The files below it are the stations of a command: `input` (client bytes become commands), `command` (what becomes of
//! each), `send` (its way to a node), `reply` (what the node said), `holding` (what waits), `upload` and `download` (large
//! values), `spare` (their connections), `cluster` (nodes, connections, the map), `timeout`. Must not know: sockets, clocks; see the crate's documentation for the contract.

mod cluster;
mod command;
mod download;
mod holding;
mod input;
mod reply;
mod send;
mod spare;
#[cfg(feature = "faults")]
mod spoil;
mod timeout;
mod upload;

use std::collections::VecDeque;
use std::net::SocketAddr;

use tsubaki_protocol::resp::request::RequestScanner;

use crate::action::{Action, Event, Flow, GatherId, Gathered, RefreshReason};
use crate::arena::{Arena, Id};
use crate::backend::Backend;
use crate::buffer::Pool;
use crate::client::{Client, Flush, Session};
use crate::fanout::{Fanout, Plan, Room};
use crate::fault;
use crate::hold::Hold;
use crate::limits;
use crate::local::{self, Wanted};
use crate::map::Map;
use crate::pace::Turn;
use crate::settings::Settings;
use crate::stats::Stats;
use crate::time::Time;
use crate::timer::{Due, Timers};
use crate::topology::Topology;
use crate::{BackendId, ClientId};

pub(crate) type HoldId = Id<Hold>;

/// The engine of one core.
pub struct Worker {
    settings: Settings,
    topology: Topology,
    map: Map,
    clients: Arena<Client>,
    backends: Arena<Backend>,
    holds: Arena<Hold>,
    fanouts: Arena<Fanout>,
    /// What INFO and CLIENT LIST commands wait to show.
    gathers: Arena<Wanted>,
    timers: Timers,
    actions: VecDeque<Action>,
    dirty_clients: Vec<ClientId>,
    /// Clients whose output waits for more, and how long.
    corked: VecDeque<(Time, ClientId)>,
    dirty_backends: Vec<BackendId>,
    /// Holds whose queue may move.
    stirred: VecDeque<HoldId>,
    /// Paused clients that may go on.
    resuming: Vec<ClientId>,
    /// Clients paused because all clients together have too much under way.
    starving: Vec<ClientId>,
    /// Request bytes at nodes or waiting, of all clients.
    pending_bytes: usize,
    /// Reply bytes that all clients together have not taken.
    unread_bytes: usize,
    /// When a refresh was last asked for, by reason.
    refreshes: [Option<Time>; RefreshReason::COUNT],
    accepted: u64,
    draining: bool,
    random: u64,
    pool: Pool,
    scratch: Scratch,
    stats: Stats,
    faults: fault::Switch,
}

/// Memory that one command needs for a moment, kept for the next.
#[derive(Default)]
struct Scratch {
    /// In a box, as those of clients are, so that taking it out for a run moves nothing.
    scanner: Option<Box<RequestScanner>>,
    /// Where the arguments of a command are its keys, and the slots of these.
    keys: Vec<u32>,
    slots: Vec<u16>,
    plan: Plan,
    /// Of fan-outs that are answered.
    rooms: Vec<Room>,
}

impl Scratch {
    /// Gives back what an unusually large command took.
    #[inline]
    fn shrink(&mut self) {
        if self.keys.capacity() > limits::KEEP_KEYS {
            self.keys = Vec::new();
            self.slots = Vec::new();
            self.plan = Plan::default();
        }
    }

    /// Keeps the memory of a fan-out for another.
    fn keep(&mut self, room: Room) {
        if self.rooms.len() < limits::KEEP_ROOMS && room.keys() <= limits::KEEP_ROOM {
            self.rooms.push(room);
        }
    }
}

impl Worker {
    /// An engine without clients that knows no cluster yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            random: settings.seed | 1,
            map: Map::new(settings.connections_per_node),
            settings,
            topology: Topology::default(),
            clients: Arena::new(),
            backends: Arena::new(),
            holds: Arena::new(),
            fanouts: Arena::new(),
            gathers: Arena::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            dirty_clients: Vec::new(),
            corked: VecDeque::new(),
            dirty_backends: Vec::new(),
            stirred: VecDeque::new(),
            resuming: Vec::new(),
            starving: Vec::new(),
            pending_bytes: 0,
            unread_bytes: 0,
            refreshes: [None; RefreshReason::COUNT],
            accepted: 0,
            draining: false,
            pool: Pool::default(),
            scratch: Scratch::default(),
            stats: Stats::default(),
            faults: fault::Switch::default(),
        }
    }

    /// A client connected from `address` to `local_address`.
    pub fn handle_client_accepted(
        &mut self,
        address: SocketAddr,
        local_address: SocketAddr,
        now: Time,
    ) -> ClientId {
        self.stats.accepted += 1;
        let identity = &self.settings.identity;
        let number = self.accepted * identity.workers as u64 + identity.worker as u64 + 1;
        self.accepted += 1;
        let authenticated = self.settings.client_password.is_none();
        self.clients.insert(Client::new(Session::new(number, address, local_address, authenticated, now)))
    }

    /// The caller turned a connection away because there were too many.
    pub fn handle_client_rejected(&mut self) {
        self.stats.rejected += 1;
    }

    /// Bytes came from a client. They need not be kept: what has to wait is copied.
    pub fn handle_client_input(&mut self, id: ClientId, bytes: &[u8], now: Time) -> Flow {
        self.stats.client_in_bytes += bytes.len() as u64;
        self.take_input(id, bytes, now);
        if self.draining {
            // The end of a request that was answered before it brings no reply that would.
            self.close_if_done(id);
        }
        self.settle(now);
        if self.is_read(id) { Flow::Read } else { Flow::Pause }
    }

    /// A client said that it will send nothing more. It gets what it is owed, then it is closed.
    pub fn handle_client_finished(&mut self, id: ClientId, now: Time) {
        if let Some(client) = self.clients.find_mut(id) {
            client.finished = true;
        }
        self.upload(id, &[], now);
        self.close_if_done(id);
        self.settle(now);
    }

    /// A client's socket is gone. Replies that it is still owed will be dropped.
    pub fn handle_client_closed(&mut self, id: ClientId, now: Time) {
        self.remove_client(id);
        self.settle(now);
    }

    /// The answer to [`Action::Gather`].
    pub fn handle_gathered(&mut self, id: GatherId, gathered: &Gathered, now: Time) {
        let Some(wanted) = self.gathers.remove(id.wanted) else { return };
        let mut reply = self.pool.take();
        if let Some(client) = self.clients.find(id.client) {
            let context = local::Context { settings: &self.settings, topology: &self.topology, now };
            wanted.write(&client.session, &context, gathered, &mut reply);
        }
        self.fill(id.client, id.seq, &reply);
        self.pool.give(reply);
        self.settle(now);
    }

    /// Begin to stop: clients are closed as soon as all that they sent is answered.
    pub fn handle_stop(&mut self, now: Time) {
        self.draining = true;
        for id in self.clients.ids() {
            self.close_if_done(id);
        }
        self.settle(now);
    }

    /// The next thing that the caller must do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call `handle_timeout` at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.stirred.is_empty() || !self.resuming.is_empty() {
            // Set free while sockets were written to.
            return Some(Time::default());
        }
        let uncork = self.corked.front().map(|(due, _)| *due);
        match (self.timers.next(), uncork) {
            (Some(timer), Some(uncork)) => Some(timer.min(uncork)),
            (timer, uncork) => timer.or(uncork),
        }
    }

    /// A node connection that has bytes for its socket; each is named once until it is flushed.
    pub fn next_dirty_backend(&mut self, now: Time) -> Option<BackendId> {
        while let Some(id) = self.dirty_backends.pop() {
            let Some(backend) = self.backends.find_mut(id) else { continue };
            backend.dirty = false;
            if !backend.is_ready() || backend.unflushed == 0 {
                return Some(id);
            }
            let count = backend.unflushed as usize;
            match backend.pace.turn(count, backend.tickets.len(), now) {
                Turn::Leave => {
                    self.stats.batch.record(count as u64);
                    backend.unflushed = 0;
                    return Some(id);
                }
                Turn::Wait(due) => {
                    self.stats.paced_batches += 1;
                    self.timers.add(due, Due::Batch(id));
                }
                Turn::Stay => {}
            }
        }
        None
    }

    /// The bytes that a node's socket should take next; there may be more behind them.
    #[must_use]
    pub fn backend_output(&self, id: BackendId) -> &[u8] {
        self.backends.find(id).map_or(&[], Backend::unsent)
    }

    /// A node's socket took `count` bytes of its output.
    pub fn backend_sent(&mut self, id: BackendId, count: usize) {
        self.stats.node_out_bytes += count as u64;
        if let Some(backend) = self.backends.find_mut(id) {
            backend.advance(count);
            if !backend.unsent().is_empty() || backend.upload.is_some() {
                self.still_sending(id, count);
            }
        }
    }

    /// A client that has bytes for its socket; each is named once until it is flushed.
    pub fn next_dirty_client(&mut self, now: Time) -> Option<ClientId> {
        while let Some(id) = self.dirty_clients.pop() {
            let Some(client) = self.clients.find_mut(id) else { continue };
            if client.expects_more() {
                let due = now.after(limits::CORK_TIME);
                client.flush = Flush::Corked(due);
                self.corked.push_back((due, id));
            } else {
                client.flush = Flush::Clean;
                return Some(id);
            }
        }
        None
    }

    /// The bytes that a client's socket should take next.
    #[must_use]
    pub fn client_output(&self, id: ClientId) -> &[u8] {
        self.clients.find(id).map_or(&[], |client| client.output.unsent())
    }

    /// A client's socket took `count` bytes of its output.
    pub fn client_sent(&mut self, id: ClientId, count: usize) {
        let Some(client) = self.clients.find_mut(id) else { return };
        client.output.advance(count, &mut self.pool);
        self.stats.client_out_bytes += count as u64;
        self.unread_bytes = self.unread_bytes.saturating_sub(count);
        let feeder = client.feeder.map(|feeder| (feeder, client.output.len()));
        if client.closing || client.finished || self.draining {
            self.close_if_done(id);
        }
        if let Some((feeder, unread)) = feeder {
            self.read_on(feeder, unread);
        }
    }

    /// The figures of this worker.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            clients: self.clients.len() as u64,
            backends: self.backends.len() as u64,
            ..self.stats.clone()
        }
    }

    /// One line for each client of this worker, as CLIENT LIST shows it.
    #[must_use]
    pub fn client_list(&self, now: Time) -> String {
        self.clients.iter().map(|(_, client)| local::client_line(&client.session, now)).collect()
    }

    /// True when a stopping worker has closed its last client.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.draining && self.clients.len() == 0
    }

    /// True if nothing is under way: no command at a node or waiting, no reply that a client has not been sent.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let waits = self.holds.len() + self.fanouts.len() + self.pending_bytes + self.unread_bytes;
        let queues = self.actions.len() + self.stirred.len() + self.resuming.len() + self.starving.len();
        let is_idle = |client: &Client| {
            client.pipeline.is_empty() && client.output.is_empty() && client.holds.is_empty()
        };
        waits + queues == 0
            && self.backends.iter().all(|(_, backend)| backend.is_idle() && backend.journal.len() == 0)
            && self.clients.iter().all(|(_, client)| is_idle(client) && client.pending_bytes == 0)
    }

    /// Does what became possible, until nothing moves.
    #[inline]
    fn settle(&mut self, now: Time) {
        if !self.stirred.is_empty() || !self.resuming.is_empty() {
            self.move_on(now);
        }
        #[cfg(debug_assertions)]
        self.check_invariants();
    }

    /// Sends what waited, runs what was paused.
    #[cold]
    fn move_on(&mut self, now: Time) {
        loop {
            if let Some(hold) = self.stirred.pop_front() {
                self.release(hold, now);
            } else if let Some(client) = self.resuming.pop() {
                self.resume(client, now);
            } else {
                break;
            }
        }
    }

    fn remove_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(id) else { return };
        self.unread_bytes = self.unread_bytes.saturating_sub(client.unread());
        for fanout in client.pipeline.fanouts() {
            self.fanouts.remove(fanout);
        }
        for (_, hold) in &client.holds {
            for held in self.holds.remove(*hold).map(|hold| hold.queue).unwrap_or_default() {
                self.no_longer_pending(held.ticket.len);
            }
        }
        if let Some(feeder) = client.feeder {
            self.resume_backend(feeder);
        }
        if let Some(upload) = client.upload
            && let Some(ticket) = self.recall(upload.stage)
        {
            self.no_longer_pending(ticket.len);
        }
    }

    fn close_client(&mut self, id: ClientId) {
        self.remove_client(id);
        self.actions.push_back(Action::CloseClient(id));
    }

    /// Closes a client that is to be closed, once all it is owed has left.
    fn close_if_done(&mut self, id: ClientId) {
        let Some(client) = self.clients.find(id) else { return };
        // Half a request says that the other half is on its way.
        let silent = client.finished || (self.draining && !client.is_mid_request());
        let may_close = client.closing || (silent && !client.paused);
        if may_close && client.pipeline.is_empty() && client.output.is_empty() {
            self.close_client(id);
        }
    }

    #[inline]
    fn no_longer_pending(&mut self, len: u32) {
        self.pending_bytes = self.pending_bytes.saturating_sub(len as usize);
        if self.pending_bytes <= limits::MAX_PENDING_BYTES / 2 && !self.starving.is_empty() {
            self.resuming.append(&mut self.starving);
        }
    }

    fn report(&mut self, event: Event) {
        self.actions.push_back(Action::Report(event));
    }

    /// Asks for a new view of the cluster. One that is asked for already will do.
    fn refresh(&mut self, reason: RefreshReason, hint: Option<String>, now: Time) {
        let asked = &mut self.refreshes[reason as usize];
        if asked.is_none_or(|asked| now.since(asked) >= limits::REFRESH_PAUSE) {
            *asked = Some(now);
            self.stats.refreshes += 1;
            self.actions.push_back(Action::Refresh { reason, hint });
        }
    }

    /// A number from 0 to 1 (xorshift64; seeded, so that a simulation repeats).
    fn jitter(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// What must hold between two calls, whatever clients and nodes do.
    #[cfg(debug_assertions)]
    fn check_invariants(&self) {
        for (_, hold) in self.holds.iter() {
            debug_assert!(hold.in_flight > 0 || !hold.queue.is_empty(), "a hold that holds nothing");
            debug_assert!(hold.in_flight > 0 || hold.wake.is_some(), "a hold that nothing will wake");
            debug_assert!(self.clients.find(hold.client).is_some(), "a hold outlived its client");
        }
        for (_, backend) in self.backends.iter() {
            let tickets = backend.tickets.iter().chain(backend.upload.as_deref());
            let bytes: usize = tickets.map(|ticket| ticket.len as usize).sum();
            debug_assert!(
                backend.upload.is_none() || backend.spare,
                "a shared connection carries half a request"
            );
            debug_assert!(
                !backend.paused || backend.download.is_some(),
                "a connection is not read for no reply"
            );
            debug_assert!(!backend.paused || backend.spare, "new commands wait for a slow reader");
            debug_assert_eq!(bytes, backend.journal.len(), "tickets and bytes of a connection differ");
        }
    }
}
