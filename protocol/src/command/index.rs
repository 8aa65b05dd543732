//! From a name to its row: an open-addressing hash table that the compiler fills.
//!
//! Every command is looked up, so a name is read as two machine words and compared as such: about 3 ns, whatever
//! its length.

use super::Command;
use super::table::COMMANDS;

/// At least twice the number of commands, so that few names meet another one on their way.
const BUCKETS: usize = 1024;
const FREE: u16 = u16::MAX;

static INDEX: [u16; BUCKETS] = build();
static NAMES: [Name; COMMANDS.len()] = names();

/// The row with this name, letter case aside.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let wanted = Ends::of(name);
    let mut bucket = wanted.bucket();
    loop {
        let row = usize::from(*INDEX.get(bucket)?);
        let (known, found) = (NAMES.get(row)?, COMMANDS.get(row)?);
        if known.fits(&wanted) && (name.len() <= WHOLE || is_name(found, name)) {
            return Some(found);
        }
        bucket = (bucket + 1) % BUCKETS;
    }
}

#[cold]
fn is_name(command: &Command, name: &[u8]) -> bool {
    command.name.as_bytes().eq_ignore_ascii_case(name)
}

/// The first and the last eight bytes of a name: all of it up to [`WHOLE`] bytes. The two overlap in most names.
#[derive(Clone, Copy)]
struct Ends {
    head: u64,
    tail: u64,
    length: usize,
}

/// The longest name that its ends hold.
const WHOLE: usize = 16;

/// What makes a capital letter a small one, in each byte.
const SMALL: u64 = 0x2020_2020_2020_2020;

impl Ends {
    #[inline]
    const fn of(name: &[u8]) -> Self {
        let (head, tail) = if let (Some(head), Some(tail)) = (name.first_chunk::<8>(), name.last_chunk::<8>())
        {
            (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
        } else if let (Some(head), Some(tail)) = (name.first_chunk::<4>(), name.last_chunk::<4>()) {
            (u32::from_le_bytes(*head) as u64, u32::from_le_bytes(*tail) as u64)
        } else if let (Some(head), Some(tail)) = (name.first_chunk::<2>(), name.last_chunk::<2>()) {
            (u16::from_le_bytes(*head) as u64, u16::from_le_bytes(*tail) as u64)
        } else if let [only] = name {
            (*only as u64, 0)
        } else {
            (0, 0)
        };
        Self { head, tail, length: name.len() }
    }

    /// The first bucket to look in: a multiplicative hash that takes capital letters as small ones.
    #[inline]
    const fn bucket(&self) -> usize {
        let mixed =
            (self.head | SMALL).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.tail | SMALL).rotate_left(29);
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54) as usize
    }
}

/// A name of the table, and which of its bits count: all but the case of its letters.
#[derive(Clone, Copy)]
struct Name {
    ends: Ends,
    head_bits: u64,
    tail_bits: u64,
}

impl Name {
    const fn new(name: &[u8]) -> Self {
        let ends = Ends::of(name);
        Self { ends, head_bits: !case_bits(ends.head), tail_bits: !case_bits(ends.tail) }
    }

    #[inline]
    const fn fits(&self, other: &Ends) -> bool {
        let head = (self.ends.head ^ other.head) & self.head_bits;
        let tail = (self.ends.tail ^ other.tail) & self.tail_bits;
        head | tail == 0 && self.ends.length == other.length
    }
}

/// The case bit of each byte that is a small letter.
const fn case_bits(word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = if bytes[at].is_ascii_lowercase() { 0x20 } else { 0 };
        at += 1;
    }
    u64::from_le_bytes(bytes)
}

const fn names() -> [Name; COMMANDS.len()] {
    let mut names = [Name::new(b""); COMMANDS.len()];
    let mut row = 0;
    while row < COMMANDS.len() {
        names[row] = Name::new(COMMANDS[row].name.as_bytes());
        row += 1;
    }
    names
}

const fn build() -> [u16; BUCKETS] {
    let mut index = [FREE; BUCKETS];
    let mut row = 0;
    while row < NAMES.len() {
        let mut bucket = NAMES[row].ends.bucket();
        while index[bucket] != FREE {
            bucket = (bucket + 1) % BUCKETS;
        }
        index[bucket] = row as u16;
        row += 1;
    }
    index
}
