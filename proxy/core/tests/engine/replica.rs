//! Reads by policy: which node's turn it is, and who is left out.

use tsubaki_core::settings::ReadPolicy;

use crate::harness::{B, B1, B2, Behaviour, C, Cluster, Node, ms, shards};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// A cluster whose replicas of B are connected and ready.
fn warm(policy: ReadPolicy) -> Cluster {
    let cluster = Cluster::reading(policy);
    let client = cluster.client();
    for _ in 0..3 {
        client.send("GET b");
        serve_read(&cluster);
    }
    client.received();
    cluster
}

/// Answers one `GET b` wherever it went; gives back where that was.
#[track_caller]
fn serve_read(cluster: &Cluster) -> &'static str {
    let got_it = |address: &&str| cluster.node(address).got_something();
    let address = [B, B1, B2].into_iter().find(got_it).expect("the read is at B or at one of its replicas");
    cluster.node(address).serve("GET b", "$-1\r\n");
    address
}

/// Where so many reads went, in order.
#[track_caller]
fn reads<const N: usize>(cluster: &Cluster) -> [&'static str; N] {
    let client = cluster.client();
    [(); N].map(|()| {
        client.send("GET b");
        let address = serve_read(cluster);
        client.expect("$-1\r\n");
        address
    })
}

/// Refuses one read at a replica of B; gives back which it was.
#[track_caller]
fn refuse_read(cluster: &Cluster, refusal: &str) -> &'static str {
    let address = if cluster.node(B1).got_something() { B1 } else { B2 };
    cluster.node(address).serve("GET b", refusal);
    address
}

fn count(reads: &[&str], address: &str) -> usize {
    reads.iter().filter(|read| **read == address).count()
}

fn b1_and_b2(cluster: &Cluster) -> [Node; 2] {
    [B1, B2].map(|address| cluster.node(address))
}

#[test]
fn replicas_take_turns() {
    for policy in [ReadPolicy::PreferReplica, ReadPolicy::Replica] {
        let reads: [_; 8] = reads(&warm(policy));
        assert_eq!((count(&reads, B1), count(&reads, B2)), (4, 4), "{policy:?}");
    }
}

#[test]
fn with_any_the_master_takes_its_turn_too() {
    let reads: [_; 9] = reads(&warm(ReadPolicy::Any));
    assert_eq!((count(&reads, B), count(&reads, B1), count(&reads, B2)), (3, 3, 3));
}

#[test]
fn with_master_replicas_are_not_even_connected() {
    let cluster = warm(ReadPolicy::Master);
    assert_eq!(reads::<4>(&cluster), [B; 4]);
    assert_eq!(cluster.connections(), [B]);
}

#[test]
fn until_a_replica_is_connected_the_master_serves() {
    let cluster = Cluster::reading(ReadPolicy::PreferReplica);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.behave(Behaviour::Silent));
    assert_eq!(reads::<3>(&cluster), [B; 3]);
}

#[test]
fn a_replicas_connection_says_readonly() {
    let cluster = warm(ReadPolicy::Replica);
    assert_eq!(cluster.node(B1).handshake(), ["READONLY", "ROLE", "PING"]);
    let client = cluster.client();
    client.ask("HELLO 3");
    client.send("GET b");
    assert_eq!(cluster.node(B1).handshake(), ["HELLO 3", "READONLY", "ROLE", "PING"]);
    serve_read(&cluster);
    client.expect("$-1\r\n");
}

#[test]
fn only_commands_that_only_read_go_to_replicas() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    let writes = [
        "SET b 1",
        "GETDEL b",
        "GETEX b",
        "EVAL x 1 b",
        "EVAL_RO x 1 b",
        "EVALSHA_RO x 1 b",
        "FCALL_RO f 1 b",
    ];
    for line in writes {
        client.send(line);
        cluster.node(B).serve(line, "+OK\r\n");
    }
    client.expect("+OK\r\n".repeat(writes.len()));
    for line in ["TTL b", "MGET b {b}2", "EXISTS b", "BITFIELD_RO b GET u8 0", "XREAD STREAMS b 0"] {
        client.send(line);
        let replica = if cluster.node(B1).got_something() { B1 } else { B2 };
        cluster.node(replica).serve(line, ":0\r\n");
        client.expect(":0\r\n");
    }
}

#[test]
fn a_read_of_several_slots_goes_to_replicas_in_parts() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    client.send("MGET b b1");
    cluster.node(B2).serve("MGET b", "*1\r\n$1\r\n1\r\n");
    cluster.node(B1).serve("MGET b1", "*1\r\n$1\r\n2\r\n");
    client.expect("*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

/// A replica in its full synchronisation got reads again and again, or kept them waiting.
#[test]
fn a_replica_that_loads_passes_its_read_on_and_is_left_out_for_a_while() {
    for refusal in [LOADING, "-MASTERDOWN Link with MASTER is down\r\n"] {
        let cluster = warm(ReadPolicy::PreferReplica);
        let client = cluster.client();
        client.send("GET b");
        let resting = refuse_read(&cluster, refusal);
        let other = serve_read(&cluster);
        client.expect("$-1\r\n");
        assert!(other != resting && other != B);
        assert_eq!(reads::<4>(&cluster), [other; 4]);
        cluster.advance(ms(1000));
        assert_eq!(count(&reads::<4>(&cluster), resting), 2);
    }
}

/// A read that a replica refused was answered with an error, because a later one had been answered there.
#[test]
fn reads_by_policy_may_overtake_each_other() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    client.send_all(["GET b"; 4]);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.expect_all(["GET b"; 2]));
    cluster.node(B1).reply(format!("{LOADING}$-1\r\n"));
    cluster.node(B2).reply("$-1\r\n$-1\r\n");
    cluster.node(B2).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n".repeat(4));
}

#[test]
fn when_all_replicas_load_the_master_serves() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    client.send("GET b");
    refuse_read(&cluster, LOADING);
    refuse_read(&cluster, LOADING);
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
    assert_eq!(reads::<4>(&cluster), [B; 4]);
}

/// A replica that answers connections before its synchronisation ends served errors, and nil for every key.
#[test]
fn a_replica_comes_back_only_when_it_has_its_masters_data() {
    let role =
        |link: &str| format!("*5\r\n$5\r\nslave\r\n$1\r\nb\r\n:7000\r\n${}\r\n{link}\r\n:0\r\n", link.len());
    let loads = format!("+OK\r\n{}{LOADING}", role("connected"));
    let is_empty = format!("+OK\r\n{}+PONG\r\n", role("sync"));
    let cluster = warm(ReadPolicy::PreferReplica);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.behave(Behaviour::Scripted));
    b1_and_b2(&cluster).iter().for_each(Node::close);
    for answer in [&loads, &is_empty, &loads] {
        cluster.advance(ms(1000));
        assert_eq!(reads::<1>(&cluster), [B]);
        for replica in b1_and_b2(&cluster) {
            replica.expect_all(["READONLY", "ROLE", "PING"]);
            replica.reply(answer);
        }
        assert_eq!(reads::<1>(&cluster), [B]);
    }
    cluster.advance(ms(1000));
    reads::<1>(&cluster);
    for replica in b1_and_b2(&cluster) {
        replica.expect_all(["READONLY", "ROLE", "PING"]);
        replica.reply(format!("+OK\r\n{}+PONG\r\n", role("connected")));
    }
    let reads: [_; 4] = reads(&cluster);
    assert_eq!((count(&reads, B1), count(&reads, B2)), (2, 2));
}

/// With a restricted user (ACL), the proxy may not ask.
#[test]
fn a_replica_whose_role_may_not_be_asked_is_trusted() {
    let cluster = warm(ReadPolicy::PreferReplica);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.behave(Behaviour::Scripted));
    b1_and_b2(&cluster).iter().for_each(Node::close);
    cluster.advance(ms(1000));
    reads::<1>(&cluster);
    for replica in b1_and_b2(&cluster) {
        replica.expect_all(["READONLY", "ROLE", "PING"]);
        replica.reply("+OK\r\n-NOPERM this user has no permissions to run the 'role' command\r\n+PONG\r\n");
    }
    let reads: [_; 4] = reads(&cluster);
    assert_eq!((count(&reads, B1), count(&reads, B2)), (2, 2));
}

#[test]
fn a_replica_that_dies_passes_its_reads_on() {
    for policy in [ReadPolicy::PreferReplica, ReadPolicy::Replica, ReadPolicy::Any] {
        let cluster = warm(policy);
        let clients: Vec<_> = (0..9).map(|_| cluster.client()).collect();
        clients.iter().for_each(|client| client.send("GET b"));
        while cluster.node(B1).got_something() {
            cluster.node(B1).expect("GET b");
        }
        cluster.node(B1).behave(Behaviour::Refuses);
        cluster.node(B1).close();
        while [B, B2].iter().any(|node| cluster.node(node).got_something()) {
            serve_read(&cluster);
        }
        clients.iter().for_each(|client| client.expect("$-1\r\n"));
        assert_eq!(count(&reads::<4>(&cluster), B1), 0, "{policy:?}");
    }
}

#[test]
fn with_replica_a_read_waits_for_one_and_gets_an_error_in_the_end() {
    let cluster = Cluster::reading(ReadPolicy::Replica);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.behave(Behaviour::Refuses));
    let client = cluster.client();
    client.send_all(["GET b", "SET b 1"]);
    cluster.advance(ms(1499));
    client.expect_nothing();
    cluster.advance(ms(51));
    // The write stood behind the read.
    cluster.node(B).serve("SET b 1", "+OK\r\n");
    let error =
        "-CLUSTERDOWN no replica of slot 3300 is ready and the read policy is 'replica' (waited 1500 ms)\r\n";
    client.expect(format!("{error}+OK\r\n"));
    client.send("GET b");
    cluster.node(B2).behave(Behaviour::Greets);
    cluster.advance(ms(1000));
    cluster.node(B2).serve("GET b", "$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn with_replica_a_refused_read_gets_the_replicas_own_words_in_the_end() {
    let cluster = Cluster::reading(ReadPolicy::Replica);
    let mut one = shards();
    one[0].replicas.truncate(1);
    cluster.learn(one);
    let client = cluster.client();
    client.send("GET b");
    cluster.node(B1).serve("GET b", LOADING);
    cluster.advance(ms(1050));
    cluster.node(B1).serve("GET b", LOADING);
    cluster.advance(ms(500));
    client.expect(LOADING);
}

/// Reads of a shard without a healthy replica went to nodes of other shards, which only redirect.
#[test]
fn a_read_stays_within_its_shard() {
    let cluster = warm(ReadPolicy::PreferReplica);
    b1_and_b2(&cluster).iter().for_each(|replica| replica.behave(Behaviour::Refuses));
    b1_and_b2(&cluster).iter().for_each(Node::close);
    assert_eq!(reads::<8>(&cluster), [B; 8]);
    cluster.node(B).behave(Behaviour::Refuses);
    cluster.node(B).close();
    let client = cluster.client();
    client.send("GET b");
    cluster.advance(ms(1600));
    client
        .expect("-CLUSTERDOWN the node of slot 3300 cannot be reached (waited 1500 ms); it was not sent\r\n");
    assert!(cluster.connections().is_empty());
}

#[test]
fn a_replica_that_redirects_is_followed_and_left_out() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    client.send("GET b");
    let resting = refuse_read(&cluster, "-MOVED 3300 b:7000\r\n");
    let other = serve_read(&cluster);
    assert!(other != resting);
    client.send("GET b");
    refuse_read(&cluster, "-MOVED 3300 c:7000\r\n");
    // A replica may be behind: only the master's own word moves the slot.
    cluster.node(B).serve("GET b", "-MOVED 3300 x:7000\r\n");
    cluster.node("x:7000").serve("GET b", "$1\r\nv\r\n");
    client.expect("$-1\r\n$1\r\nv\r\n");
}

#[test]
fn a_replica_that_asks_sends_its_read_to_the_importing_master() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let client = cluster.client();
    client.send("GET b");
    refuse_read(&cluster, "-ASK 3300 c:7000\r\n");
    cluster.node(C).expect_all(["ASKING", "GET b"]);
    cluster.node(C).reply("+OK\r\n$1\r\nv\r\n");
    client.expect("$1\r\nv\r\n");
}

#[test]
fn a_replica_that_left_the_cluster_gets_no_reads() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let mut newer = shards();
    newer[0].replicas.retain(|replica| replica != B1);
    cluster.learn(newer);
    assert_eq!(reads::<4>(&cluster), [B2; 4]);
    assert!(!cluster.connections().contains(&B1.to_owned()));
}

/// After a failover the old replica's READONLY connection would serve nothing but reads.
#[test]
fn writes_to_a_promoted_replica_go_over_a_connection_of_its_own() {
    let cluster = warm(ReadPolicy::PreferReplica);
    let mut newer = shards();
    (newer[0].master, newer[0].replicas) = (B1.to_owned(), vec![B.to_owned(), B2.to_owned()]);
    cluster.learn(newer);
    let client = cluster.client();
    client.send("SET b 1");
    cluster.node(B1).serve("SET b 1", "+OK\r\n");
    assert_eq!(cluster.node(B1).handshake(), ["PING"]);
    client.expect("+OK\r\n");
}
