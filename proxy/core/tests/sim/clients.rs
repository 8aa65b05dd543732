//! Fake clients: they pipeline at random, speak in pieces, change their protocol, leave, and are slow to read.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use tsubaki_core::ClientId;
use tsubaki_core::action::Flow;
use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::reply::{ReplyScan, ReplyScanner};

use crate::event::Event;
use crate::ops::Op;
use crate::world::World;

/// Bytes that a client's socket holds before its client must read.
const WINDOW: usize = 2_000;

/// A command that was sent and not answered.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) op: Op,
    /// What the client spoke when it sent it.
    pub(crate) resp: Resp,
    pub(crate) invoked: u64,
}

/// One client, and the connection that it has now.
pub(crate) struct FakeClient {
    pub(crate) id: Option<ClientId>,
    /// Number of the connection: what was sent on an earlier one is void.
    pub(crate) connection: u32,
    /// Commands that it still wants to send.
    left: usize,
    /// Microseconds from one burst to the next, about.
    pace: u64,
    resp: Resp,
    pub(crate) outstanding: VecDeque<Request>,
    /// When the last piece that it sent arrives.
    sent_until: u64,
    /// The engine does not want to read it.
    pub(crate) paused: bool,
    /// Arrived, not read by the engine.
    kept: VecDeque<Vec<u8>>,
    /// It said that it will send nothing more, and when the engine will know.
    finished: bool,
    finish_kept: bool,
    /// It expects the engine to close.
    ending: bool,
    /// The engine closed, and what it sent before is still on its way.
    closed: bool,
    reading: bool,
    /// Bytes between the engine and its eyes.
    unread: usize,
    down_until: u64,
    input: Vec<u8>,
    scanner: ReplyScanner,
    /// For each key, the newest version that its commands are known to have met.
    pub(crate) floors: Vec<usize>,
}

impl FakeClient {
    pub(crate) fn new(commands: usize, pace: u64) -> Self {
        Self {
            id: None,
            connection: 0,
            left: commands,
            pace,
            resp: Resp::V2,
            outstanding: VecDeque::new(),
            sent_until: 0,
            paused: false,
            kept: VecDeque::new(),
            finished: false,
            finish_kept: false,
            ending: false,
            closed: false,
            reading: true,
            unread: 0,
            down_until: 0,
            input: Vec::new(),
            scanner: ReplyScanner::new(),
            floors: Vec::new(),
        }
    }

    /// True if it has nothing more to say or to hear.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.outstanding.is_empty() && (self.id.is_none() || !self.ending)
    }
}

impl World {
    pub(crate) fn connect(&mut self, client: usize) {
        if self.is_stopping() {
            return;
        }
        let address = (Ipv4Addr::new(192, 168, 0, 1), 1000 + client as u16).into();
        let local = (Ipv4Addr::new(192, 168, 0, 2), 6380).into();
        let id = self.worker.handle_client_accepted(address, local, self.time());
        let it = &mut self.clients[client];
        let fresh =
            FakeClient { connection: it.connection + 1, id: Some(id), ..FakeClient::new(it.left, it.pace) };
        *it = FakeClient { floors: vec![0; self.cluster.keys.len() + 1], ..fresh };
        self.act_soon(client, 2_000);
    }

    fn act_soon(&mut self, client: usize, typical: u64) {
        let pause = self.rng.delay(typical);
        self.at(self.now + pause, Event::Act(client));
    }

    /// Sends some commands, waits, stops reading, or leaves.
    pub(crate) fn act(&mut self, client: usize) {
        let it = &self.clients[client];
        if it.id.is_none() || it.finished || it.ending || self.is_stopping() {
            return;
        }
        let mischief = !self.mended;
        if mischief && self.chaos.leavers && self.rng.per_mille(30) {
            if self.rng.percent(50) {
                self.leave(client)
            } else {
                self.finish(client)
            }
            return;
        }
        if mischief && self.chaos.slow_readers && self.rng.per_mille(60) && it.reading {
            self.clients[client].reading = false;
            let pause = self.rng.between(1_000, 300_000);
            self.at(self.now + pause, Event::ReadAgain(client, self.clients[client].connection));
        }
        let depth = if self.rng.percent(30) { 60 } else { 4 };
        if self.clients[client].outstanding.len() < depth && self.clients[client].left > 0 {
            self.send_some(client);
        }
        if self.clients[client].left > 0 {
            self.act_soon(client, self.clients[client].pace);
        }
    }

    fn send_some(&mut self, client: usize) {
        let most = self.rng.pick(&[1, 1, 3, 20]);
        let count = (1 + self.rng.below(most)).min(self.clients[client].left);
        let mut bytes = Vec::new();
        for _ in 0..count {
            let op = self.wish();
            let before = bytes.len();
            op.write(&self.cluster.keys, &mut bytes);
            let large = bytes.len() - before > self.settings.large_value;
            for (key, token) in op.tokens() {
                self.model.asked(token, key, self.now, large);
            }
            let it = &mut self.clients[client];
            it.left -= 1;
            it.ending = matches!(op, Op::Quit | Op::Garbage);
            let request = Request { op, resp: it.resp, invoked: self.now };
            if let Op::Hello(resp) = request.op {
                it.resp = resp;
            }
            it.outstanding.push_back(request);
            if it.ending {
                break;
            }
        }
        self.trace(|| format!("  client {client} sends {}", bytes.escape_ascii()));
        let it = &self.clients[client];
        let (mut at, connection) = (it.sent_until.max(self.now), it.connection);
        for piece in self.rng.cut(&bytes) {
            at += self.rng.delay(40);
            self.at(at, Event::ClientBytes(client, connection, piece));
        }
        self.clients[client].sent_until = at;
    }

    pub(crate) fn client_bytes(&mut self, client: usize, connection: u32, bytes: Vec<u8>) {
        let it = &mut self.clients[client];
        let Some(id) = it.id.filter(|_| it.connection == connection) else { return };
        if it.paused || !it.kept.is_empty() {
            it.kept.push_back(bytes);
            return;
        }
        if self.worker.handle_client_input(id, &bytes, self.time()) == Flow::Pause {
            self.clients[client].paused = true;
        }
    }

    /// The engine reads on.
    pub(crate) fn feed(&mut self, client: usize, connection: u32) {
        let it = &mut self.clients[client];
        let Some(id) = it.id.filter(|_| it.connection == connection && !it.paused) else { return };
        if let Some(bytes) = it.kept.pop_front() {
            if self.worker.handle_client_input(id, &bytes, self.time()) == Flow::Pause {
                self.clients[client].paused = true;
            } else {
                self.at(self.now + 1, Event::Feed(client, connection));
            }
        } else if std::mem::take(&mut it.finish_kept) {
            self.worker.handle_client_finished(id, self.time());
        }
    }

    /// Leaves at once, whatever is under way.
    fn leave(&mut self, client: usize) {
        let Some(id) = self.clients[client].id else { return };
        self.forget(client);
        self.worker.handle_client_closed(id, self.time());
    }

    /// Says that it will send nothing more, and waits for what it is owed.
    fn finish(&mut self, client: usize) {
        let it = &mut self.clients[client];
        it.finished = true;
        it.ending = true;
        let at = it.sent_until.max(self.now) + 1;
        let connection = it.connection;
        self.at(at, Event::ClientFinished(client, connection));
    }

    pub(crate) fn client_finished(&mut self, client: usize, connection: u32) {
        let it = &mut self.clients[client];
        let Some(id) = it.id.filter(|_| it.connection == connection) else { return };
        if it.paused || !it.kept.is_empty() {
            it.finish_kept = true;
        } else {
            self.worker.handle_client_finished(id, self.time());
        }
    }

    /// The engine closed the connection. What is on its way still arrives.
    pub(crate) fn closed_by_engine(&mut self, client: usize) {
        let limit_hit = std::mem::take(&mut self.model.limit_hit);
        let at = self.clients[client].down_until;
        if limit_hit {
            self.forget(client);
            return;
        }
        if std::mem::take(&mut self.model.reply_cut) {
            if self.troubles.deaths(0) == 0 {
                self.fail(format!("client {client} was closed for a connection that was not lost"));
            }
            self.forget(client);
            return;
        }
        let it = &self.clients[client];
        if !it.ending && !self.is_stopping() {
            self.fail(format!("the engine closed client {client}, which had done nothing"));
            return;
        }
        // Every reply has to be among what is on its way.
        let connection = it.connection;
        self.clients[client].reading = true;
        self.at(at.max(self.now), Event::ReadAgain(client, connection));
        self.clients[client].id = None;
        self.clients[client].closed = true;
    }

    /// The connection is gone; what it was owed is nobody's any more.
    fn forget(&mut self, client: usize) {
        let it = &mut self.clients[client];
        it.id = None;
        it.connection += 1;
        it.input.clear();
        let abandoned: Vec<Request> = it.outstanding.drain(..).collect();
        for request in abandoned {
            self.model.uncertain(&request.op);
        }
        self.come_back(client);
    }

    fn come_back(&mut self, client: usize) {
        if self.clients[client].left > 0 {
            let pause = self.rng.delay(5_000);
            self.at(self.now + pause, Event::Connect(client));
        }
    }

    /// The engine's socket to a client takes what it has room for.
    pub(crate) fn client_pump(&mut self, client: usize, connection: u32) {
        let it = &self.clients[client];
        let Some(id) = it.id.filter(|_| it.connection == connection) else { return };
        let output = self.worker.client_output(id).to_vec();
        let room = WINDOW.saturating_sub(it.unread);
        let mut taken = room.min(output.len());
        if taken == 0 {
            return;
        }
        if self.rng.percent(20) {
            taken = 1 + self.rng.below(taken);
        }
        let mut at = it.down_until.max(self.now);
        for piece in self.rng.cut(&output[..taken]) {
            at += self.rng.delay(40);
            self.clients[client].unread += piece.len();
            self.at(at, Event::ClientReply(client, connection, piece));
        }
        self.clients[client].down_until = at;
        self.worker.client_sent(id, taken);
        if taken < output.len() && room > taken {
            let pause = self.rng.delay(100);
            self.at(self.now + pause, Event::ClientPump(client, connection));
        }
    }

    pub(crate) fn client_reply(&mut self, client: usize, connection: u32, bytes: &[u8]) {
        let it = &mut self.clients[client];
        if it.connection != connection {
            return;
        }
        it.input.extend_from_slice(bytes);
        if it.reading {
            self.read(client);
        }
    }

    pub(crate) fn read_again(&mut self, client: usize, connection: u32) {
        if self.clients[client].connection == connection {
            self.clients[client].reading = true;
            self.read(client);
        }
    }

    /// Reads all that came, reply by reply.
    fn read(&mut self, client: usize) {
        let input = std::mem::take(&mut self.clients[client].input);
        let mut scanner = std::mem::take(&mut self.clients[client].scanner);
        let mut used = 0;
        loop {
            let len = match scanner.scan(&input[used..]) {
                Ok(ReplyScan::Complete(reply)) => reply.len,
                Ok(ReplyScan::Partial) => break,
                Err(error) => return self.fail(format!("client {client} got what is no reply: {error}")),
            };
            let frame = &input[used..used + len];
            used += len;
            let Some(request) = self.clients[client].outstanding.pop_front() else {
                return self.fail(format!(
                    "client {client} got a reply that it asked nothing for: {}",
                    frame.escape_ascii()
                ));
            };
            if let Err(failure) = self.check(client, &request, frame) {
                return self.fail(format!(
                    "client {client}, {request:?}\n  got {}\n  {failure}",
                    frame.escape_ascii()
                ));
            }
        }
        let it = &mut self.clients[client];
        // What is part of a reply counts as read: the client keeps it.
        it.unread = 0;
        it.input = input[used..].to_vec();
        it.scanner = scanner;
        let connection = it.connection;
        if it.id.is_some() {
            self.at(self.now + 1, Event::ClientPump(client, connection));
        } else {
            self.bid_farewell(client);
        }
    }

    /// The engine closed it: all replies must have come before.
    fn bid_farewell(&mut self, client: usize) {
        let is_stopping = self.is_stopping();
        let it = &mut self.clients[client];
        if !it.closed || self.now < it.down_until {
            return;
        }
        it.closed = false;
        if is_stopping {
            // It may have been sent too late to be heard.
            let unheard = it.outstanding.drain(..);
            unheard.for_each(|request| self.model.uncertain(&request.op));
        }
        if let Some(request) = it.outstanding.front() {
            let failure = format!("client {client} was closed while owed the reply to {request:?}");
            return self.fail(failure);
        }
        it.ending = false;
        it.connection += 1;
        self.come_back(client);
    }
}
