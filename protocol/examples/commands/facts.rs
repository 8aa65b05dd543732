//! What a server says of its commands: `COMMAND` joined with `COMMAND DOCS`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use redis::Value;

/// One command or subcommand.
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) arity: i64,
    pub(crate) flags: Vec<String>,
    pub(crate) first_key: i64,
    pub(crate) last_key: i64,
    pub(crate) step: i64,
    pub(crate) categories: Vec<String>,
    pub(crate) tips: Vec<String>,
    pub(crate) keys: Vec<KeySpec>,
    pub(crate) subcommands: BTreeMap<String, Self>,
    pub(crate) group: String,
    pub(crate) since: String,
    pub(crate) summary: String,
}

/// One key spec; the two searches are kept as the server writes them.
pub(crate) struct KeySpec {
    pub(crate) notes: String,
    pub(crate) flags: Vec<String>,
    pub(crate) begin: Search,
    pub(crate) find: Search,
}

/// `begin_search` or `find_keys`: its type and its parameters.
pub(crate) struct Search {
    pub(crate) kind: String,
    pub(crate) parameters: BTreeMap<String, Value>,
}

/// Asks the server at `HOST:PORT` for its name with version, and for all its commands.
pub(crate) fn read(server: &str) -> Result<(String, BTreeMap<String, Facts>)> {
    let mut connection = redis::Client::open(format!("redis://{server}/"))?.get_connection()?;
    let commands: Value = redis::cmd("COMMAND").query(&mut connection)?;
    let docs: Value = redis::cmd("COMMAND").arg("DOCS").query(&mut connection)?;
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
    Ok((version(&info)?, rows(&commands, &map(&docs)?)?))
}

/// Takes over what a newer server says: its facts overrule, what it does not know stays.
pub(crate) fn merge(old: &mut BTreeMap<String, Facts>, new: BTreeMap<String, Facts>) {
    for (name, mut facts) in new {
        if let Some(known) = old.remove(&name) {
            let newer = std::mem::replace(&mut facts.subcommands, known.subcommands);
            merge(&mut facts.subcommands, newer);
        }
        old.insert(name, facts);
    }
}

/// Valkey tells its own version beside the Redis version that it is compatible with.
fn version(info: &str) -> Result<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => Ok(format!("Valkey {version}")),
        (None, Some(version)) => Ok(format!("Redis {version}")),
        (None, None) => bail!("INFO tells no version"),
    }
}

fn rows(commands: &Value, docs: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Facts>> {
    let mut rows = BTreeMap::new();
    for command in list(commands)? {
        let row = row(list(command)?, docs).with_context(|| format!("in {command:?}"))?;
        rows.insert(row.name.clone(), row);
    }
    Ok(rows)
}

fn row(entry: &[Value], docs: &BTreeMap<String, Value>) -> Result<Facts> {
    let [name, arity, flags, first_key, last_key, step, categories, tips, keys, subcommands] = entry else {
        bail!("a command has {} fields: servers from 7.0 on give ten", entry.len());
    };
    let name = text(name)?;
    let doc = map(docs.get(&name).context("no documentation")?)?;
    let doc_text = |field: &str| text(doc.get(field).with_context(|| format!("no {field}"))?);
    let no_docs = Value::Array(Vec::new());
    Ok(Facts {
        arity: integer(arity)?,
        flags: texts(flags)?,
        first_key: integer(first_key)?,
        last_key: integer(last_key)?,
        step: integer(step)?,
        categories: texts(categories)?,
        tips: texts(tips)?,
        keys: list(keys)?.iter().map(key_spec).collect::<Result<_>>()?,
        subcommands: rows(subcommands, &map(doc.get("subcommands").unwrap_or(&no_docs))?)?,
        group: doc_text("group")?,
        since: doc_text("since")?,
        summary: doc_text("summary")?,
        name,
    })
}

fn key_spec(spec: &Value) -> Result<KeySpec> {
    let fields = map(spec)?;
    let field = |name: &str| fields.get(name).with_context(|| format!("no {name} in a key spec"));
    Ok(KeySpec {
        notes: fields.get("notes").map(text).transpose()?.unwrap_or_default(),
        flags: texts(field("flags")?)?,
        begin: search(field("begin_search")?)?,
        find: search(field("find_keys")?)?,
    })
}

fn search(value: &Value) -> Result<Search> {
    let mut fields = map(value)?;
    let kind = text(fields.get("type").context("a search without type")?)?;
    Ok(Search { kind, parameters: map(&fields.remove("spec").context("a search without spec")?)? })
}

/// A map, which RESP2 writes as an array of keys and values in turn.
fn map(value: &Value) -> Result<BTreeMap<String, Value>> {
    let pairs = list(value)?.chunks_exact(2);
    pairs.map(|pair| Ok((text(&pair[0])?, pair[1].clone()))).collect()
}

fn list(value: &Value) -> Result<&[Value]> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        other => bail!("a list was expected instead of {other:?}"),
    }
}

fn texts(value: &Value) -> Result<Vec<String>> {
    list(value)?.iter().map(text).collect()
}

pub(crate) fn text(value: &Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8(bytes.clone())?),
        Value::SimpleString(text) => Ok(text.clone()),
        other => bail!("a text was expected instead of {other:?}"),
    }
}

pub(crate) fn integer(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        other => bail!("an integer was expected instead of {other:?}"),
    }
}
