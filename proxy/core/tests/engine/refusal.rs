//! What is refused for now, row by row of the command table, and what is answered without any node.

use tsubaki_protocol::command::{self, Class, Command};

use crate::harness::{B, Cluster};

/// All rows that a client can call: commands, and subcommands instead of their containers.
fn rows() -> impl Iterator<Item = &'static Command> {
    command::all().iter().flat_map(|command| {
        let itself = command.subcommands.is_empty().then_some(command);
        itself.into_iter().chain(command.subcommands)
    })
}

/// The command with as few arguments as it takes.
fn call(command: &Command) -> String {
    let mut words: Vec<&str> = command.name.split('|').collect();
    words.resize(usize::from(command.arity.unsigned_abs()).max(words.len()), "b");
    words.join(" ")
}

#[test]
fn what_needs_every_node_or_its_own_connection_is_refused_and_not_sent() {
    let cluster = Cluster::new();
    let client = cluster.client();
    let mut count = 0;
    for command in rows() {
        let (Class::AllNodes(reason) | Class::Private(reason) | Class::Refused(reason)) = command.class
        else {
            continue;
        };
        let name = command.name.replace('|', " ");
        assert_eq!(client.ask(&call(command)), format!("-ERR '{name}' is not supported yet: {reason}\r\n"));
        count += 1;
    }
    assert!(count > 100, "{count} rows");
    assert_eq!(cluster.stats().refused, count);
    cluster.expect_nothing_sent();
    assert_eq!(client.ask("PING"), "+PONG\r\n");
}

#[test]
fn what_the_proxy_answers_itself_is_not_sent() {
    for command in rows().filter(|command| command.class == Class::Local) {
        let cluster = Cluster::new();
        let client = cluster.client();
        let reply = client.ask(&call(command));
        assert!(!reply.is_empty(), "{}", command.name);
        assert!(!reply.starts_with("-ERR unknown"), "{}: {reply}", command.name);
        assert!(cluster.connections().is_empty(), "{}", command.name);
    }
}

#[test]
fn what_is_to_be_refused_for_now_is_not_let_through() {
    for line in [
        "SUBSCRIBE x",
        "PSUBSCRIBE x",
        "SSUBSCRIBE x",
        "UNSUBSCRIBE",
        "MONITOR",
        "WATCH b",
        "BLPOP b 0",
        "BRPOP b 0",
        "BLMOVE b b LEFT LEFT 0",
        "BRPOPLPUSH b b 0",
        "BZPOPMIN b 0",
        "BZMPOP 0 1 b MIN",
        "BLMPOP 0 1 b LEFT",
        "XREAD BLOCK 0 STREAMS b 0",
        "XREADGROUP GROUP g c BLOCK 0 STREAMS b >",
        "XREAD COUNT 1 BLOCK 0 STREAMS b 0",
        "WAIT 1 0",
        "CLIENT REPLY OFF",
        "CLIENT TRACKING ON",
        "CLIENT CACHING YES",
        "CLIENT PAUSE 1",
        "SCAN 0",
        "KEYS *",
        "DBSIZE",
        "FLUSHALL",
        "FLUSHDB",
        "SCRIPT LOAD x",
        "SCRIPT FLUSH",
        "SCRIPT EXISTS x",
        "FUNCTION LOAD x",
        "FUNCTION LIST",
        "CONFIG SET save x",
        "CONFIG REWRITE",
        "CONFIG RESETSTAT",
        "MIGRATE h 1 b 0 1",
        "SHUTDOWN",
        "DEBUG SLEEP 0",
        "REPLICAOF h 1",
        "BGSAVE",
        "SAVE",
        "ACL LIST",
        "RANDOMKEY",
        "SWAPDB 0 1",
        "CLIENT KILL x",
    ] {
        let cluster = Cluster::new();
        let reply = cluster.client().ask(line);
        assert!(reply.starts_with("-ERR '") && reply.contains("' is not supported yet: "), "{line}: {reply}");
        assert!(cluster.connections().is_empty(), "{line}");
    }
}

#[test]
fn reading_streams_without_block_is_routed() {
    let cluster = Cluster::new();
    let client = cluster.client();
    // A group and a consumer may be called like the options.
    for line in ["XREAD COUNT 1 STREAMS b 0", "XREADGROUP GROUP streams block COUNT 1 STREAMS b >"] {
        client.send(line);
        cluster.node(B).serve(line, "*-1\r\n");
        client.expect("*-1\r\n");
    }
}

#[test]
fn a_command_without_a_key_goes_to_one_master() {
    let cluster = Cluster::new();
    let client = cluster.client();
    for line in ["PUBLISH channel message", "LOLWUT", "CLIENT HELP", "OBJECT HELP", "EVAL x notanumber b"] {
        client.send(line);
        let address = &cluster.connections()[0];
        cluster.node(address).serve(line, "+OK\r\n");
        client.expect("+OK\r\n");
    }
    assert_eq!(cluster.connections().len(), 1);
}
