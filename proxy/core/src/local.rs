//! The commands that the proxy answers itself, as one standalone server would.
//!
//! Must not know: nodes, connections. Each file below answers one family; errors are Redis 7.0's own texts.

mod client;
mod connection;
mod gather;
mod getkeys;
mod glob;
mod info;
mod introspection;
mod number;
mod parameters;
mod transaction;

use tsubaki_protocol::command::Command;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use crate::client::Session;
use crate::settings::Settings;
use crate::time::Time;
use crate::topology::Topology;

pub(crate) use self::client::line as client_line;
pub(crate) use self::gather::Wanted;
pub(crate) use self::transaction::{break_off as break_transaction, leaves as leaves_transaction};

/// What the answers may tell of.
pub(crate) struct Context<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) topology: &'a Topology,
    pub(crate) now: Time,
}

/// How far an answer got.
#[derive(Debug)]
pub(crate) enum Local {
    /// The reply is written.
    Answered,
    /// The reply is written; the connection ends behind it.
    Goodbye,
    /// All workers must tell their part first; then it is written by [`Wanted::write`].
    Gather(Wanted),
    /// The worker's view of the nodes is wanted.
    Nodes,
}

/// Answers a command of class local.
pub(crate) fn answer(
    session: &mut Session,
    command: &Command,
    args: &Args<'_>,
    context: &Context<'_>,
    out: &mut Vec<u8>,
) -> Local {
    match command.name {
        "ping" => connection::ping(args, out),
        "echo" => write::bulk(out, args.at(1).unwrap_or_default()),
        "select" => connection::select(args, out),
        "time" => connection::time(context, out),
        "auth" => connection::auth(session, args, context, out),
        "hello" => connection::hello(session, args, context, out),
        "reset" => connection::reset(session, context, out),
        "quit" => {
            write::simple(out, "OK");
            return Local::Goodbye;
        }
        "multi" | "exec" | "discard" | "unwatch" => transaction::answer(session, command.name, out),
        "config|get" => parameters::config_get(session, args, context, out),
        "info" => return Local::Gather(Wanted::info(args)),
        "client|list" => return gather::client_list(session, args, out),
        "asking" | "readonly" | "readwrite" => no_cluster(out),
        name if name == "cluster" || name.starts_with("cluster|") => no_cluster(out),
        name if name.starts_with("client|") => client::answer(session, name, args, context, out),
        _ => introspection::answer(session, command, args, out),
    }
    Local::Answered
}

/// `TSUBAKI NODES` and `TSUBAKI INFO`: the cluster's own view, for operators.
pub(crate) fn tsubaki(session: &Session, args: &Args<'_>, context: &Context<'_>, out: &mut Vec<u8>) -> Local {
    if args.len() == 2 && args.is(1, "nodes") {
        return Local::Nodes;
    }
    if args.len() == 2 && args.is(1, "info") {
        write::verbatim(out, "txt", info::cluster(context).as_bytes(), session.resp);
    } else {
        write::error(
            out,
            "ERR unknown subcommand or wrong number of arguments for 'tsubaki'. Try TSUBAKI NODES or TSUBAKI INFO.",
        );
    }
    Local::Answered
}

/// Many clients change to a cluster mode of their own, or dial the nodes, on any other answer.
fn no_cluster(out: &mut Vec<u8>) {
    write::error(out, "ERR This instance has cluster support disabled");
}
