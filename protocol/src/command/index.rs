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
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let wanted = Name::new(name);
    let mut bucket = wanted.bucket();
    loop {
        let row = usize::from(*INDEX.get(bucket)?);
        if *NAMES.get(row)? == wanted {
            let found = COMMANDS.get(row)?;
            if wanted.is_whole() || found.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(found);
            }
        }
        bucket = (bucket + 1) % BUCKETS;
    }
}

/// The ends of a name in lower case: all of it up to 16 bytes. The two words overlap in most names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name {
    head: u64,
    tail: u64,
    length: usize,
}

impl Name {
    const fn new(name: &[u8]) -> Self {
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
        Self { head: lower_case(head), tail: lower_case(tail), length: name.len() }
    }

    const fn is_whole(&self) -> bool {
        self.length <= 16
    }

    /// The first bucket to look in: a multiplicative hash.
    const fn bucket(&self) -> usize {
        let mixed = self.head.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.tail.rotate_left(29);
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 54) as usize
    }
}

/// Turns the eight bytes' capital letters into small ones: the high bit of a byte's sum tells if it is at least `A`,
/// and if it is above `Z`.
const fn lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low_bits = word & (0x7f * EACH);
    let from_a = low_bits + (0x80 - b'A' as u64) * EACH;
    let above_z = low_bits + (0x7f - b'Z' as u64) * EACH;
    let capitals = (from_a ^ above_z) & !word & (0x80 * EACH);
    word | (capitals >> 2)
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
        let mut bucket = NAMES[row].bucket();
        while index[bucket] != FREE {
            bucket = (bucket + 1) % BUCKETS;
        }
        index[bucket] = row as u16;
        row += 1;
    }
    index
}
