//! Commands over several slots: cut by slot, merged in the order asked, with exact errors.

use crate::harness::{B, B1, Behaviour, C, Cluster, D, KEYS, bulk, command, ms};

#[test]
fn mget_gives_the_values_in_the_order_asked() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("MGET d b c {b}2 b1 d");
    cluster.node(D).serve("MGET d d", "*2\r\n$1\r\n4\r\n$1\r\n4\r\n");
    cluster.node(C).serve("MGET c", "*1\r\n$0\r\n\r\n");
    // b1 is of another slot of B, and a node refuses keys of two slots, even if it owns both.
    cluster.node(B).expect_all(["MGET b {b}2", "MGET b1"]);
    cluster.node(B).reply("*2\r\n$1\r\n1\r\n$-1\r\n*1\r\n$-1\r\n");
    client.expect("*6\r\n$1\r\n4\r\n$1\r\n1\r\n$0\r\n\r\n$-1\r\n$-1\r\n$1\r\n4\r\n");
}

#[test]
fn mget_in_resp3_gives_resp3_nulls() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.ask("HELLO 3");
    client.send("MGET b c");
    cluster.node(B).serve("MGET b", "*1\r\n_\r\n");
    cluster.node(C).serve("MGET c", "*1\r\n$1\r\nv\r\n");
    client.expect("*2\r\n_\r\n$1\r\nv\r\n");
}

#[test]
fn mset_keeps_the_order_of_a_key_that_comes_twice() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("mset b 1 c 2 b 3 {b}2 ''");
    cluster.node(B).serve("mset b 1 b 3 {b}2 ''", "+OK\r\n");
    client.expect_nothing();
    cluster.node(C).serve("mset c 2", "+OK\r\n");
    client.expect("+OK\r\n");
}

#[test]
fn counts_are_added_up() {
    for name in ["DEL", "UNLINK", "EXISTS", "TOUCH"] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send(&format!("{name} b c d b"));
        cluster.node(B).serve(&format!("{name} b b"), ":2\r\n");
        cluster.node(C).serve(&format!("{name} c"), ":0\r\n");
        cluster.node(D).serve(&format!("{name} d"), ":1\r\n");
        client.expect(":3\r\n");
    }
}

#[test]
fn a_command_of_one_slot_passes_as_it_came() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for (request, reply) in [
        (command("mGeT b {b}2"), "*2\r\n$1\r\n1\r\n$-1\r\n"),
        (command("DEL b b"), ":1\r\n"),
        (command("MSET b 1"), "+OK\r\n"),
    ] {
        client.send_bytes(&request);
        cluster.node(B).expect_bytes(&request);
        cluster.node(B).reply(reply);
        client.expect(reply);
    }
    assert_eq!(cluster.stats().split, 0);
}

#[test]
fn hash_tags_need_no_setting() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("MGET {b}1 {c}1 {b}2");
    cluster.node(B).serve("MGET {b}1 {b}2", "*2\r\n$1\r\n1\r\n$1\r\n3\r\n");
    cluster.node(C).serve("MGET {c}1", "*1\r\n$1\r\n2\r\n");
    client.expect("*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

#[test]
fn an_empty_tag_is_no_tag() {
    // The slots are 2865, 2516, 14311, 12793, 15151, 3193 and 0.
    for (key, node) in
        [("{}k", B), ("{}{t}", B), ("a{", D), ("}{", D), ("{a{b}c}", D), ("{{k}", B), ("''", B)]
    {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send(&format!("GET {key}"));
        cluster.node(node).serve(&format!("GET {key}"), "$-1\r\n");
        client.expect("$-1\r\n");
    }
}

#[test]
fn a_part_that_fails_is_never_shown_as_nil_or_ok() {
    let error = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    for (line, part_b, part_c, good) in [
        ("MGET b c", "MGET b", "MGET c", "*1\r\n$-1\r\n"),
        ("MSET b 1 c 2", "MSET b 1", "MSET c 2", "+OK\r\n"),
        ("DEL b c", "DEL b", "DEL c", ":1\r\n"),
    ] {
        for (reply_b, reply_c) in [(error, good), (good, error)] {
            let cluster = Cluster::new();
            let client = cluster.client();
            client.send(line);
            cluster.node(B).serve(part_b, reply_b);
            cluster.node(C).serve(part_c, reply_c);
            client.expect(error);
        }
    }
}

#[test]
fn of_several_errors_the_first_keys_is_told() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("DEL c b d");
    cluster.node(D).serve("DEL d", "-ERR third\r\n");
    cluster.node(B).serve("DEL b", "-ERR second\r\n");
    cluster.node(C).serve("DEL c", "!9\r\nERR first\r\n");
    client.expect("!9\r\nERR first\r\n");
}

/// The client was told "invalid argument" where one of the nodes had become a replica.
#[test]
fn a_part_at_a_replica_ends_in_the_replicas_own_words() {
    let readonly = "-READONLY You can't write against a read only replica.\r\n";
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("DEL b c d");
    cluster.node(B).serve("DEL b", ":1\r\n");
    cluster.node(D).serve("DEL d", ":1\r\n");
    for _ in 0..1600 {
        if cluster.node(C).got_something() {
            cluster.node(C).serve("DEL c", readonly);
        }
        cluster.advance(ms(1));
    }
    client.expect(readonly);
}

/// One node that was down crashed the proxy.
#[test]
fn a_part_for_a_node_that_is_down_fails_the_whole_with_its_reason() {
    let cluster = Cluster::new();
    cluster.node(C).behave(Behaviour::Refuses);
    let client = cluster.client();
    client.send_all(["MSET b 1 c 2 d 3", "MGET b d"]);
    cluster.node(B).expect_all(["MSET b 1", "MGET b"]);
    cluster.node(D).expect_all(["MSET d 3", "MGET d"]);
    cluster.node(B).reply("+OK\r\n*1\r\n$1\r\n1\r\n");
    cluster.node(D).reply("+OK\r\n*1\r\n$1\r\n3\r\n");
    cluster.advance(ms(1550));
    let error = "-CLUSTERDOWN the node of slot 7365 cannot be reached (waited 1500 ms); it was not sent\r\n";
    client.expect(format!("{error}*2\r\n$1\r\n1\r\n$1\r\n3\r\n"));
}

#[test]
fn a_part_whose_connection_dies_fails_a_write_and_is_read_again() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send_all(["MSET b 1 c 2", "MGET b c"]);
    cluster.node(B).expect_all(["MSET b 1", "MGET b"]);
    cluster.node(C).expect_all(["MSET c 2", "MGET c"]);
    cluster.node(B).reply("+OK\r\n*1\r\n$1\r\n1\r\n");
    cluster.node(C).close();
    let lost = "-ERR the connection to the node of slot 7365 was lost after the command was sent; it may have run\r\n";
    client.expect(lost);
    cluster.advance(ms(50));
    cluster.node(C).serve("MGET c", "*1\r\n$-1\r\n");
    client.expect("*2\r\n$1\r\n1\r\n$-1\r\n");
}

#[test]
fn a_part_is_redirected_alone() {
    let cluster = Cluster::new();
    let client = cluster.client();
    client.send("MGET b c");
    cluster.node(B).serve("MGET b", "-ASK 3300 d:7000\r\n");
    cluster.node(D).expect_all(["ASKING", "MGET b"]);
    cluster.node(C).serve("MGET c", "-MOVED 7365 b1:7000\r\n");
    cluster.node(D).reply("+OK\r\n*1\r\n$1\r\n1\r\n");
    cluster.node(B1).serve("MGET c", "*1\r\n$1\r\n2\r\n");
    client.expect("*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

#[test]
fn a_part_of_another_shape_is_an_error() {
    for (line, part, odd) in [
        ("MGET b c", "MGET c", ":1\r\n"),
        ("MGET b c", "MGET c", "*0\r\n"),
        ("MSET b 1 c 2", "MSET c 2", "+QUEUED\r\n"),
        ("DEL b c", "DEL c", "$1\r\n1\r\n"),
    ] {
        let cluster = Cluster::new();
        let client = cluster.client();
        client.send(line);
        let (part_b, good) = match &line[..1] {
            "M" if line.starts_with("MGET") => ("MGET b", "*1\r\n$-1\r\n"),
            "M" => ("MSET b 1", "+OK\r\n"),
            _ => ("DEL b", ":1\r\n"),
        };
        cluster.node(B).serve(part_b, good);
        cluster.node(C).serve(part, odd);
        client.expect("-ERR a node answered its part of a split command with a reply of another shape\r\n");
    }
}

#[test]
fn a_thousand_keys_over_all_nodes_come_back_in_order() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let keys: Vec<String> = (0..1000)
        .map(|number| KEYS[number % 3].1[number % 4].to_owned() + if number % 5 == 0 { "x" } else { "" })
        .collect();
    client.send(&format!("MGET {}", keys.join(" ")));
    let mut expected = format!("*{}\r\n", keys.len());
    keys.iter().for_each(|key| expected += &bulk(key));
    for address in [B, C, D] {
        while let Some(words) = cluster.node(address).take_command() {
            let values: String = words[1..].iter().map(|key| bulk(key)).collect();
            cluster.node(address).reply(format!("*{}\r\n{values}", words.len() - 1));
        }
    }
    client.expect(expected);
}

/// Cutting a command took time by keys times slots, in which no one else was served.
#[test]
fn a_hundred_thousand_keys_are_cut_in_linear_time() {
    let cluster = Cluster::with(|settings| settings.max_in_flight_bytes = 1 << 30);
    let client = cluster.client();
    let keys: Vec<String> = (0..100_000).map(|number| format!("key:{number}")).collect();
    client.send(&format!("EXISTS {}", keys.join(" ")));
    for address in [B, C, D] {
        while let Some(words) = cluster.node(address).take_command() {
            cluster.node(address).reply(format!(":{}\r\n", words.len() - 1));
        }
    }
    client.expect(":100000\r\n");
}

#[test]
fn keys_of_several_slots_that_cannot_be_split_are_refused_with_the_reason() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for line in [
        "SINTER b c",
        "RENAME b c",
        "MSETNX b 1 c 2",
        "EVAL x 2 b c",
        "FCALL f 2 b b1",
        "ZUNIONSTORE b 1 c",
        "SORT b STORE c",
        "XREAD STREAMS b c 0 0",
        "BITOP AND b c d",
        "PFCOUNT b c",
    ] {
        let reply = client.ask(line);
        let name = line.split(' ').next().unwrap().to_lowercase();
        let expected = format!(
            "-CROSSSLOT Keys in request don't hash to the same slot ('{name}' runs on one node; give its keys one {{hash tag}})\r\n"
        );
        assert_eq!(reply, expected, "{line}");
    }
    client.send("SINTER b {b}2");
    cluster.node(B).serve("SINTER b {b}2", "*0\r\n");
    client.expect("*0\r\n");
}
