//! What a fake node does with the bytes on one of its connections: commands in, replies out.

use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::request::{RequestLimits, RequestScan, RequestScanner};
use tsubaki_protocol::resp::{Resp, write};

use crate::cluster::{Cluster, HOST, LOADING, Refusal, Touch};
use crate::keys::{Key, Kind};
use crate::ops::tokens_in;
use crate::truth::{By, Token};

pub(crate) const PASSWORD: &str = "hunter2";

/// A node's side of one connection.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) input: Vec<u8>,
    asking: bool,
    readonly: bool,
    authenticated: bool,
    resp: Resp,
}

/// One command and what came of it.
pub(crate) struct Done {
    pub(crate) name: String,
    pub(crate) reply: Vec<u8>,
    /// A MOVED that may be believed: of which tag, to whom.
    pub(crate) moved: Option<(usize, usize)>,
}

/// One command as a node sees it.
struct Call<'a> {
    me: usize,
    now: u64,
    resp: Resp,
    name: &'a str,
    args: Args<'a>,
    keys: Vec<Key>,
}

impl<'a> Call<'a> {
    fn last(&self) -> &'a [u8] {
        self.args.at(self.args.len() - 1).unwrap()
    }

    /// The token of a write, which its last argument carries.
    fn token(&self) -> Token {
        tokens_in(self.last())[0]
    }
}

impl Cluster {
    /// Runs the first whole command in a connection's input.
    pub(crate) fn serve(&mut self, me: usize, session: &mut Session, now: u64) -> Option<Done> {
        let input = std::mem::take(&mut session.input);
        let mut scanner = RequestScanner::new();
        let scan =
            scanner.scan(&input, &RequestLimits::default()).expect("the engine sent what is no request");
        let RequestScan::Array { len } = scan else {
            session.input = input;
            return None;
        };
        let args = Args::new(&input[..len], scanner.spans());
        let name = String::from_utf8_lossy(args.name()).to_ascii_uppercase();
        let mut call = Call { me, now, resp: session.resp, name: &name, args, keys: Vec::new() };
        let mut reply = Vec::new();
        let mut moved = None;
        if !self.greet(&call, session, &mut reply) {
            let asking = std::mem::take(&mut session.asking);
            call.keys = self.keys_of(&call);
            let touch =
                Touch { keys: &call.keys, writes: is_write(&name), asking, readonly: session.readonly };
            match self.refusal(me, &touch, now) {
                Some(refusal) => moved = self.refuse(&call, &refusal, &mut reply),
                None => self.execute(&call, &mut reply),
            }
        }
        session.input = input[len..].to_vec();
        Some(Done { name, reply, moved })
    }

    /// Commands about the connection itself. False: it is none.
    fn greet(&self, call: &Call<'_>, session: &mut Session, out: &mut Vec<u8>) -> bool {
        if matches!(call.name, "AUTH" | "HELLO") && call.last() == PASSWORD.as_bytes() {
            session.authenticated = true;
        }
        match call.name {
            _ if self.password && !session.authenticated => {
                write::error(out, "NOAUTH Authentication required.")
            }
            "AUTH" | "READONLY" | "ASKING" => write::simple(out, "OK"),
            "HELLO" => {
                session.resp = Resp::V3;
                write::map_header(out, 1, Resp::V3);
                write::bulk(out, b"proto");
                write::integer(out, 3);
            }
            "ROLE" => {
                write::array_header(out, 5);
                write::bulk(out, b"slave");
                write::bulk(out, HOST.as_bytes());
                write::integer(out, 0);
                write::bulk(out, b"connected");
                write::integer(out, 0);
            }
            "PING" if self.nodes[call.me].loading_until > call.now => write::error(out, LOADING),
            "PING" => write::simple(out, "PONG"),
            _ => return false,
        }
        session.readonly |= call.name == "READONLY";
        session.asking = call.name == "ASKING";
        true
    }

    fn keys_of(&self, call: &Call<'_>) -> Vec<Key> {
        let all = 1..call.args.len();
        let places: Vec<usize> = match call.name {
            "GET" | "SET" | "APPEND" | "INCR" | "RPUSH" | "LRANGE" => vec![1],
            "MSET" => all.step_by(2).collect(),
            "EVAL" => vec![3],
            "PUBLISH" => vec![],
            _ => all.collect(),
        };
        let key = |place| self.keys.find(call.args.at(place).unwrap()).expect("a key of this world");
        places.into_iter().map(key).collect()
    }

    fn refuse(&self, call: &Call<'_>, refusal: &Refusal, out: &mut Vec<u8>) -> Option<(usize, usize)> {
        let tag = call.keys.first().map_or(0, |key| key.tag());
        let slot = self.keys.slot(tag);
        // Now and then with an empty host, which means the node's own.
        let hidden = if call.now.is_multiple_of(8) { HOST } else { "nothing" };
        let address = |node| Self::address(node).replace(hidden, "");
        match refusal {
            Refusal::Text(text) => write::error(out, text),
            Refusal::Ask(node) => write::error(out, &format!("ASK {slot} {}", address(*node))),
            Refusal::Moved(node) => {
                write::error(out, &format!("MOVED {slot} {}", address(*node)));
                // To a script's it is not believed: that could have made it up.
                return (call.name != "EVAL").then_some((tag, *node));
            }
        }
        None
    }

    fn execute(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
        let me = call.me;
        match (call.name, call.keys.first().copied()) {
            ("GET", Some(key)) => self.write_value(call, key, out),
            ("MGET", _) => {
                write::array_header(out, call.keys.len());
                call.keys.iter().for_each(|key| self.write_value(call, *key, out));
            }
            ("LRANGE", Some(key)) => {
                let items = items(self.value(me, key).map(Vec::as_slice));
                write::array_header(out, items.len());
                items.iter().for_each(|item| write::bulk(out, item));
            }
            ("EXISTS" | "TOUCH", _) => {
                let found = call.keys.iter().filter(|key| self.value(me, **key).is_some()).count();
                write::integer(out, found as i64);
            }
            ("DEL" | "UNLINK", _) => self.delete(call, out),
            ("INCR", Some(key)) => {
                let next = number(self.value(me, key)) + 1;
                self.change(me, key, Some(next.to_string().into_bytes()), By::Increment, call.now);
                write::integer(out, next);
            }
            ("MSET", _) => self.set_all(call, out),
            ("PUBLISH", _) => {
                write::integer(out, 0);
                let channel = self.truth.channel();
                self.truth.change(channel, None, By::Write(call.token()), call.now);
                self.truth.ran(call.token(), channel, out, call.now);
            }
            ("SET" | "APPEND" | "RPUSH" | "EVAL", Some(key)) => {
                self.write_key(call, key);
                self.write_outcome(call, key, out);
                self.truth.ran(call.token(), key, out, call.now);
            }
            (name, _) => panic!("the engine sent {name}, which no client asked for"),
        }
    }

    fn delete(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
        let mut gone = 0;
        for key in &call.keys {
            if self.value(call.me, *key).is_some() {
                self.change(call.me, *key, None, By::Delete, call.now);
                gone += 1;
            }
        }
        write::integer(out, gone);
    }

    fn set_all(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
        write::simple(out, "OK");
        for (place, key) in call.keys.iter().enumerate() {
            let value = call.args.at(2 + 2 * place).unwrap();
            let token = tokens_in(value)[0];
            self.change(call.me, *key, Some(value.to_vec()), By::Write(token), call.now);
            self.truth.ran(token, *key, out, call.now);
        }
    }

    fn write_key(&mut self, call: &Call<'_>, key: Key) {
        let old = self.value(call.me, key).cloned();
        let value = match (call.name, old) {
            ("SET", _) | (_, None) => call.last().to_vec(),
            ("RPUSH", Some(old)) => [&old, &b","[..], call.last()].concat(),
            (_, Some(old)) => [&old, call.last()].concat(),
        };
        self.change(call.me, key, Some(value), By::Write(call.token()), call.now);
    }

    fn write_outcome(&self, call: &Call<'_>, key: Key, out: &mut Vec<u8>) {
        let value = self.value(call.me, key).map(Vec::as_slice);
        match (call.name, call.args.at(1)) {
            ("SET", _) => write::simple(out, "OK"),
            ("EVAL", Some(b"append")) => write::boolean(out, true, call.resp),
            ("EVAL", Some(text)) => write::error(out, &String::from_utf8_lossy(text)),
            ("RPUSH", _) => write::integer(out, items(value).len() as i64),
            _ => write::integer(out, value.unwrap_or_default().len() as i64),
        }
    }

    fn write_value(&self, call: &Call<'_>, key: Key, out: &mut Vec<u8>) {
        match self.value(call.me, key) {
            // As in Redis, MGET shows what is no string as if it were not there.
            Some(value) if key.kind() != Kind::List => write::bulk(out, value),
            _ => write::null(out, call.resp),
        }
    }
}

fn is_write(name: &str) -> bool {
    !matches!(name, "GET" | "MGET" | "LRANGE" | "EXISTS" | "TOUCH" | "PUBLISH")
}

/// A list's items out of the form in which it is stored.
pub(crate) fn items(value: Option<&[u8]>) -> Vec<&[u8]> {
    value.map(|value| value.split(|byte| *byte == b',').collect()).unwrap_or_default()
}

fn number(value: Option<&Vec<u8>>) -> i64 {
    value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}
