//! What waits: refused commands and those behind them, until they may go, or have waited too long.

use std::borrow::Cow;

use tsubaki_protocol::resp::Resp;
use tsubaki_protocol::resp::write;

use super::send::NoWay;
use super::upload::lost_text;
use super::{HoldId, Worker};
use crate::action::RefreshReason;
use crate::backend::{Backend, Ticket, Traits};
use crate::fault::Fault;
use crate::hold::{Held, Hold, KeySet, is_later};
use crate::limits::{HOLD_CHECK, MAX_RESENDS};
use crate::map::NodeId;
use crate::time::Time;
use crate::timer::Due;
use crate::{BackendId, ClientId};

impl Worker {
    /// A new command meets a hold on its slot: it waits its turn.
    #[cold]
    pub(super) fn hold_behind(
        &mut self,
        id: HoldId,
        mut ticket: Ticket,
        request: &mut Cow<'_, [u8]>,
        now: Time,
    ) {
        let Some(hold) = self.holds.find_mut(id) else { return };
        if hold.in_flight == 0 {
            ticket.wait_from(now);
        }
        hold.put(Held::new(ticket, std::mem::take(request).into_owned(), Time::default()));
        self.stirred.push_back(id);
        if !self.reads_by_policy(&ticket) {
            // Its connection, if there is none yet, can be opened meanwhile.
            let (resp, number) = self.client_lane(ticket.client);
            let _ = self.way(&ticket, resp, number, now);
        }
    }

    /// A command cannot go now.
    #[cold]
    pub(super) fn hold(&mut self, ticket: Ticket, request: Vec<u8>, from: Option<BackendId>, now: Time) {
        self.hold_until(Held::new(ticket, request, now), from, now);
    }

    /// A command that `from` did not run goes again.
    pub(super) fn hold_until(&mut self, mut held: Held, from: Option<BackendId>, now: Time) {
        let was_cut_short = from.is_none() && self.is_under_way(&held.ticket);
        let was_tracked = held.ticket.traits.has(Traits::TRACKED);
        self.untrack(&held.ticket);
        held.ticket.traits = held.ticket.traits.without(Traits::TRACKED);
        let Some(client) = self.clients.find(held.ticket.client) else {
            self.stats.orphans += 1;
            self.no_longer_pending(held.ticket.len);
            return;
        };
        let is_known = client.hold_on(held.ticket.slot).is_some();
        if was_cut_short {
            if held.ticket.resends >= MAX_RESENDS {
                self.fail_ticket(&held.ticket, &lost_text(&held.ticket), now);
                return;
            }
            held.ticket.resends += 1;
        }
        held.ticket.wait_from(now);
        let Ticket { client, slot, .. } = held.ticket;
        let id = self.hold_for(client, slot, |worker| worker.connections_of(slot, from));
        if is_known && !was_tracked {
            // That hold knows of other connections only.
            self.track_client(client, slot, from.into_iter().collect());
        }
        if let Some(hold) = self.holds.find_mut(id) {
            hold.put(held);
        }
        self.stirred.push_back(id);
    }

    /// True of a large command that left its hold and was not sent whole: one that was is counted already, and waits anew.
    fn is_under_way(&self, ticket: &Ticket) -> bool {
        ticket.len as usize > self.settings.large_value
            && ticket.traits.has(Traits::TRACKED)
            && ticket.waiting != Time::default()
    }

    /// The hold of a client on a slot, made if there is none. A new one waits for what that client has in flight there, on
    /// these connections.
    pub(super) fn hold_for(
        &mut self,
        client: ClientId,
        slot: u16,
        connections: impl FnOnce(&Self) -> Vec<BackendId>,
    ) -> HoldId {
        if let Some(id) = self.clients.find(client).and_then(|client| client.hold_on(slot)) {
            return id;
        }
        let id = self.holds.insert(Hold::new(client, slot));
        if let Some(client) = self.clients.find_mut(client) {
            client.add_hold(slot, id);
        }
        self.track_client(client, slot, connections(self));
        id
    }

    /// Has the hold of a client on a slot wait for what that client has in flight there, on these connections.
    pub(super) fn track_client(&mut self, client: ClientId, slot: u16, connections: Vec<BackendId>) {
        for backend in connections {
            self.track(backend, |ticket| ticket.client == client && ticket.slot == slot);
        }
    }

    /// Where commands on `slot` can be in flight: at `at`, and at its master.
    fn connections_of(&self, slot: u16, at: Option<BackendId>) -> Vec<BackendId> {
        let master = self.map.master(slot).and_then(|master| self.map.node(master));
        let backends = master.into_iter().flat_map(|node| node.backends.iter().flatten().copied());
        at.into_iter().chain(backends).collect()
    }

    /// A tracked command came back, one way or the other.
    #[cold]
    pub(super) fn untrack(&mut self, ticket: &Ticket) {
        if !ticket.traits.has(Traits::TRACKED) {
            return;
        }
        let Some(id) = self.clients.find(ticket.client).and_then(|client| client.hold_on(ticket.slot)) else {
            return;
        };
        if let Some(hold) = self.holds.find_mut(id) {
            hold.in_flight = hold.in_flight.saturating_sub(1);
            if !self.faults.is(Fault::MissedWake) {
                self.stirred.push_back(id);
            }
        }
    }

    /// The tracked command at the front of a connection ran. Whether it has overtaken others is looked at only if there are
    /// any. A streamed one went when nothing was before it.
    pub(super) fn came_back(&mut self, from: BackendId, ticket: &Ticket, now: Time) {
        let hold = self.clients.find(ticket.client).and_then(|client| client.hold_on(ticket.slot));
        let is_first = hold.and_then(|hold| self.holds.find(hold)).is_none_or(|hold| hold.queue.is_empty());
        if is_first || ticket.traits.has(Traits::PROBE.with(Traits::STREAMED)) {
            return;
        }
        if let Some(backend) = self.backends.find(from) {
            let request = backend.journal.front(ticket.len as usize).to_vec();
            self.ran(ticket, &request, now);
        }
    }

    /// A tracked command ran. Those before it that are still held and touch one of its keys can no longer run in order.
    /// A read by policy changes nothing: it may overtake.
    #[cold]
    pub(super) fn ran(&mut self, ticket: &Ticket, request: &[u8], now: Time) {
        if self.reads_by_policy(ticket) {
            return;
        }
        let Some(id) = self.clients.find(ticket.client).and_then(|client| client.hold_on(ticket.slot)) else {
            return;
        };
        if self.faults.is(Fault::IgnoredOvertaking) {
            return;
        }
        let Some(hold) = self.holds.find_mut(id) else { return };
        let keys = KeySet::of(request);
        let is_overtaken = |held: &Held| is_later(ticket.seq, held.ticket.seq) && held.keys.meets(&keys);
        let mut overtaken = Vec::new();
        hold.queue.retain(|held| {
            let gone = is_overtaken(held);
            if gone {
                overtaken.push(held.ticket);
            }
            !gone
        });
        for ticket in overtaken {
            self.stats.overtaken += 1;
            self.fail_ticket(
                &ticket,
                "TRYAGAIN the slot is moving and a later command on the same key has run already",
                now,
            );
        }
    }

    /// Lets go what may go: commands for one connection at a time, and none while others of this hold are in flight.
    pub(super) fn release(&mut self, id: HoldId, now: Time) {
        loop {
            let Some(hold) = self.holds.find_mut(id) else { return };
            if hold.in_flight > 0 {
                return;
            }
            if hold.queue.front().is_some_and(|first| first.ticket.waiting == Time::default()) {
                // All wait from now on, not one after the other.
                hold.queue.iter_mut().for_each(|held| held.ticket.wait_from(now));
            }
            let Some(first) = hold.queue.front() else {
                self.end_hold(id);
                return;
            };
            let (ticket, due) = (first.ticket, first.not_before);
            let is_refused = first.refusal.is_some();
            let deadline = ticket.waiting.after(self.settings.wait_timeout);
            let expired = deadline <= now;
            // A redirect shows a way: it is followed, however late, and their number is bounded.
            if due > now && !(expired && is_refused) {
                self.wake_hold(id, if is_refused { due.min(deadline) } else { due });
                return;
            }
            match self.first_way(id, now) {
                _ if due > now => self.expire(id, None, now),
                Ok(backend) => {
                    self.let_go(id, backend, now);
                    return;
                }
                Err(why) if expired => self.expire(id, Some(why), now),
                Err(why) => {
                    if why == NoWay::Uncovered {
                        self.refresh(RefreshReason::Uncovered, None, now);
                    }
                    self.wake_hold(id, now.after(HOLD_CHECK).min(deadline));
                    return;
                }
            }
        }
    }

    fn wake_hold(&mut self, id: HoldId, at: Time) {
        if let Some(hold) = self.holds.find_mut(id)
            && hold.wake.is_none_or(|wake| at < wake)
        {
            hold.wake = Some(at);
            self.timers.add(at, Due::Hold(id));
        }
    }

    fn end_hold(&mut self, id: HoldId) {
        if let Some(hold) = self.holds.remove(id)
            && let Some(client) = self.clients.find_mut(hold.client)
        {
            client.end_hold(hold.slot);
        }
    }

    /// The connection for the first command of a hold.
    fn first_way(&mut self, id: HoldId, now: Time) -> Result<BackendId, NoWay> {
        let first = self.holds.find(id).and_then(|hold| hold.queue.front()).ok_or(NoWay::Uncovered)?;
        let (ticket, ask) = (first.ticket, first.ask);
        let way = self.held_way(&ticket, ask, now)?;
        let first = self.holds.find_mut(id).and_then(|hold| hold.queue.front_mut());
        if first.is_some_and(|first| first.forget_old_ask(now)) {
            return self.held_way(&ticket, None, now);
        }
        Ok(way)
    }

    /// The connection for a held command. Only one that is ready: what must wait waits here, in order.
    fn held_way(&mut self, ticket: &Ticket, ask: Option<NodeId>, now: Time) -> Result<BackendId, NoWay> {
        let (resp, number) = self.client_lane(ticket.client);
        let backend = match ask.filter(|node| self.map.node(*node).is_some()) {
            Some(node) => self.connection(node, self.lane(ticket.client, resp), now),
            None => self.way(ticket, resp, number, now),
        }?;
        let backend = if self.is_large(ticket.traits, ticket.len as usize) {
            match self.spare_beside(backend, now) {
                // A whole one can go as it always could.
                Err(NoWay::Busy) if !ticket.traits.has(Traits::PROBE) => backend,
                spare => spare?,
            }
        } else {
            backend
        };
        let is_ready = self.backends.find(backend).is_some_and(Backend::is_ready);
        if is_ready { Ok(backend) } else { Err(NoWay::Down) }
    }

    fn client_lane(&self, id: ClientId) -> (Resp, u64) {
        self.clients.find(id).map_or((Resp::V2, 0), |client| (client.session.resp, client.session.id))
    }

    /// Sends the first command of a hold, and those behind it as long as they go to the same connection. One that was put
    /// off goes alone: it may be put off again, and must not be overtaken meanwhile.
    fn let_go(&mut self, id: HoldId, backend: BackendId, now: Time) {
        loop {
            let Some(first) = self.holds.find(id).and_then(|hold| hold.queue.front()) else { return };
            let (ticket, ask) = (first.ticket, first.ask);
            self.send_first(id, backend, now);
            let Some(next) = self.holds.find(id).and_then(|hold| hold.queue.front()) else { return };
            if ticket.refusals > 0 || next.not_before > now {
                return;
            }
            let (next, next_ask) = (next.ticket, next.ask);
            let fits = if self.reads_by_policy(&next) {
                // Any connection that serves one read of the slot serves the next.
                self.reads_by_policy(&ticket) && ask.is_none() && next_ask.is_none()
            } else {
                self.first_way(id, now) == Ok(backend)
            };
            if !fits {
                return;
            }
        }
    }

    fn send_first(&mut self, id: HoldId, backend: BackendId, now: Time) {
        let Some(hold) = self.holds.find_mut(id) else { return };
        let Some(Held { mut ticket, request, ask, .. }) = hold.queue.pop_front() else { return };
        // A node that is known no more is not asked: the command goes by the map.
        let asks = ask.is_some_and(|node| self.map.node(node).is_some());
        hold.in_flight += 1;
        ticket.traits = ticket.traits.without(Traits::ASKED).with(Traits::TRACKED);
        if asks {
            ticket.traits = ticket.traits.with(Traits::ASKED);
        }
        if asks && !self.faults.is(Fault::AskingApart) {
            self.push_asking(backend, &ticket, now);
        }
        if ticket.redirects > 0 || ticket.resends > 0 || ticket.refusals > 0 {
            self.stats.retries += 1;
        }
        self.push(backend, ticket, &mut request.into(), now);
        if asks && self.faults.is(Fault::AskingApart) {
            self.push_asking(backend, &ticket, now);
        }
    }

    /// ASKING holds for the next command on the connection: the two are pushed as one and nothing comes between.
    pub(super) fn push_asking(&mut self, backend: BackendId, ticket: &Ticket, now: Time) {
        const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
        self.push(backend, Ticket { traits: Traits::ASKING, ..*ticket }, &mut ASKING.into(), now);
    }

    /// Answers the first command of a hold: it waited too long.
    fn expire(&mut self, id: HoldId, why: Option<NoWay>, now: Time) {
        let Some(held) = self.holds.find_mut(id).and_then(|hold| hold.queue.pop_front()) else { return };
        match held.refusal {
            Some(refusal) => {
                self.stats.wait_timeouts += 1;
                self.answer(&held.ticket, &refusal, now);
            }
            None => self.expired(&held.ticket, why, now),
        }
    }

    /// Answers a command that waited too long for a way to its node.
    pub(super) fn expired(&mut self, ticket: &Ticket, why: Option<NoWay>, now: Time) {
        self.stats.wait_timeouts += 1;
        let text = self.no_way_text(ticket, why);
        self.fail_ticket(ticket, &text, now);
    }

    fn no_way_text(&self, ticket: &Ticket, why: Option<NoWay>) -> String {
        let waited = format!("waited {} ms", self.settings.wait_timeout.as_millis());
        if self.topology.shards.is_empty() {
            return format!(
                "CLUSTERDOWN no node of the cluster has answered yet ({waited}); see the proxy's log"
            );
        }
        let subject = subject(ticket.slot);
        let slot = ticket.slot;
        match why {
            Some(NoWay::Uncovered) => {
                format!("CLUSTERDOWN Hash slot not served: {slot} has no master ({waited})")
            }
            Some(NoWay::NoReplica) => {
                format!(
                    "CLUSTERDOWN no replica of slot {slot} is ready and the read policy is 'replica' ({waited})"
                )
            }
            Some(NoWay::Busy) => {
                format!(
                    "TRYAGAIN too many large requests are on their way to {subject} ({waited}); it was not sent"
                )
            }
            Some(NoWay::Down) | None => {
                let sent = match (ticket.resends, ticket.redirects, ticket.refusals) {
                    (0, 0, 0) => "it was not sent",
                    (1.., ..) if ticket.traits.has(Traits::READ) => {
                        "it only reads, and the connection was lost"
                    }
                    _ => "it did not run",
                };
                format!("CLUSTERDOWN {subject} cannot be reached ({waited}); {sent}")
            }
        }
    }

    /// Ends a command with an error of the proxy's own.
    pub(super) fn fail_ticket(&mut self, ticket: &Ticket, text: &str, now: Time) {
        let mut reply = self.pool.take();
        write::error(&mut reply, text);
        self.answer(ticket, &reply, now);
        self.pool.give(reply);
    }
}

/// How an error names the node of a command.
pub(super) fn subject(slot: u16) -> String {
    if slot == Ticket::NO_SLOT { "a master".to_owned() } else { format!("the node of slot {slot}") }
}
