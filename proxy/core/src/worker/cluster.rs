//! Nodes and their connections: up, down, moved, gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Worker;
use super::holding::subject;
use super::upload::lost_text;
use crate::BackendId;
use crate::action::{Action, Event, RefreshReason};
use crate::backend::{Lane, Ticket, Traits};
use crate::fault::Fault;
use crate::hold::{Held, Hold};
use crate::limits::MAX_RESENDS;
use crate::map::NodeId;
use crate::time::Time;
use crate::topology::Topology;

impl Worker {
    /// A new view of the cluster. One that is older than the last is not taken over.
    pub fn handle_topology(&mut self, topology: &Topology, now: Time) {
        if topology.fetched < self.topology.fetched {
            return;
        }
        let lost = if self.faults.is(Fault::StaleView) {
            self.map.apply(&Topology { fetched: now, ..topology.clone() })
        } else {
            self.map.apply(topology)
        };
        self.topology = topology.clone();
        let losers: BTreeMap<usize, NodeId> =
            self.backends.iter().map(|(_, backend)| (backend.node.index(), backend.node)).collect();
        for node in losers.into_values() {
            self.track_lost(node, |slot| lost.contains(slot), now);
        }
        if lost.count() > 0 {
            self.report(Event::TopologyChanged { slots: lost.count() });
        }
        self.drop_unlisted();
        self.stir_all();
        self.settle(now);
    }

    /// The socket of [`Action::Connect`] is open.
    pub fn handle_backend_connected(&mut self, id: BackendId, now: Time) {
        self.stats.connects += 1;
        if let Some(backend) = self.backends.find_mut(id) {
            backend.greet(self.settings.node_login.as_ref(), now);
            self.mark_backend(id);
        }
    }

    /// A node's socket could not be opened, or is gone.
    pub fn handle_backend_closed(&mut self, id: BackendId, reason: &str, now: Time) {
        self.fail_backend(id, reason, now);
        self.settle(now);
    }

    pub(super) fn backend_ready(&mut self, id: BackendId) {
        let Some(backend) = self.backends.find(id) else { return };
        let is_spare = backend.spare;
        if let Some(node) = self.map.node_mut(backend.node)
            && node.recovered()
        {
            let address = node.address.clone();
            self.report(Event::NodeUp { address });
        }
        #[cfg(feature = "faults")]
        self.spoil_start(id);
        self.mark_backend(id);
        if is_spare {
            self.relieve(id);
        }
        self.stir_all();
    }

    /// Ends a connection. Its commands go again where that is safe, and are answered with an error where it is not (C4).
    #[cold]
    pub(super) fn fail_backend(&mut self, id: BackendId, reason: &str, now: Time) {
        let Some(mut backend) = self.backends.remove(id) else { return };
        self.actions.push_back(Action::CloseBackend(id));
        self.stats.disconnects += 1;
        #[cfg(feature = "faults")]
        self.spoil_end(&mut backend);
        let is_ready = backend.is_ready();
        let was_idle = is_ready && backend.is_idle();
        self.unlink(id, backend.node, backend.lane);
        if !was_idle && !self.is_beside(&backend, now) {
            self.node_failed(backend.node, backend.lane, reason, now);
        }
        self.refresh(RefreshReason::Connection, None, now);
        if let (Some(download), Some(ticket)) = (backend.download.take(), backend.tickets.front()) {
            self.cut_download(ticket, *download);
        }
        if let Some(ticket) = backend.upload.take() {
            self.lose_upload(&ticket, now);
        }
        let mut journal = backend.journal;
        let mut orphans = Vec::with_capacity(backend.tickets.len());
        for ticket in backend.tickets {
            let len = ticket.len as usize;
            // A question has no effect, so it is as good as not sent.
            let is_probe = ticket.traits.has(Traits::PROBE);
            let sent = is_ready && journal.front_was_sent(len) && !is_probe;
            let request = journal.front(len).to_vec();
            journal.drop_front(len);
            if !ticket.traits.has(Traits::ASKING) {
                orphans.push(Orphan { ticket, request, sent });
            }
        }
        let overtaken = overtaken_reads(&orphans);
        for (orphan, overtaken) in orphans.into_iter().zip(overtaken) {
            self.orphaned(orphan, overtaken, now);
        }
    }

    /// A command whose connection died.
    fn orphaned(&mut self, orphan: Orphan, overtaken: bool, now: Time) {
        let Orphan { mut ticket, request, sent } = orphan;
        let only_reads = ticket.traits.has(Traits::READ)
            || self.faults.is(Fault::ResentWrite)
            || (self.faults.is(Fault::ResentScript) && ticket.traits.has(Traits::SCRIPT));
        let is_streamed = ticket.traits.has(Traits::STREAMED);
        let may_run_twice = only_reads && ticket.resends < MAX_RESENDS && !overtaken && !is_streamed;
        if !sent && is_streamed {
            self.fail_ticket(&ticket, &lost_text(&ticket), now);
            return;
        }
        if sent && !may_run_twice {
            self.stats.lost += 1;
            if ticket.traits.has(Traits::TRACKED) {
                self.ran(&ticket, &request, now);
            }
            let subject = subject(ticket.slot);
            let text = format!(
                "ERR the connection to {subject} was lost after the command was sent; it may have run"
            );
            self.fail_ticket(&ticket, &text, now);
            return;
        }
        if sent {
            ticket.resends += 1;
            // It was written, so what it waited before is over.
            ticket.waiting = Time::default();
        }
        // It begins anew by the map: redirects before the death were no loop.
        ticket.redirects = 0;
        self.hold_until(Held::new(ticket, request, now), None, now);
    }

    pub(super) fn unlink(&mut self, id: BackendId, node: NodeId, lane: Lane) {
        if let Some(node) = self.map.node_mut(node)
            && let Some(place) = node.backends.get_mut(lane.index())
            && *place == Some(id)
        {
            *place = None;
        }
    }

    fn node_failed(&mut self, id: NodeId, lane: Lane, reason: &str, now: Time) {
        let jitter = self.jitter();
        let Some(node) = self.map.node_mut(id) else { return };
        if lane.replica {
            node.rest(now);
        }
        let address = node.address.clone();
        if node.failed(jitter, now) {
            self.report(Event::NodeDown { address, reason: reason.to_owned() });
        }
    }

    /// `loser` no longer serves some slots: what is in flight to it on these is waited for before anything newer goes
    /// elsewhere, and what has not left goes elsewhere itself.
    pub(super) fn track_lost(&mut self, loser: NodeId, is_lost: impl Fn(u16) -> bool, now: Time) {
        let backends = self.map.node(loser).map(|node| node.backends.clone()).unwrap_or_default();
        if self.faults.is(Fault::UntrackedMove) {
            return;
        }
        for id in backends.into_iter().flatten() {
            let Some(backend) = self.backends.find_mut(id).filter(|backend| !backend.lane.replica) else {
                continue;
            };
            if backend.is_ready() {
                self.track(id, |ticket| is_lost(ticket.slot));
                continue;
            }
            for (ticket, request) in backend.take_back_if(|ticket| is_lost(ticket.slot)) {
                if !ticket.traits.has(Traits::ASKING) {
                    self.hold(ticket, request, None, now);
                }
            }
        }
    }

    /// Counts what is in flight, and concerned, in its clients' holds, made where there are none.
    pub(super) fn track(&mut self, id: BackendId, is_concerned: impl Fn(&Ticket) -> bool) {
        let Some(backend) = self.backends.find_mut(id) else { return };
        let skipped = Traits::TRACKED.with(Traits::ASKING);
        for ticket in &mut backend.tickets {
            if ticket.traits.has(skipped) || !is_concerned(ticket) {
                continue;
            }
            let Some(client) = self.clients.find_mut(ticket.client) else { continue };
            let hold = client.hold_on(ticket.slot).unwrap_or_else(|| {
                let hold = self.holds.insert(Hold::new(ticket.client, ticket.slot));
                client.add_hold(ticket.slot, hold);
                hold
            });
            if let Some(hold) = self.holds.find_mut(hold) {
                ticket.traits = ticket.traits.with(Traits::TRACKED);
                hold.in_flight += 1;
            }
        }
    }

    /// Nodes that left: connections that owe nothing are closed at once, the others when a later view comes. A node that
    /// takes over its first slot looks the same: no view names it, and ASKs lead there.
    fn drop_unlisted(&mut self) {
        for node in self.map.unlisted() {
            let backends = self.backends.iter().filter(|(_, backend)| backend.node == node);
            let (idle, busy): (Vec<_>, Vec<_>) =
                backends.map(|(id, backend)| (id, backend.is_idle())).partition(|(_, is_idle)| *is_idle);
            for (id, _) in idle {
                self.close_backend(id);
            }
            let awaits = |hold: &Hold| hold.queue.iter().any(|held| held.ask == Some(node));
            if busy.is_empty() && !self.holds.iter().any(|(_, hold)| awaits(hold)) {
                self.map.forget(node);
            }
        }
    }

    pub(super) fn stir_all(&mut self) {
        let holds: Vec<_> = self.holds.ids();
        self.stirred.extend(holds);
    }

    /// The cluster as this worker sees it, a line a node.
    pub(super) fn describe_nodes(&self, now: Time) -> String {
        let mut text = String::new();
        for shard in &self.topology.shards {
            let slots: Vec<String> =
                shard.slots.iter().map(|(first, last)| format!("{first}-{last}")).collect();
            self.describe_node(&mut text, &shard.master, "master", &slots.join(","), now);
            for replica in &shard.replicas {
                self.describe_node(&mut text, replica, "replica", &shard.master, now);
            }
        }
        text
    }

    fn describe_node(&self, text: &mut String, address: &str, role: &str, of: &str, now: Time) {
        let node = self.map.find(address);
        let state = match node {
            Some(node) if node.is_down() => format!("down,retry-ms={}", node.pause(now).as_millis()),
            Some(node) if node.is_resting(now) => "resting".to_owned(),
            Some(_) => "ok".to_owned(),
            None => "unknown".to_owned(),
        };
        let node = self.map.id_of(address);
        let mine = self.backends.iter().filter(|(_, backend)| Some(backend.node) == node);
        let (connections, in_flight) = mine.fold((0, 0), |(connections, in_flight), (_, backend)| {
            (connections + 1, in_flight + backend.tickets.len() + usize::from(backend.upload.is_some()))
        });
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{address} {role} {of} state={state} connections={connections} in-flight={in_flight}"
        );
    }
}

/// A command whose connection died, and whether the socket had taken its last byte.
struct Orphan {
    ticket: Ticket,
    request: Vec<u8>,
    sent: bool,
}

/// For each orphan: is it a read behind which its client sent a write on the same slot that may have run? Sent again, it
/// would see that write.
fn overtaken_reads(orphans: &[Orphan]) -> Vec<bool> {
    // By the client's index: two clients that had the same place at different times are both treated with caution.
    let mut written: BTreeSet<(usize, u16)> = BTreeSet::new();
    let mut overtaken: Vec<bool> = orphans
        .iter()
        .rev()
        .map(|Orphan { ticket, sent, .. }| {
            let place = (ticket.client.index(), ticket.slot);
            let is_read = ticket.traits.has(Traits::READ);
            if *sent && !is_read {
                written.insert(place);
            }
            is_read && written.contains(&place)
        })
        .collect();
    overtaken.reverse();
    overtaken
}
