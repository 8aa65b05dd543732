//! The reply scanner against `redis-protocol`, on any cut of the bytes, and against bytes that mean nothing.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::strategy::{BoxedStrategy, Just, Strategy};
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use redis_protocol::resp2::decode::decode_range as decode_resp2;
use redis_protocol::resp3::decode::complete::decode_range as decode_resp3;
use tsubaki_protocol::resp::reply::{Reply, ReplyError, ReplyScan, ReplyScanner, elements};
use tsubaki_protocol::resp::tree;

/// Text of one line, of what else could be taken for the beginning of a value.
fn line() -> impl Strategy<Value = String> {
    "[ -~]{0,20}"
}

fn body(kind: char, prefix: &'static str) -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![select(&b"\r\n$*>|"[..]), any::<u8>()], 0..30).prop_map(move |body| {
        let header = format!("{kind}{}\r\n{prefix}", body.len() + prefix.len());
        [header.as_bytes(), &body, b"\r\n"].concat()
    })
}

/// A value without elements that both versions have.
fn resp2_leaf() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        line().prop_map(|text| format!("+{text}\r\n").into_bytes()),
        line().prop_map(|text| format!("-{text}\r\n").into_bytes()),
        any::<i64>().prop_map(|value| format!(":{value}\r\n").into_bytes()),
        body('$', ""),
    ]
    .boxed()
}

fn resp3_leaf() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        resp2_leaf(),
        select(&["_\r\n", "#t\r\n", "#f\r\n", ",inf\r\n", ",-inf\r\n", ",1e-7\r\n"][..])
            .prop_map(|text| text.as_bytes().to_vec()),
        any::<i32>().prop_map(|value| format!(",{}\r\n", f64::from(value) / 16.0).into_bytes()),
        "[1-9][0-9]{0,40}".prop_map(|digits| format!("({digits}\r\n").into_bytes()),
        body('!', ""),
        body('=', "txt:"),
    ]
    .boxed()
}

fn aggregate(kind: char, elements: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    let join = move |elements: Vec<Vec<u8>>| {
        [format!("{kind}{}\r\n", elements.len()).into_bytes(), elements.concat()].concat()
    };
    vec(elements, 0..5).prop_map(join).boxed()
}

/// A reply of RESP2, nulls included.
fn resp2() -> impl Strategy<Value = Vec<u8>> {
    let null = select(&["$-1\r\n", "*-1\r\n"][..]).prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![4 => resp2_leaf(), 1 => null].prop_recursive(5, 40, 5, |inner| aggregate('*', inner))
}

/// A reply of RESP3. Sets, and the keys of maps, hold only leaves: the oracle hashes them.
fn resp3() -> impl Strategy<Value = Vec<u8>> {
    resp3_leaf().prop_recursive(5, 40, 5, |inner| {
        let pair = (resp3_leaf(), inner.clone()).prop_map(|(key, value)| [key, value].concat());
        let attributes = aggregate('|', pair.clone());
        prop_oneof![
            aggregate('*', inner.clone()),
            aggregate('>', inner.clone()),
            aggregate('~', resp3_leaf()),
            aggregate('%', pair),
            // The oracle knows attributes of these.
            (attributes, aggregate('*', inner)).prop_map(|(attributes, value)| [attributes, value].concat()),
        ]
    })
}

/// Bytes that resemble replies, whole or spoiled.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(
        &[
            "*",
            "$",
            "%",
            "|",
            "~",
            ">",
            "+",
            "-",
            ":",
            ",",
            "#t",
            "_",
            "=",
            "(",
            "\r\n",
            "\r\n",
            "\r",
            "\n",
            "1",
            "2",
            "-1",
            "99999999999",
            "a",
        ][..],
    );
    prop_oneof![vec(any::<u8>(), 0..100), vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())]
}

/// The type of the value behind the attributes, found by the slow way.
fn kind(frame: &[u8]) -> u8 {
    let mut rest = frame;
    while rest[0] == b'|' {
        let pairs: usize = String::from_utf8_lossy(&rest[1..]).split("\r\n").next().unwrap().parse().unwrap();
        rest = &rest[rest.iter().position(|byte| *byte == b'\n').unwrap() + 1..];
        for _ in 0..pairs * 2 {
            rest = &rest[decode_resp3(rest).unwrap().unwrap().1..];
        }
    }
    rest[0]
}

/// Scans replies that come in pieces, up to an error.
fn scan_pieces(input: &[u8], cuts: &[usize]) -> Vec<Result<Reply, ReplyError>> {
    let mut scanner = ReplyScanner::new();
    let mut found = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().filter(|cut| *cut < input.len()).chain([input.len()]) {
        while start < end {
            match scanner.scan(&input[start..end]) {
                Ok(ReplyScan::Partial) => break,
                Ok(ReplyScan::Complete(reply)) => {
                    assert!(reply.len > 0 && reply.len <= end - start);
                    start += reply.len;
                    found.push(Ok(reply));
                }
                Err(error) => {
                    found.push(Err(error));
                    return found;
                }
            }
        }
    }
    found
}

fn check_every_cut(
    frame: &[u8],
    behind: &[u8],
    len: usize,
) -> Result<(), proptest::test_runner::TestCaseError> {
    prop_assert_eq!(len, frame.len());
    let reply = Ok(ReplyScan::Complete(Reply { len, kind: kind(frame) }));
    let input = [frame, behind].concat();
    for cut in 0..=len {
        let mut scanner = ReplyScanner::new();
        if cut < len {
            prop_assert_eq!(scanner.scan(&input[..cut]), Ok(ReplyScan::Partial));
        }
        prop_assert_eq!(scanner.scan(&input), reply);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_resp2_reply_is_what_redis_protocol_says_wherever_it_is_cut(frame in resp2(), behind in noise()) {
        let (_, len) = decode_resp2(&frame).unwrap().unwrap();
        check_every_cut(&frame, &behind, len)?;
        prop_assert!(tree::decode(&frame).is_ok());
    }

    #[test]
    fn a_resp3_reply_is_what_redis_protocol_says_wherever_it_is_cut(frame in resp3(), behind in noise()) {
        let (_, len) = decode_resp3(&frame).unwrap().unwrap();
        check_every_cut(&frame, &behind, len)?;
        prop_assert!(tree::decode(&frame).is_ok());
    }

    #[test]
    fn replies_are_the_same_in_any_pieces(
        frames in vec(prop_oneof![3 => resp2().boxed(), 3 => resp3().boxed(), 1 => noise().boxed()], 1..6),
        mut cuts in vec(0..400_usize, 0..20),
    ) {
        let input = frames.concat();
        cuts.sort_unstable();
        let whole = scan_pieces(&input, &[]);
        prop_assert_eq!(&scan_pieces(&input, &cuts), &whole);
    }

    #[test]
    fn the_elements_of_a_list_join_to_the_list(values in vec(prop_oneof![resp2().boxed(), resp3().boxed(), Just(b"$-1\r\n".to_vec()).boxed()], 0..8)) {
        let list = [format!("*{}\r\n", values.len()).into_bytes(), values.concat()].concat();
        let found = elements(&list).unwrap().collect::<Vec<_>>();
        prop_assert_eq!(found, values);
    }

    #[test]
    fn any_bytes_are_a_reply_or_an_error_but_never_a_panic(input in noise()) {
        if let Ok(ReplyScan::Complete(reply)) = ReplyScanner::new().scan(&input) {
            prop_assert!(reply.len <= input.len());
            let frame = &input[..reply.len];
            prop_assert!(elements(frame).map_or(0, Iterator::count) <= frame.len());
            tree::decode(frame).ok();
        }
        tree::decode(&input).ok();
        prop_assert!(elements(&input).map_or(0, Iterator::count) <= input.len());
    }
}

/// Segments of a network without jumbo frames carry at most this many bytes.
const SEGMENT: usize = 1460;

fn scan_in_segments(frame: &[u8]) {
    let mut scanner = ReplyScanner::new();
    for end in (1..frame.len()).step_by(SEGMENT) {
        assert_eq!(scanner.scan(&frame[..end]), Ok(ReplyScan::Partial));
    }
    assert_eq!(scanner.scan(frame), Ok(ReplyScan::Complete(Reply { len: frame.len(), kind: frame[0] })));
}

// A scanner that starts again, or that reads a part twice, would pass terabytes in each of these three.

#[test]
fn a_body_of_100_mb_in_segments_costs_linear_time() {
    let size = 100 << 20;
    scan_in_segments(&[format!("*2\r\n:1\r\n${size}\r\n").as_bytes(), &vec![b'\r'; size], b"\r\n"].concat());
}

#[test]
fn an_error_line_of_50_mb_in_segments_costs_linear_time() {
    scan_in_segments(&[&b"-ERR "[..], &vec![b'x'; 50 << 20], b"\r\n"].concat());
    scan_in_segments(&[&b"-ERR "[..], &vec![b'\r'; 50 << 20], b"\r\n"].concat());
}

#[test]
fn ten_million_elements_in_segments_cost_linear_time() {
    scan_in_segments(&[&b"*10000000\r\n"[..], &b"$1\r\na\r\n".repeat(10_000_000)].concat());
}
