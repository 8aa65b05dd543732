//! What is known of every command: the facts that servers report, and what tsubaki does with each.
//!
//! Must not know: where a command is sent, or who asked for it.
//!
//! ```text
//!  args --> index (name) --> table (one row a command) --> resolve (subcommand, arity)
//!                                     |--> keys      where its keys are
//!                                     |--> class     what tsubaki does with it
//!                                     '--> describe  what COMMAND says of it
//! ```

mod class;
pub mod describe;
mod flags;
mod index;
mod keys;
mod policy;
mod resolve;
mod table;

pub use self::class::{Class, Split};
pub use self::flags::Flags;
pub use self::keys::{Begin, Find, KeyError, KeySearch, KeySpec};
pub use self::policy::{RequestPolicy, ResponsePolicy};
pub use self::resolve::ResolveError;

use crate::resp::args::Args;

/// One row of the table: a command or a subcommand.
///
/// The facts are those of `COMMAND` and `COMMAND DOCS`; where servers differ, the newest server's.
#[derive(Debug)]
pub struct Command {
    /// Lower case; a subcommand carries its container's name: `client|setname`.
    pub name: &'static str,
    /// The number of arguments, all names included; negative: at least so many.
    pub arity: i16,
    /// What tsubaki does with it.
    pub class: Class,
    /// The server's flags.
    pub flags: Flags,
    /// How its keys are found.
    pub search: KeySearch,
    /// Where its keys are, as the server says it.
    pub keys: &'static [KeySpec],
    /// Which nodes the server's tips send it to.
    pub request: RequestPolicy,
    /// How the server's tips merge the replies of several nodes.
    pub response: ResponsePolicy,
    /// Index of the first key as servers before 7.0 tell it; 0 without keys.
    pub first_key: i16,
    /// Index of the last key; negative: counted from the end.
    pub last_key: i16,
    /// The distance from key to key.
    pub step: i16,
    /// ACL categories, each with its `@`.
    pub categories: &'static [&'static str],
    /// All tips, the two policies included.
    pub tips: &'static [&'static str],
    /// The documentation's group, for instance `string`.
    pub group: &'static str,
    /// The server version that brought it: a version of Redis, of Valkey for what Redis 7.0 does not know.
    pub since: &'static str,
    /// One line of documentation.
    pub summary: &'static str,
    /// The subcommands of a container, sorted by name.
    pub subcommands: &'static [Self],
}

/// The row of a command, letter case aside; subcommands are found from it.
#[must_use]
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    index::find(name)
}

/// All commands, sorted by name; subcommands are in their containers' rows.
#[must_use]
pub fn all() -> &'static [Command] {
    &table::COMMANDS
}

impl Command {
    /// The row that rules for these arguments: the command's, or its subcommand's.
    ///
    /// # Errors
    /// An unknown command or subcommand, or the wrong number of arguments.
    #[inline]
    pub fn resolve(args: &Args<'_>) -> Result<&'static Self, ResolveError> {
        resolve::resolve(args)
    }

    /// The row of a container's subcommand, letter case aside, by its own name (`setname`).
    #[must_use]
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Self> {
        self.subcommands.iter().find(|row| row.own_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if the command takes so many arguments, all names included.
    ///
    /// Its arity says so; MSET, whose arguments come in pairs, also refuses a key without a value here, because
    /// a server says the same of both.
    #[must_use]
    #[inline]
    pub fn accepts(&self, argc: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        let paired = self.class != Class::Split(Split::Mset) || argc % 2 == 1;
        paired && if self.arity < 0 { argc >= wanted } else { argc == wanted }
    }

    /// True if the command only reads, so that a replica may answer it.
    #[must_use]
    pub const fn is_readonly(&self) -> bool {
        self.flags.contains(Flags::READONLY)
    }

    /// True if the command may write.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        self.flags.contains(Flags::WRITE)
    }

    /// True of EVAL, EVALSHA, FCALL and their read-only forms: commands that run a user's program, which may
    /// answer with any text.
    #[must_use]
    pub fn is_script(&self) -> bool {
        self.flags.contains(Flags::SKIP_MONITOR) && self.flags.contains(Flags::NO_MANDATORY_KEYS)
    }

    /// True if the command may keep its connection waiting: blocking commands always, XREAD and XREADGROUP
    /// with `BLOCK`.
    #[must_use]
    #[inline]
    pub fn blocks(&self, args: &Args<'_>) -> bool {
        keys::blocks(self, args)
    }

    /// Finds all keys: clears `found`, then appends their argument indices in order.
    ///
    /// A shard channel counts as a key, because it has a slot. A command that may come without keys leaves
    /// `found` empty.
    ///
    /// # Errors
    /// The arguments do not say where the keys are. A node finds none there either, so any node can be asked
    /// for its own words on the mistake.
    pub fn keys(&self, args: &Args<'_>, found: &mut Vec<u32>) -> Result<(), KeyError> {
        keys::find(self, args, found)
    }

    /// The index of the only key, if the command always has exactly one at a fixed place; else `None`, and
    /// [`Self::keys`] must look.
    #[must_use]
    #[inline]
    pub fn first_key_index(&self, args: &Args<'_>) -> Option<usize> {
        let fixed = self.first_key == self.last_key && !self.flags.contains(Flags::MOVABLEKEYS);
        let index = usize::try_from(self.first_key).unwrap_or_default();
        (fixed && index > 0 && index < args.len()).then_some(index)
    }

    /// The name behind the container's, or the whole name.
    fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_letter_case() {
        for row in all() {
            let upper = row.name.to_ascii_uppercase();
            for name in [row.name, &upper] {
                assert!(lookup(name.as_bytes()).is_some_and(|found| std::ptr::eq(found, row)), "{name}");
            }
            for sub in row.subcommands {
                let name = sub.own_name().to_ascii_uppercase();
                assert!(row.subcommand(name.as_bytes()).is_some_and(|found| std::ptr::eq(found, sub)));
                assert_eq!(sub.name, format!("{}|{}", row.name, sub.own_name()));
            }
        }
    }

    /// Looks a name up without the index.
    fn search(name: &[u8]) -> Option<&'static str> {
        let wanted = name.to_ascii_lowercase();
        let row = all().binary_search_by_key(&wanted.as_slice(), |row| row.name.as_bytes());
        row.ok().map(|row| all()[row].name)
    }

    #[test]
    fn a_name_with_another_byte_is_another_name() {
        for row in all() {
            for place in 0..row.name.len() {
                let mut name = row.name.as_bytes().to_vec();
                for byte in 0..=u8::MAX {
                    name[place] = byte;
                    assert_eq!(lookup(&name).map(|row| row.name), search(&name), "{}", name.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn a_name_with_a_byte_more_or_less_is_another_name() {
        for name in all().iter().map(|row| row.name) {
            let others =
                [format!("{name}\0"), format!("{name}{name}"), format!("\0{name}"), name[1..].to_owned()];
            for other in others {
                assert_eq!(
                    lookup(other.as_bytes()).map(|row| row.name),
                    search(other.as_bytes()),
                    "{other:?}"
                );
            }
        }
        assert!(lookup(b"").is_none());
        assert!(lookup(b"client|id").is_none());
        assert!(lookup(&[0xff; 1000]).is_none());
    }

    #[test]
    fn rows_are_sorted_by_name() {
        assert!(all().is_sorted_by_key(|row| row.name));
        assert!(all().iter().all(|row| row.subcommands.is_sorted_by_key(|sub| sub.name)));
    }

    #[test]
    fn arity_is_exact_or_the_least_number() {
        let accepts = |name: &[u8], argc| lookup(name).unwrap().accepts(argc);
        assert_eq!([1, 2, 3].map(|argc| accepts(b"get", argc)), [false, true, false]);
        assert_eq!([1, 2, 9].map(|argc| accepts(b"mget", argc)), [false, true, true]);
    }

    #[test]
    fn a_key_without_a_value_is_a_wrong_number_of_arguments_of_mset() {
        let accepts = |argc| lookup(b"mset").unwrap().accepts(argc);
        assert_eq!([1, 2, 3, 4, 5].map(accepts), [false, false, true, false, true]);
    }

    #[test]
    fn scripts_are_those_that_run_a_users_program() {
        let scripts: Vec<&str> = all().iter().filter(|row| row.is_script()).map(|row| row.name).collect();
        assert_eq!(scripts, ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"]);
    }
}
