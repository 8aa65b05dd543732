//! From arguments to the row that rules, and the server's words when there is none.

use memchr::memchr;
use thiserror::Error;

use super::{Command, lookup};
use crate::resp::args::Args;

/// Why no row rules for the arguments of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// No command has this name.
    #[error("unknown command")]
    UnknownCommand,
    /// The container of this name has no such subcommand.
    #[error("unknown subcommand of '{0}'")]
    UnknownSubcommand(&'static str),
    /// Too many or too few arguments for the command of this name.
    #[error("wrong number of arguments for '{0}' command")]
    WrongArity(&'static str),
}

/// The most bytes that an error repeats of a name, and of all arguments together (Redis 7.0, `server.c`).
const SHOWN: usize = 128;

#[inline]
pub(super) fn resolve(args: &Args<'_>) -> Result<&'static Command, ResolveError> {
    let command = lookup(args.name()).ok_or(ResolveError::UnknownCommand)?;
    let row = if command.subcommands.is_empty() { command } else { subcommand(command, args)? };
    if row.accepts(args.len()) { Ok(row) } else { Err(ResolveError::WrongArity(row.name)) }
}

/// The row of a container's subcommand; without one, the container's own.
fn subcommand(container: &'static Command, args: &Args<'_>) -> Result<&'static Command, ResolveError> {
    let Some(own) = args.at(1) else { return Ok(container) };
    container.subcommand(own).ok_or(ResolveError::UnknownSubcommand(container.name))
}

impl ResolveError {
    /// Appends a server's whole error reply to the command with these arguments (Redis 7.0,
    /// `commandCheckExistence`, `commandCheckArity`).
    pub fn write_reply(&self, args: &Args<'_>, out: &mut Vec<u8>) {
        let from = out.len();
        match self {
            Self::UnknownCommand => {
                out.extend_from_slice(b"-ERR unknown command '");
                out.extend_from_slice(shown(args.name(), SHOWN));
                out.extend_from_slice(b"', with args beginning with: ");
                write_arguments(args, out);
            }
            Self::UnknownSubcommand(container) => {
                out.extend_from_slice(b"-ERR unknown subcommand '");
                out.extend_from_slice(shown(args.at(1).unwrap_or_default(), SHOWN));
                out.extend_from_slice(b"'. Try ");
                out.extend_from_slice(container.to_ascii_uppercase().as_bytes());
                out.extend_from_slice(b" HELP.");
            }
            Self::WrongArity(_) => out.extend_from_slice(format!("-ERR {self}").as_bytes()),
        }
        let text = out.get_mut(from..).unwrap_or_default();
        text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        out.extend_from_slice(b"\r\n");
    }
}

/// Each argument in quotes with a space behind it, until [`SHOWN`] bytes are reached.
fn write_arguments(args: &Args<'_>, out: &mut Vec<u8>) {
    let from = out.len();
    for arg in args.iter().skip(1) {
        let written = out.len() - from;
        if written >= SHOWN {
            break;
        }
        out.push(b'\'');
        out.extend_from_slice(shown(arg, SHOWN - written));
        out.extend_from_slice(b"' ");
    }
}

/// What C's `%.*s` prints of an argument: at most `limit` bytes, and none from a NUL on.
fn shown(arg: &[u8], limit: usize) -> &[u8] {
    let arg = arg.get(..limit).unwrap_or(arg);
    memchr(0, arg).map_or(arg, |nul| arg.get(..nul).unwrap_or_default())
}
