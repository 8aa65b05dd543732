//! When a client's replies leave: together where their commands came together, and soon.

use crate::harness::{B, C, Cluster, bulk, ms};

#[test]
fn replies_to_commands_that_came_together_leave_together() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["GET b", "GET c", "GET b1"]);
    cluster.node(B).expect_all(["GET b", "GET b1"]);
    cluster.node(B).reply("$1\r\n1\r\n$1\r\n3\r\n");
    assert_eq!(client.writes(), 0);
    cluster.node(C).serve("GET c", "$1\r\n2\r\n");
    assert_eq!(client.writes(), 1);
    client.expect("$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

#[test]
fn a_reply_waits_a_millisecond_for_the_others_at_most() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for _ in 0..3 {
        client.send_all(["GET b", "GET c"]);
        cluster.node(B).serve("GET b", "$1\r\n1\r\n");
        cluster.advance(ms(1));
        assert_eq!(client.writes(), 1);
        cluster.node(C).serve("GET c", "$1\r\n2\r\n");
        assert_eq!(client.writes(), 1);
        client.expect("$1\r\n1\r\n$1\r\n2\r\n");
    }
}

#[test]
fn each_pipeline_has_its_own_millisecond() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for _ in 0..2 {
        client.send_all(["GET b", "GET c"]);
        cluster.node(B).serve("GET b", "$1\r\n1\r\n");
        // The second pipeline begins to wait just before the first would have had to stop.
        cluster.advance(ms(1) / 2);
        assert_eq!(client.writes(), 0);
        cluster.node(C).serve("GET c", "$1\r\n2\r\n");
        assert_eq!(client.writes(), 1);
        client.expect("$1\r\n1\r\n$1\r\n2\r\n");
    }
}

#[test]
fn a_reply_does_not_wait_for_commands_that_came_later() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("GET b");
    client.send("GET c");
    cluster.node(B).serve("GET b", "$1\r\n1\r\n");
    assert_eq!(client.writes(), 1);
    cluster.node(C).serve("GET c", "$1\r\n2\r\n");
    assert_eq!(client.writes(), 1);
    client.expect("$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn a_large_reply_does_not_wait() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let large = bulk(&"x".repeat(16 * 1024));
    client.send_all(["GET b", "GET c"]);
    cluster.node(B).serve("GET b", &large);
    assert_eq!(client.writes(), 1);
    client.expect(large);
    cluster.node(C).serve("GET c", "$1\r\n2\r\n");
    client.expect("$1\r\n2\r\n");
}
