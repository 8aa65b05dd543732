//! Connections to nodes: their handshake, when there is none, and what they say unasked.

use tsubaki_core::action::{Event, RefreshReason};
use tsubaki_core::settings::{Login, Password};

use crate::harness::{B, Behaviour, C, Cluster, D, command, ms, shards};

const LOST: &str =
    "-ERR the connection to the node of slot 3300 was lost after the command was sent; it may have run\r\n";
const UNREACHABLE: &str =
    "-CLUSTERDOWN the node of slot 3300 cannot be reached (waited 1500 ms); it was not sent\r\n";

#[test]
fn a_connection_carries_commands_only_after_its_handshake_was_answered() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Scripted);
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).expect("PING");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("+PO");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("NG\r\n");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn the_handshake_says_what_the_connection_is_for() {
    let secret = || Password::new("secret".to_owned());
    let user = || Some("user".to_owned());
    let cases = [
        (None, "HELLO 2", vec!["PING"]),
        (None, "HELLO 3", vec!["HELLO 3", "PING"]),
        (Some(Login { user: None, password: secret() }), "HELLO 2", vec!["AUTH secret", "PING"]),
        (Some(Login { user: user(), password: secret() }), "HELLO 2", vec!["AUTH user secret", "PING"]),
        (
            Some(Login { user: None, password: secret() }),
            "HELLO 3",
            vec!["HELLO 3 AUTH default secret", "PING"],
        ),
        (
            Some(Login { user: user(), password: secret() }),
            "HELLO 3",
            vec!["HELLO 3 AUTH user secret", "PING"],
        ),
    ];
    for (login, hello, handshake) in cases {
        let cluster = Cluster::with(|settings| settings.node_login = login);
        let client = cluster.client();
        client.ask(hello);
        client.send("GET b");
        assert_eq!(cluster.node(B).handshake(), handshake);
        cluster.node(B).serve("GET b", "$1\r\nv\r\n");
        client.expect("$1\r\nv\r\n");
    }
}

#[test]
fn a_refused_handshake_is_no_ones_reply() {
    for refusal in [
        "-ERR max number of clients reached\r\n",
        "-DENIED Redis is running in protected mode\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "220 mail.example.com ESMTP\r\n",
    ] {
        let cluster = Cluster::new();
        cluster.node(B).behave(Behaviour::Scripted);
        let client = cluster.client();
        client.send("SET b 1");
        cluster.node(B).expect("PING");
        cluster.node(B).behave(Behaviour::Greets);
        cluster.node(B).reply(refusal);
        client.expect_nothing();
        assert!(matches!(cluster.events()[..], [Event::NodeDown { .. }]));
        cluster.advance(ms(50));
        cluster.node(B).serve("SET b 1", "+OK\r\n");
        client.expect("+OK\r\n");
        assert!(matches!(cluster.events()[..], [Event::NodeUp { .. }]));
    }
}

#[test]
fn a_node_that_refuses_costs_its_own_keys_an_error_and_no_others() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send_all(["GET b", "GET c"]);
    cluster.node(C).serve("GET c", "$1\r\nc\r\n");
    cluster.advance(ms(1499));
    client.expect_nothing();
    cluster.advance(ms(52));
    client.expect(format!("{UNREACHABLE}$1\r\nc\r\n"));
}

#[test]
fn a_node_that_is_off_costs_an_error_in_bounded_time() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Silent);
    let client = cluster.client();
    client.send("SET b 1");
    cluster.advance(ms(1499));
    client.expect_nothing();
    cluster.advance(ms(600));
    client.expect(UNREACHABLE);
}

#[test]
fn a_node_that_is_off_is_tried_again() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Silent);
    let client = cluster.client();
    client.send("SET b 1");
    cluster.advance(ms(999));
    cluster.node(B).behave(Behaviour::Greets);
    cluster.advance(ms(52));
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn attempts_to_a_node_that_refuses_are_paced_however_many_wait() {
    let cluster = Cluster::new();
    cluster.node(B).behave(Behaviour::Refuses);
    for _ in 0..100 {
        let clients: Vec<_> = (0..10).map(|_| cluster.client()).collect();
        clients.iter().for_each(|client| client.send("GET b"));
        cluster.advance(ms(100));
        clients.iter().for_each(crate::harness::Client::close);
    }
    let dialled = cluster.node(B).dialled();
    assert!((10..=25).contains(&dialled), "dialled {dialled} times in 10 s");
}

#[test]
fn what_a_node_says_unasked_ends_its_connection_and_is_no_ones_reply() {
    for unasked in ["-ERR max number of clients reached\r\n", "+OK\r\n", "$3\r\nfoo\r\n"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send("GET b");
        cluster.node(B).serve("GET b", "$-1\r\n");
        cluster.node(B).reply(unasked);
        client.send("GET b");
        cluster.node(B).serve("GET b", "$1\r\nv\r\n");
        client.expect("$-1\r\n$1\r\nv\r\n");
        assert_eq!(cluster.node(B).dialled(), 2, "{unasked:?}");
    }
}

#[test]
fn a_reply_to_a_command_that_was_not_sent_whole_ends_its_connection() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B).serve("GET b", "$-1\r\n");
    cluster.node(B).take_only(5);
    client.send("GET b");
    cluster.node(B).expect_bytes(&command("GET b")[..5]);
    cluster.node(B).reply("$5\r\nother\r\n");
    cluster.advance(ms(50));
    cluster.node(B).serve("GET b", "$1\r\nv\r\n");
    client.expect("$-1\r\n$1\r\nv\r\n");
}

#[test]
fn bytes_that_are_no_reply_end_the_connection() {
    let deep = "*1\r\n".repeat(40_000);
    for bytes in ["HTTP/1.1 400 Bad Request\r\n", "*-2\r\n", "$99999999999\r\n", ":x\r\n", &deep] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send_all(["SET b 1", "SET c 1"]);
        cluster.node(B).serve("SET b 1", bytes);
        client.expect(LOST);
        cluster.node(C).serve("SET c 1", "+OK\r\n");
        client.expect("+OK\r\n");
        assert_eq!(cluster.connections(), [C], "{bytes:.20}");
    }
}

#[test]
fn a_push_between_two_replies_is_no_reply() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.ask("HELLO 3");
    client.send_all(["GET b", "GET b"]);
    cluster.node(B).expect_all(["GET b", "GET b"]);
    let push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nb\r\n";
    cluster.node(B).reply(format!("{push}$1\r\n1\r\n{push}$1\r\n2\r\n{push}"));
    client.expect("$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(cluster.node(B).dialled(), 1);
}

#[test]
fn all_clients_of_one_protocol_share_one_connection_to_a_node() {
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..100).map(|_| cluster.client()).collect();
    clients.iter().for_each(|client| client.send("GET b"));
    clients.iter().for_each(|_| cluster.node(B).expect("GET b"));
    cluster.node(B).reply("$-1\r\n".repeat(100));
    clients.iter().for_each(|client| client.expect("$-1\r\n"));
    assert_eq!(cluster.connections(), [B]);
}

#[test]
fn before_any_node_is_known_a_command_waits_for_the_first_view() {
    let cluster = Cluster::unknown(|_| {});
    let client = cluster.client();
    client.send("GET b");
    assert_eq!(cluster.refreshes(), [(RefreshReason::Uncovered, None)]);
    cluster.advance(ms(1000));
    cluster.learn(shards());
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn without_any_node_the_error_says_so() {
    let cluster = Cluster::unknown(|_| {});
    let client = cluster.client();
    client.send_all(["GET b", "EVAL x 0", "PING"]);
    cluster.advance(ms(1500));
    let error =
        "-CLUSTERDOWN no node of the cluster has answered yet (waited 1500 ms); see the proxy's log\r\n";
    client.expect(format!("{error}{error}+PONG\r\n"));
}

#[test]
fn of_a_cluster_with_a_gap_the_rest_is_served() {
    let cluster = Cluster::new();
    let mut gap = shards();
    gap.remove(0);
    cluster.learn(gap);
    let client = cluster.client();
    client.send_all(["GET b", "GET c"]);
    cluster.node(C).serve("GET c", "$-1\r\n");
    cluster.advance(ms(1500));
    client.expect("-CLUSTERDOWN Hash slot not served: 3300 has no master (waited 1500 ms)\r\n$-1\r\n");
}

#[test]
fn a_node_that_left_the_cluster_is_let_go_once_it_owes_nothing() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["SET b 1", "GET c"]);
    cluster.node(B).expect("SET b 1");
    cluster.node(C).serve("GET c", "$-1\r\n");
    let mut newer = shards();
    newer[0].master = D.to_owned();
    newer[1].master = D.to_owned();
    cluster.learn(newer.clone());
    assert_eq!(cluster.connections(), [B]);
    cluster.node(B).reply("+OK\r\n");
    cluster.learn(newer);
    assert_eq!(cluster.connections().len(), 0);
    client.expect("+OK\r\n$-1\r\n");
    client.send("GET c");
    cluster.node(D).serve("GET c", "$-1\r\n");
    client.expect("$-1\r\n");
}
