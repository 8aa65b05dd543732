//! Large requests: passed on while they come, over a connection of their own, behind all that their client sent before on
//! the same slot.
//!
//! What has been passed on is not kept, so it cannot be sent again. Therefore its node is first asked whether it would
//! take the command: `EXISTS` with the same keys is refused for the same reasons, and follows redirects like any command.
//!
//! ```text
//!   client   SET k <1 GB ...............................>
//!   node             EXISTS k | SET k <1 GB ...............>
//!                    :0       |                             +OK
//! ```

use tsubaki_protocol::command::{Class, Command};
use tsubaki_protocol::redirect::Refusal;
use tsubaki_protocol::resp::args::{Args, Span};
use tsubaki_protocol::resp::request::{RequestError, RequestScanner};
use tsubaki_protocol::resp::stream::RequestStream;
use tsubaki_protocol::resp::write;
use tsubaki_protocol::slot::Slot;

use super::Worker;
use super::command::{refusal, ticket};
use super::holding::subject;
use crate::action::Action;
use crate::backend::{Ticket, Traits};
use crate::fault::Fault;
use crate::hold::Held;
use crate::limits::MAX_UPLOAD_ARGS;
use crate::retry::{self, Verdict};
use crate::stream::{Stage, Upload};
use crate::time::Time;
use crate::{BackendId, ClientId};

/// What is known of a large request before its end: its command, its slot, and how to ask its node.
struct Opening {
    command: &'static Command,
    slot: u16,
    probe: Vec<u8>,
}

impl Worker {
    /// Begins to stream the request at the front of `input`, if it is a large one and says already where it is to go.
    /// Its bytes stay where they are until then.
    pub(super) fn begin_upload(
        &mut self,
        id: ClientId,
        input: &[u8],
        scanner: &RequestScanner,
        now: Time,
    ) -> bool {
        if scanner.least_len(input) <= self.settings.large_value {
            return false;
        }
        let Some((whole, left)) = scanner.partial() else { return false };
        let Some(client) = self.clients.find_mut(id) else { return false };
        // Only one more argument can tell more: a byte alone must not cost as much as all before it.
        let looked_at = (client.pipeline.next(), whole.len());
        let is_seen = std::mem::replace(&mut client.looked_at, looked_at) == looked_at;
        let is_bare = !client.session.authenticated || client.session.transaction.is_some();
        if is_seen || is_bare || whole.len() + left > MAX_UPLOAD_ARGS {
            return false;
        }
        let Some(Opening { command, slot, probe }) = opening(input, whole, left) else { return false };
        self.stats.commands += 1;
        self.stats.large_requests += 1;
        client.session.last_command = command.name;
        let seq = client.pipeline.reserve();
        client.in_flight += 1;
        client.pending_bytes += probe.len();
        self.pending_bytes += probe.len();
        client.upload =
            Some(Box::new(Upload { seq, stream: RequestStream::default(), stage: Stage::Waiting }));
        let mut ticket = ticket(id, seq, Ticket::WHOLE, slot, command, now);
        ticket.traits = ticket.traits.with(Traits::PROBE);
        ticket.len = probe.len() as u32;
        self.hold_large(ticket, probe, now);
        self.pause(id);
        true
    }

    /// A command that needs a connection of its own waits for all that its client has in flight on its slot.
    pub(super) fn hold_large(&mut self, ticket: Ticket, request: Vec<u8>, now: Time) {
        // A hold that is there already may wait for some of it only.
        if !self.faults.is(Fault::OvertakingUpload) {
            self.track_client(ticket.client, ticket.slot, self.backends.ids());
        }
        let hold = self.hold_for(ticket.client, ticket.slot, |_| Vec::new());
        if let Some(hold) = self.holds.find_mut(hold) {
            hold.put(Held::new(ticket, request, now));
        }
        self.stirred.push_back(hold);
    }

    /// A node would take a large request: what has come of it goes there, and then the rest.
    pub(super) fn accepted(&mut self, to: BackendId, mut ticket: Ticket, now: Time) {
        self.no_longer_pending(ticket.len);
        let Some(client) = self.clients.find_mut(ticket.client) else {
            self.stats.orphans += 1;
            return;
        };
        client.pending_bytes = client.pending_bytes.saturating_sub(ticket.len as usize);
        let Some(upload) = client.upload.as_mut().filter(|upload| upload.seq == ticket.seq) else {
            self.untrack(&ticket);
            return;
        };
        upload.stage = Stage::Sending(to);
        let asked = ticket.traits.has(Traits::ASKED);
        ticket.traits = ticket.traits.without(Traits::PROBE.with(Traits::ASKED)).with(Traits::STREAMED);
        ticket.len = 0;
        if let Some(backend) = self.backends.find_mut(to) {
            backend.upload = Some(Box::new(ticket));
        }
        if asked {
            self.push_asking(to, &ticket, now);
        }
        self.watch(to, now);
        self.wake_client(ticket.client);
    }

    /// Goes on with the large request of a client, if there is one; returns how many bytes of `input` are done with.
    pub(super) fn upload(&mut self, id: ClientId, input: &[u8], now: Time) -> usize {
        let limits = self.limits(id);
        let Some(client) = self.clients.find_mut(id) else { return 0 };
        let Some(upload) = client.upload.as_mut() else { return 0 };
        if upload.stage == Stage::Waiting {
            if client.pipeline.is_owed(upload.seq) {
                self.pause(id);
                return 0;
            }
            upload.stage = Stage::Dropping;
        }
        let stage = upload.stage;
        let passed = match upload.stream.pass(input, &limits) {
            Ok(passed) => passed,
            Err(error) => {
                self.break_upload(id, stage, error, now);
                return input.len();
            }
        };
        if passed.whole {
            client.upload = None;
        }
        let is_cut = client.finished && !passed.whole;
        if let Stage::Sending(to) = stage {
            self.pass_on(to, input.get(..passed.len).unwrap_or_default());
            if passed.whole {
                self.end_upload(to, now);
            } else if !is_cut {
                self.keep_window(id);
            }
        }
        if is_cut {
            self.cut_upload(id, stage, now);
        }
        passed.len
    }

    /// Pauses a client of whose large request so much has not left that no more is wanted.
    pub(super) fn keep_window(&mut self, id: ClientId) {
        if let Some(client) = self.clients.find(id)
            && let Some(upload) = &client.upload
            && let Stage::Sending(to) = upload.stage
            && self.backends.find(to).is_some_and(|to| to.journal.unsent_len() >= self.window().max(1))
        {
            self.pause(id);
        }
    }

    /// Puts a piece of a large request into the journal of its connection.
    fn pass_on(&mut self, to: BackendId, piece: &[u8]) {
        let Some(backend) = self.backends.find_mut(to) else { return };
        let Some(ticket) = backend.upload.as_mut() else { return };
        backend.journal.append(&mut piece.into());
        ticket.len += piece.len() as u32;
        self.pending_bytes += piece.len();
        if let Some(client) = self.clients.find_mut(ticket.client) {
            client.pending_bytes += piece.len();
        }
        self.mark_backend(to);
    }

    /// A node's socket took `count` bytes, and there are or will be more. A node that gets the command that it is to answer
    /// next piece by piece is not silent.
    #[cold]
    pub(super) fn still_sending(&mut self, id: BackendId, count: usize) {
        let Some(backend) = self.backends.find_mut(id) else { return };
        let has_first =
            backend.tickets.front().is_some_and(|first| backend.journal.front_was_sent(first.len as usize));
        backend.excused |= count > 0 && !has_first;
        if backend.upload.is_some() {
            self.upload_sent(id);
        }
    }

    /// The socket took a piece of a large request: it is kept no longer, and the client may send more.
    fn upload_sent(&mut self, to: BackendId) {
        let window = self.window();
        let Some(backend) = self.backends.find_mut(to) else { return };
        let Some(ticket) = backend.upload.as_mut() else { return };
        let id = ticket.client;
        let is_low = backend.journal.unsent_len() <= window / 2;
        // An ASKING that is not answered yet is in front of it.
        let gone = if backend.tickets.is_empty() { backend.journal.forget_sent() } else { 0 };
        ticket.len -= gone as u32;
        self.no_longer_pending(gone as u32);
        let Some(client) = self.clients.find_mut(id) else { return };
        client.pending_bytes = client.pending_bytes.saturating_sub(gone);
        if is_low && client.paused && !client.resuming {
            client.paused = false;
            if self.is_read(id) {
                self.actions.push_back(Action::ResumeClient(id));
            }
        }
    }

    /// The last byte of a large request is here: from now on it is a command like any other, but for sending it again.
    fn end_upload(&mut self, to: BackendId, now: Time) {
        if let Some(backend) = self.backends.find_mut(to)
            && let Some(ticket) = backend.upload.take()
        {
            backend.tickets.push_back(*ticket);
            backend.heard = now;
        }
    }

    /// A client ends in the middle of a large request: half of one is nothing to a node, and its connection is closed.
    fn cut_upload(&mut self, id: ClientId, stage: Stage, now: Time) {
        if let Some(ticket) = self.recall(stage) {
            self.fail_ticket(&ticket, "ERR the request ended half way; it did not run", now);
        }
        if let Some(client) = self.clients.find_mut(id) {
            client.upload = None;
            client.closing = true;
        }
    }

    /// What goes on is no request.
    fn break_upload(&mut self, id: ClientId, stage: Stage, error: RequestError, now: Time) {
        let mut reply = Vec::new();
        error.write(&mut reply);
        match self.recall(stage) {
            Some(ticket) => self.answer(&ticket, &reply, now),
            None => self.answer_local(id, &reply),
        }
        if let Some(client) = self.clients.find_mut(id) {
            client.upload = None;
        }
        self.close_for(id, &error);
    }

    /// Takes back a large request of which a part was sent, with its connection.
    pub(super) fn recall(&mut self, stage: Stage) -> Option<Ticket> {
        let Stage::Sending(to) = stage else { return None };
        self.close_backend(to)?.upload.map(|ticket| *ticket)
    }

    /// A large request is answered before its end: what still comes of it is dropped.
    pub(super) fn end_upload_early(&mut self, ticket: &Ticket, reply: &[u8], now: Time) {
        if let Some(client) = self.clients.find_mut(ticket.client)
            && let Some(upload) = &mut client.upload
        {
            upload.stage = Stage::Dropping;
        }
        self.answer(ticket, reply, now);
        self.wake_client(ticket.client);
    }

    /// The connection was lost in the middle of a large request.
    pub(super) fn lose_upload(&mut self, ticket: &Ticket, now: Time) {
        let mut reply = Vec::new();
        write::error(&mut reply, &lost_text(ticket));
        self.end_upload_early(ticket, &reply, now);
    }

    /// A node refused a large request although it would have taken it a moment before. There is nothing to send again.
    pub(super) fn streamed_refused(
        &mut self,
        from: BackendId,
        ticket: &Ticket,
        refusal: &Refusal<'_>,
        now: Time,
    ) {
        let Some(backend) = self.backends.find(from) else { return };
        let (node, on_replica) = (backend.node, backend.lane.replica);
        self.count_refusal(refusal);
        match retry::verdict(refusal, 0) {
            Verdict::Moved(endpoint) if !ticket.traits.has(Traits::SCRIPT) => {
                self.moved(node, ticket.slot, &endpoint, now);
            }
            Verdict::Pause => self.refused_for_now(node, on_replica, refusal, now),
            Verdict::Moved(_) | Verdict::Ask(_) | Verdict::Loop => {}
        }
        let subject = subject(ticket.slot);
        let text = format!("TRYAGAIN {subject} changed while a large request was on its way; it did not run");
        self.fail_ticket(ticket, &text, now);
    }

    /// Has a paused client looked at again.
    fn wake_client(&mut self, id: ClientId) {
        if let Some(client) = self.clients.find_mut(id)
            && client.paused
            && !client.resuming
        {
            client.resuming = true;
            self.resuming.push(id);
        }
    }
}

/// What a client is told whose large request was lost on its way.
pub(super) fn lost_text(ticket: &Ticket) -> String {
    let subject = subject(ticket.slot);
    format!(
        "CLUSTERDOWN the connection to {subject} was lost before the command was sent whole; it did not run"
    )
}

/// Reads a request of which the end has not come. `None`: it must be whole, because where it goes may depend on what is
/// missing, or it does not go to one node.
fn opening(input: &[u8], whole: &[Span], left: usize) -> Option<Opening> {
    // What is to come counts as empty for now, and must not be a key.
    let mut spans = whole.to_vec();
    spans.resize(whole.len() + left, Span { start: 0, end: 0 });
    let args = Args::new(input, &spans);
    let command = Command::resolve(&args).ok()?;
    let mut keys = Vec::new();
    command.keys(&args, &mut keys).ok()?;
    let is_routed = matches!(command.class, Class::Routed | Class::Split(_));
    if !is_routed || refusal(command, &args).is_some() {
        return None;
    }
    let names: Vec<&[u8]> = keys
        .iter()
        .map(|key| args.at(*key as usize).filter(|_| (*key as usize) < whole.len()))
        .collect::<Option<_>>()?;
    let mut slots = names.iter().map(|name| Slot::of(name).index() as u16);
    let slot = slots.next().unwrap_or(Ticket::NO_SLOT);
    if slots.any(|other| other != slot) {
        return None;
    }
    let mut probe = Vec::new();
    if names.is_empty() {
        write::command(&mut probe, [b"PING".as_slice()]);
    } else {
        write::command(&mut probe, [vec![b"EXISTS".as_slice()], names].concat());
    }
    Some(Opening { command, slot, probe })
}
