//! CLIENT: what a connection says of itself, and the list of all.

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use super::Context;
use crate::client::Session;
use crate::time::Time;

pub(super) fn answer(
    session: &mut Session,
    name: &str,
    args: &Args<'_>,
    context: &Context<'_>,
    out: &mut Vec<u8>,
) {
    match name {
        "client|id" => write::integer(out, session.id as i64),
        "client|getname" if session.name.is_empty() => write::null(out, session.resp),
        "client|getname" => write::bulk(out, &session.name),
        "client|setname" => client_setname(session, args.at(2).unwrap_or_default(), out),
        "client|setinfo" => setinfo(session, args, out),
        "client|info" => write::verbatim(out, "txt", line(session, context.now).as_bytes(), session.resp),
        "client|no-evict" => switch(&mut session.no_evict, args, out),
        "client|no-touch" => switch(&mut session.no_touch, args, out),
        _ => write::error(out, "ERR unknown subcommand. Try CLIENT HELP."),
    }
}

fn client_setname(session: &mut Session, name: &[u8], out: &mut Vec<u8>) {
    match set_name(session, name) {
        Ok(()) => write::simple(out, "OK"),
        Err(error) => write::error(out, error),
    }
}

pub(super) fn set_name(session: &mut Session, name: &[u8]) -> Result<(), &'static str> {
    if !is_valid_name(name) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    session.name = name.into();
    Ok(())
}

/// Redis: from '!' to '~', since the list of clients is parted by spaces and lines.
fn is_valid_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn setinfo(session: &mut Session, args: &Args<'_>, out: &mut Vec<u8>) {
    let value = args.at(3).unwrap_or_default();
    let (field, name) = if args.is(2, "lib-name") {
        (&mut session.library, "lib-name")
    } else if args.is(2, "lib-ver") {
        (&mut session.library_version, "lib-ver")
    } else {
        let option = String::from_utf8_lossy(args.at(2).unwrap_or_default());
        write::error(out, &format!("ERR Unrecognized option '{option}'"));
        return;
    };
    if is_valid_name(value) {
        *field = value.into();
        write::simple(out, "OK");
    } else {
        write::error(out, &format!("ERR {name} cannot contain spaces, newlines or special characters."));
    }
}

fn switch(flag: &mut bool, args: &Args<'_>, out: &mut Vec<u8>) {
    if args.is(2, "on") || args.is(2, "off") {
        *flag = args.is(2, "on");
        write::simple(out, "OK");
    } else {
        write::error(out, "ERR syntax error");
    }
}

/// A client's line in CLIENT LIST and CLIENT INFO, its line end included (Redis 7.2's fields as far as a proxy has them).
pub(crate) fn line(session: &Session, now: Time) -> String {
    let text = String::from_utf8_lossy;
    let flags = if session.transaction.is_some() { "x" } else { "N" };
    let multi = session.transaction.map_or(-1, |transaction| i64::from(transaction.queued));
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 multi={multi} \
         cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}\n",
        session.id,
        session.address,
        session.local_address,
        text(&session.name),
        now.since(session.created).as_secs(),
        now.since(session.active).as_secs(),
        session.last_command,
        if session.resp == Resp::V3 { 3 } else { 2 },
        text(&session.library),
        text(&session.library_version),
    )
}
