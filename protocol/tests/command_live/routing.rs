//! Key extraction against what a cluster node does: a node without slots answers a command that has keys with
//! `MOVED` and their slot, or with `CROSSSLOT`. This is what a proxy must foresee.

use std::collections::BTreeSet;

use redis::Value;
use tsubaki_protocol::command::{Class, Command, KeyError};
use tsubaki_protocol::slot::Slot;

use crate::arguments::{Grammar, Random, rows};
use crate::getkeys::Frame;
use crate::server::{Connection, Kind, Server, error_text, wait_until};

const VARIANTS: usize = 200;

/// Where a command's keys are.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Slot(usize),
    SeveralSlots,
}

#[test]
fn slots_of_routed_commands_are_those_that_a_node_redirects_to() {
    for kind in [Kind::Redis, Kind::Valkey] {
        let Some((empty, _owner)) = cluster(kind) else { continue };
        let mut connection = empty.connect();
        let grammar = Grammar::read(&mut connection);
        let mut random = Random::new(2);
        let mut redirected = 0;
        for row in rows().filter(|row| matches!(row.class, Class::Routed | Class::Split(_))) {
            let mut cases = grammar.cases(row, VARIANTS, &mut random);
            cases.retain(|case| row.accepts(case.args.len()));
            let commands: Vec<_> = cases.into_iter().map(|case| case.args).collect();
            for (args, reply) in commands.iter().zip(connection.ask_all(&commands)) {
                redirected += usize::from(agrees(row, args, &reply, kind));
            }
        }
        assert!(redirected > 10_000, "{kind} redirected only {redirected} commands");
    }
}

/// Compares the places; false if the command has none.
fn agrees(row: &Command, args: &[Vec<u8>], reply: &Value, kind: Kind) -> bool {
    let frame = Frame::new(args);
    let args = frame.args();
    let mut found = Vec::new();
    let ours = row.keys(&args, &mut found);
    let slots: BTreeSet<usize> =
        found.iter().map(|index| Slot::of(args.at(*index as usize).unwrap()).index()).collect();
    let place = match (slots.first(), slots.len()) {
        (Some(slot), 1) => Place::Slot(*slot),
        (None, _) => Place::Nowhere,
        _ => Place::SeveralSlots,
    };
    let text = error_text(reply).unwrap_or_default();
    // The table has the arity of the newest server.
    if text.starts_with("ERR wrong number of arguments") {
        return false;
    }
    let theirs = place_in(&text);
    // A number that only C's atoi can read makes a node look for keys, before the command refuses it.
    let lax = matches!(ours, Err(KeyError::Count(_)));
    assert!(place == theirs || lax, "{}: {place:?}, but {kind} says {theirs:?}: {text}", frame.text());
    theirs != Place::Nowhere
}

fn place_in(error: &str) -> Place {
    match error.split(' ').collect::<Vec<_>>()[..] {
        ["MOVED", slot, _] => Place::Slot(slot.parse().unwrap()),
        ["CROSSSLOT", ..] => Place::SeveralSlots,
        _ => Place::Nowhere,
    }
}

/// A node without slots, and one that has them all.
fn cluster(kind: Kind) -> Option<(Server, Server)> {
    let options = ["--cluster-enabled", "yes"];
    let (empty, owner) = (Server::start(kind, &options)?, Server::start(kind, &options)?);
    owner.connect().ask(&[b"CLUSTER", b"ADDSLOTSRANGE", b"0", b"16383"]);
    let mut connection = empty.connect();
    let (port, bus_port) = (owner.port.to_string(), owner.bus_port.to_string());
    connection.ask(&[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus_port.as_bytes()]);
    wait_until("the cluster is whole", || {
        let info = cluster_info(&mut connection);
        info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
    });
    Some((empty, owner))
}

fn cluster_info(connection: &mut Connection) -> String {
    match connection.ask(&[b"CLUSTER", b"INFO"]) {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("CLUSTER INFO answered {other:?}"),
    }
}
