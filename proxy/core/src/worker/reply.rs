//! What a node said: to whom it belongs, and whether it is an answer or a reason to send again.

use tsubaki_protocol::redirect::{self, Endpoint, Host, Refusal};
use tsubaki_protocol::resp::reply::ReplyScan;
use tsubaki_protocol::resp::write;

use super::Worker;
use crate::action::{Event, Flow, RefreshReason};
use crate::backend::{State, Ticket, Traits};
use crate::client::Flush;
use crate::fanout::Fanout;
use crate::fault::Fault;
use crate::hold::Held;
use crate::map::NodeId;
use crate::pipeline::Seq;
use crate::retry::{self, Verdict};
use crate::time::Time;
use crate::{BackendId, ClientId};

/// Why a node's bytes end its connection.
pub(super) type Broken = String;

/// Why a connection ends that answers a command of which the last byte has not left.
pub(super) const TOO_EARLY: &str = "it answered a command that was not sent whole";

impl Worker {
    /// Bytes came from a node. They need not be kept.
    pub fn handle_backend_input(&mut self, id: BackendId, bytes: &[u8], now: Time) -> Flow {
        self.stats.node_in_bytes += bytes.len() as u64;
        let Some(backend) = self.backends.find_mut(id) else { return Flow::Pause };
        backend.heard = now;
        let waiting = backend.tickets.len();
        let goes_on = !backend.input.is_empty() || backend.download.is_some();
        let taken = if goes_on {
            self.take_more(id, bytes, now)
        } else {
            self.take_replies(id, bytes, now).map(|used| self.keep_input(id, bytes, used))
        };
        let mut flow = Flow::Read;
        match taken {
            Ok(()) => {
                if let Some(backend) = self.backends.find_mut(id) {
                    backend.pace.answered(waiting.saturating_sub(backend.tickets.len()), waiting, now);
                    if backend.spare {
                        flow = if backend.paused { Flow::Pause } else { Flow::Read };
                        self.settle_spare(id);
                    }
                }
            }
            Err(reason) => self.fail_backend(id, &reason, now),
        }
        self.settle(now);
        flow
    }

    /// Keeps what is behind the `used` bytes of a read: the beginning of a reply.
    #[inline]
    pub(super) fn keep_input(&mut self, id: BackendId, bytes: &[u8], used: usize) {
        if let Some(rest) = bytes.get(used..)
            && !rest.is_empty()
            && let Some(backend) = self.backends.find_mut(id)
        {
            let mut input = self.pool.take();
            input.extend_from_slice(rest);
            backend.input = input;
        }
    }

    pub(super) fn give_input(&mut self, id: BackendId, mut input: Vec<u8>, used: usize) {
        if used == input.len() {
            self.pool.give(input);
            return;
        }
        input.drain(..used);
        if let Some(backend) = self.backends.find_mut(id) {
            backend.input = input;
        }
    }

    /// Takes the whole replies at the front of `input`, and the beginning of a large one; returns how many bytes they are.
    #[inline(always)]
    pub(super) fn take_replies(&mut self, id: BackendId, input: &[u8], now: Time) -> Result<usize, Broken> {
        let mut used = 0;
        while let Some(rest) = input.get(used..)
            && !rest.is_empty()
            && let Some(backend) = self.backends.find_mut(id)
        {
            let reply = match backend.scanner.scan(rest) {
                Ok(ReplyScan::Complete(reply)) => reply,
                Ok(ReplyScan::Partial) => {
                    if self.begin_download(id, rest)? {
                        used += self.download(id, rest, now)?.0;
                    }
                    break;
                }
                Err(error) => return Err(error.to_string()),
            };
            let frame = rest.get(..reply.len).unwrap_or_default();
            used += reply.len;
            #[cfg(feature = "faults")]
            self.spoil_queue(id);
            self.take_reply(id, frame, reply.kind, now)?;
        }
        Ok(used)
    }

    #[inline(always)]
    pub(super) fn take_reply(
        &mut self,
        id: BackendId,
        frame: &[u8],
        kind: u8,
        now: Time,
    ) -> Result<(), Broken> {
        let Some(backend) = self.backends.find_mut(id) else { return Ok(()) };
        if kind == b'>' {
            return Ok(());
        }
        if let State::Greeting(_) = backend.state {
            return self.take_greeting(id, frame, kind);
        }
        let Some(first) = backend.tickets.front() else { return self.unasked(id, frame, kind, now) };
        if !backend.journal.front_was_sent(first.len as usize) {
            return self.too_early(id, frame, kind, now);
        }
        let Some(ticket) = backend.tickets.pop_front() else { return Ok(()) };
        let is_error = matches!(kind, b'-' | b'!');
        if is_error || ticket.traits.has(Traits::TRACKED.with(Traits::ASKING).with(Traits::PROBE)) {
            self.take_unusual(id, ticket, frame, kind, now);
        } else {
            backend.journal.drop_front(ticket.len as usize);
            self.answer_inline(&ticket, frame, now);
        }
        Ok(())
    }

    /// Takes an error, or the reply to a command that a hold counts, or to one of the proxy's own.
    #[inline(never)]
    fn take_unusual(&mut self, id: BackendId, ticket: Ticket, frame: &[u8], kind: u8, now: Time) {
        if kind == b'-'
            && let Some(refusal) = self.refusal(&ticket, frame)
        {
            self.not_run(id, ticket, &refusal, frame, now);
            return;
        }
        if ticket.traits.has(Traits::TRACKED) {
            self.came_back(id, &ticket, now);
        }
        let Some(backend) = self.backends.find_mut(id) else { return };
        backend.journal.drop_front(ticket.len as usize);
        if ticket.traits.has(Traits::PROBE) {
            self.accepted(id, ticket, now);
        } else if !ticket.traits.has(Traits::ASKING) {
            self.stats.node_errors += u64::from(matches!(kind, b'-' | b'!'));
            self.answer(&ticket, frame, now);
        }
    }

    #[cold]
    fn take_greeting(&mut self, id: BackendId, frame: &[u8], kind: u8) -> Result<(), Broken> {
        if let Some(backend) = self.backends.find_mut(id)
            && backend.greeted(frame, kind)?
        {
            self.backend_ready(id);
        }
        Ok(())
    }

    #[cold]
    fn unasked(&mut self, id: BackendId, frame: &[u8], kind: u8, now: Time) -> Result<(), Broken> {
        let has_half = self.backends.find(id).is_some_and(|backend| backend.upload.is_some());
        if kind == b'-'
            && has_half
            && let Some(ticket) = self.close_backend(id).and_then(|backend| backend.upload)
        {
            // It will not take the rest, for instance because a value is longer than it allows.
            self.end_upload_early(&ticket, frame, now);
            return Ok(());
        }
        let text =
            String::from_utf8_lossy(if kind == b'-' { frame } else { b"a reply" }).trim_end().to_owned();
        Err(format!("it said something that nobody asked for: {text}"))
    }

    /// An answer to a command of which the last byte has not left. Of a streamed one the node may not take the rest.
    #[cold]
    fn too_early(&mut self, id: BackendId, frame: &[u8], kind: u8, now: Time) -> Result<(), Broken> {
        let is_streamed = |ticket: &&Ticket| ticket.traits.has(Traits::STREAMED);
        let first = self.backends.find(id).and_then(|backend| backend.tickets.front());
        if kind == b'-'
            && let Some(ticket) = first.filter(is_streamed).copied()
        {
            self.close_backend(id);
            self.answer(&ticket, frame, now);
            return Ok(());
        }
        Err(TOO_EARLY.to_owned())
    }

    /// A node refused the command at the front of a connection.
    fn not_run(&mut self, id: BackendId, ticket: Ticket, refusal: &Refusal<'_>, frame: &[u8], now: Time) {
        let Some(backend) = self.backends.find_mut(id) else { return };
        let len = ticket.len as usize;
        if ticket.traits.has(Traits::STREAMED) {
            backend.journal.drop_front(len);
            self.streamed_refused(id, &ticket, refusal, now);
            return;
        }
        let request = backend.journal.front(len).to_vec();
        backend.journal.drop_front(len);
        self.refused(id, Held::new(ticket, request, now), refusal, frame, now);
    }

    /// Reads an error as a node's refusal to run the command, if it is one. A script can return any error text after it
    /// wrote, so of its errors only the servers' own whole texts count, and a redirect only for its own slot.
    #[cold]
    fn refusal<'a>(&self, ticket: &Ticket, frame: &'a [u8]) -> Option<Refusal<'a>> {
        if ticket.traits.has(Traits::ASKING) {
            return None;
        }
        let is_script = ticket.traits.has(Traits::SCRIPT) && !self.faults.is(Fault::ScriptRefusedByCode);
        let refusal = redirect::parse(frame, is_script)?;
        let is_own = match refusal {
            Refusal::Moved { slot, .. } | Refusal::Ask { slot, .. } => !is_script || slot == ticket.slot,
            _ => true,
        };
        is_own.then_some(refusal)
    }

    /// Gives a command, or its part, its final reply.
    pub(super) fn answer(&mut self, ticket: &Ticket, reply: &[u8], now: Time) {
        self.answer_inline(ticket, reply, now);
    }

    /// [`Self::answer`] where nearly all replies come along.
    #[inline(always)]
    fn answer_inline(&mut self, ticket: &Ticket, reply: &[u8], now: Time) {
        #[cfg(feature = "faults")]
        let (ticket, reply) = &self.spoil_answer(ticket, reply);
        if ticket.traits.has(Traits::TRACKED) {
            self.untrack(ticket);
        }
        self.no_longer_pending(ticket.len);
        self.stats.latency.record(now.micros_since(ticket.arrived));
        let Some(client) = self.clients.find_mut(ticket.client) else {
            self.stats.orphans += 1;
            return;
        };
        client.in_flight = client.in_flight.saturating_sub(1);
        client.pending_bytes = client.pending_bytes.saturating_sub(ticket.len as usize);
        if ticket.part == Ticket::WHOLE {
            self.fill(ticket.client, ticket.seq, reply);
        } else {
            self.answer_part(ticket, reply);
        }
    }

    #[inline(never)]
    fn answer_part(&mut self, ticket: &Ticket, reply: &[u8]) {
        let Some(client) = self.clients.find_mut(ticket.client) else { return };
        let Some(id) = client.pipeline.fanout(ticket.seq) else { return };
        let Some(fanout) = self.fanouts.find_mut(id) else { return };
        let is_whole = fanout.put(ticket.part, reply);
        client.partial_bytes += reply.len();
        self.unread_bytes += reply.len();
        if is_whole && let Some(fanout) = self.fanouts.remove(id) {
            client.partial_bytes = client.partial_bytes.saturating_sub(fanout.reply_bytes());
            self.unread_bytes = self.unread_bytes.saturating_sub(fanout.reply_bytes());
            self.answer_merged(fanout);
        } else {
            let (unread, is_paused) = (client.unread(), client.paused);
            if is_paused {
                self.stir_client(ticket.client);
            }
            self.check_unread(ticket.client, unread);
        }
    }

    /// Answers a split command whose parts are all answered. They may be large: if it is the reply's turn, they are put
    /// together where it leaves from.
    fn answer_merged(&mut self, fanout: Fanout) {
        let (id, seq) = (fanout.client, fanout.seq);
        let Some(client) = self.clients.find_mut(id) else { return };
        let mut merged = self.pool.take();
        if client.pipeline.is_first(seq) {
            let unread = client.output.len();
            fanout.merge(client.output.tail(&mut self.pool));
            self.unread_bytes += client.output.len() - unread;
        } else {
            fanout.merge(&mut merged);
        }
        let (room, bytes) = fanout.into_memory();
        self.pool.give(bytes);
        self.scratch.keep(room);
        self.fill(id, seq, &merged);
        self.pool.give(merged);
    }

    /// Puts the reply of a request into its client's order, and sees whether the client may go on, or has too much unread.
    #[inline(always)]
    pub(super) fn fill(&mut self, id: ClientId, seq: Seq, reply: &[u8]) {
        let Some(client) = self.clients.find_mut(id) else { return };
        let before = client.unread();
        client.pipeline.fill(seq, reply, client.output.tail(&mut self.pool));
        self.unread_bytes = (self.unread_bytes + client.unread()).saturating_sub(before);
        let is_due = match client.flush {
            Flush::Clean => true,
            Flush::Dirty => false,
            Flush::Corked(_) => !client.expects_more(),
        };
        if is_due {
            client.flush = Flush::Dirty;
            self.dirty_clients.push(id);
        }
        let (unread, is_paused) = (client.unread(), client.paused);
        if is_paused {
            self.stir_client(id);
        }
        self.check_unread(id, unread);
    }

    /// Closes a client that left too much unread; where all together did, the one that left most.
    #[inline(always)]
    pub(super) fn check_unread(&mut self, id: ClientId, unread: usize) {
        if unread > self.settings.max_output {
            self.over_output_limit(id);
        } else if self.unread_bytes > self.settings.max_total_output {
            self.over_total_output_limit(id);
        }
    }

    #[cold]
    fn over_total_output_limit(&mut self, id: ClientId) {
        let most = self.clients.iter().max_by_key(|(_, client)| client.unread()).map(|(id, _)| id);
        self.over_output_limit(most.unwrap_or(id));
    }

    #[cold]
    fn over_output_limit(&mut self, id: ClientId) {
        let Some(client) = self.clients.find(id) else { return };
        if self.faults.is(Fault::IgnoredOutputLimit) {
            return;
        }
        self.stats.output_limit += 1;
        let event = Event::OutputLimit { client: client.session.address.to_string(), bytes: client.unread() };
        self.report(event);
        self.close_client(id);
    }

    /// A node did not run a command: learn from what it said, and send the command again.
    #[cold]
    fn refused(&mut self, id: BackendId, mut held: Held, refusal: &Refusal<'_>, frame: &[u8], now: Time) {
        let Some(backend) = self.backends.find(id) else { return };
        let ticket = held.ticket;
        let (node, on_replica) = (backend.node, backend.lane.replica);
        self.count_refusal(refusal);
        if let Refusal::Moved { slot, .. } | Refusal::Ask { slot, .. } = refusal
            && ticket.slot == Ticket::NO_SLOT
        {
            // A key that the table does not know of (an option of a newer server): the node knows its slot.
            self.untrack(&ticket);
            held.ticket.traits = held.ticket.traits.without(Traits::TRACKED);
            held.ticket.slot = *slot;
        }
        let ticket = held.ticket;
        match retry::verdict(refusal, ticket.redirects) {
            Verdict::Loop => {
                self.redirect_loop(&ticket, frame, now);
                return;
            }
            Verdict::Moved(endpoint) | Verdict::Ask(endpoint) if ticket.traits.has(Traits::SCRIPT) => {
                self.redirect_script(&mut held, node, &endpoint, now);
            }
            Verdict::Moved(endpoint) => {
                self.moved(node, ticket.slot, &endpoint, now);
                self.rest_replica(node, on_replica, now);
                held.follow(now);
            }
            Verdict::Ask(endpoint) => {
                held.ask = self.endpoint(node, &endpoint).map(|address| self.map.node_at(&address));
                held.follow(now);
            }
            Verdict::Pause => {
                self.refused_for_now(node, on_replica, refusal, now);
                // Redirects before it were no loop: a slot half moved answers ASK here and TRYAGAIN there.
                held.ticket.redirects = 0;
                held.refusal = Some(frame.to_vec());
                held.put_off(now);
                if on_replica {
                    // Another node may serve it at once.
                    held.not_before = now;
                }
            }
        }
        self.hold_until(held, Some(id), now);
    }

    fn redirect_loop(&mut self, ticket: &Ticket, frame: &[u8], now: Time) {
        self.stats.redirect_loops += 1;
        if self.faults.is(Fault::LeakedRedirect) {
            self.answer(ticket, frame, now);
            return;
        }
        self.fail_ticket(ticket, &disagreement(ticket.slot), now);
    }

    /// A MOVED teaches the map, if its node is the master that the map names; else the map has changed since the command
    /// was sent.
    pub(super) fn moved(&mut self, node: NodeId, slot: u16, endpoint: &Endpoint<'_>, now: Time) {
        let address = self.endpoint(node, endpoint);
        if let Some(address) = &address
            && self.map.master(slot) == Some(node)
            && self.map.patch(slot, address, now)
        {
            self.track_lost(node, |of| of == slot, now);
        }
        self.refresh(RefreshReason::Moved, address, now);
    }

    /// A script can make up a redirect. So one that answers a script teaches nothing, and is followed only to nodes that
    /// are known: an address of the script's choice must not be dialled, let alone told the password. Where it is not
    /// known, the refresh shows whether it is true.
    fn redirect_script(&mut self, held: &mut Held, node: NodeId, endpoint: &Endpoint<'_>, now: Time) {
        self.refresh(RefreshReason::Moved, None, now);
        held.ask = self.endpoint(node, endpoint).and_then(|address| self.map.id_of(&address));
        match held.ask {
            Some(_) => held.follow(now),
            None => {
                held.put_off(now);
                let mut refusal = Vec::new();
                write::error(&mut refusal, &disagreement(held.ticket.slot));
                held.refusal = Some(refusal);
            }
        }
    }

    /// Where an endpoint is; an empty host is that of the node that named it.
    fn endpoint(&self, node: NodeId, endpoint: &Endpoint<'_>) -> Option<String> {
        let addresses = &self.settings.address_map;
        match endpoint.host {
            Host::Named(host) => Some(addresses.apply(host, endpoint.port)),
            Host::Same => {
                let (host, _) = self.map.node(node)?.address.rsplit_once(':')?;
                Some(addresses.apply(host, endpoint.port))
            }
            Host::Unknown => None,
        }
    }

    pub(super) fn refused_for_now(
        &mut self,
        node: NodeId,
        on_replica: bool,
        refusal: &Refusal<'_>,
        now: Time,
    ) {
        self.rest_replica(node, on_replica, now);
        match refusal {
            Refusal::ClusterDown => self.refresh(RefreshReason::ClusterDown, None, now),
            Refusal::ReadOnly => self.refresh(RefreshReason::ReadOnly, None, now),
            Refusal::TryAgain
            | Refusal::Loading
            | Refusal::MasterDown
            | Refusal::Moved { .. }
            | Refusal::Ask { .. } => {}
        }
    }

    /// A replica that refuses a read is left out for a while.
    fn rest_replica(&mut self, node: NodeId, on_replica: bool, now: Time) {
        if on_replica && let Some(node) = self.map.node_mut(node) {
            node.rest(now);
        }
    }

    pub(super) fn count_refusal(&mut self, refusal: &Refusal<'_>) {
        let stats = &mut self.stats;
        *match refusal {
            Refusal::Moved { .. } => &mut stats.moved,
            Refusal::Ask { .. } => &mut stats.ask,
            Refusal::TryAgain => &mut stats.tryagain,
            Refusal::ClusterDown => &mut stats.clusterdown,
            Refusal::Loading => &mut stats.loading,
            Refusal::ReadOnly => &mut stats.readonly,
            Refusal::MasterDown => &mut stats.masterdown,
        } += 1;
    }
}

/// What a client is told whose command was sent from node to node, or to one that no view knows.
fn disagreement(slot: u16) -> String {
    format!("CLUSTERDOWN the nodes do not agree on who serves slot {slot}; try again later")
}
