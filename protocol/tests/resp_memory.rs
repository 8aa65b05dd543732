//! What the scanners allocate: nothing in the steady state, and never by a number that the peer sent.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tsubaki_protocol::resp::reply::{ReplyScan, ReplyScanner, elements};
use tsubaki_protocol::resp::request::{RequestLimits, RequestScan, RequestScanner};
use tsubaki_protocol::resp::write;

/// Counts the bytes that each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ASKED.with(|asked| asked.set(asked.get() + bytes));
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

/// The bytes that `work` asks the allocator for.
fn asked(work: impl FnOnce()) -> usize {
    let before = ASKED.with(Cell::get);
    work();
    ASKED.with(Cell::get) - before
}

fn set() -> Vec<u8> {
    let mut frame = Vec::new();
    write::command(&mut frame, [&b"SET"[..], b"key:000000000001", &[b'x'; 64]]);
    frame
}

#[test]
fn the_allocator_is_counted() {
    assert!(asked(|| drop(vec![0_u8; 1000])) >= 1000);
}

#[test]
fn a_request_in_the_steady_state_allocates_nothing() {
    let frame = set();
    let mut scanner = RequestScanner::new();
    let scan = |scanner: &mut RequestScanner| {
        assert_eq!(
            scanner.scan(&frame, &RequestLimits::default()),
            Ok(RequestScan::Array { len: frame.len() })
        );
    };
    scan(&mut scanner);
    assert_eq!(asked(|| (0..100).for_each(|_| scan(&mut scanner))), 0);
}

#[test]
fn a_reply_in_the_steady_state_allocates_nothing() {
    let mut scanner = ReplyScanner::new();
    let mut scan = |frame: &[u8]| assert!(matches!(scanner.scan(frame), Ok(ReplyScan::Complete(_))));
    let flat: [&[u8]; 4] = [b"$3\r\nabc\r\n", b"+OK\r\n", b":1\r\n", b"$-1\r\n"];
    assert_eq!(asked(|| flat.into_iter().for_each(&mut scan)), 0, "the first time");
    let nested = b"*2\r\n*1\r\n$1\r\na\r\n%1\r\n+k\r\n:1\r\n";
    scan(nested);
    assert_eq!(asked(|| (0..100).for_each(|_| scan(nested))), 0);
    assert_eq!(asked(|| assert_eq!(elements(b"*2\r\n$1\r\na\r\n$-1\r\n").unwrap().count(), 2)), 0);
}

#[test]
fn a_huge_count_allocates_nothing() {
    let limits = RequestLimits::default();
    for header in ["*2000000000\r\n", "*2147483647\r\n$", "*1\r\n$536870912\r\n"] {
        let scan =
            || assert_eq!(RequestScanner::new().scan(header.as_bytes(), &limits), Ok(RequestScan::Partial));
        assert_eq!(asked(scan), 0, "{header:?}");
    }
    for header in
        ["*2147483647\r\n", "%2147483647\r\n", "|2147483647\r\n", "$1073741824\r\n", "~1\r\n>2000000000\r\n"]
    {
        let scan = || assert_eq!(ReplyScanner::new().scan(header.as_bytes()), Ok(ReplyScan::Partial));
        assert!(asked(scan) < 200, "{header:?}");
    }
}

#[test]
fn memory_follows_what_really_came() {
    let frame = [&b"*2000000000\r\n"[..], &b"$0\r\n\r\n".repeat(10_000)].concat();
    let mut scanner = RequestScanner::new();
    let bytes =
        asked(|| assert_eq!(scanner.scan(&frame, &RequestLimits::default()), Ok(RequestScan::Partial)));
    assert!(bytes < 5 * frame.len(), "{bytes} bytes for {}", frame.len());

    let nested = b"*1\r\n".repeat(40_000);
    assert!(asked(|| assert!(ReplyScanner::new().scan(&nested).is_err())) < 10_000);
    assert_eq!(asked(|| assert!(RequestScanner::new().scan(&nested, &RequestLimits::default()).is_err())), 0);
}
