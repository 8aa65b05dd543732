//! Requests longer than a chunk: sent from where they were gathered, in one piece with nothing lost or moved.

use crate::harness::large::body;
use crate::harness::{B, C, Client, Cluster, bulk, command, ms};

const CHUNK: usize = 1_000;

fn cluster() -> Cluster {
    Cluster::with(|settings| settings.chunk = CHUNK)
}

/// `SET b` with a value of three chunks.
fn long() -> Vec<u8> {
    command(&format!("SET b {}", body(3 * CHUNK)))
}

/// The client sends these bytes in pieces, as a network brings them.
fn send_in_pieces(client: &Client, bytes: &[u8]) {
    bytes.chunks(700).for_each(|piece| client.send_bytes(piece));
}

#[test]
fn a_long_request_goes_out_between_those_before_and_behind_it() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    client.send("GET b");
    send_in_pieces(&client, &long());
    other.send("GET b1");
    send_in_pieces(&other, &long());
    client.send("GET b5");
    let expected = [command("GET b"), long(), command("GET b1"), long(), command("GET b5")].concat();
    cluster.node(B).expect_bytes(expected);
    cluster.node(B).reply("$1\r\n1\r\n+OK\r\n$1\r\n2\r\n+OK\r\n$1\r\n3\r\n");
    client.expect("$1\r\n1\r\n+OK\r\n$1\r\n3\r\n");
    other.expect("$1\r\n2\r\n+OK\r\n");
}

#[test]
fn a_long_request_leaves_as_the_socket_takes_it() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(B).take_only(0);
    client.send("GET b1");
    send_in_pieces(&client, &long());
    client.send("GET b5");
    let expected = [command("GET b1"), long(), command("GET b5")].concat();
    for piece in expected.chunks(113) {
        cluster.node(B).take_only(piece.len());
        cluster.node(B).expect_bytes(piece);
    }
    cluster.node(B).reply("$-1\r\n+OK\r\n$-1\r\n");
    client.expect("$-1\r\n+OK\r\n$-1\r\n");
}

#[test]
fn what_came_with_the_end_of_a_long_request_runs_behind_it() {
    let cluster = cluster();
    let client = cluster.client();
    let bytes = [long(), command("GET b"), command("GET b1")[..5].to_vec()].concat();
    client.send_bytes(&bytes[..2 * CHUNK]);
    client.send_bytes(&bytes[2 * CHUNK..]);
    cluster.node(B).expect_bytes([long(), command("GET b")].concat());
    client.send_bytes(&command("GET b1")[5..]);
    cluster.node(B).expect("GET b1");
    cluster.node(B).reply("+OK\r\n$1\r\nv\r\n$-1\r\n");
    client.expect("+OK\r\n$1\r\nv\r\n$-1\r\n");
}

#[test]
fn a_long_request_that_moved_goes_to_its_new_node_whole() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("SET b 1");
    send_in_pieces(&client, &long());
    client.send("GET b");
    cluster.node(B).expect_bytes([command("SET b 1"), long(), command("GET b")].concat());
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n".repeat(3));
    cluster.node(C).expect_bytes([command("SET b 1"), long(), command("GET b")].concat());
    cluster.node(C).reply("+OK\r\n+OK\r\n$-1\r\n");
    client.expect("+OK\r\n+OK\r\n$-1\r\n");
}

#[test]
fn a_long_request_behind_one_that_is_put_off_waits_whole() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B).serve("SET b 1", "-TRYAGAIN not now\r\n");
    send_in_pieces(&client, &long());
    client.expect_nothing();
    cluster.advance(ms(200));
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    cluster.node(B).expect_bytes(long());
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n".repeat(2));
}

#[test]
fn a_long_request_that_was_not_sent_whole_goes_again() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(B).take_only(2 * CHUNK);
    send_in_pieces(&client, &long());
    cluster.node(B).expect_bytes(&long()[..2 * CHUNK]);
    cluster.node(B).close();
    cluster.advance(ms(200));
    cluster.node(B).expect_bytes(long());
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_long_request_that_may_have_run_does_not_go_again() {
    let cluster = cluster();
    let client = cluster.client();
    send_in_pieces(&client, &long());
    client.send("GET b");
    cluster.node(B).expect_bytes([long(), command("GET b")].concat());
    cluster.node(B).close();
    cluster.advance(ms(200));
    cluster.node(B).serve("GET b", "$-1\r\n");
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.starts_with("-") && received.ends_with("\r\n$-1\r\n"), "{received}");
}

#[test]
fn a_long_request_that_goes_to_no_node_is_done_with() {
    let cluster = cluster();
    let client = cluster.client();
    let value = body(3 * CHUNK);
    send_in_pieces(&client, &command(&format!("ECHO {value}")));
    client.expect(bulk(&value));
    send_in_pieces(&client, &command(&format!("NOSUCH {value}")));
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.starts_with("-ERR unknown command 'NOSUCH'"), "{received}");
    client.send("PING");
    client.expect("+PONG\r\n");
}

#[test]
fn a_long_request_over_several_nodes_is_divided() {
    let cluster = cluster();
    let client = cluster.client();
    let value = body(2 * CHUNK);
    send_in_pieces(&client, &command(&format!("MSET b {value} c {value} b 1")));
    cluster.node(B).serve(&format!("MSET b {value} b 1"), "+OK\r\n");
    cluster.node(C).serve(&format!("MSET c {value}"), "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_long_request_that_must_wait_for_those_before_it_is_kept() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    send_in_pieces(&client, &command(&format!("HELLO 2 SETNAME {}", body(3 * CHUNK))));
    cluster.node(B).serve("GET b", "$-1\r\n");
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.starts_with("$-1\r\n*14\r\n"), "{received}");
}
