//! Requests against real servers: the same bytes, sane or spoiled, get from us what the server gives, byte for byte.
//!
//! A server that is not installed is skipped, unless `TSUBAKI_REQUIRE_SERVERS` is set.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::sample::select;
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest::{prop_assert_eq, prop_oneof};
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::request::{RequestError, RequestLimits, RequestScan, RequestScanner};
use tsubaki_protocol::resp::{inline, write};

#[allow(dead_code, reason = "written for tests that ask more of a server")]
#[path = "command_live/server.rs"]
mod server;
use server::{Kind, Server};

/// All that a server answers to `input` on a connection of its own, until it closes.
fn answer(port: u16, input: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(input).unwrap();
    // The server answers what it has, then sees the end and closes.
    stream.shutdown(Shutdown::Write).ok();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => answer,
    }
}

/// All that our scanner, with a server of two commands behind it, answers to `input`.
fn our_answer(input: &[u8], limits: &RequestLimits) -> Vec<u8> {
    let mut out = Vec::new();
    if let Err(error) = our_replies(input, limits, &mut out) {
        error.write(&mut out);
    }
    out
}

fn our_replies(input: &[u8], limits: &RequestLimits, out: &mut Vec<u8>) -> Result<(), RequestError> {
    let mut scanner = RequestScanner::new();
    let mut rest = input;
    loop {
        let len = match scanner.scan(rest, limits)? {
            RequestScan::Partial => return Ok(()),
            RequestScan::Empty { len } => len,
            RequestScan::Array { len } => {
                run(&Args::new(rest, scanner.spans()), limits, out);
                len
            }
            RequestScan::Inline { len } => {
                let mut array = Vec::new();
                if inline::to_array(&rest[..len], &mut array)? {
                    let mut scanner = RequestScanner::new();
                    scanner.scan(&array, &RequestLimits::default())?;
                    run(&Args::new(&array, scanner.spans()), limits, out);
                }
                len
            }
        };
        rest = &rest[len..];
    }
}

/// Answers as a server that knows PING, and EVAL of the script that returns its arguments.
fn run(args: &Args<'_>, limits: &RequestLimits, out: &mut Vec<u8>) {
    if !limits.authenticated {
        write::error(out, "NOAUTH Authentication required.");
    } else if args.is(0, "EVAL") {
        write::command(out, args.iter().skip(3).collect::<Vec<_>>());
    } else if args.is(0, "PING") {
        write::simple(out, "PONG");
    } else {
        let name = String::from_utf8_lossy(args.name());
        write::error(out, &format!("ERR unknown command '{name}', with args beginning with: "));
    }
}

/// PING with its count, its length or its type byte exchanged.
///
/// Line ends stay whole, and no length is legal but wrong: there Redis looks at nothing, and we refuse.
fn spoiled_ping() -> impl Strategy<Value = Vec<u8>> {
    let number = || {
        let text = select(
            &["", "-0", "-1", "01", "+1", " 1", "1 ", "1a", "a", "2147483647", "2147483648", "536870913"][..],
        );
        let long = select(
            &["9223372036854775807", "9223372036854775808", "-9223372036854775809", "99999999999999999999"][..],
        );
        prop_oneof![
            text.prop_map(str::to_owned),
            long.prop_map(str::to_owned),
            any::<i64>().prop_map(|number| number.to_string())
        ]
    };
    // No zero byte: behind one, Redis finds no line end and waits.
    prop_oneof![
        number().prop_map(|count| format!("*{count}\r\n$4\r\nPING\r\n").into_bytes()),
        number().prop_map(|length| format!("*1\r\n${length}\r\nPING\r\n").into_bytes()),
        (1..=255_u8).prop_map(|byte| [&b"*1\r\n"[..], &[byte], b"4\r\nPING\r\n"].concat()),
        Just(b"*0\r\nPING\r\n".to_vec()),
    ]
}

/// A line that asks for its own words, with quotes and escapes more often than by chance.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let usual =
        select(&["\"", "'", "\\", "\\x", " ", "a", "\\\"", "\\'", "4", "f", "n", "\t", "\u{b}", "\r"][..]);
    let other = (1..=255_u8).prop_filter("it would end the line", |byte| *byte != b'\n');
    let piece = prop_oneof![8 => usual.prop_map(|text| text.as_bytes().to_vec()), 1 => other.prop_map(|byte| vec![byte])];
    vec(piece, 0..25).prop_map(|words| [b"EVAL 'return ARGV' 0 ", &words.concat()[..], b"\r\n"].concat())
}

/// Sends many inputs, the same ones each time, to the server and to us.
#[track_caller]
fn compare(server: &Server, inputs: &impl Strategy<Value = Vec<u8>>, limits: &RequestLimits) {
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let same = runner.run(inputs, |input| {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let (theirs, ours) = (answer(server.port, &input), our_answer(&input, limits));
        prop_assert_eq!(shown(&ours), shown(&theirs), "{} answered to {}", server.kind, shown(&input));
        Ok(())
    });
    if let Err(error) = same {
        panic!("{error}");
    }
}

#[test]
fn spoiled_requests_get_the_servers_own_errors() {
    for server in server::each(&[]) {
        compare(&server, &spoiled_ping(), &RequestLimits::default());
    }
}

#[test]
fn inline_words_are_those_of_the_server() {
    // Valkey 9 takes some words with unbalanced quotes that Redis refuses.
    if let Some(server) = Server::start(Kind::Redis, &[]) {
        compare(&server, &line(), &RequestLimits::default());
    }
}

#[test]
fn lines_without_end_get_the_servers_own_errors() {
    let endless = |start: &str| [start.as_bytes(), &[b'1'; 70_000]].concat();
    let inputs = select(vec![endless("*"), endless("*1\r\n$"), endless("PING "), endless("*1\r\nx")]);
    for server in server::each(&[]) {
        compare(&server, &inputs, &RequestLimits::default());
    }
}

#[test]
fn limits_before_the_password_are_those_of_the_server() {
    let limits = RequestLimits { authenticated: false, ..RequestLimits::default() };
    let inputs = select(
        [
            "*10\r\n",
            "*11\r\n",
            "*2147483647\r\n",
            "*2147483648\r\n",
            "*1\r\n$16384\r\n",
            "*1\r\n$16385\r\n",
            "*1\r\n$536870912\r\n",
            "*1\r\n$536870913\r\n",
            "*1\r\n$4\r\nPING\r\nPING\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec(),
    );
    for server in server::each(&[]) {
        server.connect().ask(&[b"CONFIG", b"SET", b"requirepass", b"secret"]);
        compare(&server, &inputs, &limits);
    }
}
