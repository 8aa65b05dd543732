//! INFO, CLIENT LIST and TSUBAKI: what is told of the proxy itself.

use tsubaki_core::settings::Password;
use tsubaki_core::stats::Stats;

use crate::harness::{B, Behaviour, C, Cluster, ms};

#[test]
fn info_tells_of_one_standalone_server() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let info = client.ask("INFO");
    for line in [
        "redis_version:7.0.15",
        "redis_mode:standalone",
        "tcp_port:6380",
        "uptime_in_seconds:1000",
        "connected_clients:1",
        "maxclients:10000",
        "loading:0",
        "role:master",
        "connected_slaves:0",
        "cluster_enabled:0",
    ] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line} in {info}");
    }
    assert!(info.starts_with('$'));
    client.ask("HELLO 3");
    assert!(client.ask("INFO").contains("\r\ntxt:# Server\r\n"));
}

#[test]
fn info_adds_up_what_all_workers_counted() {
    let cluster = Cluster::new();
    let stats = Stats { clients: 5, accepted: 100, commands: 1000, rejected: 3, ..Stats::default() };
    cluster.set_other_workers(stats, "");
    let client = cluster.client();
    client.ask("PING");
    let info = client.ask("INFO");
    for line in [
        "connected_clients:6",
        "total_connections_received:101",
        "total_commands_processed:1002",
        "rejected_connections:3",
    ] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line} in {info}");
    }
}

#[test]
fn info_shows_the_sections_that_are_asked_for() {
    let cluster = Cluster::new();
    let client = cluster.client();
    assert_eq!(
        client.ask("INFO replication"),
        "$48\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
    );
    let two = client.ask("INFO Cluster KEYSPACE");
    assert_eq!(two, "$44\r\n# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n\r\n");
    assert_eq!(client.ask("INFO nosuch"), "$0\r\n\r\n");
    for all in ["INFO all", "INFO default", "INFO everything"] {
        assert!(client.ask(all).contains("# Server\r\n"), "{all}");
    }
}

#[test]
fn client_list_shows_the_clients_of_all_workers() {
    let cluster = Cluster::new();
    cluster.set_other_workers(Stats::default(), "id=77 addr=192.0.2.7:1 name=elsewhere\n");
    let (client, other) = (cluster.client(), cluster.client());
    other.ask("CLIENT SETNAME other");
    other.ask("CLIENT SETINFO lib-name jedis");
    other.ask("CLIENT SETINFO lib-ver 1.2");
    other.ask("HELLO 3");
    cluster.advance(ms(3000));
    other.ask("MULTI");
    other.ask("GET b");
    cluster.advance(ms(2000));
    let list = client.ask("CLIENT LIST");
    let lines: Vec<&str> = list.split("\r\n").nth(1).unwrap().lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert_eq!(
        lines[0],
        "id=1 addr=192.0.2.1:50000 laddr=192.0.2.9:6380 fd=-1 name= age=5 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 \
         cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver="
    );
    assert_eq!(
        lines[1],
        "id=2 addr=192.0.2.1:50001 laddr=192.0.2.9:6380 fd=-1 name=other age=5 idle=2 flags=x db=0 sub=0 psub=0 ssub=0 multi=1 \
         cmd=get user=default redir=-1 resp=3 lib-name=jedis lib-ver=1.2"
    );
    assert_eq!(lines[2], "id=77 addr=192.0.2.7:1 name=elsewhere");
    assert_eq!(client.ask("CLIENT LIST TYPE normal").lines().count(), list.lines().count());
}

#[test]
fn client_list_by_ids_keeps_their_order() {
    let cluster = Cluster::new();
    cluster.set_other_workers(Stats::default(), "id=77 name=elsewhere\nid=7 name=seven\n");
    let client = cluster.client();
    let list = client.ask("CLIENT LIST ID 7 99 77 7");
    assert_eq!(list, "$53\r\nid=7 name=seven\nid=77 name=elsewhere\nid=7 name=seven\n\r\n");
}

#[test]
fn client_info_is_ones_own_line() {
    let cluster = Cluster::new();
    let (_, client) = (cluster.client(), cluster.client());
    let info = client.ask("CLIENT INFO");
    assert!(info.contains("\r\nid=2 addr=192.0.2.1:50001 ") && info.contains(" cmd=client|info "), "{info}");
}

#[test]
fn client_setinfo_takes_what_client_libraries_send() {
    let cluster = Cluster::new();
    let client = cluster.client();
    assert_eq!(client.ask("CLIENT SETINFO LIB-NAME redis-py"), "+OK\r\n");
    assert_eq!(client.ask("CLIENT SETINFO LIB-VER 5.0"), "+OK\r\n");
    assert_eq!(client.ask("CLIENT SETINFO FOO x"), "-ERR Unrecognized option 'FOO'\r\n");
    assert_eq!(
        client.ask("CLIENT SETINFO LIB-NAME a\nb"),
        "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    );
}

#[test]
fn no_two_workers_give_the_same_client_id() {
    let ids = |worker| {
        let cluster = Cluster::with(|settings| {
            settings.identity.workers = 2;
            settings.identity.worker = worker;
        });
        [(); 3].map(|()| cluster.client().ask("CLIENT ID"))
    };
    assert_eq!(ids(0), [":1\r\n", ":3\r\n", ":5\r\n"]);
    assert_eq!(ids(1), [":2\r\n", ":4\r\n", ":6\r\n"]);
}

#[test]
fn what_all_workers_must_tell_comes_in_its_turn() {
    let cluster = Cluster::new();
    cluster.delay_gathering();
    let client = cluster.client();
    client.send_all(["INFO keyspace", "PING", "CLIENT LIST ID 9", "GET b"]);
    cluster.node(B).serve("GET b", "$-1\r\n");
    client.expect_nothing();
    cluster.finish_gathering();
    client.expect("$12\r\n# Keyspace\r\n\r\n+PONG\r\n$0\r\n\r\n$-1\r\n");
}

#[test]
fn a_client_may_leave_before_all_workers_have_told() {
    let cluster = Cluster::new();
    cluster.delay_gathering();
    let client = cluster.client();
    client.send("INFO");
    client.close();
    let heir = cluster.client();
    heir.send("PING");
    cluster.finish_gathering();
    heir.expect("+PONG\r\n");
}

#[test]
fn time_is_the_time_of_day() {
    let cluster = Cluster::with(|settings| settings.identity.epoch_unix_us = 1_700_000_000_000_005);
    assert_eq!(cluster.client().ask("TIME"), "*2\r\n$10\r\n1700001000\r\n$1\r\n5\r\n");
}

#[test]
fn tsubaki_nodes_tells_the_clusters_own_view() {
    let cluster = Cluster::new();
    cluster.node(C).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send_all(["GET b", "GET c", "TSUBAKI NODES"]);
    cluster.node(B).serve("GET b", "$-1\r\n");
    cluster.advance(ms(1550));
    client.received();
    client.send("GET b");
    cluster.node(B).expect("GET b");
    let other = cluster.client();
    let nodes = other.ask("tsubaki nodes");
    let lines: Vec<&str> = nodes.split("\r\n").nth(1).unwrap().lines().collect();
    assert_eq!(lines.len(), 9, "{nodes}");
    assert_eq!(lines[0], "b:7000 master 0-5460 state=ok connections=1 in-flight=1");
    assert_eq!(lines[1], "b1:7000 replica b:7000 state=ok connections=0 in-flight=0");
    assert!(lines[3].starts_with("c:7000 master 5461-10922 state=down,retry-ms="), "{nodes}");
    cluster.node(B).reply("$-1\r\n");
    client.expect("$-1\r\n");
}

#[test]
fn tsubaki_info_tells_of_the_cluster() {
    let cluster = Cluster::new();
    cluster.advance(ms(2000));
    let client = cluster.client();
    let text = "# Cluster behind the proxy\r\nmasters:3\r\nreplicas:6\r\nslots_covered:16384\r\nredis_version:7.0.15\r\n\
                view_age_seconds:2\r\n";
    assert_eq!(client.ask("TSUBAKI INFO"), format!("${}\r\n{text}\r\n", text.len()));
    client.ask("HELLO 3");
    assert_eq!(client.ask("TSUBAKI INFO"), format!("={}\r\ntxt:{text}\r\n", text.len() + 4));
}

#[test]
fn tsubaki_with_other_words_says_which_there_are() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for line in ["TSUBAKI", "TSUBAKI FOO", "TSUBAKI NODES x"] {
        assert!(client.ask(line).ends_with("Try TSUBAKI NODES or TSUBAKI INFO.\r\n"), "{line}");
    }
}

#[test]
fn tsubaki_wants_the_password_too() {
    let cluster =
        Cluster::with(|settings| settings.client_password = Some(Password::new("secret".to_owned())));
    assert_eq!(cluster.client().ask("TSUBAKI NODES"), "-NOAUTH Authentication required.\r\n");
}
