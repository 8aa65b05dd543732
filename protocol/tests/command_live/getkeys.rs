//! Key extraction against `COMMAND GETKEYS`.

use redis::Value;
use tsubaki_protocol::command::{Command, KeyError, KeySearch};
use tsubaki_protocol::resp::args::{Args, Span};

use crate::arguments::{Case, Grammar, Random, rows};
use crate::server::{Kind, each};

/// Variants of each command that has keys.
const VARIANTS: usize = 400;

#[test]
fn keys_are_those_that_a_server_finds() {
    for server in each(&[]) {
        let mut connection = server.connect();
        let grammar = Grammar::read(&mut connection);
        let mut random = Random::new(1);
        let mut compared = 0;
        for row in rows() {
            let count = if row.keys.is_empty() { 10 } else { VARIANTS };
            let cases = grammar.cases(row, count, &mut random);
            let questions: Vec<_> = cases.iter().map(|case| question(&case.args)).collect();
            for (case, reply) in cases.iter().zip(connection.ask_all(&questions)) {
                compared += usize::from(agrees(row, case, &reply, server.kind));
            }
        }
        assert!(compared > 30_000, "{} answered only {compared} times with keys", server.kind);
    }
}

/// Compares the keys; false if the server names none, and then ours may be any, as long as they are arguments.
fn agrees(row: &Command, case: &Case, reply: &Value, kind: Kind) -> bool {
    let frame = Frame::new(&case.args);
    let args = frame.args();
    let mut found = Vec::new();
    let ours = row.keys(&args, &mut found);
    let keys: Option<Vec<Value>> =
        found.iter().map(|index| Some(Value::BulkString(args.at(*index as usize)?.to_vec()))).collect();
    let keys =
        keys.unwrap_or_else(|| panic!("{} names arguments that are not there: {found:?}", frame.text()));
    let Value::Array(theirs) = reply else { return false };
    if theirs.is_empty() && keys.is_empty() {
        return false;
    }
    if knows_better(row, case, &args, ours, kind) {
        return false;
    }
    assert_eq!((ours, &keys), (Ok(()), theirs), "{} on {kind}", frame.text());
    if let Some(index) = row.first_key_index(&args) {
        assert_eq!(found, [index as u32], "{} by its fixed key", frame.text());
    }
    true
}

/// Wrong arguments for which `COMMAND GETKEYS` names keys although the command itself refuses them, or other keys
/// than the command itself uses. `routing.rs` shows that a node routes these as we do.
fn knows_better(row: &Command, case: &Case, args: &Args<'_>, ours: Result<(), KeyError>, kind: Kind) -> bool {
    let stores = (5..args.len()).filter(|index| args.is(*index, "store") || args.is(*index, "storedist"));
    match (row.search, ours) {
        // The fallback of GETKEYS reads a number like C's atoi does, the command does not.
        (_, Err(KeyError::Count(index))) => {
            !args.at(index).is_some_and(|arg| is_possible_count(arg, args.len()))
        }
        // The key specs take the first word STREAMS, or the last KEYS, whatever option it may belong to.
        (KeySearch::Streams | KeySearch::Migrate, _) => case.spoiled,
        // The key specs name the first destination of each kind, although the last one counts.
        (KeySearch::GeoRadius, _) => kind == Kind::Redis && (case.spoiled || stores.count() > 1),
        _ => false,
    }
}

fn is_possible_count(argument: &[u8], limit: usize) -> bool {
    (0..=limit).any(|count| count.to_string().as_bytes() == argument)
}

fn question(args: &[Vec<u8>]) -> Vec<Vec<u8>> {
    [b"COMMAND".to_vec(), b"GETKEYS".to_vec()].into_iter().chain(args.iter().cloned()).collect()
}

/// Arguments as one piece of bytes, which [`Args`] borrows.
pub(crate) struct Frame {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Frame {
    pub(crate) fn new(args: &[Vec<u8>]) -> Self {
        let mut end = 0;
        let spans = args.iter().map(|arg| {
            let start = end;
            end += arg.len() as u32;
            Span { start, end }
        });
        Self { spans: spans.collect(), bytes: args.concat() }
    }

    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    pub(crate) fn text(&self) -> String {
        self.args().iter().map(|arg| format!("'{}' ", arg.escape_ascii())).collect()
    }
}
