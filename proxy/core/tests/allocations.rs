//! What a command costs in memory: in the steady state nothing is allocated for a GET or a SET, and a long request once.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

use tsubaki_core::action::{Action, Flow};
use tsubaki_core::settings::Settings;
use tsubaki_core::time::Time;
use tsubaki_core::topology::{Shard, Topology};
use tsubaki_core::{BackendId, ClientId, Worker};
use tsubaki_protocol::resp::write;
use tsubaki_protocol::slot::SLOTS;

/// Counts the allocations of each thread, and their bytes.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(size: usize) {
    ALLOCATIONS.with(|count| count.set(count.get() + 1));
    BYTES.with(|bytes| bytes.set(bytes.get() + size));
}

// SAFETY: everything is the system allocator's; counting touches a thread-local number without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `System.alloc` or `System.realloc` with this layout.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as for `dealloc`; the caller keeps the rest of the contract.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations during `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// The bytes that `work` allocates, those that a buffer had before it grew included.
fn allocated(work: impl FnOnce()) -> usize {
    let before = BYTES.with(Cell::get);
    work();
    BYTES.with(Cell::get) - before
}

const VALUE: &[u8] = &[b'x'; 64];

/// An engine with clients, and three masters that answer each flush at once.
struct Bench {
    worker: Worker,
    clients: Vec<ClientId>,
    now: Time,
    /// What each client sends in one round.
    requests: Vec<Vec<u8>>,
    /// What a node answers to one command.
    reply: Vec<u8>,
    answers: Vec<u8>,
    answered: usize,
}

impl Bench {
    fn new(clients: usize, pipeline: usize, sets: bool) -> Self {
        let mut worker = Worker::new(Settings::default());
        let now = Time::new(Duration::from_secs(1));
        worker.handle_topology(&topology(now), now);
        let address = (Ipv4Addr::LOCALHOST, 1).into();
        let clients: Vec<ClientId> =
            (0..clients).map(|_| worker.handle_client_accepted(address, address, now)).collect();
        let requests = (0..clients.len()).map(|client| requests(client * pipeline, pipeline, sets)).collect();
        let mut reply = Vec::new();
        if sets {
            write::simple(&mut reply, "OK")
        } else {
            write::bulk(&mut reply, VALUE)
        }
        Self { worker, clients, now, requests, reply, answers: Vec::new(), answered: 0 }
    }

    /// Every client sends its pipeline and gets its replies; returns how many commands ran.
    fn round(&mut self) -> usize {
        self.now = self.now.after(Duration::from_micros(100));
        for (client, request) in self.clients.iter().zip(&self.requests) {
            assert_eq!(self.worker.handle_client_input(*client, request, self.now), Flow::Read);
        }
        let before = self.answered;
        while self.step() {}
        self.answered - before
    }

    /// One turn of the loop. False if there was nothing to do.
    fn step(&mut self) -> bool {
        let mut busy = false;
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
            busy = true;
        }
        busy
    }

    fn answer(&mut self, id: BackendId) -> bool {
        let output = self.worker.backend_output(id);
        if output.is_empty() {
            return false;
        }
        let commands = output.iter().filter(|byte| **byte == b'*').count();
        let len = output.len();
        let is_greeting = output.ends_with(b"PING\r\n");
        self.worker.backend_sent(id, len);
        self.answers.clear();
        if is_greeting {
            self.answers.extend_from_slice(b"+PONG\r\n");
        } else {
            self.answered += commands;
            (0..commands).for_each(|_| self.answers.extend_from_slice(&self.reply));
        }
        self.worker.handle_backend_input(id, &self.answers, self.now);
        true
    }
}

fn topology(fetched: Time) -> Topology {
    let third = SLOTS as u16 / 3;
    let slots = [(0, third), (third + 1, 2 * third), (2 * third + 1, SLOTS as u16 - 1)];
    let shard = |(number, slots): (usize, (u16, u16))| Shard {
        master: format!("127.0.0.1:{}", 7000 + number),
        replicas: Vec::new(),
        slots: vec![slots],
    };
    Topology { fetched, shards: slots.into_iter().enumerate().map(shard).collect(), redis_version: None }
}

fn requests(first: usize, count: usize, sets: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for number in first..first + count {
        let key = format!("key:{number:012}");
        if sets {
            write::command(&mut out, [&b"SET"[..], key.as_bytes(), VALUE]);
        } else {
            write::command(&mut out, [&b"GET"[..], key.as_bytes()]);
        }
    }
    out
}

#[track_caller]
fn allocates_nothing(clients: usize, pipeline: usize, sets: bool) {
    let mut bench = Bench::new(clients, pipeline, sets);
    (0..20).for_each(|_| assert_eq!(bench.round(), clients * pipeline));
    let asked = allocations(|| (0..100).for_each(|_| assert_eq!(bench.round(), clients * pipeline)));
    assert_eq!(asked, 0, "allocations in {} commands", 100 * clients * pipeline);
}

#[test]
fn allocations_are_counted() {
    assert!(allocations(|| drop(vec![0_u8; 1000])) > 0);
}

#[test]
fn a_get_of_one_of_many_clients_allocates_nothing() {
    allocates_nothing(50, 1, false);
}

#[test]
fn a_set_of_one_of_many_clients_allocates_nothing() {
    allocates_nothing(50, 1, true);
}

#[test]
fn a_pipeline_of_gets_allocates_nothing() {
    allocates_nothing(50, 32, false);
}

#[test]
fn a_pipeline_of_sets_allocates_nothing() {
    allocates_nothing(50, 32, true);
}

#[test]
fn a_long_request_that_comes_in_pieces_takes_its_own_length_of_memory() {
    const LEN: usize = 512 * 1024;
    let mut bench = Bench::new(1, 1, true);
    bench.round();
    let mut request = Vec::new();
    write::command(&mut request, [&b"SET"[..], b"key", &[b'x'; LEN]]);
    let client = bench.clients[0];
    let bytes = allocated(|| {
        for piece in request.chunks(64 * 1024) {
            bench.worker.handle_client_input(client, piece, bench.now);
        }
        while bench.step() {}
    });
    // The node's answers here, and the first piece before the rest was known to come.
    assert!((LEN..LEN + LEN / 4).contains(&bytes), "{bytes} bytes for a request of {LEN}");
}

#[test]
fn a_length_that_is_only_announced_takes_sixteen_times_what_came_at_most() {
    let mut bench = Bench::new(1, 1, true);
    bench.round();
    // Its key comes behind the script, so it cannot stream.
    let mut request = b"*4\r\n$4\r\nEVAL\r\n$500000000\r\n".to_vec();
    request.resize(8 * 1024, b'x');
    let client = bench.clients[0];
    let bytes = allocated(|| {
        for piece in request.chunks(6 * 1024) {
            bench.worker.handle_client_input(client, piece, bench.now);
        }
    });
    assert!((request.len()..=18 * request.len()).contains(&bytes), "{bytes} bytes for {}", request.len());
}
