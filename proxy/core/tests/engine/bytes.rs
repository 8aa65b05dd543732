//! Requests and replies in any pieces, of any size.

use crate::harness::{B, C, Cluster, bulk, command, commands};

#[test]
fn requests_may_be_cut_at_any_byte() {
    let requests =
        commands(["XADD b * f v", "SET b ''", "XADD b * field value", "MGET b c", "XADD b MAXLEN 1 * f ''"]);
    let expected =
        commands(["XADD b * f v", "SET b ''", "XADD b * field value", "MGET b", "XADD b MAXLEN 1 * f ''"]);
    for cut in 0..=requests.len() {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send_bytes(&requests[..cut]);
        client.send_bytes(&requests[cut..]);
        cluster.node(B).expect_bytes(&expected);
        cluster.node(C).serve("MGET c", "*1\r\n$-1\r\n");
        cluster.node(B).reply("$1\r\n1\r\n+OK\r\n$1\r\n2\r\n*1\r\n$0\r\n\r\n$1\r\n3\r\n");
        client.expect("$1\r\n1\r\n+OK\r\n$1\r\n2\r\n*2\r\n$0\r\n\r\n$-1\r\n$1\r\n3\r\n");
    }
}

#[test]
fn requests_may_come_byte_by_byte() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let requests =
        [commands(["SET b 1", "PING"]).as_slice(), b"SET b \"2 \"\r\n", &command("SET b 3")].concat();
    requests.iter().for_each(|byte| client.send_bytes([*byte]));
    cluster.node(B).expect_bytes(
        [command("SET b 1").as_slice(), b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2\r\n2 \r\n"].concat(),
    );
    cluster.node(B).expect("SET b 3");
    cluster.node(B).reply("+OK\r\n+OK\r\n+OK\r\n");
    client.expect("+OK\r\n+PONG\r\n+OK\r\n+OK\r\n");
}

#[test]
fn a_large_request_may_come_in_small_pieces() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let value = "v".repeat(1 << 19);
    let requests = commands([&format!("SET b {value}"), "GET b"]);
    requests.chunks(1460).for_each(|piece| client.send_bytes(piece));
    cluster.node(B).expect_bytes(requests);
    cluster.node(B).reply("+OK\r\n$1\r\nv\r\n");
    client.expect("+OK\r\n$1\r\nv\r\n");
}

#[test]
fn replies_may_be_cut_at_any_byte() {
    let replies = "+OK\r\n$2\r\n\r\n\r\n*2\r\n$0\r\n\r\n*1\r\n:-1\r\n-keyalreadyexists\r\n-ERR x\r\n";
    for cut in 0..=replies.len() {
        let cluster = Cluster::new();
        let (client, other) = (cluster.client(), cluster.client());
        client.send_all(["SET b 1", "GET b", "XRANGE b - +", "SET b 2"]);
        other.send("GET b");
        cluster.node(B).expect_all(["SET b 1", "GET b", "XRANGE b - +", "SET b 2", "GET b"]);
        cluster.node(B).reply(&replies[..cut]);
        cluster.node(B).reply(&replies[cut..]);
        client.expect("+OK\r\n$2\r\n\r\n\r\n*2\r\n$0\r\n\r\n*1\r\n:-1\r\n-keyalreadyexists\r\n");
        other.expect("-ERR x\r\n");
    }
}

/// An error line without a space swallowed the next reply.
#[test]
fn an_error_line_ends_at_its_line_end_only() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SETNX b 1", "GET b"]);
    cluster.node(B).expect_all(["SETNX b 1", "GET b"]);
    cluster.node(B).reply("-keyalreadyexists\r\n$1\r\nv\r\n");
    client.expect("-keyalreadyexists\r\n$1\r\nv\r\n");
}

#[test]
fn replies_around_the_size_of_a_buffer_come_whole() {
    for buffers in [1, 2, 4, 8] {
        for size in buffers * 16_384 - 64..=buffers * 16_384 + 64 {
            let cluster = Cluster::new();
            let client = cluster.client();
            client.send_all(["GET b", "GET b"]);
            cluster.node(B).expect_all(["GET b", "GET b"]);
            let replies = format!("{}+OK\r\n", bulk(&"v".repeat(size)));
            replies.as_bytes().chunks(16_384).for_each(|piece| cluster.node(B).reply(piece));
            client.expect(replies);
        }
    }
}

#[test]
fn an_empty_argument_is_an_argument() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for line in ["SET b ''", "GET ''", "SET '' ''", "MSET b '' '' ''"] {
        client.send_all([line, "PING"]);
        let parts = if line.starts_with("MSET") { vec!["MSET b ''", "MSET '' ''"] } else { vec![line] };
        for part in parts {
            cluster.node(B).serve(part, "+OK\r\n");
        }
        client.expect("+OK\r\n+PONG\r\n");
    }
}

#[test]
fn keys_and_values_are_any_bytes() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let all: Vec<u8> = (0..=255).collect();
    let request =
        [b"*3\r\n$3\r\nSET\r\n$259\r\n{b}".as_slice(), &all, b"\r\n$256\r\n", &all, b"\r\n"].concat();
    client.send_bytes(&request);
    cluster.node(B).expect_bytes(&request);
    let reply = [b"$256\r\n".as_slice(), &all, b"\r\n"].concat();
    cluster.node(B).reply(&reply);
    client.expect(&reply);
}

#[test]
fn a_huge_count_costs_nothing_until_the_arguments_come() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes("*2147483647\r\n$4\r\nMGET\r\n$1\r\nb\r\n");
    client.expect_nothing();
    assert!(!client.is_closed());
}

#[test]
fn a_request_above_the_limit_ends_the_connection() {
    let cluster = Cluster::with(|settings| settings.max_request = 1000);
    let client = cluster.client();
    client.send_bytes("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$980\r\n");
    client.expect("-ERR Protocol error: too big request\r\n");
    assert!(client.is_closed());
}

#[test]
fn an_argument_above_the_limit_ends_the_connection() {
    let cluster = Cluster::with(|settings| settings.max_bulk = 10);
    let client = cluster.client();
    client.send("SET b 0123456789");
    cluster.node(B).serve("SET b 0123456789", "+OK\r\n");
    client.send("SET b 0123456789x");
    client.expect("+OK\r\n-ERR Protocol error: invalid bulk length\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_broken_request_is_answered_behind_the_replies_still_owed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes([command("GET b").as_slice(), b"*1\r\nxyz\r\n", &command("GET c")].concat());
    cluster.node(B).expect("GET b");
    client.expect_nothing();
    assert!(!client.is_closed());
    cluster.node(B).reply("$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n-ERR Protocol error: expected '$', got 'x'\r\n");
    assert!(client.is_closed());
    assert_eq!(cluster.stats().protocol_errors, 1);
}

#[test]
fn quit_is_no_error_and_waits_for_the_replies_still_owed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes([command("GET b").as_slice(), b"QUIT\r\n", &command("GET c")].concat());
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n+OK\r\n");
    assert!(client.is_closed());
    assert_eq!(cluster.events(), []);
    assert_eq!(cluster.stats().protocol_errors, 0);
}
