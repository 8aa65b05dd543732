//! MULTI and what ends it. Nothing of a transaction is sent anywhere, so no half of one ever runs.

use tsubaki_protocol::command::{Command, ResolveError};
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use crate::client::{Session, Transaction};

/// True of the commands that are not queued inside MULTI.
pub(crate) fn leaves(command: &Command) -> bool {
    matches!(command.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

/// A command that does not exist, or has too few or too many arguments, spoils the transaction; if it was EXEC, that
/// ends, and the text of its error is given back.
pub(crate) fn break_off(session: &mut Session, args: &Args<'_>, error: &ResolveError) -> Option<String> {
    session.transaction.as_mut()?.broken = true;
    let is_exec = args.is(0, "exec");
    is_exec.then(|| {
        session.transaction = None;
        format!("EXECABORT Transaction discarded because of: {error}")
    })
}

pub(super) fn answer(session: &mut Session, name: &str, out: &mut Vec<u8>) {
    match (name, session.transaction) {
        ("multi", None) => {
            session.transaction = Some(Transaction::default());
            write::simple(out, "OK");
        }
        ("multi", Some(_)) => write::error(out, "ERR MULTI calls can not be nested"),
        ("exec", None) => write::error(out, "ERR EXEC without MULTI"),
        ("exec", Some(transaction)) => {
            session.transaction = None;
            exec(transaction, out);
        }
        ("discard", None) => write::error(out, "ERR DISCARD without MULTI"),
        ("discard", Some(_)) => {
            session.transaction = None;
            write::simple(out, "OK");
        }
        // UNWATCH: nothing is ever watched.
        _ => write::simple(out, "OK"),
    }
}

fn exec(transaction: Transaction, out: &mut Vec<u8>) {
    if transaction.broken {
        write::error(out, "EXECABORT Transaction discarded because of previous errors.");
    } else {
        let queued = transaction.queued;
        write::error(
            out,
            &format!(
                "EXECABORT Transaction discarded: MULTI is not supported yet, and none of its {queued} commands ran. \
                 Send them without MULTI (in redis-py: pipeline(transaction=False))."
            ),
        );
    }
}
