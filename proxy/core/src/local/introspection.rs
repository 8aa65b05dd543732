//! COMMAND and its subcommands, out of the proxy's own table.

use tsubaki_protocol::command::{self, Command, describe};
use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use super::{getkeys, glob};
use crate::client::Session;

pub(super) fn answer(session: &Session, command: &Command, args: &Args<'_>, out: &mut Vec<u8>) {
    let resp = session.resp;
    match command.name {
        "command|count" => write::integer(out, command::all().len() as i64),
        "command|info" if args.len() > 2 => some_info(args, resp, out),
        "command" | "command|info" => all_info(resp, out),
        "command|docs" => docs(args, resp, out),
        "command|list" => list(args, out),
        "command|getkeys" => getkeys::answer(args, None, out),
        "command|getkeysandflags" => getkeys::answer(args, Some(resp), out),
        "command|help" => help(out),
        _ => write::error(out, "ERR unknown command"),
    }
}

fn all_info(resp: Resp, out: &mut Vec<u8>) {
    write::array_header(out, command::all().len());
    for command in command::all() {
        describe::write_info(out, command, resp);
    }
}

fn some_info(args: &Args<'_>, resp: Resp, out: &mut Vec<u8>) {
    write::array_header(out, args.len() - 2);
    for name in args.iter().skip(2) {
        match find(name) {
            Some(command) => describe::write_info(out, command, resp),
            None => write::null(out, resp),
        }
    }
}

fn docs(args: &Args<'_>, resp: Resp, out: &mut Vec<u8>) {
    let wanted: Vec<&Command> = if args.len() > 2 {
        args.iter().skip(2).filter_map(find).collect()
    } else {
        command::all().iter().collect()
    };
    write::map_header(out, wanted.len(), resp);
    for command in wanted {
        describe::write_docs(out, command, resp);
    }
}

fn list(args: &Args<'_>, out: &mut Vec<u8>) {
    let all =
        || command::all().iter().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    let filter = args.at(4).unwrap_or_default();
    let names: Vec<&str> = match args.len() {
        2 => all().map(|command| command.name).collect(),
        5 if args.is(2, "filterby") && args.is(3, "pattern") => {
            all().map(|command| command.name).filter(|name| glob::matches(filter, name.as_bytes())).collect()
        }
        5 if args.is(2, "filterby") && args.is(3, "aclcat") => all()
            .filter(|command| {
                command
                    .categories
                    .iter()
                    .any(|of| of.trim_start_matches('@').as_bytes().eq_ignore_ascii_case(filter))
            })
            .map(|command| command.name)
            .collect(),
        5 if args.is(2, "filterby") && args.is(3, "module") => Vec::new(),
        _ => {
            write::error(out, "ERR syntax error");
            return;
        }
    };
    write::array_header(out, names.len());
    for name in names {
        write::bulk(out, name.as_bytes());
    }
}

fn help(out: &mut Vec<u8>) {
    write::array_header(out, HELP.len());
    HELP.iter().for_each(|line| write::simple(out, line));
}

/// Redis 7.0's own lines.
const HELP: [&str; 21] = [
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all Redis commands.",
    "COUNT",
    "    Return the total number of commands in this Redis server.",
    "LIST",
    "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.",
    "    If no command names are given, documentation details for all",
    "    commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Redis command.",
    "HELP",
    "    Prints this help.",
];

/// A command, or a subcommand as `container|subcommand`.
fn find(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(bar) => command::lookup(name.get(..bar)?)?.subcommand(name.get(bar + 1..)?),
        None => command::lookup(name),
    }
}
