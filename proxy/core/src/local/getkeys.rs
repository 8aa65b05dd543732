//! COMMAND GETKEYS and GETKEYSANDFLAGS: the keys of a command that stands in the arguments.

use tsubaki_protocol::command::{Command, Flags, ResolveError};
use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::request::{RequestLimits, RequestScanner};
use tsubaki_protocol::resp::write;

/// `flags`: each key's flags are wanted too, in this version of the protocol.
pub(super) fn answer(args: &Args<'_>, flags: Option<Resp>, out: &mut Vec<u8>) {
    // Written out and scanned again: the command in question begins at the third argument.
    let words: Vec<&[u8]> = args.iter().skip(2).collect();
    let mut frame = Vec::new();
    write::command(&mut frame, words.iter().copied());
    let mut scanner = RequestScanner::new();
    if scanner.scan(&frame, &RequestLimits::default()).is_err() {
        return write::error(out, "ERR Invalid command specified");
    }
    let inner = Args::new(&frame, scanner.spans());
    match Command::resolve(&inner) {
        Ok(command) => answer_for(command, &inner, flags, out),
        Err(ResolveError::WrongArity(_)) => {
            write::error(out, "ERR Invalid number of arguments specified for command")
        }
        Err(ResolveError::UnknownCommand | ResolveError::UnknownSubcommand(_)) => {
            write::error(out, "ERR Invalid command specified");
        }
    }
}

fn answer_for(command: &Command, args: &Args<'_>, flags: Option<Resp>, out: &mut Vec<u8>) {
    let mut keys = Vec::new();
    match command.keys(args, &mut keys) {
        _ if command.keys.is_empty() => write::error(out, "ERR The command has no key arguments"),
        Err(_) if command.flags.contains(Flags::NO_MANDATORY_KEYS) => write::array_header(out, 0),
        Err(_) => write::error(out, "ERR Invalid arguments specified for command"),
        Ok(()) => {
            write::array_header(out, keys.len());
            for (place, key) in keys.iter().enumerate() {
                let key = args.at(*key as usize).unwrap_or_default();
                match flags {
                    None => write::bulk(out, key),
                    Some(resp) => write_with_flags(out, key, flags_of(command, args, place), resp),
                }
            }
        }
    }
}

fn write_with_flags(out: &mut Vec<u8>, key: &[u8], flags: &[&str], resp: Resp) {
    // Words that are about the spec, not about a key.
    let flags = || flags.iter().filter(|flag| !matches!(**flag, "variable_flags" | "incomplete"));
    write::array_header(out, 2);
    write::bulk(out, key);
    write::set_header(out, flags().count(), resp);
    flags().for_each(|flag| write::simple(out, flag));
}

/// The flags of the key that was found in this place. In every command with several key specs the first rules for the
/// first key, and the last for all others.
fn flags_of(command: &Command, args: &Args<'_>, place: usize) -> &'static [&'static str] {
    match command.name {
        "set" if !(3..args.len()).any(|index| args.is(index, "get")) => &["OW", "update"],
        "bitfield" if reads_only(args) => &["RO", "access"],
        _ => {
            let spec = if place == 0 { command.keys.first() } else { command.keys.last() };
            spec.map(|spec| spec.flags).unwrap_or_default()
        }
    }
}

/// Redis 7.0, `bitfieldGetKeys`: GET and OVERFLOW do not write.
fn reads_only(args: &Args<'_>) -> bool {
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "get") && left >= 2 {
            index += 3;
        } else if args.is(index, "overflow") && left >= 1 {
            index += 2;
        } else {
            return false;
        }
    }
    true
}
