//! Is an own scanner worth having? It against redis-protocol's cheapest decoder, on the frames of the hot path.
//!
//! Both find the end of a frame and where its parts are; neither copies a body. The time is that of the whole
//! input; where that is a pipeline, the items a second tell the time of one frame.

use std::fmt;

use divan::{Bencher, black_box, counter::ItemsCount};
use redis_protocol::resp2::decode::decode_range;
use tsubaki_protocol::resp::{
    reply::{ReplyScan, ReplyScanner},
    request::{RequestLimits, RequestScan, RequestScanner},
    write,
};

const PIPELINE: usize = 32;

const REQUESTS: [Input; 4] = [
    Input { name: "GET", frame: get, frames: 1 },
    Input { name: "SET of 64 bytes", frame: set, frames: 1 },
    Input { name: "32 GETs", frame: get, frames: PIPELINE },
    Input { name: "32 SETs of 64 bytes", frame: set, frames: PIPELINE },
];

const REPLIES: [Input; 5] = [
    Input { name: "OK", frame: ok, frames: 1 },
    Input { name: "bulk of 64 bytes", frame: value, frames: 1 },
    Input { name: "MGET of 10 keys", frame: values, frames: 1 },
    Input { name: "32 OKs", frame: ok, frames: PIPELINE },
    Input { name: "32 bulks of 64 bytes", frame: value, frames: PIPELINE },
];

/// As many equal frames as a client or a node sends in one piece.
struct Input {
    name: &'static str,
    frame: fn(&mut Vec<u8>),
    frames: usize,
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..self.frames).for_each(|_| (self.frame)(&mut bytes));
        bytes
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn main() {
    divan::main();
}

#[divan::bench(args = REQUESTS)]
fn requests_own(bencher: Bencher<'_, '_>, input: &Input) {
    let (bytes, limits) = (input.bytes(), RequestLimits::default());
    let mut scanner = RequestScanner::new();
    let mut scan = || {
        let mut rest = black_box(&*bytes);
        let mut frames = 0;
        while let Ok(RequestScan::Array { len }) = scanner.scan(rest, &limits) {
            black_box(scanner.spans());
            rest = &rest[len..];
            frames += 1;
        }
        frames
    };
    assert_eq!(scan(), input.frames);
    bencher.counter(ItemsCount::new(input.frames)).bench_local(scan);
}

#[divan::bench(args = REQUESTS)]
fn requests_redis_protocol(bencher: Bencher<'_, '_>, input: &Input) {
    bench_redis_protocol(bencher, input);
}

#[divan::bench(args = REPLIES)]
fn replies_own(bencher: Bencher<'_, '_>, input: &Input) {
    let bytes = input.bytes();
    let mut scanner = ReplyScanner::new();
    let mut scan = || {
        let mut rest = black_box(&*bytes);
        let mut frames = 0;
        while let Ok(ReplyScan::Complete(reply)) = scanner.scan(rest) {
            black_box(reply);
            rest = &rest[reply.len..];
            frames += 1;
        }
        frames
    };
    assert_eq!(scan(), input.frames);
    bencher.counter(ItemsCount::new(input.frames)).bench_local(scan);
}

#[divan::bench(args = REPLIES)]
fn replies_redis_protocol(bencher: Bencher<'_, '_>, input: &Input) {
    bench_redis_protocol(bencher, input);
}

fn bench_redis_protocol(bencher: Bencher<'_, '_>, input: &Input) {
    let bytes = input.bytes();
    let scan = || {
        let mut rest = black_box(&*bytes);
        let mut frames = 0;
        while let Ok(Some((frame, len))) = decode_range(rest) {
            black_box(&frame);
            rest = &rest[len..];
            frames += 1;
        }
        frames
    };
    assert_eq!(scan(), input.frames);
    bencher.counter(ItemsCount::new(input.frames)).bench_local(scan);
}

fn get(out: &mut Vec<u8>) {
    write::command(out, [&b"GET"[..], b"key:000000000042"]);
}

fn set(out: &mut Vec<u8>) {
    write::command(out, [&b"SET"[..], b"key:000000000042", &[b'x'; 64]]);
}

fn ok(out: &mut Vec<u8>) {
    write::simple(out, "OK");
}

fn value(out: &mut Vec<u8>) {
    write::bulk(out, &[b'x'; 64]);
}

fn values(out: &mut Vec<u8>) {
    write::array_header(out, 10);
    (0..10).for_each(|_| value(out));
}
