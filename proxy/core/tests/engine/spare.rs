//! Connections beside the shared ones: when they are opened, what happens where no more can be.

use tsubaki_core::action::Event;

use crate::harness::large::{LARGE, begin_request, body, cluster};
use crate::harness::{B, Behaviour, C, Client, Cluster, bulk, command, ms};

/// The client asks for `b` and reads nothing; its node, which takes no more connections, has given so much of the reply.
fn jam(cluster: &Cluster, client: &Client, given: &str) {
    client.read_only(0);
    client.send("GET b");
    cluster.node(B).expect("GET b");
    cluster.node(B).behave(Behaviour::Refuses);
    cluster.node(B).reply(given);
}

/// The node takes connections again, and gives so much more of the reply.
fn free(cluster: &Cluster, given: &str) {
    cluster.node(B).behave(Behaviour::Greets);
    cluster.advance(ms(1_000));
    cluster.node(B).reply(given);
}

#[test]
fn a_node_that_takes_no_more_connections_is_still_served_over_the_old_one() {
    let cluster = cluster();
    let client = cluster.client();
    let others = [cluster.client(), cluster.client(), cluster.client()];
    let reply = bulk(&body(50 * LARGE));
    jam(&cluster, &client, &reply[..2 * LARGE]);
    for other in &others {
        other.send("GET b");
        cluster.node(B).expect("GET b");
        cluster.advance(ms(1_600));
        other.expect_nothing();
    }
    cluster.node(B).reply(format!("{}{}", &reply[2 * LARGE..], "$-1\r\n".repeat(3)));
    others.iter().for_each(|other| other.expect("$-1\r\n"));
    client.read_only(usize::MAX);
    client.expect(reply);
    assert_eq!(cluster.events(), []);
}

#[test]
fn a_shared_connection_is_read_whatever_its_reader_does() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(50 * LARGE));
    jam(&cluster, &client, &reply[..2 * LARGE]);
    assert!(cluster.node(B).is_paused());
    other.send("GET b1");
    cluster.node(B).expect("GET b1");
    other.close();
    reply.as_bytes()[2 * LARGE..40 * LARGE].chunks(LARGE).for_each(|piece| cluster.node(B).reply(piece));
    assert!(!cluster.node(B).is_paused());
    client.close();
}

#[test]
fn commands_take_another_connection_once_the_node_takes_one() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(50 * LARGE));
    jam(&cluster, &client, &reply[..2 * LARGE]);
    other.send("GET b1");
    cluster.node(B).expect("GET b1");
    free(&cluster, &reply[2 * LARGE..3 * LARGE]);
    other.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    cluster.node(B).reply_on(0, format!("{}$-1\r\n", &reply[3 * LARGE..]));
    other.expect("$-1\r\n$-1\r\n");
    client.close();
}

#[test]
fn a_node_that_takes_no_more_connections_is_not_dialled_without_end() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(200 * LARGE));
    jam(&cluster, &client, &reply[..2 * LARGE]);
    other.send("GET b");
    cluster.node(B).expect("GET b");
    for piece in reply.as_bytes()[2 * LARGE..102 * LARGE].chunks(LARGE) {
        cluster.advance(ms(20));
        cluster.node(B).reply(piece);
    }
    assert!(cluster.node(B).dialled() <= 4, "dialled {} times", cluster.node(B).dialled());
    client.close();
}

#[test]
fn a_client_does_not_overtake_itself_when_its_commands_take_another_connection_again() {
    let cluster = cluster();
    let (client, other) = (cluster.client(), cluster.client());
    let reply = bulk(&body(50 * LARGE));
    jam(&cluster, &client, &reply[..2 * LARGE]);
    other.send("SET b 1");
    cluster.node(B).expect("SET b 1");
    free(&cluster, &reply[2 * LARGE..3 * LARGE]);
    other.send_all(["SET b 2", "SET b5 3"]);
    cluster.node(B).serve("SET b5 3", "+OK\r\n");
    cluster.expect_nothing_sent();
    cluster.node(B).reply_on(0, format!("{}+OK\r\n", &reply[3 * LARGE..]));
    cluster.node(B).serve("SET b 2", "+OK\r\n");
    other.expect("+OK\r\n".repeat(3));
    client.close();
}

#[test]
fn a_node_that_takes_no_more_connections_is_sent_whole_large_requests_over_the_old_one() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET c");
    cluster.node(C).serve("GET c", "$-1\r\n");
    client.expect("$-1\r\n");
    cluster.node(C).behave(Behaviour::Refuses);
    let request = command(&format!("EVAL {} 1 c", body(2 * LARGE)));
    client.send_bytes(&request);
    cluster.advance(ms(100));
    cluster.node(C).expect_bytes(&request);
    cluster.node(C).reply("+OK\r\n");
    client.expect("+OK\r\n");
    assert_eq!(cluster.events(), []);
}

#[test]
fn a_connection_beside_the_shared_one_that_is_lost_does_not_make_its_node_down() {
    let cluster = cluster();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    let request = command(&format!("SET b {}", body(5 * LARGE)));
    begin_request(&cluster, &client, &request, 100);
    cluster.node(B).close_one(1);
    assert!(String::from_utf8(client.received()).unwrap().contains("it did not run"));
    assert!(!cluster.events().iter().any(|event| matches!(event, Event::NodeDown { .. })));
}

/// A cluster whose worker has room for one connection beside the shared ones.
fn narrow_cluster() -> Cluster {
    Cluster::with(|settings| {
        settings.large_value = LARGE;
        settings.max_spares = 1;
    })
}

/// Sends a large request to the node of this key, which takes it.
fn upload(cluster: &Cluster, client: &Client, node: &str, key: &str) {
    let request = command(&format!("SET {key} {}", body(2 * LARGE)));
    client.send_bytes(&request[..100]);
    cluster.advance(ms(100));
    cluster.node(node).serve(&format!("EXISTS {key}"), ":0\r\n");
    client.send_bytes(&request[100..]);
    cluster.node(node).expect_bytes(&request);
    cluster.node(node).reply("+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn a_connection_that_carries_nothing_makes_room_for_one_to_another_node() {
    let cluster = narrow_cluster();
    let client = cluster.client();
    upload(&cluster, &client, B, "b");
    upload(&cluster, &client, C, "c");
    assert_eq!(cluster.connections(), [B, C, C]);
}

#[test]
fn where_no_place_is_left_a_large_request_waits_for_one() {
    let cluster = narrow_cluster();
    let (client, late) = (cluster.client(), cluster.client());
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    late.send_bytes(&request[..100]);
    cluster.advance(ms(1_000));
    cluster.expect_nothing_sent();
    client.send_bytes(&rest);
    cluster.node(B).expect_bytes(&rest);
    cluster.node(B).reply("+OK\r\n");
    client.expect("+OK\r\n");
    cluster.node(B).serve("EXISTS b", ":0\r\n");
    late.send_bytes(&request[100..]);
    cluster.node(B).expect_bytes(&request);
    cluster.node(B).reply("+OK\r\n");
    late.expect("+OK\r\n");
}

#[test]
fn a_client_that_stops_half_way_loses_its_place_to_one_that_waits() {
    let cluster = narrow_cluster();
    let (client, late) = (cluster.client(), cluster.client());
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    begin_request(&cluster, &client, &request, 100);
    cluster.advance(ms(40_000));
    assert!(!client.is_closed(), "nobody waits");
    upload(&cluster, &late, B, "b");
    assert!(client.is_closed());
    assert_eq!(cluster.events(), [Event::RequestStalled { client: "192.0.2.1:50000".to_owned() }]);
}

#[test]
fn a_client_that_goes_on_with_a_large_request_keeps_its_place() {
    let cluster = narrow_cluster();
    let (client, late) = (cluster.client(), cluster.client());
    let request = command(&format!("SET b {}", body(2 * LARGE)));
    let rest = begin_request(&cluster, &client, &request, 100);
    for byte in &rest[..10] {
        cluster.advance(ms(10_000));
        client.send_bytes([*byte]);
        cluster.node(B).expect_bytes([*byte]);
    }
    late.send_bytes(&request[..100]);
    cluster.advance(ms(1_600));
    assert!(!client.is_closed());
    assert!(String::from_utf8(late.received()).unwrap().starts_with("-TRYAGAIN too many large requests"));
}
