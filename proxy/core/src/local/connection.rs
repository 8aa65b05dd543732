//! PING, SELECT, TIME, AUTH, HELLO, RESET: what a connection is and may do.

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use super::Context;
use super::client::set_name;
use super::number::integer;
use crate::client::Session;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_AUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
     option can be used to authenticate the client and select the RESP protocol version at the same time";

pub(super) fn ping(args: &Args<'_>, out: &mut Vec<u8>) {
    match (args.at(1), args.len()) {
        (_, 3..) => write::error(out, "ERR wrong number of arguments for 'ping' command"),
        (Some(text), _) => write::bulk(out, text),
        (None, _) => write::simple(out, "PONG"),
    }
}

pub(super) fn select(args: &Args<'_>, out: &mut Vec<u8>) {
    match args.at(1).and_then(integer) {
        Some(0) => write::simple(out, "OK"),
        Some(index) if i32::try_from(index).is_ok() => write::error(out, "ERR DB index is out of range"),
        Some(_) => {
            write::error(out, "ERR value is out of range, value must between -2147483648 and 2147483647")
        }
        None => write::error(out, "ERR value is not an integer or out of range"),
    }
}

pub(super) fn time(context: &Context<'_>, out: &mut Vec<u8>) {
    let since_epoch = context.now.since_epoch().as_micros() as u64;
    let micros = context.settings.identity.epoch_unix_us + since_epoch;
    write::array_header(out, 2);
    write::bulk(out, (micros / 1_000_000).to_string().as_bytes());
    write::bulk(out, (micros % 1_000_000).to_string().as_bytes());
}

pub(super) fn auth(session: &mut Session, args: &Args<'_>, context: &Context<'_>, out: &mut Vec<u8>) {
    let (user, password) = match (args.at(1), args.at(2), args.len()) {
        (Some(password), None, 2) => (b"default".as_slice(), password),
        (Some(user), Some(password), 3) => (user, password),
        _ => {
            write::error(out, "ERR syntax error");
            return;
        }
    };
    if args.len() == 2 && context.settings.client_password.is_none() {
        write::error(
            out,
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        );
    } else if log_in(session, user, password, context) {
        write::simple(out, "OK");
    } else {
        write::error(out, WRONG_PASSWORD);
    }
}

/// True if the password is right. Without one configured the default user needs none, as in Redis.
fn log_in(session: &mut Session, user: &[u8], password: &[u8], context: &Context<'_>) -> bool {
    let configured = context.settings.client_password.as_ref();
    let right = user == b"default" && configured.is_none_or(|configured| configured.matches(password));
    session.authenticated |= right;
    right
}

pub(super) fn hello(session: &mut Session, args: &Args<'_>, context: &Context<'_>, out: &mut Vec<u8>) {
    match greet(session, args, context) {
        Ok(resp) => {
            session.resp = resp;
            write_hello(session, context, out);
        }
        Err(error) => write::error(out, &error),
    }
}

/// Does what HELLO asks for, one option after the other as Redis does: those before a wrong one have their effect.
fn greet(session: &mut Session, args: &Args<'_>, context: &Context<'_>) -> Result<Resp, String> {
    let resp = match args.at(1).map(integer) {
        None => session.resp,
        Some(Some(2)) => Resp::V2,
        Some(Some(3)) => Resp::V3,
        Some(Some(_)) => return Err("NOPROTO unsupported protocol version".to_owned()),
        Some(None) => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
    };
    let mut index = 2;
    while let Some(option) = args.at(index) {
        match (args.at(index + 1), args.at(index + 2)) {
            (Some(user), Some(password)) if args.is(index, "auth") => {
                if !log_in(session, user, password, context) {
                    return Err(WRONG_PASSWORD.to_owned());
                }
                index += 3;
            }
            (Some(name), _) if args.is(index, "setname") => {
                set_name(session, name)?;
                index += 2;
            }
            _ => {
                return Err(format!(
                    "ERR Syntax error in HELLO option '{}'",
                    String::from_utf8_lossy(option)
                ));
            }
        }
    }
    if session.authenticated { Ok(resp) } else { Err(NO_AUTH_HELLO.to_owned()) }
}

fn write_hello(session: &Session, context: &Context<'_>, out: &mut Vec<u8>) {
    let version = super::info::redis_version(context);
    let proto = if session.resp == Resp::V3 { 3 } else { 2 };
    write::map_header(out, 7, session.resp);
    for (field, text) in [("server", "redis"), ("version", version)] {
        write::bulk(out, field.as_bytes());
        write::bulk(out, text.as_bytes());
    }
    write::bulk(out, b"proto");
    write::integer(out, proto);
    write::bulk(out, b"id");
    write::integer(out, session.id as i64);
    for (field, text) in [("mode", "standalone"), ("role", "master")] {
        write::bulk(out, field.as_bytes());
        write::bulk(out, text.as_bytes());
    }
    write::bulk(out, b"modules");
    write::array_header(out, 0);
}

pub(super) fn reset(session: &mut Session, context: &Context<'_>, out: &mut Vec<u8>) {
    session.reset(context.settings.client_password.is_none());
    write::simple(out, "RESET");
}
