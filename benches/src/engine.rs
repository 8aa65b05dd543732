//! The engine of one core without sockets: clients that repeat themselves, and masters that answer from memory.
//!
//! Must not know: what is counted about it. The `engine` bench counts time, [`instructions`](crate::instructions)
//! counts instructions.
//!
//! ```text
//!  round:  send      each ready client's bytes -> engine -> journals
//!          deliver   journals -> replies of known length -> engine -> clients' output
//! ```
//!
//! All requests of a rig have one length, and so have the parts that the engine makes of them. A master knows from
//! the number of bytes how many commands came, so next to the engine it costs nothing.

use std::{fmt, net::Ipv4Addr, time::Duration};

use tsubaki_core::{
    BackendId, ClientId, Worker,
    action::Action,
    settings::Settings,
    time::Time,
    topology::{Shard, Topology},
};
use tsubaki_protocol::{
    resp::write,
    slot::{SLOTS, Slot},
};

use crate::load::redis_benchmark::{KEYS, VALUE_BYTES};

/// Keys of one MGET.
const MGET_KEYS: usize = 10;

/// Masters behind the engine; each serves an equal part of the slots.
const MASTERS: usize = 3;

/// Bytes that the program reads from a socket at once: longer answers come in several pieces.
const READ: usize = 64 * 1024;

/// Time between two rounds.
const ROUND: Duration = Duration::from_micros(100);

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// One key, answered with 64 bytes.
    Get,
    /// One key and 64 bytes.
    Set,
    /// Ten keys of ten slots, which becomes ten commands to the masters.
    Mget,
}

/// Who sends what in one round.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// The request that all send.
    pub request: Request,
    /// Connected clients.
    pub clients: usize,
    /// How many of them, each in turn, send in a round: what one turn of the event loop finds ready.
    pub ready: usize,
    /// Requests that a client sends at once.
    pub pipeline: usize,
}

impl Traffic {
    /// All of `clients` send `pipeline` requests in every round.
    #[must_use]
    pub const fn of_all(request: Request, clients: usize, pipeline: usize) -> Self {
        Self { request, clients, ready: clients, pipeline }
    }

    /// Requests of one round.
    #[must_use]
    pub const fn requests(&self) -> usize {
        self.ready * self.pipeline
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = match self.request {
            Request::Get => "GET",
            Request::Set => "SET",
            Request::Mget => "MGET of 10",
        };
        write!(f, "{request}, {} of {} clients, pipeline {}", self.ready, self.clients, self.pipeline)
    }
}

/// An engine in its steady state, with clients and masters around it.
pub struct Rig {
    worker: Worker,
    traffic: Traffic,
    clients: Vec<ClientId>,
    /// What each client sends.
    requests: Vec<Vec<u8>>,
    /// The client that sends next.
    next: usize,
    now: Time,
    /// The length of one command as a master gets it.
    command_len: usize,
    /// The length of a master's reply to it.
    reply_len: usize,
    /// As many replies as one round may need.
    replies: Vec<u8>,
    /// Bytes that clients got.
    delivered: usize,
}

impl Rig {
    /// Connects clients and masters and runs a few rounds, so that every buffer has its size.
    #[must_use]
    pub fn new(traffic: Traffic) -> Self {
        let mut worker = Worker::new(Settings::default());
        let now = Time::new(Duration::from_secs(1));
        worker.handle_topology(&topology(now), now);
        let address = |client: usize| {
            (Ipv4Addr::new(192, 0, 2, (client % 250) as u8), 1024 + (client / 250) as u16).into()
        };
        let local = || (Ipv4Addr::new(192, 0, 2, 251), 6380).into();
        let clients = 0..traffic.clients;
        let accept = |client| worker.handle_client_accepted(address(client), local(), now);
        let ids = clients.clone().map(accept).collect();
        let requests = clients.map(|client| requests(&traffic, client * traffic.pipeline)).collect();
        let (command, reply) = exchange(traffic.request);
        let mut rig = Self {
            worker,
            traffic,
            clients: ids,
            requests,
            next: 0,
            now,
            command_len: command.len(),
            reply_len: reply.len(),
            replies: reply.repeat(traffic.requests() * commands(traffic.request)),
            delivered: 0,
        };
        // Each client at least twice: the first round waits for the masters' greetings.
        let rounds = 2 + 2 * traffic.clients.div_ceil(traffic.ready);
        (0..rounds).for_each(|_| rig.round());
        rig
    }

    /// The ready clients send, and get their replies.
    pub fn round(&mut self) {
        self.send();
        self.deliver();
    }

    /// The ready clients send: the engine routes their commands, and nothing leaves.
    pub fn send(&mut self) {
        self.now = self.now.after(ROUND);
        for _ in 0..self.traffic.ready {
            self.worker.handle_client_input(self.clients[self.next], &self.requests[self.next], self.now);
            self.next += 1;
            if self.next == self.clients.len() {
                self.next = 0;
            }
        }
    }

    /// Moves all bytes until none is left, as the turns of an event loop would.
    pub fn deliver(&mut self) {
        while self.turn() {}
    }

    /// Reply bytes that all clients together got so far.
    #[must_use]
    pub const fn delivered(&self) -> usize {
        self.delivered
    }

    /// One turn of the loop; false if there was nothing to do.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        if self.worker.poll_timeout().is_some_and(|due| due <= self.now) {
            self.worker.handle_timeout(self.now);
        }
        while let Some(action) = self.worker.poll_action() {
            if let Action::Connect { backend, .. } = action {
                self.worker.handle_backend_connected(backend, self.now);
            }
            busy = true;
        }
        while let Some(id) = self.worker.next_dirty_backend(self.now) {
            while self.answer(id) {}
            busy = true;
        }
        while let Some(id) = self.worker.next_dirty_client(self.now) {
            let len = self.worker.client_output(id).len();
            self.worker.client_sent(id, len);
            self.delivered += len;
            busy = true;
        }
        busy
    }

    /// A master takes what there is for it in one piece and answers. False if there is nothing.
    fn answer(&mut self, id: BackendId) -> bool {
        let output = self.worker.backend_output(id);
        if output.is_empty() {
            return false;
        }
        let len = output.len();
        let greets = output.ends_with(b"PING\r\n");
        self.worker.backend_sent(id, len);
        if greets {
            self.worker.handle_backend_input(id, b"+PONG\r\n", self.now);
            return true;
        }
        let answer = &self.replies[..len / self.command_len * self.reply_len];
        for piece in answer.chunks(READ) {
            self.worker.handle_backend_input(id, piece, self.now);
        }
        true
    }
}

/// The slots of the masters, in equal parts.
fn topology(fetched: Time) -> Topology {
    let first = |index| (index * SLOTS / MASTERS) as u16;
    let shard = |index| Shard {
        master: format!("192.0.2.252:{}", 7000 + index),
        replicas: Vec::new(),
        slots: vec![(first(index), first(index + 1) - 1)],
    };
    Topology { fetched, shards: (0..MASTERS).map(shard).collect(), redis_version: None }
}

/// A client's pipeline, with keys of its own.
fn requests(traffic: &Traffic, first: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for number in first..first + traffic.pipeline {
        match traffic.request {
            Request::Get => write::command(&mut out, [&b"GET"[..], &key(number)]),
            Request::Set => write::command(&mut out, [&b"SET"[..], &key(number), &VALUE]),
            Request::Mget => {
                let keys = keys_of_different_slots(number * MGET_KEYS);
                let mut words = vec![&b"MGET"[..]];
                words.extend(keys.iter().map(Vec::as_slice));
                write::command(&mut out, words);
            }
        }
    }
    out
}

/// What a master gets as one command, and what it answers.
fn exchange(request: Request) -> (Vec<u8>, Vec<u8>) {
    let (mut command, mut reply) = (Vec::new(), Vec::new());
    match request {
        Request::Get => {
            write::command(&mut command, [&b"GET"[..], &key(0)]);
            write::bulk(&mut reply, &VALUE);
        }
        Request::Set => {
            write::command(&mut command, [&b"SET"[..], &key(0), &VALUE]);
            write::simple(&mut reply, "OK");
        }
        Request::Mget => {
            write::command(&mut command, [&b"MGET"[..], &key(0)]);
            write::array_header(&mut reply, 1);
            write::bulk(&mut reply, &VALUE);
        }
    }
    (command, reply)
}

/// Commands that masters get for one request.
const fn commands(request: Request) -> usize {
    match request {
        Request::Get | Request::Set => 1,
        Request::Mget => MGET_KEYS,
    }
}

const VALUE: [u8; VALUE_BYTES as usize] = [b'x'; VALUE_BYTES as usize];

fn key(number: usize) -> Vec<u8> {
    format!("key:{:012}", number % KEYS as usize).into_bytes()
}

/// Keys from `first` on, without those whose slot is taken: two keys of a slot would travel in one command.
fn keys_of_different_slots(first: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for key in (first..).map(key) {
        if keys.iter().all(|other| Slot::of(other) != Slot::of(&key)) {
            keys.push(key);
        }
        if keys.len() == MGET_KEYS {
            break;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::{Request, Rig, Traffic};

    const VALUE: usize = "$64\r\n".len() + 64 + "\r\n".len();

    #[track_caller]
    fn delivers(traffic: Traffic, bytes: usize) {
        let mut rig = Rig::new(traffic);
        let before = rig.delivered();
        (0..10).for_each(|_| rig.round());
        assert_eq!(rig.delivered() - before, 10 * traffic.requests() * bytes, "{traffic}");
    }

    #[test]
    fn every_get_is_answered_with_a_value() {
        delivers(Traffic::of_all(Request::Get, 50, 1), VALUE);
        delivers(Traffic::of_all(Request::Get, 3, 100), VALUE);
    }

    #[test]
    fn every_set_is_answered_with_ok() {
        delivers(Traffic::of_all(Request::Set, 50, 10), "+OK\r\n".len());
    }

    #[test]
    fn every_mget_is_answered_with_ten_values() {
        delivers(Traffic::of_all(Request::Mget, 7, 3), "*10\r\n".len() + 10 * VALUE);
    }

    #[test]
    fn clients_send_in_turn() {
        delivers(Traffic { request: Request::Get, clients: 50, ready: 1, pipeline: 1 }, VALUE);
    }

    #[test]
    fn answers_longer_than_a_read_come_in_pieces() {
        delivers(Traffic::of_all(Request::Get, 1000, 5), VALUE);
    }
}
