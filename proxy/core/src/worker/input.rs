//! From a client's bytes to commands, one after the other, until the bytes or the client's share run out.

use std::borrow::Cow;

use tsubaki_protocol::resp::inline;
use tsubaki_protocol::resp::request::{RequestError, RequestLimits, RequestScan, RequestScanner};

use super::Worker;
use crate::ClientId;
use crate::action::{Action, Event};
use crate::client::Client;
use crate::limits::{KEEP_CLIENT_BUFFER, MAX_BURST, MAX_PENDING_BYTES, RESCAN};
use crate::time::Time;
use crate::timer::Due;

/// Whether a command ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// It must wait until all commands before it are answered.
    Later,
}

impl Worker {
    pub(super) fn take_input(&mut self, id: ClientId, bytes: &[u8], now: Time) {
        let Some(client) = self.clients.find_mut(id) else { return };
        client.session.active = now;
        if client.input.is_empty() {
            let mut input = bytes.into();
            let used = if client.upload.is_some() {
                self.run_on(id, &mut input, now)
            } else {
                self.run(id, &mut input, now)
            };
            if let Some(rest) = bytes.get(used..)
                && !rest.is_empty()
                && let Some(client) = self.clients.find_mut(id)
                && !client.closing
            {
                client.input.extend_from_slice(rest);
            }
        } else {
            client.make_room(bytes.len());
            client.input.extend_from_slice(bytes);
            self.run_input(id, now);
        }
    }

    /// A paused client may have room again: run what waits, then have it read.
    pub(super) fn resume(&mut self, id: ClientId, now: Time) {
        let Some(client) = self.clients.find_mut(id) else { return };
        client.resuming = false;
        if client.awaits_all && !client.pipeline.is_empty() {
            return;
        }
        client.awaits_all = false;
        client.paused = false;
        self.run_input(id, now);
        self.keep_window(id);
        if self.is_read(id) {
            self.actions.push_back(Action::ResumeClient(id));
        }
        self.close_if_done(id);
    }

    /// True if a client is to be read. While stopping, only the other half of a request is still wanted.
    pub(super) fn is_read(&self, id: ClientId) -> bool {
        let wanted = |client: &Client| !self.draining || client.is_mid_request();
        self.clients.find(id).is_some_and(|client| !client.paused && !client.closing && wanted(client))
    }

    fn run_input(&mut self, id: ClientId, now: Time) {
        let Some(client) = self.clients.find_mut(id) else { return };
        if client.input.is_empty() {
            return;
        }
        let mut input = std::mem::take(&mut client.input).into();
        let used = self.run_on(id, &mut input, now);
        let Some(client) = self.clients.find_mut(id) else { return };
        let mut input = input.into_owned();
        // It is empty if it went to a node as it was.
        if used >= input.len() || client.closing {
            input.clear();
            if input.capacity() > KEEP_CLIENT_BUFFER {
                input = Vec::new();
            }
        } else {
            input.drain(..used);
        }
        client.input = input;
    }

    /// Goes on with a large request, if there is one, and with the commands behind it; returns how many bytes are done with.
    fn run_on(&mut self, id: ClientId, input: &mut Cow<'_, [u8]>, now: Time) -> usize {
        let used = self.upload(id, input, now);
        if self.clients.find(id).is_none_or(|client| client.upload.is_some()) {
            return used;
        }
        if used == 0 {
            return self.run(id, input, now);
        }
        used + self.run(id, &mut input.get(used..).unwrap_or_default().into(), now)
    }

    /// Runs the commands in `input`, of which one that is long and all that there is may be taken; returns how many of its
    /// bytes are done with.
    fn run(&mut self, id: ClientId, input: &mut Cow<'_, [u8]>, now: Time) -> usize {
        if self.may_run_next(id, usize::MAX, now).is_none() {
            return 0;
        }
        let mut limits = self.limits(id);
        let Some(client) = self.clients.find_mut(id) else { return 0 };
        let most_unread = client.unread() + MAX_BURST;
        let mut scanner = client.scanner.take().or_else(|| self.scratch.scanner.take()).unwrap_or_default();
        let mut used = 0;
        if input.len() > self.settings.chunk {
            used = self.run_long(id, input, &mut scanner, &limits, now);
        }
        let input: &[u8] = input;
        let mut partial = false;
        while let Some(rest) = input.get(used..)
            && !rest.is_empty()
        {
            match scanner.scan(rest, &limits) {
                Ok(RequestScan::Array { len }) => {
                    let mut frame = rest.get(..len).unwrap_or_default().into();
                    if self.command(id, &mut frame, scanner.spans(), now) == Step::Later {
                        self.run_later(id);
                        break;
                    }
                    used += len;
                }
                Ok(RequestScan::Inline { len }) => {
                    if self.inline(id, rest.get(..len).unwrap_or_default(), now) == Step::Later {
                        self.run_later(id);
                        break;
                    }
                    used += len;
                }
                Ok(RequestScan::Empty { len }) => used += len,
                Ok(RequestScan::Partial) => {
                    partial = !self.begin_upload(id, rest, &scanner, now);
                    break;
                }
                Err(error) => self.break_off(id, error),
            }
            let Some(authenticated) = self.may_run_next(id, most_unread, now) else { break };
            limits.authenticated = authenticated;
        }
        if let Some(client) = self.clients.find_mut(id) {
            client.end_burst();
        }
        self.keep_scanner(id, scanner, partial && input.len() - used >= RESCAN);
        used
    }

    /// Runs the request that is all of `input`, if one is, without a copy of it; returns how many bytes are done with.
    #[cold]
    fn run_long(
        &mut self,
        id: ClientId,
        input: &mut Cow<'_, [u8]>,
        scanner: &mut RequestScanner,
        limits: &RequestLimits,
        now: Time,
    ) -> usize {
        match scanner.scan(input, limits) {
            Ok(RequestScan::Array { len })
                if len == input.len() && self.command(id, input, scanner.spans(), now) == Step::Done =>
            {
                len
            }
            Ok(RequestScan::Partial) => 0,
            _ => {
                scanner.reset();
                0
            }
        }
    }

    #[inline]
    fn keep_scanner(&mut self, id: ClientId, mut scanner: Box<RequestScanner>, resume: bool) {
        if resume && let Some(client) = self.clients.find_mut(id) {
            client.scanner = Some(scanner);
        } else {
            scanner.reset();
            scanner.shrink();
            self.scratch.scanner = Some(scanner);
            self.scratch.shrink();
        }
    }

    #[inline(never)]
    fn inline(&mut self, id: ClientId, line: &[u8], now: Time) -> Step {
        let mut array = self.pool.take();
        let mut step = Step::Done;
        match inline::to_array(line, &mut array) {
            Ok(false) => {}
            Ok(true) => {
                let mut scanner = RequestScanner::new();
                // The line was within its own limit, which is all that Redis asks of it.
                if let Ok(RequestScan::Array { len }) = scanner.scan(&array, &RequestLimits::default()) {
                    let mut frame = array.get(..len).unwrap_or_default().into();
                    step = self.command(id, &mut frame, scanner.spans(), now);
                }
            }
            Err(error) => self.break_off(id, error),
        }
        self.pool.give(array);
        step
    }

    /// A request that is none: say so in turn, then close.
    #[cold]
    fn break_off(&mut self, id: ClientId, error: RequestError) {
        let mut reply = Vec::new();
        error.write(&mut reply);
        self.answer_local(id, &reply);
        self.close_for(id, &error);
    }

    /// Closes a client that broke the protocol, once it has all that it is owed.
    pub(super) fn close_for(&mut self, id: ClientId, error: &RequestError) {
        if let Some(client) = self.clients.find_mut(id) {
            client.closing = true;
            self.stats.protocol_errors += 1;
            let client = client.session.address.to_string();
            self.report(Event::ClientProtocol { client, error: error.to_string() });
        }
    }

    pub(super) fn limits(&self, id: ClientId) -> RequestLimits {
        RequestLimits {
            max_bulk: self.settings.max_bulk,
            max_frame: self.settings.max_request,
            authenticated: self.clients.find(id).is_some_and(|client| client.session.authenticated),
            ..RequestLimits::default()
        }
    }

    /// Whether the client has given its password, if it may run a command now; else it is paused, unless it is being closed.
    ///
    /// Not after it got so many replies in this run, all of the proxy's own, that it has more than `most_unread`: others
    /// must get their turn, and the socket must get them first.
    #[inline(always)]
    fn may_run_next(&mut self, id: ClientId, most_unread: usize, now: Time) -> Option<bool> {
        let client = self.clients.find(id).filter(|client| !client.closing)?;
        let is_burst = client.unread() > most_unread;
        let authenticated = client.session.authenticated;
        let has_room = client.has_room(&self.settings) && self.pending_bytes < MAX_PENDING_BYTES;
        if !has_room && !self.may_run_in_a_crowd(id) {
            return None;
        }
        if is_burst {
            self.pause(id);
            self.timers.add(now, Due::Client(id));
            return None;
        }
        Some(authenticated)
    }

    /// False and paused: the client is without room, or has more than its share where all together have too much under way.
    #[cold]
    fn may_run_in_a_crowd(&mut self, id: ClientId) -> bool {
        // Where all together have too much under way, those who have more than their share wait.
        let is_crowded = self.pending_bytes >= MAX_PENDING_BYTES;
        let share = if is_crowded { MAX_PENDING_BYTES / self.clients.len().max(1) } else { usize::MAX };
        let settings = &self.settings;
        let Some(client) = self.clients.find_mut(id) else { return false };
        if client.closing {
            return false;
        }
        let crowded = client.pending_bytes > share;
        let full = client.pipeline.len().max(client.in_flight) >= settings.max_in_flight
            || client.pending_bytes >= settings.max_in_flight_bytes;
        if crowded && !full {
            self.starving.push(id);
        }
        if full || crowded {
            self.pause(id);
        }
        !full && !crowded
    }

    /// The next command runs when all before it are answered: until then it is not even looked at, for it may be long.
    #[cold]
    fn run_later(&mut self, id: ClientId) {
        self.pause(id);
        if let Some(client) = self.clients.find_mut(id) {
            client.awaits_all = true;
        }
    }

    /// Stops running and reading a client. The large reply that it is in the midst of must not wait for it now: it may
    /// have to send all before it reads anything.
    #[cold]
    pub(super) fn pause(&mut self, id: ClientId) {
        if let Some(client) = self.clients.find_mut(id) {
            client.paused = true;
            if let Some(feeder) = client.feeder {
                self.resume_backend(feeder);
            }
        }
    }

    /// After a reply: has a paused client half its share back, so that going on pays?
    #[inline(never)]
    pub(super) fn stir_client(&mut self, id: ClientId) {
        let settings = &self.settings;
        if let Some(client) = self.clients.find_mut(id)
            && client.paused
            && !client.resuming
            && client.pipeline.len().max(client.in_flight) <= settings.max_in_flight / 2
            && client.pending_bytes <= settings.max_in_flight_bytes / 2
        {
            client.resuming = true;
            self.resuming.push(id);
        }
    }
}
