//! Large replies: passed on while they come, as fast as their client reads, or as their node writes if others wait.
//!
//! Must not know: what is in them.

use super::Worker;
use super::reply::{Broken, TOO_EARLY};
use crate::action::Event;
use crate::backend::Ticket;
use crate::client::Flush;
use crate::fault::Fault;
use crate::stream::{Download, Sink};
use crate::time::Time;
use crate::{BackendId, ClientId};

impl Worker {
    /// Bytes came that go on with what came before.
    pub(super) fn take_more(&mut self, id: BackendId, bytes: &[u8], now: Time) -> Result<(), Broken> {
        let Some(backend) = self.backends.find_mut(id) else { return Ok(()) };
        let mut input = std::mem::take(&mut backend.input);
        if input.is_empty() {
            let used = self.take_rest(id, bytes, now)?;
            self.keep_input(id, bytes, used);
        } else {
            input.extend_from_slice(bytes);
            let used = self.take_rest(id, &input, now)?;
            self.give_input(id, input, used);
        }
        Ok(())
    }

    /// Takes the rest of a large reply, and the whole replies behind it; returns how many bytes they are.
    fn take_rest(&mut self, id: BackendId, input: &[u8], now: Time) -> Result<usize, Broken> {
        let (used, goes_on) = self.download(id, input, now)?;
        if goes_on {
            return Ok(used);
        }
        let rest = input.get(used..).unwrap_or_default();
        Ok(used + self.take_replies(id, rest, now)?)
    }

    /// Begins to stream the reply at the front of `input`, if it is a large one.
    pub(super) fn begin_download(&mut self, id: BackendId, input: &[u8]) -> Result<bool, Broken> {
        let large = self.settings.large_value;
        let Some(backend) = self.backends.find_mut(id) else { return Ok(false) };
        if backend.scanner.least_len(input) <= large {
            return Ok(false);
        }
        if !backend.is_ready() {
            return Err(format!("it answers the handshake with more than {large} bytes"));
        }
        match backend.tickets.front() {
            Some(ticket) if !backend.journal.front_was_sent(ticket.len as usize) => {
                return Err(TOO_EARLY.to_owned());
            }
            None if input.first() != Some(&b'>') => {
                return Err("it said something that nobody asked for: a large reply".to_owned());
            }
            _ => {}
        }
        backend.scanner.reset();
        backend.download = Some(Box::default());
        self.stats.large_replies += 1;
        Ok(true)
    }

    /// Passes on what has come of the large reply under way, if any; returns how many bytes of `input` that were, and
    /// whether there is more of it to come.
    pub(super) fn download(
        &mut self,
        id: BackendId,
        input: &[u8],
        now: Time,
    ) -> Result<(usize, bool), Broken> {
        let Some(backend) = self.backends.find_mut(id) else { return Ok((0, false)) };
        let Some(download) = backend.download.as_mut() else { return Ok((0, false)) };
        let ticket = backend.tickets.front().copied();
        let passed = download.stream.pass(input).map_err(|error| error.to_string())?;
        let kind = download.stream.kind();
        let mut sink = std::mem::take(&mut download.sink);
        let piece = input.get(..passed.len).unwrap_or_default();
        if passed.whole {
            backend.download = None;
            // From here on it is a reply like any other.
            let rest = self.rest(id, ticket, sink, piece);
            self.take_reply(id, &rest, kind.unwrap_or_default(), now)?;
            return Ok((passed.len, false));
        }
        let is_shared = !backend.spare;
        self.pour(id, ticket, kind, &mut sink, piece);
        if is_shared {
            self.detour(id, now);
        }
        let may_wait = sink == Sink::Client && self.may_wait(id);
        if let Some(backend) = self.backends.find_mut(id) {
            backend.paused = may_wait;
            if let Some(download) = backend.download.as_mut() {
                download.sink = sink;
            }
        }
        Ok((passed.len, true))
    }

    fn pour(
        &mut self,
        id: BackendId,
        ticket: Option<Ticket>,
        kind: Option<u8>,
        sink: &mut Sink,
        piece: &[u8],
    ) {
        let Some((ticket, client)) =
            ticket.and_then(|ticket| Some((ticket, self.clients.find_mut(ticket.client)?)))
        else {
            *sink = Sink::Nobody;
            return;
        };
        // An error may be a refusal, which shows when it is whole; a push message answers nothing.
        let is_answer = kind.is_some_and(|kind| !matches!(kind, b'-' | b'!' | b'>'));
        let is_next = client.pipeline.is_next(ticket.seq) || self.faults.is(Fault::InterleavedReply);
        if is_answer && is_next {
            let gathered = sink.take();
            let out = client.output.tail(&mut self.pool);
            out.extend_from_slice(&gathered);
            out.extend_from_slice(piece);
            client.partial_bytes = client.partial_bytes.saturating_sub(gathered.len());
            client.feeder = Some(id);
            *sink = Sink::Client;
            client.forget_burst();
            if client.flush != Flush::Dirty {
                client.flush = Flush::Dirty;
                self.dirty_clients.push(ticket.client);
            }
        } else if let Sink::Gathered(gathered) = sink {
            gathered.extend_from_slice(piece);
            client.partial_bytes += piece.len();
        }
        self.unread_bytes += piece.len();
        let unread = client.unread();
        self.check_unread(ticket.client, unread);
    }

    /// What a client has not been given of a large reply when its last piece comes.
    fn rest(&mut self, id: BackendId, ticket: Option<Ticket>, mut sink: Sink, piece: &[u8]) -> Vec<u8> {
        self.resume_backend(id);
        let mut rest = sink.take();
        if let Some(client) = ticket.and_then(|ticket| self.clients.find_mut(ticket.client)) {
            client.feeder = client.feeder.filter(|feeder| *feeder != id);
            client.partial_bytes = client.partial_bytes.saturating_sub(rest.len());
            self.unread_bytes = self.unread_bytes.saturating_sub(rest.len());
        }
        rest.extend_from_slice(piece);
        rest
    }

    /// May the node of a large reply be kept waiting? Only for a client that has enough to read, and if nobody but that
    /// client would notice. One that is itself not read may be waiting to have sent all before it reads anything.
    fn may_wait(&self, id: BackendId) -> bool {
        let Some(backend) = self.backends.find(id).filter(|backend| backend.spare) else { return false };
        let Some(reader) = backend.tickets.front().map(|ticket| ticket.client) else { return false };
        let waits = |ticket: &Ticket| ticket.client != reader && self.clients.find(ticket.client).is_some();
        self.clients.find(reader).is_some_and(|client| !client.paused && client.output.len() >= self.window())
            && !backend.tickets.iter().any(waits)
    }

    /// How many bytes of one transfer are held before its source is asked to wait. It goes on at half.
    pub(super) fn window(&self) -> usize {
        self.settings.large_value.min(self.settings.max_output / 2)
    }

    /// A client has taken bytes of the large reply that it is in the midst of: more may come.
    pub(super) fn read_on(&mut self, feeder: BackendId, unread: usize) {
        if unread <= self.window() / 2 {
            self.resume_backend(feeder);
        }
    }

    /// A connection ends in the midst of a large reply: a client that has its beginning can only be closed.
    pub(super) fn cut_download(&mut self, ticket: &Ticket, download: Download) {
        let Some(client) = self.clients.find_mut(ticket.client) else { return };
        match download.sink {
            Sink::Client => self.cut_client(ticket.client),
            Sink::Gathered(gathered) => {
                client.partial_bytes = client.partial_bytes.saturating_sub(gathered.len());
                self.unread_bytes = self.unread_bytes.saturating_sub(gathered.len());
            }
            Sink::Nobody => {}
        }
    }

    fn cut_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.find_mut(id) else { return };
        client.feeder = None;
        if self.faults.is(Fault::PatchedReply) {
            return;
        }
        let client = client.session.address.to_string();
        self.stats.lost += 1;
        self.report(Event::ReplyCut { client });
        self.close_client(id);
    }
}
