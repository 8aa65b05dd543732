//! Errors for commands that do not exist or have a wrong number of arguments, against a server's own.

use tsubaki_protocol::command::Command;

use crate::getkeys::Frame;
use crate::server::each;

#[test]
fn refusals_have_the_words_of_a_server() {
    let long = "x".repeat(200);
    let cases: [&[&[u8]]; 22] = [
        &[b"NoSuch"],
        &[b"nosuch", b"one", b"two"],
        &[b""],
        &[b"", b""],
        &[b"no\r\nsuch", b"a\nb"],
        &[b"no\0such", b"a\0b", b"c"],
        &[b"n\xc3\xb6\xff", b"\xff\xfe"],
        &[long.as_bytes(), long.as_bytes(), b"more"],
        &[b"nosuch", &long.as_bytes()[..120], b"12345678901234567890", b"more"],
        &[b"nosuch", &long.as_bytes()[..123], b"", b"", b"more"],
        &[b"object", b"nosuch", b"k"],
        &[b"CLIENT", b"MAINT_NOTIFICATIONS", b"ON"],
        &[b"config", long.as_bytes()],
        &[b"Client", b"no\r\nsu\0ch"],
        &[b"client", b""],
        &[b"GET"],
        &[b"get", b"a", b"b"],
        &[b"mget"],
        &[b"mset", b"a"],
        &[b"mset", b"a", b"1", b"b"],
        &[b"client"],
        &[b"Client", b"SetName"],
    ];
    for server in each(&[]) {
        let mut connection = server.connect();
        for case in cases {
            let frame = Frame::new(&case.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>());
            let mut ours = Vec::new();
            Command::resolve(&frame.args()).unwrap_err().write_reply(&frame.args(), &mut ours);
            let theirs = connection.ask_raw(case, ours.len());
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{}", server.kind);
        }
    }
}
