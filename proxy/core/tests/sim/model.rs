//! What each reply may be. Knows what was asked and what really happened, and nothing of how the engine works.

use tsubaki_core::settings::{MAX_SPARES, ReadPolicy};
use tsubaki_protocol::resp::reply::{bulk, elements, integer};
use tsubaki_protocol::resp::{Resp, write};

use crate::clients::Request;
use crate::cluster::{DOWN, HOST, LOADING, MASTERDOWN, NOT_SERVED, READONLY, TRYAGAIN};
use crate::keys::{Key, Kind};
use crate::node::items;
use crate::ops::Op;
use crate::trouble::Trouble;
use crate::truth::{By, Token};
use crate::world::World;

/// How long after the end of a trouble its errors may still come: the longest pause between two connection attempts,
/// and an attempt.
const GRACE: u64 = 2_500_000;

/// Times that a read is sent again when its connection dies.
const RESENDS: usize = 3;

/// One write that a client asked for.
struct Asked {
    key: Option<Key>,
    invoked: u64,
    /// An ASK is followed before it is sent.
    large: bool,
    /// It was seen on its way to a node.
    sent: bool,
    /// A socket took it.
    taken: bool,
}

pub(crate) struct Model {
    asked: Vec<Asked>,
    /// Writes whose client was told that they did not run.
    refused: Vec<Token>,
    /// By key: increments that were answered with a number, and those of which nobody knows.
    acknowledged: Vec<usize>,
    uncertain: Vec<usize>,
    /// The next client that the engine closes had too much unread.
    pub(crate) limit_hit: bool,
    /// The next client that the engine closes has half a reply.
    pub(crate) reply_cut: bool,
}

impl Model {
    pub(crate) fn new(keys: usize) -> Self {
        Self {
            asked: Vec::new(),
            refused: Vec::new(),
            acknowledged: vec![0; keys],
            uncertain: vec![0; keys],
            limit_hit: false,
            reply_cut: false,
        }
    }

    pub(crate) fn asked(&mut self, token: Token, key: Option<Key>, invoked: u64, large: bool) {
        assert_eq!(token, self.asked.len(), "tokens are asked for in order");
        self.asked.push(Asked { key, invoked, large, sent: false, taken: false });
    }

    /// A write with a key is seen on its way to a node: its key, when it was asked for and whether it is large, if it is
    /// for the first time.
    pub(crate) fn first_sent(&mut self, token: Token) -> Option<(Key, u64, bool)> {
        let asked = self.asked.get_mut(token)?;
        let first = !std::mem::replace(&mut asked.sent, true);
        asked.key.filter(|_| first).map(|key| (key, asked.invoked, asked.large))
    }

    /// A socket took bytes with this write in them.
    pub(crate) fn taken(&mut self, token: Token) {
        if let Some(asked) = self.asked.get_mut(token) {
            asked.taken = true;
        }
    }

    /// Nobody will know whether this ran.
    pub(crate) fn uncertain(&mut self, op: &Op) {
        if let Op::Increment(key) = op {
            self.uncertain[key.0] += 1;
        }
    }
}

impl World {
    /// Judges one reply.
    pub(crate) fn check(&mut self, client: usize, request: &Request, frame: &[u8]) -> Result<(), String> {
        let leaks = frame.windows(HOST.len()).any(|window| window == HOST.as_bytes());
        if leaks || frame.starts_with(b"-MOVED") || frame.starts_with(b"-ASK ") {
            return Err("the cluster shows through".to_owned());
        }
        if let Some(expected) = local_reply(&request.op) {
            return if frame == expected {
                Ok(())
            } else {
                Err(format!("expected {}", expected.escape_ascii()))
            };
        }
        match &request.op {
            Op::Hello(resp) => check_hello(*resp, frame),
            Op::Info => check_info(frame),
            Op::Garbage if frame.starts_with(b"-ERR Protocol error: ") => Ok(()),
            Op::CrossSlot(..) if frame.starts_with(b"-CROSSSLOT ") => Ok(()),
            _ if frame.starts_with(b"-") && !self.ran_with(&request.op, frame) => {
                self.check_error(client, request, frame)
            }
            _ => self.check_answer(client, request, frame),
        }
    }

    /// True if the command's one write answered just this: a script may answer with any error.
    fn ran_with(&self, op: &Op, frame: &[u8]) -> bool {
        let tokens = op.tokens();
        tokens.len() == 1
            && self.cluster.truth.runs(tokens[0].1).first().is_some_and(|run| run.reply == frame)
    }

    fn check_answer(&mut self, client: usize, request: &Request, frame: &[u8]) -> Result<(), String> {
        match &request.op {
            Op::Get(key) | Op::GetInline(key) => self.check_value(client, request, *key, frame),
            Op::Mget(keys) => {
                let found: Vec<&[u8]> = elements(frame).map_err(|error| error.to_string())?.collect();
                if found.len() != keys.len() {
                    return Err(format!("{} values for {} keys", found.len(), keys.len()));
                }
                keys.iter()
                    .zip(found)
                    .try_for_each(|(key, value)| self.check_value(client, request, *key, value))
            }
            Op::Range(key) => {
                let found = elements(frame)
                    .map_err(|error| error.to_string())?
                    .map(|item| bulk(item).unwrap_or_default());
                let found: Vec<&[u8]> = found.collect();
                self.check_read(client, request, *key, |value| items(value) == found)
            }
            Op::Increment(key) => {
                let number = integer(frame).ok_or("no number")?.to_string();
                self.model.acknowledged[key.0] += 1;
                let is_it =
                    |by, value: Option<&[u8]>| by == By::Increment && value == Some(number.as_bytes());
                self.raise_floor(client, request, *key, true, is_it)
            }
            Op::Count(_, keys) | Op::Delete(_, keys) => self.check_count(request, keys, frame),
            op => op
                .tokens()
                .into_iter()
                .try_for_each(|(key, token)| self.check_write(client, request, key, token, frame)),
        }
    }

    /// A write was acknowledged: it ran once, since it was asked for, and this was its reply.
    fn check_write(
        &mut self,
        client: usize,
        request: &Request,
        key: Option<Key>,
        token: Token,
        frame: &[u8],
    ) -> Result<(), String> {
        let [run] = self.cluster.truth.runs(token) else {
            return Err(format!("<{token}> ran {} times", self.cluster.truth.runs(token).len()));
        };
        if run.reply != frame || run.at < request.invoked {
            return Err(format!("<{token}> was answered at {} with {}", run.at, run.reply.escape_ascii()));
        }
        let key = match key {
            Some(key) => key,
            // Messages keep their order only while the master that all go to is up.
            None if self.troubles.was(Trouble::Link, 0) => return Ok(()),
            None => self.cluster.truth.channel(),
        };
        self.raise_floor(client, request, key, true, |by, _| by == By::Write(token))
    }

    fn check_value(
        &mut self,
        client: usize,
        request: &Request,
        key: Key,
        frame: &[u8],
    ) -> Result<(), String> {
        let null: &[u8] = if request.resp == Resp::V2 { b"$-1\r\n" } else { b"_\r\n" };
        let found = if frame == null {
            None
        } else {
            Some(bulk(frame).ok_or("neither a value nor this protocol's null")?)
        };
        if key.kind() == Kind::List {
            return if found.is_none() { Ok(()) } else { Err("a list shown as a value".to_owned()) };
        }
        self.check_read(client, request, key, |value| value == found)
    }

    /// A read saw a value that its key had while it was under way, none older than what its client knows.
    fn check_read(
        &mut self,
        client: usize,
        request: &Request,
        key: Key,
        is_it: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<(), String> {
        if self.settings.read_policy != ReadPolicy::Master {
            let seen = self
                .cluster
                .truth
                .during(key, 0, self.now)
                .any(|(_, version)| is_it(version.value.as_deref()));
            return if seen { Ok(()) } else { Err(format!("{key:?} never had that value")) };
        }
        self.raise_floor(client, request, key, false, |_, value| is_it(value))
    }

    /// Finds the oldest version that this command may have met or made, and holds its client to it from here on (C8).
    fn raise_floor(
        &mut self,
        client: usize,
        request: &Request,
        key: Key,
        writes: bool,
        is_it: impl Fn(By, Option<&[u8]>) -> bool,
    ) -> Result<(), String> {
        let floor = self.clients[client].floors[key.0];
        let truth = &self.cluster.truth;
        let met = |number: usize| number > floor || (number == floor && !writes);
        let fits = |since: u64| {
            let versions = truth
                .during(key, since, self.now)
                .filter(move |(_, version)| !writes || version.from >= since);
            versions
                .filter(|(_, version)| is_it(version.by, version.value.as_deref()))
                .map(|(number, _)| number)
        };
        let Some(number) = fits(request.invoked).find(|number| met(*number)) else {
            let ever: Vec<usize> = fits(0).collect();
            return Err(format!(
                "{key:?} had that at versions {ever:?}; not while this was under way and not before {floor}"
            ));
        };
        self.clients[client].floors[key.0] = number;
        Ok(())
    }

    /// How many of the keys there were: at least those that were there all the time, at most those that were there at some time.
    fn check_count(&self, request: &Request, keys: &[Key], frame: &[u8]) -> Result<(), String> {
        let count = integer(frame).ok_or("no number")?;
        let since = match (&request.op, self.settings.read_policy) {
            (Op::Delete(..), _) | (_, ReadPolicy::Master) => request.invoked,
            _ => 0,
        };
        let seen = |key: &Key, there: bool| {
            self.cluster
                .truth
                .during(*key, since, self.now)
                .any(|(_, version)| version.value.is_some() == there)
        };
        let least = keys.iter().filter(|key| !seen(key, false)).count() as i64;
        let most = keys.iter().filter(|key| seen(key, true)).count() as i64;
        if (least..=most).contains(&count) { Ok(()) } else { Err(format!("there were {least} to {most}")) }
    }

    /// An error is right if the world gave cause for it, and if what it says of the command is true.
    fn check_error(&mut self, client: usize, request: &Request, frame: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(frame).into_owned();
        let text = text.trim_start_matches('-').trim_end();
        if text.contains("it may have run") {
            let may_go_again = request.op.is_read() && !self.is_written_behind(client, &request.op);
            let needed = if may_go_again { RESENDS + 1 } else { 1 };
            if self.troubles.deaths(request.invoked) < needed {
                return Err("no connection was lost that often".to_owned());
            }
            let tokens = request.op.tokens();
            if !tokens.is_empty() && tokens.iter().all(|(_, token)| !self.model.asked[*token].taken) {
                return Err("no socket ever took it".to_owned());
            }
            self.model.uncertain(&request.op);
            return self.check_order_of_lost(client, request);
        }
        self.check_cause(client, request, text)?;
        self.check_not_run(&request.op)
    }

    /// True if the client sent a write on one of these slots later: a read that is sent again would see it.
    fn is_written_behind(&self, client: usize, op: &Op) -> bool {
        let tags: Vec<usize> = op.keys().iter().map(|key| key.tag()).collect();
        let meets = |later: &Request| later.op.keys().iter().any(|key| tags.contains(&key.tag()));
        self.clients[client].outstanding.iter().any(|later| !later.op.is_read() && meets(later))
    }

    fn check_cause(&self, client: usize, request: &Request, text: &str) -> Result<(), String> {
        let was = |kinds: &[Trouble]| {
            kinds.iter().any(|kind| self.troubles.was(*kind, request.invoked.saturating_sub(GRACE)))
        };
        if text.starts_with("TRYAGAIN") && text.contains("later command on the same key") {
            let keys = request.op.keys();
            let meets = |later: &Request| later.op.keys().iter().any(|key| keys.contains(key));
            let later = self.clients[client].outstanding.iter().any(meets);
            return if later { Ok(()) } else { Err("nothing later on that key".to_owned()) };
        }
        if text.contains("nodes do not agree") {
            let cause = was(&[Trouble::Disagreement]);
            return if cause { Ok(()) } else { Err("the nodes did agree".to_owned()) };
        }
        if text.contains("too many large requests") {
            let cause = self.settings.max_spares < MAX_SPARES || was(&[Trouble::Link]);
            return if cause {
                Ok(())
            } else {
                Err("there was room, and the node took connections".to_owned())
            };
        }
        if text.contains("was lost before the command was sent whole") {
            let cause = was(&[Trouble::Link, Trouble::Loading]);
            return if cause { Ok(()) } else { Err("no connection was lost".to_owned()) };
        }
        if text.contains("changed while a large request was on its way") {
            let cause = was(&[
                Trouble::Move,
                Trouble::Disagreement,
                Trouble::Down,
                Trouble::Loading,
                Trouble::Demotion,
            ]);
            return if cause { Ok(()) } else { Err("nothing changed".to_owned()) };
        }
        let causes: &[Trouble] = match text {
            TRYAGAIN => &[Trouble::Move],
            DOWN | NOT_SERVED => &[Trouble::Down],
            LOADING => &[Trouble::Loading],
            READONLY | MASTERDOWN => &[Trouble::Demotion],
            _ if text.contains("cannot be reached") => &[Trouble::Link, Trouble::Loading, Trouble::Move],
            _ if text.contains("no node of the cluster has answered") => &[Trouble::NoView, Trouble::Down],
            _ if text.contains("has no master") => &[Trouble::Down, Trouble::NoView],
            _ if text.contains("no replica of slot") => &[
                Trouble::Link,
                Trouble::Loading,
                Trouble::Move,
                Trouble::Down,
                Trouble::Demotion,
                Trouble::NoView,
            ],
            _ => return Err("an error that no one can expect".to_owned()),
        };
        let waited = self.now - request.invoked;
        if waited < self.settings.wait_timeout.as_micros() as u64 {
            return Err(format!("it did not wait: {waited} us"));
        }
        if was(causes) { Ok(()) } else { Err(format!("none of {causes:?} gave cause")) }
    }

    /// What was answered with a refusal has not run, and never will. Of a split command at least the part that failed.
    fn check_not_run(&mut self, op: &Op) -> Result<(), String> {
        let tokens = op.tokens();
        let ran = tokens.iter().filter(|(_, token)| !self.cluster.truth.runs(*token).is_empty()).count();
        let whole = op.keys().windows(2).all(|pair| pair[0].tag() == pair[1].tag());
        if ran > 0 && (whole || ran == tokens.len()) {
            return Err("but it ran".to_owned());
        }
        if whole {
            self.model.refused.extend(tokens.iter().map(|(_, token)| token));
        }
        Ok(())
    }

    /// What may have run did so after all that its client had asked for before.
    fn check_order_of_lost(&self, client: usize, request: &Request) -> Result<(), String> {
        for (_, token) in request.op.tokens() {
            for run in self.cluster.truth.runs(token) {
                let (key, version) = run.version;
                if version <= self.clients[client].floors[key.0] {
                    return Err(format!("<{token}> ran before what was asked for earlier"));
                }
            }
        }
        Ok(())
    }

    /// What must be true at the end of every world.
    pub(crate) fn last_judgement(&mut self) -> Result<(), String> {
        for request in self.clients.iter_mut().flat_map(|client| client.outstanding.drain(..)) {
            self.model.uncertain(&request.op);
        }
        let truth = &self.cluster.truth;
        if let Some(token) = truth.ran_twice() {
            return Err(format!("<{token}> ran twice"));
        }
        if let Some(token) = self.model.refused.iter().find(|token| !truth.runs(**token).is_empty()) {
            return Err(format!("<{token}> was refused, and ran afterwards"));
        }
        for key in (0..self.cluster.keys.len()).map(Key) {
            let (ran, sure) = (truth.count(key, By::Increment), self.model.acknowledged[key.0]);
            let most = sure + self.model.uncertain[key.0];
            if !(sure..=most).contains(&ran) {
                return Err(format!(
                    "{key:?} was incremented {ran} times, acknowledged {sure}, asked for at most {most}"
                ));
            }
        }
        let mut settled = (0..self.cluster.keys.tags()).filter(|tag| !self.is_moving(*tag));
        if let Some(tag) = settled.find(|tag| !self.cluster.is_consistent(*tag)) {
            return Err(format!("the fake cluster itself lost data of tag {tag}"));
        }
        self.seen.world(&self.worker.stats());
        Ok(())
    }
}

/// What the engine answers by itself.
fn local_reply(op: &Op) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match op {
        Op::Echo(number) => write::bulk(&mut out, number.to_string().as_bytes()),
        Op::Unknown => write::error(&mut out, "ERR unknown command 'NOSUCH', with args beginning with: 'x' "),
        Op::WrongArity => write::error(&mut out, "ERR wrong number of arguments for 'get' command"),
        Op::Quit => write::simple(&mut out, "OK"),
        _ => return None,
    }
    Some(out)
}

fn check_hello(resp: Resp, frame: &[u8]) -> Result<(), String> {
    let (first, proto) = if resp == Resp::V3 { (b'%', "3") } else { (b'*', "2") };
    let text = String::from_utf8_lossy(frame);
    let right = frame.first() == Some(&first) && text.contains(&format!("$5\r\nproto\r\n:{proto}\r\n"));
    if right { Ok(()) } else { Err("no greeting in that protocol".to_owned()) }
}

fn check_info(frame: &[u8]) -> Result<(), String> {
    let text = bulk(frame).map(String::from_utf8_lossy).unwrap_or_default();
    if text.contains("redis_mode:standalone") { Ok(()) } else { Err("no INFO of one server".to_owned()) }
}
