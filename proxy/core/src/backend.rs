//! One connection to a node: its handshake, the bytes on their way, and the queue of those who wait for replies.
//!
//! Must not know: clients, slots, other connections. Replies match tickets first in, first out; that is all RESP offers.
//!
//! ```text
//!   Connecting --connected--> Greeting --all answers good--> Ready
//!        |                       |                             |
//!        +------- failed --------+----- lost, silent, odd -----+--> removed; the tickets' owners hear of it
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::reply::{self, ReplyScanner};
use tsubaki_protocol::resp::write;

use crate::ClientId;
use crate::journal::Journal;
use crate::map::NodeId;
use crate::pace::Pace;
use crate::pipeline::Seq;
use crate::settings::Login;
use crate::stream::Download;
use crate::time::Time;

/// What a connection is for, and for whom. A worker has at most one shared connection a lane and node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    /// True: the connection said READONLY and serves a replica's data.
    pub(crate) replica: bool,
    pub(crate) resp: Resp,
    /// Which of the `connections_per_node` that do the same.
    pub(crate) number: u8,
}

impl Lane {
    /// How many lanes there are for each number.
    pub(crate) const KINDS: usize = 4;

    /// True if connections of both do the same.
    pub(crate) fn is_like(self, other: Self) -> bool {
        (self.replica, self.resp) == (other.replica, other.resp)
    }

    pub(crate) fn index(self) -> usize {
        let kind = usize::from(self.replica) * 2 + usize::from(self.resp == Resp::V3);
        usize::from(self.number) * Self::KINDS + kind
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    /// Replies of the handshake that are still owed.
    Greeting(u8),
    Ready,
}

/// Facts about a command that its reply's fate depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traits(u8);

impl Traits {
    /// The table flags it readonly, and it is no script: it may run twice.
    pub(crate) const READ: Self = Self(1);
    /// A script: it can return any error text after it wrote.
    pub(crate) const SCRIPT: Self = Self(2);
    /// Its hold counts it.
    pub(crate) const TRACKED: Self = Self(4);
    /// Not a command of a client but the ASKING in front of one.
    pub(crate) const ASKING: Self = Self(8);
    /// Not the large request itself, but the question in front of it whether its node would take it.
    pub(crate) const PROBE: Self = Self(16);
    /// ASKING stood in front of it.
    pub(crate) const ASKED: Self = Self(32);
    /// Its request was streamed: it is not here to be sent again.
    pub(crate) const STREAMED: Self = Self(64);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// One command at a node, or waiting for its way there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) client: ClientId,
    pub(crate) seq: Seq,
    /// Which part of a split command; [`Ticket::WHOLE`]: the command itself.
    pub(crate) part: u16,
    /// [`Ticket::NO_SLOT`]: the command has no key.
    pub(crate) slot: u16,
    /// Bytes of the request.
    pub(crate) len: u32,
    pub(crate) traits: Traits,
    /// Redirects that it followed.
    pub(crate) redirects: u8,
    /// Times that it was sent again because its connection died.
    pub(crate) resends: u8,
    /// Times that a node refused it without naming another (TRYAGAIN, CLUSTERDOWN, …).
    pub(crate) refusals: u8,
    pub(crate) arrived: Time,
    /// When it first had to wait; zero: never yet.
    pub(crate) waiting: Time,
}

impl Ticket {
    pub(crate) const WHOLE: u16 = u16::MAX;
    pub(crate) const NO_SLOT: u16 = u16::MAX;

    /// The command has to wait; if it did not before, its time counts from now.
    pub(crate) fn wait_from(&mut self, now: Time) {
        if self.waiting == Time::default() {
            self.waiting = now;
        }
    }
}

/// One connection to a node.
#[derive(Debug)]
pub struct Backend {
    pub(crate) node: NodeId,
    pub(crate) lane: Lane,
    pub(crate) state: State,
    pub(crate) journal: Journal,
    pub(crate) tickets: VecDeque<Ticket>,
    pub(crate) scanner: ReplyScanner,
    /// Bytes of a reply that is not whole yet.
    pub(crate) input: Vec<u8>,
    /// The large reply that the newest bytes belong to.
    pub(crate) download: Option<Box<Download>>,
    /// The large request that is being sent, until its end is here. Its bytes are the journal's last.
    pub(crate) upload: Option<Box<Ticket>>,
    /// No new commands come by the map: it is idle, carries a large request, or is behind a large reply.
    pub(crate) spare: bool,
    /// The caller was told not to read it.
    pub(crate) paused: bool,
    /// Since a timer last looked, something else than the node was waited for.
    pub(crate) excused: bool,
    /// When a timer first saw that the rest of a large request did not come; none of it came since.
    stalled_since: Option<Time>,
    greeting: Vec<u8>,
    /// When the node last gave a sign of life, or had nothing to answer.
    pub(crate) heard: Time,
    /// Commands since the last flush.
    pub(crate) unflushed: u32,
    pub(crate) pace: Pace,
    pub(crate) dirty: bool,
    /// True while a timer will look at it.
    pub(crate) watched: bool,
}

impl Backend {
    pub(crate) fn new(node: NodeId, lane: Lane, chunk: usize, now: Time) -> Self {
        Self {
            node,
            lane,
            state: State::Connecting,
            journal: Journal::new(chunk),
            tickets: VecDeque::new(),
            scanner: ReplyScanner::new(),
            input: Vec::new(),
            download: None,
            upload: None,
            spare: false,
            paused: false,
            excused: false,
            stalled_since: None,
            greeting: Vec::new(),
            heard: now,
            unflushed: 0,
            pace: Pace::new(),
            dirty: false,
            watched: true,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// True if it carries nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.tickets.is_empty() && self.upload.is_none() && self.download.is_none()
    }

    /// True if its node did not keep others waiting since the last look: it was not read, or had nothing to answer.
    pub(crate) fn take_excuse(&mut self, now: Time) -> bool {
        let awaits_client = self.awaits_client();
        if awaits_client && self.stalled_since.is_none() {
            self.stalled_since = Some(now);
        }
        std::mem::take(&mut self.excused) || self.paused || awaits_client
    }

    /// Whose large request is here without having gone on for `patience`, if one is.
    pub(crate) fn stalled_client(&self, patience: Duration, now: Time) -> Option<ClientId> {
        let since = self.stalled_since.filter(|since| self.awaits_client() && now.since(*since) >= patience);
        since.and(self.upload.as_ref()).map(|ticket| ticket.client)
    }

    /// True if all that came of a large request has left, and more is to come.
    fn awaits_client(&self) -> bool {
        self.upload.is_some() && self.journal.unsent().is_empty()
    }

    /// The socket is open: say who we are, and ask for a PONG to know that the node serves.
    pub(crate) fn greet(&mut self, login: Option<&Login>, now: Time) {
        let out = &mut self.greeting;
        let mut owed = 1;
        let user = login.and_then(|login| login.user.as_deref());
        match (self.lane.resp, login) {
            (Resp::V2, None) => {}
            (Resp::V2, Some(login)) => {
                let password = login.password.expose();
                match user {
                    Some(user) => write::command(out, [b"AUTH".as_slice(), user.as_bytes(), password]),
                    None => write::command(out, [b"AUTH".as_slice(), password]),
                }
                owed += 1;
            }
            (Resp::V3, None) => {
                write::command(out, [b"HELLO".as_slice(), b"3"]);
                owed += 1;
            }
            (Resp::V3, Some(login)) => {
                let user = user.unwrap_or("default").as_bytes();
                write::command(out, [b"HELLO".as_slice(), b"3", b"AUTH", user, login.password.expose()]);
                owed += 1;
            }
        }
        if self.lane.replica {
            write::command(out, [b"READONLY".as_slice()]);
            write::command(out, [b"ROLE".as_slice()]);
            owed += 2;
        }
        write::command(out, [b"PING".as_slice()]);
        self.state = State::Greeting(owed);
        self.heard = now;
    }

    /// Takes one reply of the handshake. True when it was the last.
    ///
    /// # Errors
    ///
    /// The node's own text if it refused, or what a replica lacks.
    pub(crate) fn greeted(&mut self, reply: &[u8], kind: u8) -> Result<bool, String> {
        let State::Greeting(owed) = self.state else { return Ok(false) };
        let is_role = self.lane.replica && owed == OWED_AT_ROLE;
        if is_role && let Some(link) = broken_link(reply) {
            return Err(format!("its link to its master is not up but '{link}'"));
        }
        if kind == b'-' && !is_role {
            let text = String::from_utf8_lossy(reply.get(1..).unwrap_or_default());
            return Err(format!("it refuses the handshake: {}", shown_refusal(text.trim_end())));
        }
        if owed <= 1 && reply != b"+PONG\r\n" {
            return Err("it answers PING with something else than PONG".to_owned());
        }
        self.state = if owed <= 1 { State::Ready } else { State::Greeting(owed - 1) };
        Ok(self.is_ready())
    }

    /// Adds one command; it leaves with the next flush, or when the handshake is through.
    #[inline(always)]
    pub(crate) fn push(&mut self, mut ticket: Ticket, request: &mut Cow<'_, [u8]>, now: Time) {
        if self.tickets.is_empty() {
            self.heard = now;
        }
        ticket.len = self.journal.append(request) as u32;
        self.tickets.push_back(ticket);
        self.unflushed += 1;
    }

    /// Takes back the oldest command.
    pub(crate) fn take_back(&mut self) -> Option<Ticket> {
        let ticket = self.tickets.pop_front()?;
        self.journal.drop_front(ticket.len as usize);
        Some(ticket)
    }

    /// Takes back those of the commands that `is_wanted` names, before anything was sent.
    pub(crate) fn take_back_if(&mut self, is_wanted: impl Fn(&Ticket) -> bool) -> Vec<(Ticket, Vec<u8>)> {
        let mut taken = Vec::new();
        for ticket in std::mem::take(&mut self.tickets) {
            let request = self.journal.front(ticket.len as usize).to_vec();
            self.journal.drop_front(ticket.len as usize);
            if is_wanted(&ticket) {
                taken.push((ticket, request));
            } else {
                self.journal.append(&mut request.into());
                self.tickets.push_back(ticket);
            }
        }
        taken
    }

    /// What the socket should take next; there may be more behind it.
    pub(crate) fn unsent(&self) -> &[u8] {
        match self.state {
            State::Connecting => &[],
            State::Greeting(_) => &self.greeting,
            State::Ready => self.journal.unsent(),
        }
    }

    /// The socket took `count` bytes of [`Self::unsent`].
    pub(crate) fn advance(&mut self, count: usize) {
        match self.state {
            State::Connecting => {}
            State::Greeting(_) => {
                self.greeting.drain(..count.min(self.greeting.len()));
            }
            State::Ready => {
                self.journal.advance(count);
                if count > 0 {
                    self.stalled_since = None;
                }
            }
        }
    }
}

/// Replies of the handshake that are owed when that to ROLE comes: itself and the PONG.
const OWED_AT_ROLE: u8 = 2;

/// The state of a replica's link to its master, by its answer to ROLE, if that is not `connected`: it began empty and
/// answers reads with nil until the first synchronisation ends. A node that may not be asked is trusted.
fn broken_link(role: &[u8]) -> Option<String> {
    let mut answer = reply::elements(role).ok()?.filter_map(reply::bulk);
    let is_replica = answer.next()? == b"slave";
    // Between the host and the state is a port, which is an integer.
    let link = answer.nth(1)?;
    (is_replica && link != b"connected").then(|| String::from_utf8_lossy(link).into_owned())
}

/// What of a node's refusal of a handshake may be logged: servers that do not know a command repeat its arguments, the
/// password among them. The known refusals do not; of others only the first word is shown.
#[must_use]
pub fn shown_refusal(text: &str) -> &str {
    const HARMLESS: [&str; 8] = [
        "WRONGPASS ",
        "NOAUTH ",
        "NOPERM ",
        "NOPROTO ",
        "LOADING ",
        "MASTERDOWN ",
        "DENIED ",
        "ERR max number of clients",
    ];
    if HARMLESS.iter().any(|known| text.starts_with(known)) {
        text
    } else {
        text.split(' ').next().unwrap_or_default()
    }
}
