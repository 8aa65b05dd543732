//! Argument lists for any command: plausible ones from the grammar that `COMMAND DOCS` gives, and spoiled ones.

use std::collections::BTreeMap;

use redis::Value;
use tsubaki_protocol::command::{self, Command};

use crate::server::Connection;

/// A small seeded generator (splitmix64): the same seed gives the same arguments.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// A command's arguments with its name, and whether they were spoiled.
pub(crate) struct Case {
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) spoiled: bool,
}

/// All rows of the table, subcommands included.
pub(crate) fn rows() -> impl Iterator<Item = &'static Command> {
    command::all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands))
}

/// What one server documents of its commands' arguments.
pub(crate) struct Grammar(BTreeMap<String, Vec<Argument>>);

struct Argument {
    name: String,
    kind: String,
    token: Option<String>,
    optional: bool,
    multiple: bool,
    repeats_token: bool,
    parts: Vec<Self>,
}

impl Grammar {
    pub(crate) fn read(connection: &mut Connection) -> Self {
        let mut grammar = BTreeMap::new();
        read_docs(&connection.ask(&[b"COMMAND", b"DOCS"]), &mut grammar);
        Self(grammar)
    }

    /// Half of the cases plausible, half of them spoiled; none for a command that the server does not know.
    pub(crate) fn cases(&self, command: &Command, count: usize, random: &mut Random) -> Vec<Case> {
        let Some(arguments) = self.0.get(command.name) else { return Vec::new() };
        let tokens = tokens(arguments);
        let case = |number: usize| {
            let mut writer = Writer { random, args: Vec::new(), key_count: None, repeats: 1 };
            writer.args.extend(command.name.split('|').map(|name| name.as_bytes().to_vec()));
            let names = writer.args.len();
            arguments.iter().for_each(|argument| writer.write(argument));
            let mut case = Case { args: writer.args, spoiled: number % 2 == 1 };
            if case.spoiled {
                spoil(&mut case.args, names, &tokens, random);
            }
            case
        };
        (0..count).map(case).collect()
    }
}

/// Writes arguments by the grammar.
struct Writer<'a> {
    random: &'a mut Random,
    args: Vec<Vec<u8>>,
    /// The index of a number of keys whose keys are still to be written.
    key_count: Option<usize>,
    /// How often the last list repeats: XREAD's list of ids is as long as the list of keys before it.
    repeats: usize,
}

impl Writer<'_> {
    fn write(&mut self, argument: &Argument) {
        if argument.optional && self.random.below(2) == 0 {
            return;
        }
        if argument.multiple && argument.name.to_lowercase() != "id" {
            self.repeats = 1 + self.random.below(3);
        }
        let times = if argument.multiple { self.repeats } else { 1 };
        if argument.multiple
            && let Some(index) = self.key_count.take()
        {
            self.args[index] = times.to_string().into_bytes();
        }
        for time in 0..times {
            if let Some(token) = &argument.token
                && (time == 0 || argument.repeats_token)
            {
                self.args.push(token.clone().into_bytes());
            }
            self.write_value(argument);
        }
    }

    fn write_value(&mut self, argument: &Argument) {
        match argument.kind.as_str() {
            "pure-token" => {}
            "oneof" => {
                let parts: Vec<&Argument> = argument.parts.iter().collect();
                let part = self.random.pick(&parts);
                self.write(part);
            }
            "block" => argument.parts.iter().for_each(|part| self.write(part)),
            "integer" if argument.name == "numkeys" => {
                self.key_count = Some(self.args.len());
                self.args.push(b"0".to_vec());
            }
            "integer" | "double" | "unix-time" => {
                let number = self.random.below(100);
                self.args.push(number.to_string().into_bytes());
            }
            // A word of its own for each argument, so that keys tell their index; some are named like options.
            kind => {
                let odd = self.random.below(12) == 0;
                let word = if odd {
                    self.random.pick(&WORDS).to_owned()
                } else {
                    format!("{kind}{}", self.args.len())
                };
                self.args.push(word.into_bytes());
            }
        }
    }
}

/// Words that mean something to a command whose keys are not at fixed places.
const WORDS: [&str; 20] = [
    "STORE",
    "store",
    "STOREDIST",
    "STREAMS",
    "streams",
    "KEYS",
    "GROUP",
    "BLOCK",
    "COUNT",
    "NOACK",
    "BY",
    "GET",
    "LIMIT",
    "AUTH",
    "AUTH2",
    "COPY",
    "WEIGHTS",
    "MATCH",
    "",
    "{tag}x",
];

const NUMBERS: [&str; 15] = [
    "0",
    "1",
    "2",
    "3",
    "4",
    "-1",
    "+2",
    "02",
    " 2",
    "2x",
    "-0",
    "1e1",
    "4294967298",
    "9223372036854775807",
    "99999999999999999999",
];

/// Changes, adds or takes away up to three arguments behind the names.
fn spoil(args: &mut Vec<Vec<u8>>, names: usize, tokens: &[&str], random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let word = match random.below(4) {
            0 if !tokens.is_empty() => random.pick(tokens).to_owned(),
            0 | 1 => random.pick(&WORDS).to_owned(),
            2 => random.pick(&NUMBERS).to_owned(),
            _ => format!("other{}", random.below(100)),
        };
        let index = names + random.below(args.len() - names + 1);
        match random.below(3) {
            0 if index < args.len() => args[index] = word.into_bytes(),
            1 if index < args.len() => drop(args.remove(index)),
            _ => args.insert(index, word.into_bytes()),
        }
    }
}

fn tokens(arguments: &[Argument]) -> Vec<&str> {
    arguments
        .iter()
        .flat_map(|argument| argument.token.as_deref().into_iter().chain(tokens(&argument.parts)))
        .collect()
}

fn read_docs(docs: &Value, grammar: &mut BTreeMap<String, Vec<Argument>>) {
    for (name, doc) in pairs(docs) {
        let fields: BTreeMap<String, &Value> = pairs(doc).collect();
        let arguments = fields.get("arguments").map(|list| arguments(list)).unwrap_or_default();
        grammar.insert(name, arguments);
        if let Some(subcommands) = fields.get("subcommands") {
            read_docs(subcommands, grammar);
        }
    }
}

fn arguments(list: &Value) -> Vec<Argument> {
    items(list).iter().map(argument).collect()
}

fn argument(value: &Value) -> Argument {
    let fields: BTreeMap<String, &Value> = pairs(value).collect();
    let flags: Vec<String> =
        fields.get("flags").map(|list| items(list).iter().map(text).collect()).unwrap_or_default();
    let flag = |name: &str| flags.iter().any(|flag| flag == name);
    Argument {
        name: fields.get("name").map(|name| text(name)).unwrap_or_default(),
        kind: fields.get("type").map(|kind| text(kind)).unwrap_or_default(),
        token: fields.get("token").map(|token| text(token)),
        optional: flag("optional"),
        multiple: flag("multiple"),
        repeats_token: flag("multiple_token"),
        parts: fields.get("arguments").map(|parts| arguments(parts)).unwrap_or_default(),
    }
}

/// The pairs of a map that RESP2 writes as an array.
fn pairs(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    items(value).chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1]))
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        other => panic!("an array was expected instead of {other:?}"),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::SimpleString(text) => text.clone(),
        other => panic!("a text was expected instead of {other:?}"),
    }
}
