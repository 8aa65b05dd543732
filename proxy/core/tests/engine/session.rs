//! HELLO, RESET and MULTI: what a connection becomes, and when.

use tsubaki_core::settings::Password;
use tsubaki_core::topology::Topology;

use crate::harness::{B, C, Cluster, D, commands, shards};

#[test]
fn hello_answers_as_one_standalone_server() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let fields = |proto: u8| {
        format!(
            "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:1\r\n\
             $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
        )
    };
    assert_eq!(client.ask("HELLO"), format!("*14\r\n{}", fields(2)));
    assert_eq!(client.ask("HELLO 3"), format!("%7\r\n{}", fields(3)));
    assert_eq!(client.ask("HELLO"), format!("%7\r\n{}", fields(3)));
    assert_eq!(client.ask("HELLO 2"), format!("*14\r\n{}", fields(2)));
}

#[test]
fn hello_tells_the_lowest_version_that_is_known() {
    let cluster = Cluster::unknown(|_| {});
    let client = cluster.client();
    assert!(client.ask("HELLO").contains("$7\r\nversion\r\n$5\r\n7.0.0\r\n"));
    let redis_version = Some("6.2.14".to_owned());
    cluster.learn_topology(Topology { fetched: cluster.now(), shards: shards(), redis_version });
    assert!(client.ask("HELLO").contains("$7\r\nversion\r\n$6\r\n6.2.14\r\n"));
}

#[test]
fn hello_logs_in_names_and_switches_at_once() {
    let cluster =
        Cluster::with(|settings| settings.client_password = Some(Password::new("secret".to_owned())));
    for line in ["HELLO 3 AUTH default secret SETNAME app", "HELLO 3 SETNAME app AUTH default secret"] {
        let client = cluster.client();
        assert!(client.ask("GET b").starts_with("-NOAUTH "));
        assert!(client.ask(line).starts_with("%7\r\n"));
        assert_eq!(client.ask("CLIENT GETNAME"), "$3\r\napp\r\n");
        assert_eq!(client.ask("CLIENT SETNAME ''"), "+OK\r\n");
        assert_eq!(client.ask("CLIENT GETNAME"), "_\r\n");
    }
}

#[test]
fn a_failed_hello_changes_nothing_of_the_protocol() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.ask("HELLO 3 AUTH nobody x");
    client.ask("HELLO 3 FOO");
    client.ask("HELLO 4");
    assert_eq!(client.ask("CLIENT GETNAME"), "$-1\r\n");
}

#[test]
fn hello_may_come_inline() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_bytes("hello 3\r\nCLIENT GETNAME\r\n");
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.starts_with("%7\r\n") && received.ends_with("*0\r\n_\r\n"), "{received}");
}

#[test]
fn each_client_gets_the_replies_of_its_own_protocol() {
    let cluster = Cluster::new();
    let (old, new) = (cluster.client(), cluster.client());
    new.ask("HELLO 3");
    old.send("HGETALL b");
    new.send("HGETALL b");
    assert_eq!(cluster.connections(), [B, B]);
    assert_eq!(cluster.node(B).handshake(), ["HELLO 3", "PING"]);
    cluster.node(B).serve("HGETALL b", "*0\r\n");
    cluster.node(B).serve("HGETALL b", "%0\r\n");
    old.expect("*0\r\n");
    new.expect("%0\r\n");
}

#[test]
fn hello_waits_for_the_replies_before_it_and_commands_behind_it_wait_for_it() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "GET c", "HELLO 3", "GET b"]);
    assert!(client.is_paused());
    cluster.node(C).serve("GET c", "$-1\r\n");
    cluster.node(B).expect("GET b");
    cluster.expect_nothing_sent();
    cluster.node(B).reply("$-1\r\n");
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.starts_with("$-1\r\n$-1\r\n%7\r\n"), "{received}");
    cluster.node(B).serve("GET b", "_\r\n");
    client.expect("_\r\n");
    assert!(!client.is_paused());
}

#[test]
fn reset_waits_too_and_goes_back_to_resp2() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.ask("HELLO 3");
    client.send_bytes([commands(["GET b"]).as_slice(), b"RESET\r\n", &commands(["GET b"])].concat());
    cluster.node(B).serve("GET b", "_\r\n");
    client.expect("_\r\n+RESET\r\n");
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn a_client_that_leaves_before_its_hello_ran_leaves_nothing() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(), cluster.client());
    client.send_all(["GET b", "HELLO 3", "GET b"]);
    cluster.node(B).expect("GET b");
    client.close();
    other.send("GET b");
    cluster.node(B).expect("GET b");
    cluster.node(B).reply("$1\r\n1\r\n$1\r\n2\r\n");
    other.expect("$1\r\n2\r\n");
}

const NOT_YET: &str = "MULTI is not supported yet";

#[test]
fn a_transaction_is_queued_and_none_of_it_is_sent() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["MULTI", "SET b 1", "INCR b", "EXEC"]);
    client.expect(
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT Transaction discarded: MULTI is not supported yet, and none of its 2 commands \
         ran. Send them without MULTI (in redis-py: pipeline(transaction=False)).\r\n",
    );
}

/// redis-py's pipeline is a transaction unless told otherwise; the error spoke of slots.
#[test]
fn a_pipeline_that_is_a_transaction_over_two_slots_is_told_of_multi() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["MULTI", "SET b 1", "SET c 2", "EXEC"]);
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.contains(NOT_YET) && received.contains("transaction=False"), "{received}");
}

#[test]
fn a_slot_that_moves_during_a_transaction_shows_no_redirect() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["MULTI", "SET b 1"]);
    let mut newer = shards();
    newer[0].master = D.to_owned();
    cluster.learn(newer);
    client.send_all(["SET b 2", "EXEC"]);
    let received = String::from_utf8(client.received()).unwrap();
    assert!(received.contains("-EXECABORT ") && !received.contains("MOVED"), "{received}");
}

#[test]
fn publishing_in_a_transaction_does_not_end_it() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["MULTI", "PUBLISH channel message", "LPUSH b 1", "DISCARD"]);
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+OK\r\n");
}

#[test]
fn what_is_refused_in_a_transaction_aborts_it() {
    for refused in ["SCAN 0", "BLPOP b 0", "SUBSCRIBE x", "XREAD BLOCK 0 STREAMS b 0", "MIGRATE h 1 b 0 1"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.ask("MULTI");
        assert!(client.ask(refused).contains("is not supported yet"), "{refused}");
        assert_eq!(client.ask("SET b 1"), "+QUEUED\r\n");
        assert_eq!(client.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.\r\n");
    }
}

#[test]
fn a_transaction_stands_in_line_with_the_commands_around_it() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "MULTI", "GET b", "DISCARD", "GET b"]);
    cluster.node(B).expect_all(["GET b", "GET b"]);
    client.expect_nothing();
    cluster.node(B).reply("$1\r\n1\r\n$1\r\n2\r\n");
    client.expect("$1\r\n1\r\n+OK\r\n+QUEUED\r\n+OK\r\n$1\r\n2\r\n");
}
