//! What the replies of `COMMAND`, `COMMAND INFO` and `COMMAND DOCS` say of a row, in the shapes of Redis 7.0.
//!
//! Must not know: which rows were asked for.

use super::{Begin, Command, Find, KeySpec};
use crate::resp::write::{Resp, array_header, bulk, integer, map_header, set_header, simple};

/// Appends a row's entry in the array that `COMMAND` and `COMMAND INFO` answer with: name, arity, flags, first
/// key, last key, step, ACL categories, tips, key specs, subcommands.
pub fn write_info(out: &mut Vec<u8>, command: &Command, resp: Resp) {
    array_header(out, 10);
    bulk(out, command.name.as_bytes());
    integer(out, command.arity.into());
    set_header(out, command.flags.names().count(), resp);
    command.flags.names().for_each(|flag| simple(out, flag));
    integer(out, command.first_key.into());
    integer(out, command.last_key.into());
    integer(out, command.step.into());
    write_words(out, command.categories, resp);
    set_header(out, command.tips.len(), resp);
    command.tips.iter().for_each(|tip| bulk(out, tip.as_bytes()));
    set_header(out, command.keys.len(), resp);
    command.keys.iter().for_each(|spec| write_key_spec(out, spec, resp));
    write_subcommands(out, command, resp);
}

/// Appends a row's name and documentation, one pair of the map that `COMMAND DOCS` answers with: summary, since,
/// group, subcommands.
pub fn write_docs(out: &mut Vec<u8>, command: &Command, resp: Resp) {
    bulk(out, command.name.as_bytes());
    map_header(out, if command.subcommands.is_empty() { 3 } else { 4 }, resp);
    for (field, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        write_text(out, field, text);
    }
    if !command.subcommands.is_empty() {
        bulk(out, b"subcommands");
        map_header(out, command.subcommands.len(), resp);
        command.subcommands.iter().for_each(|row| write_docs(out, row, resp));
    }
}

/// Redis writes a container's subcommands as an array, but no subcommands as an empty set.
fn write_subcommands(out: &mut Vec<u8>, command: &Command, resp: Resp) {
    if command.subcommands.is_empty() {
        return set_header(out, 0, resp);
    }
    array_header(out, command.subcommands.len());
    command.subcommands.iter().for_each(|row| write_info(out, row, resp));
}

fn write_key_spec(out: &mut Vec<u8>, spec: &KeySpec, resp: Resp) {
    map_header(out, if spec.notes.is_empty() { 3 } else { 4 }, resp);
    if !spec.notes.is_empty() {
        write_text(out, "notes", spec.notes);
    }
    bulk(out, b"flags");
    write_words(out, spec.flags, resp);
    bulk(out, b"begin_search");
    write_begin(out, spec.begin, resp);
    bulk(out, b"find_keys");
    write_find(out, spec.find, resp);
}

fn write_begin(out: &mut Vec<u8>, begin: Begin, resp: Resp) {
    match begin {
        Begin::Index(index) => write_search(out, "index", &[("index", index.into())], resp),
        Begin::Keyword { word, from } => {
            write_search_header(out, "keyword", 2, resp);
            write_text(out, "keyword", word);
            write_number(out, "startfrom", from.into());
        }
        Begin::Unknown => write_search(out, "unknown", &[], resp),
    }
}

fn write_find(out: &mut Vec<u8>, find: Find, resp: Resp) {
    match find {
        Find::Range { last, step, limit } => {
            let fields = [("lastkey", last.into()), ("keystep", step.into()), ("limit", limit.into())];
            write_search(out, "range", &fields, resp);
        }
        Find::Keynum { at, first, step } => {
            let fields = [("keynumidx", at.into()), ("firstkey", first.into()), ("keystep", step.into())];
            write_search(out, "keynum", &fields, resp);
        }
        Find::Unknown => write_search(out, "unknown", &[], resp),
    }
}

fn write_search(out: &mut Vec<u8>, kind: &str, fields: &[(&str, i64)], resp: Resp) {
    write_search_header(out, kind, fields.len(), resp);
    fields.iter().for_each(|(field, number)| write_number(out, field, *number));
}

/// The type of a search, and the header of the `fields` that follow.
fn write_search_header(out: &mut Vec<u8>, kind: &str, fields: usize, resp: Resp) {
    map_header(out, 2, resp);
    write_text(out, "type", kind);
    bulk(out, b"spec");
    map_header(out, fields, resp);
}

fn write_words(out: &mut Vec<u8>, words: &[&str], resp: Resp) {
    set_header(out, words.len(), resp);
    words.iter().for_each(|word| simple(out, word));
}

fn write_text(out: &mut Vec<u8>, field: &str, text: &str) {
    bulk(out, field.as_bytes());
    bulk(out, text.as_bytes());
}

fn write_number(out: &mut Vec<u8>, field: &str, number: i64) {
    bulk(out, field.as_bytes());
    integer(out, number);
}
