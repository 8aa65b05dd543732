//! Memory: what a spike took is given back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::harness::{B, Behaviour, C, Cluster, bulk, command, ms};

/// Counts the bytes that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    HELD.with(|held| held.set(held.get() + bytes));
}

// SAFETY: everything is the system allocator's; counting touches a thread-local number without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: `place` came from `System.alloc` with this layout.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are held after `work` and were not before.
fn grown(work: impl FnOnce()) -> isize {
    let before = HELD.with(Cell::get);
    work();
    HELD.with(Cell::get) - before
}

const SPIKE: usize = 32 << 20;
/// What a worker keeps for the next busy moment: the pool of small buffers, and the harness' own few.
const KEPT: isize = 2 << 20;

#[track_caller]
fn is_given_back(grown: isize) {
    assert!(grown < KEPT, "{grown} bytes are kept");
}

#[test]
fn the_allocator_is_counted() {
    let mut held = Vec::new();
    assert!(grown(|| held = vec![0_u8; SPIKE]) >= SPIKE as isize);
    assert!(grown(|| held = Vec::new()) <= -(SPIKE as isize));
    assert!(held.is_empty());
}

#[test]
fn large_requests_and_replies_leave_no_buffer_behind() {
    let cluster = Cluster::with(|settings| settings.max_in_flight_bytes = 1 << 30);
    let client = cluster.client();
    is_given_back(grown(|| {
        let value = "v".repeat(SPIKE);
        let set = command(&format!("SET b {value}"));
        set.chunks(1 << 20).for_each(|piece| client.send_bytes(piece));
        cluster.node(B).serve("EXISTS b", ":0\r\n");
        cluster.node(B).expect_bytes(set);
        cluster.node(B).reply("+OK\r\n");
        client.expect("+OK\r\n");
        client.send("GET b");
        cluster.node(B).expect("GET b");
        bulk(&value).as_bytes().chunks(1 << 20).for_each(|piece| cluster.node(B).reply(piece));
        client.expect(bulk(&value));
        cluster.shrink();
    }));
}

#[test]
fn a_long_pipeline_that_is_read_late_leaves_no_buffer_behind() {
    let cluster = Cluster::new();
    let client = cluster.client();
    is_given_back(grown(|| {
        client.read_only(0);
        let value = bulk(&"v".repeat(1_000_000));
        for _ in 0..35 {
            client.send_bytes(command("GET b").repeat(1000));
            cluster.node(B).expect_bytes(command("GET b").repeat(1000));
            cluster.node(B).reply("$-1\r\n".repeat(999));
            cluster.node(B).reply(&value);
        }
        client.read_only(usize::MAX);
        assert!(client.received().len() > SPIKE);
        cluster.shrink();
    }));
}

#[test]
fn replies_that_waited_for_their_turn_leave_no_buffer_behind() {
    let cluster = Cluster::new();
    let client = cluster.client();
    is_given_back(grown(|| {
        client.send("GET b");
        client.send_bytes(command("GET c").repeat(1000));
        cluster.node(C).expect_bytes(command("GET c").repeat(1000));
        let value = bulk(&"v".repeat(20_000));
        (0..1000).for_each(|_| cluster.node(C).reply(&value));
        cluster.node(B).serve("GET b", "$-1\r\n");
        client.expect(format!("$-1\r\n{}", value.repeat(1000)));
        cluster.shrink();
    }));
}

#[test]
fn a_large_split_command_leaves_no_buffer_behind() {
    let cluster = Cluster::with(|settings| settings.max_in_flight_bytes = 1 << 30);
    let client = cluster.client();
    is_given_back(grown(|| {
        let value = "v".repeat(SPIKE / 4);
        client.send(&format!("MSET b {value} c {value}"));
        cluster.node(B).serve(&format!("MSET b {value}"), "+OK\r\n");
        cluster.node(C).serve(&format!("MSET c {value}"), "+OK\r\n");
        client.expect("+OK\r\n");
        client.send(&format!("DEL b c{}", " b c".repeat(500_000)));
        cluster.node(B).serve(&format!("DEL b{}", " b".repeat(500_000)), ":1\r\n");
        cluster.node(C).serve(&format!("DEL c{}", " c".repeat(500_000)), ":1\r\n");
        client.expect(":2\r\n");
        cluster.shrink();
    }));
}

#[test]
fn commands_that_waited_leave_no_buffer_behind() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    is_given_back(grown(|| {
        let set = format!("SET b {}", "v".repeat(1 << 20));
        client.send_bytes(command(&set).repeat(15));
        cluster.advance(ms(2000));
        client.received();
        cluster.node(B).behave(Behaviour::Greets);
        cluster.advance(ms(2000));
        client.send("GET b");
        cluster.node(B).serve("GET b", "$-1\r\n");
        client.expect("$-1\r\n");
        cluster.shrink();
    }));
}

#[test]
fn a_client_that_leaves_takes_its_memory_along() {
    let cluster = Cluster::new();
    is_given_back(grown(|| {
        let client = cluster.client();
        client.read_only(0);
        client.send_bytes(command("GET b").repeat(40));
        cluster.node(B).expect_bytes(command("GET b").repeat(40));
        let value = bulk(&"v".repeat(1 << 20));
        (0..39).for_each(|_| cluster.node(B).reply(&value));
        client.send_bytes(&command(&format!("SET b {}", "v".repeat(8 << 20)))[..4 << 20]);
        client.close();
        cluster.node(B).reply("$-1\r\n");
        cluster.shrink();
    }));
}
