//! What becomes of one command: refused, answered here, or on its way.

use std::borrow::Cow;

use tsubaki_protocol::command::{Class, Command, Flags, ResolveError, Split};
use tsubaki_protocol::resp::args::{Args, Span};
use tsubaki_protocol::resp::write;
use tsubaki_protocol::slot::Slot;

use super::input::Step;
use super::{Scratch, Worker};
use crate::ClientId;
use crate::action::{Action, Event, GatherId};
use crate::backend::{Ticket, Traits};
use crate::fanout::{Fanout, Head};
use crate::fault::Fault;
use crate::local::{self, Local};
use crate::pipeline::Seq;
use crate::time::Time;

/// Where the keys of a command are.
enum Keys {
    None,
    One(u16),
    Several,
}

impl Worker {
    /// Runs one command. Its `frame` is taken if that goes to a node as it is.
    pub(super) fn command(
        &mut self,
        id: ClientId,
        frame: &mut Cow<'_, [u8]>,
        spans: &[Span],
        now: Time,
    ) -> Step {
        let args = Args::new(frame, spans);
        let command = match Command::resolve(&args) {
            Ok(command) => command,
            Err(error) => {
                self.unresolved(id, error, &args, now);
                return Step::Done;
            }
        };
        let Some(client) = self.clients.find_mut(id) else { return Step::Done };
        // What a client becomes by these must not meet replies to what it was before.
        if matches!(command.name, "hello" | "reset") && !client.pipeline.is_empty() {
            return Step::Later;
        }
        self.stats.commands += 1;
        client.session.last_command = command.name;
        if !client.session.authenticated && !command.flags.contains(Flags::NO_AUTH) {
            self.answer_error(id, "NOAUTH Authentication required.");
            return Step::Done;
        }
        if client.session.transaction.is_some() && !local::leaves_transaction(command) {
            self.queue(id, command, &args);
            return Step::Done;
        }
        match command.class {
            Class::Local => self.local(id, command, &args, now),
            _ if let Some(reason) = refusal(command, &args) => self.refuse(id, command, reason),
            _ => {
                let slot = match find_keys(command, &args, &mut self.scratch) {
                    Keys::None => Ticket::NO_SLOT,
                    Keys::One(slot) => slot,
                    Keys::Several => {
                        self.divide(id, command, &args, now);
                        return Step::Done;
                    }
                };
                let ticket = ticket(id, client.pipeline.reserve(), Ticket::WHOLE, slot, command, now);
                let origin = client.take_on(slot, frame.len());
                self.send(ticket, origin, frame, now);
            }
        }
        Step::Done
    }

    #[cold]
    fn unresolved(&mut self, id: ClientId, error: ResolveError, args: &Args<'_>, now: Time) {
        self.stats.commands += 1;
        if error == ResolveError::UnknownCommand && args.is(0, "tsubaki") {
            self.tsubaki(id, args, now);
            return;
        }
        if args.is(0, "post") || args.is(0, "host:") {
            self.close_http(id);
            return;
        }
        let mut reply = self.pool.take();
        match self
            .clients
            .find_mut(id)
            .and_then(|client| local::break_transaction(&mut client.session, args, &error))
        {
            Some(aborted) => write::error(&mut reply, &aborted),
            None => error.write_reply(args, &mut reply),
        }
        self.answer_local(id, &reply);
        self.pool.give(reply);
    }

    /// A browser that was lured into speaking HTTP to a Redis is not answered, as in Redis: what follows its headers could be commands.
    fn close_http(&mut self, id: ClientId) {
        let Some(client) = self.clients.find_mut(id) else { return };
        client.closing = true;
        let client = client.session.address.to_string();
        self.stats.protocol_errors += 1;
        self.report(Event::ClientProtocol {
            client,
            error: "HTTP instead of RESP, possibly a cross-protocol attack".to_owned(),
        });
        self.close_if_done(id);
    }

    /// Inside MULTI: says QUEUED, and sends nothing.
    #[cold]
    fn queue(&mut self, id: ClientId, command: &'static Command, args: &Args<'_>) {
        let refusal = refusal(command, args);
        if let Some(transaction) =
            self.clients.find_mut(id).and_then(|client| client.session.transaction.as_mut())
        {
            transaction.queued += u32::from(refusal.is_none());
            transaction.broken |= refusal.is_some();
        }
        match refusal {
            Some(reason) => self.refuse(id, command, reason),
            None => self.answer_local(id, b"+QUEUED\r\n"),
        }
    }

    #[cold]
    fn refuse(&mut self, id: ClientId, command: &Command, reason: &str) {
        self.stats.refused += 1;
        let name = command.name.replace('|', " ");
        self.answer_error(id, &format!("ERR '{name}' is not supported yet: {reason}"));
    }

    #[inline(never)]
    fn local(&mut self, id: ClientId, command: &'static Command, args: &Args<'_>, now: Time) {
        self.stats.local += 1;
        let mut reply = self.pool.take();
        let Some(client) = self.clients.find_mut(id) else { return };
        let context = local::Context { settings: &self.settings, topology: &self.topology, now };
        let answer = local::answer(&mut client.session, command, args, &context, &mut reply);
        self.finish_local(id, answer, reply, now);
    }

    /// TSUBAKI, which no server's table has.
    fn tsubaki(&mut self, id: ClientId, args: &Args<'_>, now: Time) {
        self.stats.local += 1;
        let Some(client) = self.clients.find(id) else { return };
        if !client.session.authenticated {
            self.answer_error(id, "NOAUTH Authentication required.");
            return;
        }
        let mut reply = self.pool.take();
        let context = local::Context { settings: &self.settings, topology: &self.topology, now };
        let answer = local::tsubaki(&client.session, args, &context, &mut reply);
        self.finish_local(id, answer, reply, now);
    }

    fn finish_local(&mut self, id: ClientId, answer: Local, mut reply: Vec<u8>, now: Time) {
        let Some(client) = self.clients.find_mut(id) else { return };
        match answer {
            Local::Answered => self.answer_local(id, &reply),
            Local::Goodbye => {
                self.answer_local(id, &reply);
                if let Some(client) = self.clients.find_mut(id) {
                    client.closing = true;
                }
            }
            Local::Gather(wanted) => {
                let seq = client.pipeline.reserve();
                let clients = wanted.needs_clients();
                let wanted = self.gathers.insert(wanted);
                self.actions.push_back(Action::Gather(GatherId { client: id, seq, clients, wanted }));
            }
            Local::Nodes => {
                let resp = client.session.resp;
                let nodes = self.describe_nodes(now);
                write::verbatim(&mut reply, "txt", nodes.as_bytes(), resp);
                self.answer_local(id, &reply);
            }
        }
        self.pool.give(reply);
    }

    /// A command over several slots: divided among them, if that is possible.
    #[inline(never)]
    fn divide(&mut self, id: ClientId, command: &'static Command, args: &Args<'_>, now: Time) {
        if let Class::Split(split) = command.class {
            self.split(id, split, command, args, now);
            return;
        }
        let name = command.name.replace('|', " ");
        let text = format!(
            "CROSSSLOT Keys in request don't hash to the same slot ('{name}' runs on one node; give its keys one {{hash tag}})"
        );
        self.answer_error(id, &text);
    }

    fn split(&mut self, id: ClientId, split: Split, command: &Command, args: &Args<'_>, now: Time) {
        self.stats.split += 1;
        let Some(client) = self.clients.find_mut(id) else { return };
        let seq = client.pipeline.reserve();
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { keys, slots, plan, rooms, .. } = &mut scratch;
        plan.make(split, slots);
        let room = rooms.pop().unwrap_or_default();
        let fanout = self.fanouts.insert(Fanout::new(id, seq, split, plan, room, self.pool.take()));
        client.pipeline.split(seq, fanout);
        let mut bytes = self.pool.take();
        let mut head = Head::default();
        for (part, number) in plan.parts.iter().zip(0..) {
            plan.write_part(part, args, keys, &mut head, &mut bytes);
            let is_spoilt = self.faults.is(Fault::MisorderedParts);
            let number = if is_spoilt { (number + 1) % plan.parts.len() as u16 } else { number };
            let Some(client) = self.clients.find_mut(id) else { break };
            let origin = client.take_on(part.slot, bytes.len());
            self.send(
                ticket(id, seq, number, part.slot, command, now),
                origin,
                &mut bytes.as_slice().into(),
                now,
            );
        }
        self.pool.give(bytes);
        self.scratch = scratch;
    }

    pub(super) fn answer_error(&mut self, id: ClientId, text: &str) {
        let mut reply = self.pool.take();
        write::error(&mut reply, text);
        self.answer_local(id, &reply);
        self.pool.give(reply);
    }

    /// Answers the newest command at once, in its turn.
    pub(super) fn answer_local(&mut self, id: ClientId, reply: &[u8]) {
        let Some(client) = self.clients.find_mut(id) else { return };
        let seq = client.pipeline.reserve();
        self.stats.own_errors += u64::from(reply.first() == Some(&b'-'));
        self.fill(id, seq, reply);
    }
}

/// The slot of a command's keys. Where the arguments do not say where its keys are, any node has the right words for that.
#[inline(always)]
fn find_keys(command: &Command, args: &Args<'_>, scratch: &mut Scratch) -> Keys {
    match command.first_key_index(args).and_then(|index| args.at(index)) {
        Some(key) => Keys::One(Slot::of(key).index() as u16),
        None => find_all_keys(command, args, scratch),
    }
}

#[inline(never)]
fn find_all_keys(command: &Command, args: &Args<'_>, scratch: &mut Scratch) -> Keys {
    let Scratch { keys, slots, .. } = scratch;
    slots.clear();
    if command.keys(args, keys).is_err() {
        return Keys::None;
    }
    let slot = |key: &u32| Slot::of(args.at(*key as usize).unwrap_or_default()).index() as u16;
    slots.extend(keys.iter().map(slot));
    match slots.split_first() {
        None => Keys::None,
        Some((first, others)) if others.iter().all(|slot| slot == first) => Keys::One(*first),
        Some(_) => Keys::Several,
    }
}

/// Why a command is refused, if it is: the rest of a sentence.
#[inline]
pub(super) fn refusal(command: &Command, args: &Args<'_>) -> Option<&'static str> {
    match command.class {
        Class::Routed if command.blocks(args) => Some("it can block, which needs a connection of its own"),
        Class::AllNodes(reason) | Class::Private(reason) | Class::Refused(reason) => Some(reason),
        Class::Local | Class::Routed | Class::Split(_) => None,
    }
}

#[inline]
pub(super) fn ticket(
    client: ClientId,
    seq: Seq,
    part: u16,
    slot: u16,
    command: &Command,
    now: Time,
) -> Ticket {
    let traits = if command.is_script() {
        Traits::SCRIPT
    } else if command.is_readonly() {
        Traits::READ
    } else {
        Traits::default()
    };
    Ticket {
        client,
        seq,
        part,
        slot,
        len: 0,
        traits,
        redirects: 0,
        resends: 0,
        refusals: 0,
        arrived: now,
        waiting: Time::default(),
    }
}
