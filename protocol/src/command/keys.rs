//! Where a command's keys are.

use std::ops::Range;

use thiserror::Error;

use super::{Command, Flags};
use crate::resp::args::Args;

/// One rule of where keys are (Redis documentation, "Command key specifications").
#[derive(Debug)]
pub struct KeySpec {
    /// What the command does to these keys, as `COMMAND` writes it.
    pub flags: &'static [&'static str],
    /// Where the keys begin.
    pub begin: Begin,
    /// Which arguments from there on are keys.
    pub find: Find,
    /// The server's remark; empty if it makes none.
    pub notes: &'static str,
}

/// Where the keys of a [`KeySpec`] begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u16),
    /// Behind this word, letter case aside.
    Keyword {
        /// The word.
        word: &'static str,
        /// The first argument that can be it; negative: search backwards, from so many before the end.
        from: i16,
    },
    /// The server cannot say it.
    Unknown,
}

/// Which arguments from the beginning on are the keys of a [`KeySpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Find {
    /// Those up to another argument.
    Range {
        /// The last key, counted from the first; negative: from the end, -1 being the last argument.
        last: i16,
        /// The distance from key to key.
        step: u16,
        /// With a negative `last`: only the first of so many equal parts of the rest holds keys; 0: all of it.
        limit: u16,
    },
    /// As many as an argument says.
    Keynum {
        /// That argument, counted from the beginning.
        at: u16,
        /// The first key, counted from the beginning.
        first: u16,
        /// The distance from key to key.
        step: u16,
    },
    /// The server cannot say it.
    Unknown,
}

/// How the keys of a command are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySearch {
    /// By its key specs.
    Specs,
    /// SORT: the first argument, and the one behind the last STORE.
    Sort,
    /// GEORADIUS, GEORADIUSBYMEMBER: the first argument, and the one behind the last STORE or STOREDIST.
    GeoRadius,
    /// XREAD, XREADGROUP: the first half of what stands behind STREAMS. A group may be called `streams` too, so
    /// the options are read one by one.
    Streams,
    /// MIGRATE: the third argument, or all that stand behind KEYS.
    Migrate,
}

/// Why a command's keys cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The argument at this index should be the number of keys; it is none, or more than there are.
    #[error("argument {0} is not the number of the keys behind it")]
    Count(usize),
    /// The command came without a key.
    #[error("the arguments hold no key")]
    NoKey,
}

pub(super) fn find(command: &Command, args: &Args<'_>, found: &mut Vec<u32>) -> Result<(), KeyError> {
    found.clear();
    let may_lack = command.keys.is_empty() || command.flags.contains(Flags::NO_MANDATORY_KEYS);
    match command.search {
        KeySearch::Specs => {
            for spec in command.keys {
                by_spec(spec, may_lack, args, found)?;
            }
        }
        KeySearch::Sort => sort(args, found),
        KeySearch::GeoRadius => geo_radius(args, found),
        KeySearch::Streams => streams(args, found),
        KeySearch::Migrate => migrate(args, found),
    }
    if found.is_empty() && !may_lack { Err(KeyError::NoKey) } else { Ok(()) }
}

#[inline]
pub(super) fn blocks(command: &Command, args: &Args<'_>) -> bool {
    let may_block = command.flags.contains(Flags::BLOCKING);
    may_block && (command.search != KeySearch::Streams || read_options(args).block)
}

fn by_spec(spec: &KeySpec, may_lack: bool, args: &Args<'_>, found: &mut Vec<u32>) -> Result<(), KeyError> {
    let Some(begin) = begin(spec.begin, args) else { return Ok(()) };
    match spec.find {
        Find::Range { last, step, limit } => {
            push(begin..range_end(begin, last, limit, args.len()), step, args, found)
        }
        Find::Keynum { at, first, step } => {
            let at = begin + usize::from(at);
            let bad = KeyError::Count(at);
            let count = args.at(at).and_then(key_count).filter(|count| *count <= args.len()).ok_or(bad)?;
            if count == 0 {
                return if may_lack { Ok(()) } else { Err(bad) };
            }
            let first = begin + usize::from(first);
            let last = first + (count - 1) * usize::from(step);
            push(first..last + 1, step, args, found).map_err(|_| bad)
        }
        Find::Unknown => Ok(()),
    }
}

/// The index at which the keys of a spec begin; `None` if its word is missing or the server cannot say.
fn begin(begin: Begin, args: &Args<'_>) -> Option<usize> {
    match begin {
        Begin::Index(index) => Some(usize::from(index)),
        Begin::Keyword { word, from } => {
            let distance = usize::from(from.unsigned_abs());
            let found = if from > 0 {
                (distance..args.len()).find(|index| args.is(*index, word))
            } else {
                (1..=args.len().saturating_sub(distance)).rev().find(|index| args.is(*index, word))
            };
            found.map(|index| index + 1)
        }
        Begin::Unknown => None,
    }
}

/// The index behind the last key of a range.
fn range_end(begin: usize, last: i16, limit: u16, argc: usize) -> usize {
    if let Ok(last) = usize::try_from(last) {
        return begin + last + 1;
    }
    let length = argc.saturating_sub(begin);
    let part = if limit > 1 { length / usize::from(limit) } else { length };
    (begin + part + 1).saturating_sub(usize::from(last.unsigned_abs()))
}

/// Appends every `step`th index; all of `range` must be arguments.
fn push(range: Range<usize>, step: u16, args: &Args<'_>, found: &mut Vec<u32>) -> Result<(), KeyError> {
    if range.end > args.len() {
        return Err(KeyError::NoKey);
    }
    found.extend(range.step_by(usize::from(step.max(1))).map(|index| index as u32));
    Ok(())
}

fn push_one(index: u32, args: &Args<'_>, found: &mut Vec<u32>) {
    if (index as usize) < args.len() {
        found.push(index);
    }
}

/// The number of keys as an argument writes it: as strict as a server is with integers, and not negative.
fn key_count(arg: &[u8]) -> Option<usize> {
    let plain = matches!(arg, [b'0'] | [b'1'..=b'9', ..]) && arg.iter().all(u8::is_ascii_digit);
    let digits = plain.then(|| str::from_utf8(arg).ok())??;
    digits.parse().ok()
}

/// Redis 7.0, `sortGetKeys`: options with arguments are stepped over, so that a pattern may be called `store`.
fn sort(args: &Args<'_>, found: &mut Vec<u32>) {
    let mut destination = None;
    let mut index = 2;
    while index < args.len() {
        if args.is(index, "limit") {
            index += 2;
        } else if args.is(index, "get") || args.is(index, "by") {
            index += 1;
        } else if args.is(index, "store") && index + 1 < args.len() {
            destination = Some(index as u32 + 1);
        }
        index += 1;
    }
    push_one(1, args, found);
    found.extend(destination);
}

/// Redis 7.0, `georadiusGetKeys`: of several destinations the last one counts.
fn geo_radius(args: &Args<'_>, found: &mut Vec<u32>) {
    let mut destination = None;
    let mut index = 5;
    while index + 1 < args.len() {
        if args.is(index, "store") || args.is(index, "storedist") {
            index += 1;
            destination = Some(index as u32);
        }
        index += 1;
    }
    push_one(1, args, found);
    found.extend(destination);
}

/// Redis 7.0, `xreadGetKeys`: behind STREAMS come all keys, then an id for each.
fn streams(args: &Args<'_>, found: &mut Vec<u32>) {
    let Some(first) = read_options(args).streams else { return };
    let rest = args.len().saturating_sub(first);
    if rest % 2 == 0 {
        found.extend((first..first + rest / 2).map(|index| index as u32));
    }
}

/// What the options of XREAD and XREADGROUP say.
struct ReadOptions {
    /// BLOCK is among them, or could be: behind a word that is no option known here.
    block: bool,
    /// The index behind STREAMS.
    streams: Option<usize>,
}

fn read_options(args: &Args<'_>) -> ReadOptions {
    let mut block = false;
    let mut index = 1;
    while index < args.len() {
        if args.is(index, "streams") {
            return ReadOptions { block, streams: Some(index + 1) };
        } else if args.is(index, "block") {
            block = true;
            index += 2;
        } else if args.is(index, "count") {
            index += 2;
        } else if args.is(index, "group") {
            index += 3;
        } else if args.is(index, "noack") {
            index += 1;
        } else {
            block |= (index..args.len()).any(|later| args.is(later, "block"));
            break;
        }
    }
    ReadOptions { block, streams: None }
}

/// Redis 7.0, `migrateGetKeys`: the key is the third argument, unless that is empty and KEYS follows.
fn migrate(args: &Args<'_>, found: &mut Vec<u32>) {
    let mut index = 6;
    while index < args.len() {
        if args.is(index, "keys") {
            if args.at(3).is_some_and(<[u8]>::is_empty) {
                found.extend((index + 1..args.len()).map(|key| key as u32));
            }
            return;
        }
        index += if args.is(index, "auth") {
            2
        } else if args.is(index, "auth2") {
            3
        } else {
            1
        };
    }
    push_one(3, args, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;
    use crate::resp::args::Span;

    /// Calls `read` with the words of a line as arguments; `''` is an empty one.
    fn with_args<T>(line: &str, read: impl FnOnce(&Args<'_>) -> T) -> T {
        let words: Vec<&str> = line.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let mut end = 0;
        let spans: Vec<Span> = words
            .iter()
            .map(|word| {
                let start = end;
                end += word.len() as u32;
                Span { start, end }
            })
            .collect();
        read(&Args::new(words.concat().as_bytes(), &spans))
    }

    fn row(args: &Args<'_>) -> &'static Command {
        let command = lookup(args.name()).unwrap();
        args.at(1).and_then(|own| command.subcommand(own)).unwrap_or(command)
    }

    fn keys(line: &str) -> Result<Vec<u32>, KeyError> {
        with_args(line, |args| {
            let mut found = vec![99];
            row(args).keys(args, &mut found).map(|()| found)
        })
    }

    fn keys_by(begin: Begin, find: Find, line: &str) -> Result<Vec<u32>, KeyError> {
        let spec = KeySpec { flags: &[], begin, find, notes: "" };
        with_args(line, |args| {
            let mut found = Vec::new();
            by_spec(&spec, false, args, &mut found).map(|()| found)
        })
    }

    fn blocks(line: &str) -> bool {
        with_args(line, |args| row(args).blocks(args))
    }

    #[test]
    fn ranges_end_at_an_argument_or_so_many_before_the_last() {
        assert_eq!(keys("GET k"), Ok(vec![1]));
        assert_eq!(keys("mset k v k v k v"), Ok(vec![1, 3, 5]));
        assert_eq!(keys("BLPOP k k k 0"), Ok(vec![1, 2, 3]));
        assert_eq!(keys("BITOP AND dest k k"), Ok(vec![2, 3, 4]));
        assert_eq!(keys("OBJECT ENCODING k"), Ok(vec![2]));
        assert_eq!(keys("PING"), Ok(vec![]));
    }

    #[test]
    fn a_destination_alone_is_a_key() {
        assert_eq!(keys("PFMERGE dest"), Ok(vec![1]));
    }

    #[test]
    fn a_limit_leaves_keys_in_the_first_part_only() {
        let halves = Find::Range { last: -1, step: 1, limit: 2 };
        let thirds = Find::Range { last: -1, step: 1, limit: 3 };
        assert_eq!(keys_by(Begin::Index(1), halves, "x k k v v"), Ok(vec![1, 2]));
        assert_eq!(keys_by(Begin::Index(1), thirds, "x k k v v w w"), Ok(vec![1, 2]));
        assert_eq!(keys_by(Begin::Index(2), halves, "x y k v w"), Ok(vec![2]));
    }

    #[test]
    fn a_keyword_is_searched_forwards_from_an_argument_or_backwards_from_the_end() {
        let (forwards, backwards) =
            (Begin::Keyword { word: "KEYS", from: 2 }, Begin::Keyword { word: "KEYS", from: -2 });
        let (one, all) =
            (Find::Range { last: 0, step: 1, limit: 0 }, Find::Range { last: -1, step: 2, limit: 0 });
        assert_eq!(keys_by(forwards, one, "x keys a KEYS b keys c"), Ok(vec![4]));
        assert_eq!(keys_by(backwards, one, "x keys a KEYS b keys c"), Ok(vec![6]));
        assert_eq!(keys_by(backwards, all, "x keys a b c"), Ok(vec![2, 4]));
        assert_eq!(keys_by(backwards, one, "x a keys"), Ok(vec![]));
        assert_eq!(keys_by(backwards, one, "keys"), Ok(vec![]));
        assert_eq!(keys_by(forwards, one, "x a keys"), Err(KeyError::NoKey));
    }

    #[test]
    fn a_script_has_the_keys_that_it_counts_and_its_digest_is_none() {
        assert_eq!(keys("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 2 k k arg"), Ok(vec![3, 4]));
        assert_eq!(keys("FCALL function 1 k arg"), Ok(vec![3]));
        assert_eq!(keys("EVAL return 0"), Ok(vec![]));
        assert_eq!(keys("EVAL return 0 arg"), Ok(vec![]));
    }

    #[test]
    fn a_number_of_keys_that_is_none_or_too_large_is_an_error() {
        for count in ["-1", "+1", "01", "1x", "''", "3", "18446744073709551615", "18446744073709551617"] {
            assert_eq!(keys(&format!("EVAL return {count} k k")), Err(KeyError::Count(2)), "{count}");
            assert_eq!(keys(&format!("ZUNIONSTORE dest {count} k k")), Err(KeyError::Count(2)), "{count}");
        }
        assert_eq!(keys("ZUNION 0 k"), Err(KeyError::Count(1)));
        assert_eq!(keys("ZUNIONSTORE dest 2 k k WEIGHTS 1 2"), Ok(vec![1, 3, 4]));
        assert_eq!(keys("EVAL"), Err(KeyError::Count(2)));
    }

    #[test]
    fn sort_stores_behind_the_last_store_that_is_no_pattern() {
        assert_eq!(keys("SORT k BY store GET store LIMIT 0 1 STORE dest"), Ok(vec![1, 10]));
        assert_eq!(keys("SORT k STORE one STORE two"), Ok(vec![1, 5]));
        assert_eq!(keys("SORT k STORE"), Ok(vec![1]));
        assert_eq!(keys("SORT_RO k BY w_* GET #"), Ok(vec![1]));
    }

    #[test]
    fn georadius_stores_behind_the_last_destination() {
        assert_eq!(keys("GEORADIUS k 1 2 3 m STORE one STOREDIST two"), Ok(vec![1, 9]));
        assert_eq!(keys("GEORADIUSBYMEMBER store store 3 m STORE store"), Ok(vec![1, 6]));
        assert_eq!(keys("GEORADIUS k 1 2 3 m ASC"), Ok(vec![1]));
    }

    #[test]
    fn a_group_called_streams_is_not_the_word_before_the_keys() {
        assert_eq!(keys("XREADGROUP GROUP streams c COUNT 1 STREAMS k >"), Ok(vec![7]));
        assert_eq!(
            keys("XREADGROUP COUNT 1 GROUP streams streams NOACK STREAMS k streams > 0"),
            Ok(vec![8, 9])
        );
        assert_eq!(keys("XREAD COUNT 1 STREAMS streams k 0 0"), Ok(vec![4, 5]));
        assert_eq!(keys("XREAD STREAMS k k 0"), Err(KeyError::NoKey));
        assert_eq!(keys("XREAD STREAMS"), Err(KeyError::NoKey));
    }

    #[test]
    fn migrate_takes_one_key_or_those_behind_keys() {
        assert_eq!(keys("MIGRATE host 1 k 0 1 COPY"), Ok(vec![3]));
        assert_eq!(keys("MIGRATE host 1 '' 0 1 AUTH keys AUTH2 keys keys KEYS k k"), Ok(vec![12, 13]));
        assert_eq!(keys("MIGRATE host 1 k 0 1 KEYS k"), Err(KeyError::NoKey));
    }

    #[test]
    fn reading_streams_blocks_with_the_option_block_only() {
        assert!(blocks("XREAD COUNT 1 BLOCK 0 STREAMS k 0"));
        assert!(blocks("XREADGROUP GROUP g c BLOCK 0 STREAMS k >"));
        assert!(blocks("BLPOP k 0"));
        assert!(!blocks("XREAD COUNT 1 STREAMS block 0"));
        assert!(!blocks("XREADGROUP GROUP block block STREAMS k >"));
        assert!(!blocks("GET block"));
    }

    #[test]
    fn an_option_of_a_later_server_cannot_hide_block() {
        assert!(blocks("XREADGROUP GROUP g c CLAIM 10 BLOCK 0 STREAMS k >"));
        assert!(!blocks("XREADGROUP GROUP g c CLAIM 10 STREAMS k >"));
    }
}
