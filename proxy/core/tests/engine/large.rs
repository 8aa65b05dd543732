//! Large values: requests and replies above the limit, passed on while they come.

use tsubaki_core::action::Event;
use tsubaki_core::settings::ReadPolicy;

use crate::harness::large::{LARGE, begin_request, body, cluster};
use crate::harness::{B, B1, B2, Behaviour, C, Client, Cluster, bulk, command, commands, ms};

const LOST_HALF: &str = "-CLUSTERDOWN the connection to the node of slot 3300 was lost before the command was sent whole; it did not run\r\n";

/// The client asks for `b`, and its node begins to answer: so many bytes of the reply are given, the rest comes back.
fn begin_reply(cluster: &Cluster, client: &Client, reply: &str, given: usize) -> String {
    client.send("GET b");
    cluster.node(B).serve("GET b", &reply[..given]);
    reply[given..].to_owned()
}

/// A cluster whose reads go to replicas, which are connected.
fn reading_replicas() -> Cluster {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.read_policy = ReadPolicy::PreferReplica;
    });
    let client = cluster.client();
    for _ in 0..4 {
        client.send("GET b");
        let at = [B, B1, B2].into_iter().find(|address| cluster.node(address).got_something());
        cluster.node(at.unwrap()).serve("GET b", "$-1\r\n");
        client.expect("$-1\r\n");
    }
    cluster
}

/// Behind writes that are not answered, the client asks a replica for `b`; which one begins with a large reply, and the
/// rest of that, come back.
fn begin_reply_behind<const N: usize>(
    cluster: &Cluster,
    client: &Client,
    writes: [&str; N],
) -> (&'static str, String) {
    client.send_all(writes);
    client.send("GET b");
    let at = [B1, B2].into_iter().find(|address| cluster.node(address).got_something()).unwrap();
    let reply = bulk(&body(2 * LARGE));
    cluster.node(at).serve("GET b", &reply[..100]);
    cluster.node(B).expect_all(writes);
    (at, reply[100..].to_owned())
}

// Replies.

#[test]
fn a_large_reply_is_passed_on_while_it_comes() {
    let cluster = cluster();
    let client = cluster.client();
    let reply = bulk(&body(5 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 100);
    client.expect(&reply[..100]);
    for piece in rest.as_bytes().chunks(3_000) {
        cluster.node(B).reply(piece);
        client.expect(piece);
    }
    assert_eq!(cluster.stats().large_replies, 1);
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn a_reply_of_many_elements_is_large_once_it_has_grown() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("LRANGE b 0 -1");
    let reply = format!("*2000\r\n{}", bulk("0123456789").repeat(2000));
    cluster.node(B).serve("LRANGE b 0 -1", &reply[..LARGE - 100]);
    client.expect_nothing();
    cluster.node(B).reply(&reply[LARGE - 100..LARGE + 100]);
    // What ends in the middle of a length waits for its end.
    let received = client.received();
    assert!(received.len() > LARGE && reply.as_bytes().starts_with(&received));
    cluster.node(B).reply(&reply[LARGE + 100..]);
    client.expect(&reply[received.len()..]);
}

#[test]
fn a_large_reply_may_be_cut_at_any_byte() {
    let value = bulk(&body(120));
    let replies = format!("*5\r\n{value}$-1\r\n:12345\r\n$0\r\n\r\n*1\r\n+a\r\n+\r\n");
    for cut in 20..=replies.len() {
        let cluster = Cluster::with(|settings| settings.large_value = 100);
        let (client, other) = (cluster.client(), cluster.client());
        client.send("EVAL x 1 b");
        other.send("EVAL x 1 b1");
        cluster.node(B).expect_all(["EVAL x 1 b", "EVAL x 1 b1"]);
        cluster.node(B).reply(&replies[..20]);
        cluster.node(B).reply(&replies[20..cut]);
        cluster.node(B).reply(&replies[cut..]);
        client.expect(&replies[..replies.len() - 3]);
        other.expect("+\r\n");
    }
}

#[test]
fn a_reply_of_the_limits_length_is_not_large() {
    let cluster = cluster();
    let client = cluster.client();
    let reply = bulk(&body(LARGE - 9));
    assert_eq!(reply.len(), LARGE);
    let rest = begin_reply(&cluster, &client, &reply, 100);
    client.expect_nothing();
    cluster.node(B).reply(rest);
    client.expect(reply);
    assert_eq!(cluster.stats().large_replies, 0);
}

#[test]
fn new_commands_do_not_wait_behind_a_large_reply() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(5 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 100);
    other.send("SET b 1");
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    other.expect("+OK\r\n");
    assert_eq!(cluster.node(B).dialled(), 2);
    other.send("GET b1");
    cluster.node(B).expect("GET b1");
    assert_eq!(cluster.node(B).dialled(), 2, "the second connection is shared");
    cluster.node(B).reply("$-1\r\n");
    other.expect("$-1\r\n");
    cluster.node(B).reply_on(0, rest);
    client.expect(reply);
}

#[test]
fn what_is_in_flight_behind_a_large_reply_gets_its_own() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    client.send("GET b");
    other.send_all(["GET b1", "GET b5"]);
    cluster.node(B).expect_all(["GET b", "GET b1", "GET b5"]);
    let reply = bulk(&body(5 * LARGE));
    cluster.node(B).reply(&reply[..20_000]);
    other.expect_nothing();
    cluster.node(B).reply(format!("{}$1\r\n1\r\n$1\r\n5\r\n", &reply[20_000..]));
    client.expect(reply);
    other.expect("$1\r\n1\r\n$1\r\n5\r\n");
}

#[test]
fn a_client_does_not_overtake_its_own_command_behind_a_large_reply() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    other.send("GET b1");
    client.send("SET b 1");
    cluster.node(B).expect_all(["GET b1", "SET b 1"]);
    let reply = bulk(&body(5 * LARGE));
    cluster.node(B).reply(&reply[..100]);
    client.send_all(["SET b 2", "SET b5 3"]);
    cluster.node(B).serve("SET b5 3", "+OK\r\n");
    cluster.expect_nothing_sent();
    cluster.node(B).reply_on(0, format!("{}+OK\r\n", &reply[100..]));
    cluster.node(B).serve("SET b 2", "+OK\r\n");
    client.expect("+OK\r\n".repeat(3));
    other.expect(reply);
}

#[test]
fn with_nobody_waiting_a_slow_readers_node_is_kept_waiting() {
    let cluster = cluster();
    let client = cluster.client();
    client.read_only(0);
    let reply = bulk(&body(50 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 100);
    for piece in rest.as_bytes().chunks(1_000) {
        cluster.node(B).reply(piece);
    }
    assert!(cluster.node(B).is_paused());
    assert!(cluster.held() <= LARGE + 1_000, "{} bytes are held", cluster.held());
    client.read_only(3_000);
    assert!(cluster.node(B).is_paused());
    client.read_only(LARGE);
    assert!(cluster.held() <= LARGE + 1_000, "{} bytes are held", cluster.held());
    client.read_only(usize::MAX);
    client.expect(reply);
    assert!(!cluster.node(B).is_paused());
}

#[test]
fn a_slow_reader_that_has_more_commands_behind_waits_only_for_itself() {
    let cluster = cluster();
    let client = cluster.client();
    client.read_only(0);
    client.send_all(["GET b", "GET b1"]);
    cluster.node(B).expect_all(["GET b", "GET b1"]);
    let reply = bulk(&body(50 * LARGE));
    reply.as_bytes().chunks(1_000).for_each(|piece| cluster.node(B).reply(piece));
    assert!(cluster.node(B).is_paused());
    cluster.node(B).reply("$1\r\n1\r\n");
    client.read_only(usize::MAX);
    client.expect(reply + "$1\r\n1\r\n");
}

#[test]
fn while_another_waits_a_slow_reader_keeps_nobody_waiting() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    client.read_only(0);
    client.send("GET b");
    other.send("GET b1");
    cluster.node(B).expect_all(["GET b", "GET b1"]);
    let reply = bulk(&body(50 * LARGE));
    for piece in reply.as_bytes().chunks(1_000) {
        cluster.node(B).reply(piece);
    }
    assert!(!cluster.node(B).is_paused());
    cluster.node(B).reply("$1\r\n1\r\n");
    other.expect("$1\r\n1\r\n");
    client.read_only(usize::MAX);
    client.expect(reply);
}

#[test]
fn while_another_waits_a_slow_reader_is_closed_at_its_output_limit() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_output = 10 * LARGE;
    });
    let (client, other) = (cluster.client(), cluster.client());
    client.read_only(0);
    client.send("GET b");
    other.send("GET b1");
    cluster.node(B).expect_all(["GET b", "GET b1"]);
    let reply = bulk(&body(50 * LARGE));
    for piece in reply.as_bytes().chunks(1_000) {
        cluster.node(B).reply(piece);
    }
    assert!(client.is_closed());
    assert_eq!(cluster.stats().output_limit, 1);
    assert_eq!(cluster.held(), 0);
    cluster.node(B).reply("$1\r\n1\r\n");
    other.expect("$1\r\n1\r\n");
    assert_eq!(cluster.node(B).dialled(), 1, "the connection lives on");
}

#[test]
fn a_reply_above_the_output_limit_passes_if_its_client_reads() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_output = LARGE / 2;
    });
    let client = cluster.client();
    let reply = bulk(&body(5 * LARGE));
    client.read_only(0);
    client.send("GET b");
    cluster.node(B).expect("GET b");
    reply.as_bytes().chunks(1_000).for_each(|piece| cluster.node(B).reply(piece));
    client.read_only(usize::MAX);
    client.expect(reply);
}

#[test]
fn a_slow_reader_that_leaves_costs_nobody_anything() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    client.read_only(0);
    let reply = bulk(&body(50 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 2 * LARGE);
    assert!(cluster.node(B).is_paused());
    client.close();
    assert!(!cluster.node(B).is_paused());
    cluster.node(B).reply(rest);
    assert_eq!(cluster.held(), 0);
    assert_eq!(cluster.stats().orphans, 1);
    other.send("GET b");
    cluster.node(B).serve("GET b", "$1\r\n1\r\n");
    other.expect("$1\r\n1\r\n");
    assert_eq!(cluster.node(B).dialled(), 1, "the connection lives on");
}

#[test]
fn a_client_that_sends_all_before_it_reads_gets_all() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_in_flight = 10;
    });
    let client = cluster.client();
    client.read_only(0);
    let reply = bulk(&body(50 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 2 * LARGE);
    cluster.node(B).reply(rest);
    assert!(cluster.node(B).is_paused());
    client.send_bytes(commands(["PING"]).repeat(100));
    assert!(!cluster.node(B).is_paused() && !client.is_paused());
    client.read_only(usize::MAX);
    client.expect(reply + &"+PONG\r\n".repeat(100));
}

#[test]
fn a_paused_connection_is_not_taken_for_a_silent_one() {
    let cluster = cluster();
    let client = cluster.client();
    client.read_only(0);
    let reply = bulk(&body(50 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 2 * LARGE);
    cluster.advance(ms(100_000));
    client.read_only(usize::MAX);
    cluster.advance(ms(14_000));
    cluster.node(B).reply(rest);
    client.expect(reply);
}

#[test]
fn a_large_reply_waits_for_its_turn() {
    let cluster = cluster();
    let client = cluster.client();
    client.send_all(["GET c", "GET b"]);
    cluster.node(B).expect("GET b");
    let reply = bulk(&body(5 * LARGE));
    cluster.node(B).reply(&reply[..20_000]);
    client.expect_nothing();
    cluster.node(C).serve("GET c", "$1\r\nc\r\n");
    client.expect("$1\r\nc\r\n");
    cluster.node(B).reply(&reply[20_000..20_001]);
    client.expect(&reply[..20_001]);
    cluster.node(B).reply(&reply[20_001..]);
    client.expect(&reply[20_001..]);
}

#[test]
fn a_large_reply_whose_turn_does_not_come_counts_as_unread() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_output = 10 * LARGE;
    });
    let client = cluster.client();
    client.send_all(["GET c", "GET b"]);
    cluster.node(B).expect("GET b");
    cluster.node(C).expect("GET c");
    let reply = bulk(&body(20 * LARGE));
    reply.as_bytes()[..15 * LARGE].chunks(1_000).for_each(|piece| cluster.node(B).reply(piece));
    assert!(client.is_closed());
    cluster.node(B).reply(&reply[15 * LARGE..]);
    cluster.node(C).reply("$-1\r\n");
    assert_eq!(cluster.held(), 0);
}

#[test]
fn a_large_part_of_a_split_command_is_put_in_its_place() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("MGET b c");
    cluster.node(B).expect("MGET b");
    let value = bulk(&body(5 * LARGE));
    let reply = format!("*1\r\n{value}");
    reply.as_bytes().chunks(3_000).for_each(|piece| cluster.node(B).reply(piece));
    client.expect_nothing();
    cluster.node(C).serve("MGET c", "*1\r\n$1\r\nc\r\n");
    client.expect(format!("*2\r\n{value}$1\r\nc\r\n"));
}

#[test]
fn a_large_error_is_looked_at_whole() {
    let cluster = cluster();
    let client = cluster.client();
    let error = format!("-ERR {}\r\n", body(2 * LARGE));
    client.send("EVAL x 1 b");
    cluster.node(B).serve("EVAL x 1 b", &error[..LARGE + 100]);
    client.expect_nothing();
    cluster.node(B).reply(&error[LARGE + 100..]);
    client.expect(error);
    assert_eq!(cluster.stats().node_errors, 1);
}

#[test]
fn a_node_that_dies_in_the_midst_of_a_reply_ends_its_client() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(5 * LARGE));
    client.send("GET b");
    other.send("GET b1");
    cluster.node(B).expect_all(["GET b", "GET b1"]);
    cluster.node(B).reply(&reply[..20_000]);
    cluster.node(B).close();
    client.expect(&reply[..20_000]);
    assert!(client.is_closed());
    assert!(cluster.events().contains(&Event::ReplyCut { client: "192.0.2.1:50000".to_owned() }));
    cluster.advance(ms(100));
    cluster.node(B).serve("GET b1", "$-1\r\n");
    other.expect("$-1\r\n");
}

#[test]
fn a_read_whose_large_reply_nobody_has_seen_is_sent_again() {
    let cluster = cluster();
    let client = cluster.client();
    client.send_all(["GET c", "GET b"]);
    cluster.node(B).serve("GET b", &bulk(&body(5 * LARGE))[..20_000]);
    cluster.node(B).close();
    cluster.node(C).serve("GET c", "$-1\r\n");
    cluster.advance(ms(100));
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n$-1\r\n");
}

#[test]
fn a_large_reply_that_breaks_the_protocol_ends_its_client_and_connection() {
    let cluster = cluster();
    let client = cluster.client();
    let reply = bulk(&body(2 * LARGE));
    let rest = begin_reply(&cluster, &client, &reply, 20_000);
    cluster.node(B).reply(rest.replace("\r\n", "xx"));
    assert!(client.is_closed());
    client.received();
    assert_eq!(cluster.connections(), Vec::<String>::new());
}

#[test]
fn a_large_reply_that_nobody_asked_for_answers_nobody() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(B).reply(&bulk(&body(5 * LARGE))[..2 * LARGE]);
    assert_eq!(cluster.connections(), Vec::<String>::new());
    client.send("GET b");
    cluster.node(B).serve("GET b", "$1\r\n1\r\n");
    client.expect("$1\r\n1\r\n");
}

#[test]
fn a_large_push_message_answers_nobody() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    let message = format!(">2\r\n$1\r\nx\r\n{}", bulk(&body(2 * LARGE)));
    cluster.node(B).reply(&message[..LARGE]);
    client.send("GET b");
    cluster.node(B).expect("GET b");
    cluster.node(B).reply_on(0, &message[LARGE..]);
    client.expect_nothing();
    cluster.node(B).reply("$1\r\n1\r\n");
    client.expect("$1\r\n1\r\n");
    assert_eq!(cluster.connections(), [B, B]);
}

// Requests.

#[test]
fn a_large_request_is_passed_on_while_it_comes() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(50 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    for piece in rest.chunks(3_000) {
        client.send_bytes(piece);
        cluster.node(B).expect_bytes(piece);
        assert!(cluster.held() <= 3_000);
    }
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
    assert_eq!(cluster.stats().large_requests, 1);
}

#[test]
fn a_large_request_may_be_cut_at_any_byte() {
    let request = command(&format!("SET b {} KEEPTTL GET", body(120)));
    let requests = [request.as_slice(), &command("GET b")].concat();
    for cut in 0..=requests.len() {
        let cluster = Cluster::with(|settings| settings.large_value = 100);
        let client = cluster.client();
        client.send_bytes(&requests[..cut]);
        client.send_bytes(&requests[cut..]);
        if cluster.node(B).take_command().is_some_and(|words| words[0] == "EXISTS") {
            cluster.node(B).reply(":0\r\n");
            cluster.node(B).expect_bytes(&request);
        }
        cluster.node(B).reply("$-1\r\n");
        cluster.node(B).serve("GET b", "$1\r\nv\r\n");
        client.expect("$-1\r\n$1\r\nv\r\n");
    }
}

#[test]
fn what_follows_a_large_request_in_the_same_bytes_is_a_command() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes([rest.as_slice(), &command("GET b1"), &command("GET b")].concat());
    cluster.node(B).expect("GET b1");
    cluster.node(B).reply("$-1\r\n");
    cluster.node(B).expect_bytes(&rest);
    cluster.expect_nothing_sent();
    cluster.node(B).reply("+OK\r\n");
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("+OK\r\n$-1\r\n$1\r\nv\r\n");
}

#[test]
fn other_clients_commands_do_not_wait_behind_a_large_request() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    other.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    other.expect("$-1\r\n");
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_request_waits_for_what_its_client_sent_before_on_its_slot() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    client.send_bytes([command("INCR b").as_slice(), &command("INCR b1"), &request[..100]].concat());
    cluster.node(B).expect_all(["INCR b", "INCR b1"]);
    cluster.expect_nothing_sent();
    assert!(client.is_paused());
    cluster.node(B).reply(":1\r\n");
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    cluster.node(B).expect_bytes(&request[..100]);
    client.send_bytes(&request[100..]);
    cluster.node(B).expect_bytes(&request[100..]);
    cluster.node(B).reply("+OK\r\n");
    cluster.node(B).reply_on(0, ":1\r\n");
    client.expect(":1\r\n:1\r\n+OK\r\n");
}

#[test]
fn a_slow_node_keeps_its_client_waiting() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(50 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).take_only(0);
    rest.chunks(1_000).for_each(|piece| client.send_bytes(piece));
    assert!(client.is_paused());
    assert!(cluster.held() <= LARGE + 1_000, "{} bytes are held", cluster.held());
    cluster.node(B).take_only(usize::MAX);
    assert!(!client.is_paused());
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_client_that_leaves_half_way_costs_that_connection_only() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    other.send("GET b");
    cluster.node(B).expect("GET b");
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    begin_request(&cluster, &client, &request, 100);
    client.close();
    assert_eq!(cluster.connections(), [B]);
    assert_eq!(cluster.held(), 0);
    cluster.node(B).reply_on(0, "$-1\r\n");
    other.expect("$-1\r\n");
    assert_eq!(cluster.events(), []);
}

#[test]
fn a_client_that_stops_half_way_is_closed() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    begin_request(&cluster, &client, &request, 100);
    client.finish();
    client.expect("-ERR the request ended half way; it did not run\r\n");
    assert!(client.is_closed());
    assert_eq!(cluster.connections(), [B]);
}

#[test]
fn a_large_request_goes_where_its_question_was_sent() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.node(B).serve("EXISTS b", "-MOVED 3300 c:7000\r\n");
    cluster.node(C).serve("EXISTS b", ":0\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(C).expect_bytes(&request);
    cluster.node(C).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_request_goes_where_an_ask_sent_its_question() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.node(B).serve("EXISTS b", "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "EXISTS b"]);
    cluster.node(C).reply("+OK\r\n:0\r\n");
    cluster.node(C).expect_bytes([command("ASKING").as_slice(), &request[..100]].concat());
    cluster.node(C).reply("+OK\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(C).expect_bytes(&request[100..]);
    cluster.node(C).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_request_that_is_refused_after_all_is_not_sent_again() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("-MOVED 3300 c:7000\r\n");
    client.expect(
        "-TRYAGAIN the node of slot 3300 changed while a large request was on its way; it did not run\r\n",
    );
    client.send("GET b");
    cluster.node(C).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn a_large_request_whose_node_dies_half_way_did_not_run() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).close();
    client.expect(LOST_HALF);
    client.send_bytes([rest.as_slice(), &command("PING")].concat());
    client.expect("+PONG\r\n");
}

#[test]
fn a_large_request_whose_node_dies_when_it_is_whole_may_have_run() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).close();
    client.expect("-ERR the connection to the node of slot 3300 was lost after the command was sent; it may have run\r\n");
}

#[test]
fn a_large_request_whose_last_byte_no_socket_took_did_not_run() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).take_only(rest.len() - 1);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest[..rest.len() - 1]);
    cluster.node(B).close();
    client.expect(LOST_HALF);
}

#[test]
fn a_question_whose_connection_dies_is_asked_again() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.node(B).expect("EXISTS b");
    cluster.node(B).close();
    cluster.advance(ms(100));
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_request_that_finds_no_node_is_answered_and_its_rest_dropped() {
    let cluster = cluster();
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.advance(ms(1550));
    client
        .expect("-CLUSTERDOWN the node of slot 3300 cannot be reached (waited 1500 ms); it was not sent\r\n");
    client.send_bytes([&request[100..], &command("PING")].concat());
    client.expect("+PONG\r\n");
}

#[test]
fn a_nodes_own_words_about_half_a_request_are_passed_on() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).reply("-ERR Protocol error: invalid bulk length\r\n");
    client.expect("-ERR Protocol error: invalid bulk length\r\n");
    client.send_bytes([rest.as_slice(), &command("GET b")].concat());
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    assert_eq!(cluster.events(), []);
}

#[test]
fn a_large_request_that_turns_out_to_be_none_ends_its_client() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {} EX 1", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(String::from_utf8(rest).unwrap().replace("$2\r\nEX", "!2\r\nEX"));
    client.expect("-ERR Protocol error: expected '$', got '!'\r\n");
    assert!(client.is_closed());
    assert_eq!(cluster.connections(), [B]);
}

#[test]
fn a_large_request_keeps_the_limits_of_requests() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_request = 3 * LARGE as u32;
    });
    let client = cluster.client();
    let value = body(2 * LARGE);
    let request = command(&format!("SET b {value} {value}"));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(rest);
    client.expect("-ERR Protocol error: too big request\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_large_request_whose_keys_come_last_is_sent_whole_over_a_connection_of_its_own() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let script = body(2 * LARGE);
    let request = command(&format!("EVAL {script} 1 b"));
    request.chunks(3_000).for_each(|piece| client.send_bytes(piece));
    cluster.node(B).expect_bytes(&request);
    other.send("GET b");
    cluster.node(B).expect("GET b");
    cluster.node(B).reply("$-1\r\n");
    other.expect("$-1\r\n");
    assert_eq!(cluster.node(B).dialled(), 2);
    cluster.node(B).reply_on(1, "-MOVED 3300 c:7000\r\n");
    // A script's redirect is followed, not believed.
    cluster.node(C).expect_bytes([command("ASKING"), request].concat());
    cluster.node(C).reply("+OK\r\n+OK\r\n");
    client.expect("+OK\r\n");
    assert_eq!(cluster.stats().large_requests, 0);
}

#[test]
fn the_parts_of_a_large_split_command_go_over_connections_of_their_own() {
    let cluster = cluster();
    let client = cluster.client();
    let value = body(2 * LARGE);
    let request = command(&format!("MSET b {value} c 1"));
    request.chunks(3_000).for_each(|piece| client.send_bytes(piece));
    cluster.node(B).serve(&format!("MSET b {value}"), "+OK\r\n");
    cluster.node(C).serve("MSET c 1", "+OK\r\n");
    client.expect("+OK\r\n");
    assert_eq!((cluster.node(B).dialled(), cluster.node(C).dialled()), (2, 1));
}

/// The empty key is of slot 0, and so would be one that is not known.
#[test]
fn a_key_that_has_not_come_is_waited_for() {
    let cluster = cluster();
    let client = cluster.client();
    let value = body(2 * LARGE);
    let request = command(&format!("MSET '' {value} b 1"));
    request.chunks(3_000).for_each(|piece| client.send_bytes(piece));
    cluster.node(B).expect("MSET b 1");
    cluster.node(B).reply("+OK\r\n");
    cluster.node(B).serve(&format!("MSET '' {value}"), "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_command_with_one_pair_streams_although_it_could_be_split() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("MSET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_message_streams_to_a_master() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("PUBLISH news {}", body(5 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.node(C).serve("PING", "+PONG\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(C).expect_bytes(&request);
    cluster.node(C).reply(":0\r\n");
    client.expect(":0\r\n");
}

#[test]
fn in_a_transaction_a_large_command_is_queued_like_any_other() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("MULTI");
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    request.chunks(3_000).for_each(|piece| client.send_bytes(piece));
    client.expect("+OK\r\n+QUEUED\r\n");
}

#[test]
fn a_large_write_goes_to_the_master_whatever_the_read_policy() {
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.read_policy = ReadPolicy::Replica;
    });
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
    assert!(!cluster.node(B1).got_something());
}

#[test]
fn a_stopping_proxy_waits_for_the_other_half() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.stop();
    for piece in rest.chunks(LARGE) {
        assert!(!client.is_closed() && !client.is_paused());
        client.send_bytes(piece);
    }
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
    assert!(client.is_closed() && cluster.is_drained());
}

#[test]
fn a_client_that_takes_its_time_with_a_large_request_is_not_taken_for_a_silent_node() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.advance(ms(100_000));
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.advance(ms(14_000));
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_node_that_takes_nothing_of_a_large_request_is_given_up() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).take_only(0);
    client.send_bytes(&rest);
    cluster.advance(ms(40_000));
    client.expect(LOST_HALF);
}

#[test]
fn a_byte_of_a_request_of_many_arguments_costs_no_more_than_a_byte() {
    const ARGS: usize = 1_000_000;
    const TO_COME: usize = 1_000;
    let cluster = cluster();
    let client = cluster.client();
    let arg = b"$1\r\nb\r\n";
    let mut request = format!("*{}\r\n$3\r\nDEL\r\n", ARGS + 1).into_bytes();
    request.extend_from_slice(&arg.repeat(ARGS - TO_COME));
    client.send_bytes(&request);
    // If each looked at all arguments before it, this would not end.
    for byte in arg.repeat(TO_COME) {
        client.send_bytes([byte]);
    }
    assert_eq!(cluster.node(B).take_command().map(|words| words.len()), Some(ARGS + 1));
    cluster.node(B).reply(":1\r\n");
    client.expect(":1\r\n");
}

#[test]
fn a_request_of_which_more_arguments_have_come_is_looked_at_again() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("EVAL {} 1 b {}", body(2 * LARGE), body(2 * LARGE)));
    client.send_bytes(&request[..2 * LARGE]);
    client.send_bytes(&request[2 * LARGE..2 * LARGE + 200]);
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    client.send_bytes(&request[2 * LARGE + 200..]);
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_large_request_joins_a_hold_only_behind_all_that_its_client_has_in_flight() {
    let cluster = reading_replicas();
    let client = cluster.client();
    let (replica, rest) = begin_reply_behind(&cluster, &client, ["SET b 1"]);
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.node(replica).reply(&rest);
    cluster.expect_nothing_sent();
    cluster.node(B).reply_on(0, "+OK\r\n");
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    assert!(client.received().ends_with(b"\r\n+OK\r\n"));
}

#[test]
fn a_whole_large_request_joins_a_hold_only_behind_all_that_its_client_has_in_flight() {
    let cluster = reading_replicas();
    let client = cluster.client();
    let (replica, rest) = begin_reply_behind(&cluster, &client, ["SET b 1"]);
    let request = command(&format!("EVAL {} 1 b", body(2 * LARGE)));
    client.send_bytes(&request);
    cluster.node(replica).reply(&rest);
    cluster.expect_nothing_sent();
    cluster.node(B).reply_on(0, "+OK\r\n");
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    assert!(client.received().ends_with(b"\r\n+OK\r\n"));
}

#[test]
fn a_refused_command_joins_a_hold_only_behind_all_that_its_client_has_in_flight() {
    let cluster = reading_replicas();
    let client = cluster.client();
    let (replica, rest) = begin_reply_behind(&cluster, &client, ["SET b 1", "SET b 2"]);
    cluster.node(B).reply("-ASK 3300 c:7000\r\n");
    cluster.node(replica).reply(&rest);
    cluster.expect_nothing_sent();
    cluster.node(B).reply("-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "SET b 1", "ASKING", "SET b 2"]);
    cluster.node(C).reply("+OK\r\n".repeat(4));
    assert!(client.received().ends_with(rest.as_bytes()));
}

#[test]
fn replies_to_other_commands_let_no_more_of_a_large_request_in() {
    let cluster = cluster();
    let client = cluster.client();
    client.send_bytes(command("GET c").repeat(100));
    let request = command(&format!("SET b {}", body(100 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).take_only(1);
    let mut pieces = rest.chunks(LARGE);
    client.send_bytes(pieces.next().unwrap());
    for piece in pieces {
        cluster.node(C).serve("GET c", "$-1\r\n");
        client.send_bytes(piece);
        assert!(client.is_paused());
    }
    assert!(cluster.held() <= 2 * LARGE, "{} bytes are held", cluster.held());
    cluster.node(B).expect_bytes(&rest[..1]);
    cluster.node(B).take_only(usize::MAX);
    cluster.node(B).expect_bytes(&rest[1..]);
    cluster.node(B).reply("+OK\r\n");
    cluster.node(C).serve("GET c", "$-1\r\n");
    client.expect("$-1\r\n".repeat(100) + "+OK\r\n");
}

#[test]
fn a_node_that_takes_long_to_take_a_whole_large_request_is_not_taken_for_a_silent_one() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("EVAL {} 1 b", body(6 * LARGE)));
    cluster.node(B).behave(Behaviour::Scripted);
    client.send_bytes(&request);
    cluster.node(B).expect("PING");
    cluster.node(B).reply("+PONG\r\n");
    cluster.node(B).expect("PING");
    cluster.node(B).take_only(0);
    cluster.node(B).reply("+PONG\r\n");
    for _ in 0..6 {
        cluster.advance(ms(10_000));
        cluster.node(B).take_only(LARGE);
    }
    cluster.node(B).take_only(usize::MAX);
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_nodes_own_words_are_passed_on_before_the_last_byte_has_left() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    cluster.node(B).take_only(5_000);
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest[..5_000]);
    cluster.node(B).reply("-ERR Protocol error: invalid bulk length\r\n");
    client.expect("-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(cluster.events(), []);
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn a_whole_large_request_is_not_begun_again_and_again() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(B).behave(Behaviour::Scripted);
    let request = command(&format!("EVAL {} 1 b", body(6 * LARGE)));
    client.send_bytes(&request);
    for _ in 0..4 {
        client.expect_nothing();
        cluster.advance(ms(200));
        cluster.node(B).expect("PING");
        cluster.node(B).take_only(100);
        cluster.node(B).reply("+PONG\r\n");
        cluster.node(B).expect_bytes(&request[..100]);
        cluster.node(B).close_one(1);
    }
    client.expect(LOST_HALF);
}

// Connections.

#[test]
fn connections_of_large_values_are_used_again() {
    let cluster = cluster();
    let client = cluster.client();
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    for _ in 0..10 {
        let rest = begin_request(&cluster, &client, &request, 100);
        client.send_bytes(&rest);
        cluster.node(B).expect_bytes(&rest);
        cluster.node(B).reply("+OK\r\n");
        client.expect("+OK\r\n");
        let reply = bulk(&body(2 * LARGE));
        let rest = begin_reply(&cluster, &client, &reply, 100);
        cluster.node(B).reply(rest);
        client.expect(reply);
    }
    assert!(cluster.node(B).dialled() <= 2);
}

#[test]
fn most_connections_of_large_values_are_closed_when_they_carry_nothing() {
    let cluster = cluster();
    let clients: Vec<Client> = (0..60).map(|_| cluster.client()).collect();
    let reply = bulk(&body(2 * LARGE));
    for (number, client) in clients.iter().enumerate() {
        client.send("GET b");
        cluster.node(B).expect("GET b");
        cluster.node(B).reply_on(number, &reply[..100]);
    }
    assert_eq!(cluster.connections().len(), 60);
    for (number, client) in clients.iter().enumerate() {
        cluster.node(B).reply_on(number, &reply[100..]);
        client.expect(&reply);
    }
    assert!(cluster.connections().len() <= 17, "{} connections are open", cluster.connections().len());
}

#[test]
fn the_connections_beside_the_shared_one_are_bounded() {
    const SPARES: usize = 20;
    let cluster = Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_spares = SPARES;
    });
    let reply = bulk(&body(2 * LARGE));
    let clients: Vec<Client> = (0..=SPARES).map(|_| cluster.client()).collect();
    for client in &clients {
        begin_reply(&cluster, client, &reply, 100);
        client.expect(&reply[..100]);
    }
    assert_eq!(cluster.connections().len(), SPARES + 1);
    let late = cluster.client();
    late.send("GET b");
    cluster.node(B).serve("GET b", format!("{}$-1\r\n", &reply[100..]));
    late.expect("$-1\r\n");
    clients[SPARES].expect(&reply[100..]);
    assert_eq!(cluster.connections().len(), SPARES + 1);
}
