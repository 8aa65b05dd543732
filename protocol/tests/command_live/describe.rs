//! The facts of the table, and the replies made of them, against a server's `COMMAND`.

use redis::{Value, parse_redis_value};
use tsubaki_protocol::command::{Command, all, describe};
use tsubaki_protocol::resp::write::{self, Resp};

use crate::arguments::rows;
use crate::server::{Connection, Kind, Server, each};

/// Commands of all shapes whose facts are the same on Redis 7.0 and the newest server.
const UNCHANGED: [&str; 14] = [
    "bitop", "copy", "del", "eval", "get", "lmpop", "mget", "migrate", "mset", "set", "sort", "xadd",
    "xread", "object",
];

#[test]
fn every_row_says_what_the_newest_server_says() {
    let Some(server) = Server::start(Kind::Valkey, &[]) else { return };
    for resp in [Resp::V2, Resp::V3] {
        let mut connection = speaking(&server, resp);
        for row in all() {
            compare_info(&server, &mut connection, row, resp);
        }
    }
}

#[test]
fn no_command_of_a_server_is_missing() {
    for server in each(&[]) {
        let Value::Array(names) = server.connect().ask(&[b"COMMAND", b"LIST"]) else { panic!("no list") };
        let known: Vec<Value> = rows().map(|row| Value::BulkString(row.name.into())).collect();
        let missing: Vec<&Value> = names.iter().filter(|name| !known.contains(name)).collect();
        assert!(missing.is_empty() && names.len() > 200, "{}: {missing:?}", server.kind);
    }
}

#[test]
fn rows_have_the_shape_of_redis_7() {
    let Some(server) = Server::start(Kind::Redis, &[]) else { return };
    for resp in [Resp::V2, Resp::V3] {
        let mut connection = speaking(&server, resp);
        for row in rows().filter(|row| UNCHANGED.contains(&row.name)) {
            compare_info(&server, &mut connection, row, resp);
        }
    }
}

#[test]
fn documentation_is_the_newest_servers() {
    let Some(server) = Server::start(Kind::Valkey, &[]) else { return };
    for resp in [Resp::V2, Resp::V3] {
        let mut connection = speaking(&server, resp);
        for row in all() {
            let theirs = connection.ask(&[b"COMMAND", b"DOCS", row.name.as_bytes()]);
            let mut ours = Vec::new();
            write::map_header(&mut ours, 1, resp);
            describe::write_docs(&mut ours, row, resp);
            let ours = parse_redis_value(&ours).unwrap();
            assert_eq!(documentation(&ours), documentation(&theirs), "{}", row.name);
        }
    }
}

fn speaking(server: &Server, resp: Resp) -> Connection {
    let mut connection = server.connect();
    connection.ask(&[b"HELLO", if resp == Resp::V2 { b"2" } else { b"3" }]);
    connection
}

/// Byte by byte, as far as servers agree: a container's subcommands have no order, and only Redis writes a lack of
/// them as a set.
fn compare_info(server: &Server, connection: &mut Connection, row: &Command, resp: Resp) {
    let mut ours = Vec::new();
    write::array_header(&mut ours, 1);
    describe::write_info(&mut ours, row, resp);
    let theirs = connection.ask_raw(&[b"COMMAND", b"INFO", row.name.as_bytes()], ours.len());
    if server.kind == Kind::Redis && row.subcommands.is_empty() {
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string());
    } else {
        let [ours, theirs] = [ours, theirs].map(|bytes| parse_redis_value(&bytes).unwrap());
        assert_eq!(entries(&ours), entries(&theirs), "{} on {}", row.name, server.kind);
    }
}

/// Every entry of a reply with its fields, the subcommands apart and in order.
fn entries(reply: &Value) -> Vec<Entry> {
    let (Value::Array(entries) | Value::Set(entries)) = reply else { panic!("no list: {reply:?}") };
    let mut entries: Vec<Entry> = entries.iter().map(entry).collect();
    entries.sort_by(|one, other| one.facts.cmp(&other.facts));
    entries
}

#[derive(Debug, PartialEq)]
struct Entry {
    facts: String,
    subcommands: Vec<Self>,
}

fn entry(value: &Value) -> Entry {
    let Value::Array(fields) = value else { panic!("no entry: {value:?}") };
    let Some((subcommands, facts)) = fields.split_last() else { panic!("no fields") };
    Entry { facts: format!("{facts:?}"), subcommands: entries(subcommands) }
}

/// Name, summary, since and group of every command and subcommand in a `COMMAND DOCS` reply, in order.
fn documentation(reply: &Value) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (name, doc) in pairs(reply) {
        let field = |wanted: &str| pairs(&doc).into_iter().find(|(field, _)| field == wanted);
        let text = |wanted| format!("{:?}", field(wanted));
        found.push((name, vec![text("summary"), text("since"), text("group")]));
        found.extend(field("subcommands").map(|(_, rows)| documentation(&rows)).unwrap_or_default());
    }
    found.sort();
    found
}

fn pairs(value: &Value) -> Vec<(String, Value)> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("a text was expected instead of {other:?}"),
    };
    match value {
        Value::Map(pairs) => pairs.iter().map(|(key, value)| (text(key), value.clone())).collect(),
        Value::Array(items) => items.chunks_exact(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect(),
        other => panic!("a map was expected instead of {other:?}"),
    }
}
