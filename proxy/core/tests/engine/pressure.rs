//! Bounds: what is in flight, what is unread, and how a client or the proxy comes to its end.

use tsubaki_core::action::Event;

use crate::harness::{B, B1, Behaviour, C, Cluster, bulk, command, ms};

#[test]
fn a_client_with_too_many_commands_in_flight_is_read_again_at_half() {
    let cluster = Cluster::with(|settings| settings.max_in_flight = 10);
    let client = cluster.client();
    client.send_bytes(command("GET b").repeat(14));
    assert!(client.is_paused());
    cluster.node(B).expect_bytes(command("GET b").repeat(10));
    for _ in 0..4 {
        cluster.node(B).reply("$-1\r\n");
        assert!(client.is_paused());
    }
    cluster.expect_nothing_sent();
    cluster.node(B).reply("$-1\r\n");
    assert!(!client.is_paused());
    cluster.node(B).expect_bytes(command("GET b").repeat(4));
    cluster.node(B).reply("$-1\r\n".repeat(9));
    client.expect("$-1\r\n".repeat(14));
}

#[test]
fn a_client_with_too_many_bytes_in_flight_is_read_again_at_half() {
    let set = format!("SET b {}", "v".repeat(1000));
    let cluster = Cluster::with(|settings| settings.max_in_flight_bytes = 4000);
    let client = cluster.client();
    client.send_bytes(command(&set).repeat(6));
    assert!(client.is_paused());
    cluster.node(B).expect_bytes(command(&set).repeat(4));
    cluster.node(B).reply("+OK\r\n+OK\r\n");
    assert!(client.is_paused());
    cluster.node(B).reply("+OK\r\n");
    assert!(!client.is_paused());
    cluster.node(B).expect_bytes(command(&set).repeat(2));
    cluster.node(B).reply("+OK\r\n".repeat(3));
    client.expect("+OK\r\n".repeat(6));
}

#[test]
fn one_clients_pause_is_not_anothers() {
    let cluster = Cluster::with(|settings| settings.max_in_flight = 2);
    let (client, other) = (cluster.client(), cluster.client());
    client.send_bytes(command("GET b").repeat(3));
    assert!(client.is_paused());
    other.send_all(["GET c", "PING"]);
    cluster.node(C).serve("GET c", "$-1\r\n");
    other.expect("$-1\r\n+PONG\r\n");
    cluster.node(B).expect_bytes(command("GET b").repeat(2));
    cluster.node(B).reply("$-1\r\n$-1\r\n");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n".repeat(3));
}

#[test]
fn unread_replies_never_stop_a_client_from_sending() {
    let cluster = Cluster::with(|settings| settings.max_in_flight = 100);
    let client = cluster.client();
    client.read_only(0);
    let value = bulk(&"v".repeat(1024));
    let mut expected = String::new();
    for _ in 0..200 {
        client.send_bytes([command("GET b").repeat(50), command("PING")].concat());
        cluster.node(B).expect_bytes(command("GET b").repeat(50));
        cluster.node(B).reply(value.repeat(50));
        assert!(!client.is_paused());
        expected += &(value.repeat(50) + "+PONG\r\n");
    }
    client.expect_nothing();
    client.read_only(usize::MAX);
    client.expect(expected);
}

#[test]
fn a_client_that_reads_too_little_is_closed_and_no_other() {
    let cluster = Cluster::with(|settings| settings.max_output = 10_000);
    let (client, other) = (cluster.client(), cluster.client());
    client.read_only(0);
    client.send_all(["GET b", "GET b", "GET c"]);
    other.send("GET b");
    cluster.node(B).expect_all(["GET b", "GET b", "GET b"]);
    cluster.node(C).expect("GET c");
    let value = bulk(&"v".repeat(6_000));
    cluster.node(B).reply(&value);
    assert!(!client.is_closed());
    cluster.node(B).reply(&value);
    assert!(client.is_closed());
    cluster.node(B).reply("$-1\r\n");
    cluster.node(C).reply("$-1\r\n");
    other.expect("$-1\r\n");
    client.expect_nothing();
    let closed = Event::OutputLimit { client: "192.0.2.1:50000".to_owned(), bytes: 2 * value.len() };
    assert!(cluster.events().contains(&closed));
    assert_eq!(cluster.stats().output_limit, 1);
}

#[test]
fn replies_that_wait_for_their_turn_count_as_unread() {
    let cluster = Cluster::with(|settings| settings.max_output = 100_000);
    let client = cluster.client();
    client.send_all(["GET b", "GET c", "GET c"]);
    cluster.node(B).expect("GET b");
    cluster.node(C).expect_all(["GET c", "GET c"]);
    cluster.node(C).reply(bulk(&"v".repeat(60_000)).repeat(2));
    assert!(client.is_closed());
    cluster.node(B).reply("$-1\r\n");
}

#[test]
fn one_reply_above_the_limit_closes_its_reader_too() {
    let cluster = Cluster::with(|settings| settings.max_output = 1000);
    let client = cluster.client();
    client.read_only(10);
    client.send("GET b");
    cluster.node(B).serve("GET b", bulk(&"v".repeat(1001)));
    assert!(client.is_closed());
}

#[test]
fn when_all_clients_together_leave_too_much_unread_the_one_that_grows_is_closed() {
    let cluster = Cluster::with(|settings| settings.max_total_output = 10_000);
    let (small, large) = (cluster.client(), cluster.client());
    small.read_only(0);
    large.read_only(0);
    for (client, size) in [(&small, 1000), (&large, 9500)] {
        client.send("GET b");
        cluster.node(B).serve("GET b", bulk(&"v".repeat(size)));
    }
    assert!(large.is_closed() && !small.is_closed());
    small.send("PING");
    small.read_only(usize::MAX);
    small.expect(bulk(&"v".repeat(1000)) + "+PONG\r\n");
}

#[test]
fn a_client_that_has_sent_all_gets_all_and_is_closed_then() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "MGET b c", "PING"]);
    client.finish();
    cluster.node(B).expect_all(["GET b", "MGET b"]);
    cluster.node(B).reply("$1\r\n1\r\n*1\r\n$-1\r\n");
    assert!(!client.is_closed());
    client.read_only(5);
    cluster.node(C).serve("MGET c", "*1\r\n$-1\r\n");
    assert!(!client.is_closed());
    client.read_only(usize::MAX);
    client.expect("$1\r\n1\r\n*2\r\n$-1\r\n$-1\r\n+PONG\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_client_that_has_sent_all_while_paused_gets_all() {
    let cluster = Cluster::with(|settings| settings.max_in_flight = 2);
    let client = cluster.client();
    client.send_bytes(command("GET b").repeat(5));
    client.finish();
    for _ in 0..5 {
        assert!(!client.is_closed());
        cluster.node(B).serve("GET b", "$-1\r\n");
    }
    client.expect("$-1\r\n".repeat(5));
    assert!(client.is_closed());
}

#[test]
fn a_client_that_stops_in_the_middle_of_a_request_is_closed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes("*2\r\n$3\r\nGET\r\n$1");
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn to_stop_means_to_answer_what_is_in_flight() {
    let cluster = Cluster::new();
    let (idle, busy, slow) = (cluster.client(), cluster.client(), cluster.client());
    busy.send_all(["GET b", "GET c"]);
    slow.read_only(0);
    slow.send("PING");
    cluster.stop();
    assert!(idle.is_closed() && !busy.is_closed() && !slow.is_closed());
    cluster.node(B).serve("GET b", "$-1\r\n");
    assert!(!busy.is_closed());
    cluster.node(C).serve("GET c", "$-1\r\n");
    busy.expect("$-1\r\n$-1\r\n");
    assert!(busy.is_closed() && !cluster.is_drained());
    slow.read_only(usize::MAX);
    slow.expect("+PONG\r\n");
    assert!(slow.is_closed() && cluster.is_drained());
}

#[test]
fn a_client_that_was_accepted_while_stopping_is_served_once() {
    let cluster = Cluster::new();
    cluster.stop();
    let client = cluster.client();
    assert!(!client.is_closed());
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    assert!(client.is_closed());
}

#[test]
fn a_client_that_waits_while_stopping_gets_its_answer() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send("GET b");
    cluster.stop();
    cluster.advance(ms(1550));
    client
        .expect("-CLUSTERDOWN the node of slot 3300 cannot be reached (waited 1500 ms); it was not sent\r\n");
    assert!(cluster.is_drained());
}

#[test]
fn what_waits_counts_as_in_flight() {
    let cluster = Cluster::with(|settings| settings.max_in_flight = 4);
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send_bytes(command("SET b 1").repeat(6));
    assert!(client.is_paused());
    cluster.node(B).behave(Behaviour::Greets);
    cluster.advance(ms(100));
    for _ in 0..6 {
        cluster.node(B).serve("SET b 1", "-MOVED 3300 b1:7000\r\n");
        if !cluster.node(B).got_something() {
            break;
        }
    }
    for _ in 0..6 {
        cluster.node(B1).serve("SET b 1", "+OK\r\n");
    }
    client.expect("+OK\r\n".repeat(6));
}
