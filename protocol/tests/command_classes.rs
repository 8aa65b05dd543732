//! The class of every command: a change shows here, and in `data/classes.txt`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tsubaki_protocol::command::{Class, Command, Flags, RequestPolicy, Split, all};

#[test]
fn every_class_is_the_expected_one() {
    let expected = read_expected();
    let actual: BTreeMap<String, String> =
        rows().map(|row| (row.name.to_owned(), class_text(row.class))).collect();
    let names = expected.keys().chain(actual.keys());
    let mut differences: Vec<String> = names
        .filter(|name| expected.get(*name) != actual.get(*name))
        .map(|name| format!("{name}: expected {:?}, is {:?}", expected.get(name), actual.get(name)))
        .collect();
    differences.dedup();
    assert!(differences.is_empty(), "classes.txt differs:\n{}", differences.join("\n"));
}

#[test]
fn what_is_routed_leaves_no_state_on_its_connection() {
    let harmful =
        [Flags::ADMIN, Flags::BLOCKING, Flags::PUBSUB, Flags::NO_MULTI, Flags::NO_AUTH, Flags::ASKING];
    let routed = rows().filter(|row| matches!(row.class, Class::Routed | Class::Split(_)));
    let suspects: Vec<&str> = routed
        .filter(|row| harmful.iter().any(|flag| row.flags.contains(*flag)))
        .map(|row| row.name)
        .collect();
    assert_eq!(suspects, ["publish", "spublish", "xread", "xreadgroup"]);
}

#[test]
fn what_is_routed_without_a_place_for_keys_is_named_here() {
    let keyless = rows().filter(|row| row.class == Class::Routed && row.keys.is_empty());
    let names: Vec<&str> = keyless.map(|row| row.name).filter(|name| !name.ends_with("|help")).collect();
    assert_eq!(names, ["lolwut", "publish"]);
}

#[test]
fn what_is_split_is_for_several_shards() {
    let split: Vec<&Command> = rows().filter(|row| matches!(row.class, Class::Split(_))).collect();
    assert_eq!(split.len(), 6);
    assert!(split.iter().all(|row| row.request == RequestPolicy::MultiShard));
}

#[test]
fn every_refusal_gives_its_reason() {
    for row in rows() {
        if let Class::AllNodes(reason) | Class::Private(reason) | Class::Refused(reason) = row.class {
            assert!(!reason.is_empty() && !reason.ends_with('.'), "{}: {reason:?}", row.name);
        }
    }
}

fn rows() -> impl Iterator<Item = &'static Command> {
    all().iter().flat_map(|row| std::iter::once(row).chain(row.subcommands))
}

fn read_expected() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/classes.txt");
    let text = fs::read_to_string(path).unwrap();
    let pair = |line: &str| line.split_once(' ').map(|(name, class)| (name.to_owned(), class.to_owned()));
    text.lines().map(|line| pair(line).unwrap()).collect()
}

/// A class as `classes.txt` writes it, with the reason that the user is told.
fn class_text(class: Class) -> String {
    match class {
        Class::Local => "local".to_owned(),
        Class::Routed => "routed".to_owned(),
        Class::Split(Split::Mget) => "split mget".to_owned(),
        Class::Split(Split::Mset) => "split mset".to_owned(),
        Class::Split(Split::Sum) => "split sum".to_owned(),
        Class::AllNodes(reason) => format!("all-nodes {reason}"),
        Class::Private(reason) => format!("private {reason}"),
        Class::Refused(reason) => format!("refused {reason}"),
    }
}
