//! The request scanner against `redis-protocol`, on any cut of the bytes, and against bytes that mean nothing.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::strategy::Strategy;
use proptest::{prop_assert, prop_assert_eq, proptest};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;
use tsubaki_protocol::resp::request::{RequestError, RequestLimits, RequestScan, RequestScanner};
use tsubaki_protocol::resp::{inline, write};

/// An argument, with line ends and type bytes more often than by chance.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    vec(proptest::prop_oneof![select(&b"\r\n$*0123 "[..]), any::<u8>()], 0..40)
}

/// A command as a client sends it.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    vec(argument(), 1..8).prop_map(|args| {
        let mut frame = Vec::new();
        write::command(&mut frame, args.iter().map(Vec::as_slice));
        frame
    })
}

/// Bytes that resemble requests, whole or spoiled.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(
        &["*", "$", "\r\n", "\r", "\n", "0", "1", "2", "-1", "99999999999", "a", "\"", "\\x", "\0", " "][..],
    );
    vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

/// The places of the arguments and the frame's length, as `redis-protocol` has them.
fn oracle(frame: &[u8]) -> (Vec<(usize, usize)>, usize) {
    let Some((RangeFrame::Array(values), len)) = decode_range(frame).unwrap() else { panic!("no array") };
    let place = |value| match value {
        RangeFrame::BulkString(place) => place,
        other => panic!("{other:?}"),
    };
    (values.into_iter().map(place).collect(), len)
}

fn places(scanner: &RequestScanner) -> Vec<(usize, usize)> {
    scanner.spans().iter().map(|span| (span.start as usize, span.end as usize)).collect()
}

/// A frame, and where its arguments are.
#[derive(Debug, PartialEq)]
struct Frame {
    scan: RequestScan,
    places: Vec<(usize, usize)>,
}

/// Scans a whole pipeline that comes in pieces, up to an error.
fn scan_pieces(input: &[u8], cuts: &[usize]) -> Vec<Result<Frame, RequestError>> {
    let limits = RequestLimits { max_inline: 64, ..RequestLimits::default() };
    let mut scanner = RequestScanner::new();
    let mut found = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().filter(|cut| *cut < input.len()).chain([input.len()]) {
        while start < end {
            let len = match scanner.scan(&input[start..end], &limits) {
                Ok(RequestScan::Partial) => break,
                Ok(scan @ RequestScan::Array { len }) => {
                    found.push(Ok(Frame { scan, places: places(&scanner) }));
                    len
                }
                Ok(scan @ (RequestScan::Inline { len } | RequestScan::Empty { len })) => {
                    found.push(Ok(Frame { scan, places: Vec::new() }));
                    len
                }
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            };
            assert!(len > 0 && len <= end - start);
            start += len;
        }
    }
    found
}

proptest! {
    #[test]
    fn a_frame_is_what_redis_protocol_says_wherever_it_is_cut(frame in frame(), behind in noise()) {
        let (arguments, len) = oracle(&frame);
        prop_assert_eq!(len, frame.len());
        let input = [&frame[..], &behind[..]].concat();
        for cut in 0..=frame.len() {
            let mut scanner = RequestScanner::new();
            if cut < frame.len() {
                prop_assert_eq!(scanner.scan(&input[..cut], &RequestLimits::default()), Ok(RequestScan::Partial));
            }
            prop_assert_eq!(scanner.scan(&input, &RequestLimits::default()), Ok(RequestScan::Array { len }));
            prop_assert_eq!(&places(&scanner), &arguments);
        }
    }

    #[test]
    fn a_pipeline_is_the_same_in_any_pieces(
        frames in vec(proptest::prop_oneof![frame(), noise()], 1..6),
        mut cuts in vec(0..400_usize, 0..20),
    ) {
        let input = frames.concat();
        cuts.sort_unstable();
        let whole = scan_pieces(&input, &[]);
        prop_assert_eq!(&scan_pieces(&input, &cuts), &whole);
        let every = (1..input.len()).collect::<Vec<_>>();
        prop_assert_eq!(&scan_pieces(&input, &every), &whole);
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error_but_never_a_panic(input in proptest::prop_oneof![vec(any::<u8>(), 0..200), noise()]) {
        for limits in [RequestLimits::default(), RequestLimits { authenticated: false, max_frame: 50, ..RequestLimits::default() }] {
            let mut scanner = RequestScanner::new();
            if let Ok(RequestScan::Array { len } | RequestScan::Inline { len } | RequestScan::Empty { len }) =
                scanner.scan(&input, &limits)
            {
                prop_assert!(len <= input.len());
            }
            prop_assert!(scanner.spans().len() <= input.len());
        }
    }

    #[test]
    fn an_inline_line_of_any_bytes_becomes_an_array_or_an_error(line in proptest::prop_oneof![vec(any::<u8>(), 0..100), noise()]) {
        let mut array = Vec::new();
        if let Ok(true) = inline::to_array(&line, &mut array) {
            let found = RequestScanner::new().scan(&array, &RequestLimits::default());
            prop_assert_eq!(found, Ok(RequestScan::Array { len: array.len() }));
        } else {
            prop_assert!(array.is_empty());
        }
    }
}

#[test]
fn many_commands_of_one_segment_are_whole_wherever_it_is_cut() {
    let mut segment = Vec::new();
    for number in 0..30 {
        let body = format!("{}", number * 1234);
        write::command(&mut segment, [&b"XADD"[..], b"stream", b"*", b"field", body.as_bytes()]);
    }
    let whole = scan_pieces(&segment, &[]);
    assert_eq!(whole.len(), 30);
    for cut in 0..segment.len() {
        assert_eq!(scan_pieces(&segment, &[cut]), whole, "cut at {cut}");
    }
}

/// Segments of a network without jumbo frames carry at most this many bytes.
const SEGMENT: usize = 1460;

#[test]
fn a_value_of_100_mb_in_segments_costs_linear_time() {
    let mut frame = Vec::new();
    write::command(&mut frame, [&b"SET"[..], b"key", &vec![b'\r'; 100 << 20]]);
    let mut scanner = RequestScanner::new();
    // A scanner that starts again, or that reads the body, would pass 3.6 TB here.
    for end in (1..frame.len()).step_by(SEGMENT) {
        assert_eq!(scanner.scan(&frame[..end], &RequestLimits::default()), Ok(RequestScan::Partial));
    }
    assert_eq!(scanner.scan(&frame, &RequestLimits::default()), Ok(RequestScan::Array { len: frame.len() }));
}

#[test]
fn a_million_arguments_in_segments_cost_linear_time() {
    let frame = [&b"*1000000\r\n"[..], &b"$1\r\na\r\n".repeat(1_000_000)].concat();
    let mut scanner = RequestScanner::new();
    for end in (1..frame.len()).step_by(37) {
        assert_eq!(scanner.scan(&frame[..end], &RequestLimits::default()), Ok(RequestScan::Partial));
    }
    assert_eq!(scanner.scan(&frame, &RequestLimits::default()), Ok(RequestScan::Array { len: frame.len() }));
    assert_eq!(scanner.spans().len(), 1_000_000);
}
