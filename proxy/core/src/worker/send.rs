//! The way of a command to a node: by the map and the read policy to a connection, or into a hold if there is none.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use tsubaki_protocol::resp::Resp;

use super::Worker;
use crate::action::{Action, RefreshReason};
use crate::backend::{Backend, Lane, Ticket, Traits};
use crate::client::Origin;
use crate::fault::Fault;
use crate::map::NodeId;
use crate::settings::ReadPolicy;
use crate::time::Time;
use crate::timer::Due;
use crate::{BackendId, ClientId};

/// Why there is no way now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoWay {
    /// No node serves the slot, as far as known.
    Uncovered,
    /// The node's connection failed a moment ago.
    Down,
    /// The policy wants a replica and none is ready.
    NoReplica,
    /// Its node has as many connections for large values as it may.
    Busy,
}

impl Worker {
    /// Sends a new command, or the part of one.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        mut ticket: Ticket,
        origin: Origin,
        request: &mut Cow<'_, [u8]>,
        now: Time,
    ) {
        let len = request.len();
        ticket.len = len as u32;
        self.pending_bytes += len;
        if len > self.settings.large_value {
            self.hold_large(ticket, std::mem::take(request).into_owned(), now);
            return;
        }
        if let Some(hold) = origin.hold
            && !self.faults.is(Fault::IgnoredHold)
        {
            self.hold_behind(hold, ticket, request, now);
            return;
        }
        let resp = if self.faults.is(Fault::WrongLane) { Resp::V2 } else { origin.resp };
        match self.way(&ticket, resp, origin.number, now) {
            Ok(backend) => self.push(backend, ticket, request, now),
            Err(why) => self.no_way(why, ticket, request, now),
        }
    }

    #[cold]
    fn no_way(&mut self, why: NoWay, ticket: Ticket, request: &mut Cow<'_, [u8]>, now: Time) {
        if why == NoWay::Uncovered {
            self.refresh(RefreshReason::Uncovered, None, now);
        }
        self.hold(ticket, std::mem::take(request).into_owned(), None, now);
    }

    /// The connection for a command, by the map.
    #[inline(always)]
    pub(super) fn way(
        &mut self,
        ticket: &Ticket,
        resp: Resp,
        number: u64,
        now: Time,
    ) -> Result<BackendId, NoWay> {
        let lane = self.lane(ticket.client, resp);
        if ticket.slot == Ticket::NO_SLOT {
            let node = self.map.any_master(number).ok_or(NoWay::Uncovered)?;
            return self.connection(node, lane, now);
        }
        if self.reads_by_policy(ticket) {
            return self.read_way(ticket.slot, lane, now);
        }
        let node = self.map.master(ticket.slot).ok_or(NoWay::Uncovered)?;
        self.connection(node, lane, now)
    }

    /// The lane of a client's commands to masters: of the connections that do the same always that one, so that nothing of
    /// a client overtakes (C8). Places are filled again, so clients are spread evenly, also after many have left.
    #[inline]
    pub(super) fn lane(&self, client: ClientId, resp: Resp) -> Lane {
        let turn =
            if self.faults.is(Fault::StrayedCommand) { self.stats.requests as usize } else { client.index() };
        let number = turn % NonZeroUsize::from(self.settings.connections_per_node);
        Lane { replica: false, resp, number: number as u8 }
    }

    /// True if the read policy, not the map alone, says where a command goes.
    #[inline]
    pub(super) fn reads_by_policy(&self, ticket: &Ticket) -> bool {
        self.settings.read_policy != ReadPolicy::Master
            && ticket.traits.has(Traits::READ)
            && ticket.slot != Ticket::NO_SLOT
    }

    /// The connection for a read: of those whom the policy allows, whose turn it is among the ready ones.
    #[inline(never)]
    fn read_way(&mut self, slot: u16, lane: Lane, now: Time) -> Result<BackendId, NoWay> {
        let policy = self.settings.read_policy;
        let shard = self.map.shard_mut(slot).ok_or(NoWay::Uncovered)?;
        let master = shard.master;
        let with_master = policy == ReadPolicy::Any;
        let count = shard.replicas.len() + usize::from(with_master);
        let turn = shard.turn;
        shard.turn = shard.turn.wrapping_add(1);
        let replica = Lane { replica: true, ..lane };
        for offset in 0..count {
            let place = turn.wrapping_add(offset) % count;
            let node = self.map.shard_mut(slot).and_then(|shard| shard.replicas.get(place).copied());
            // The place behind the replicas is the master's turn.
            let (node, lane) = node.map_or((master, lane), |node| (node, replica));
            if let Some(backend) = self.ready(node, lane, now) {
                return Ok(backend);
            }
        }
        if policy == ReadPolicy::Replica {
            return Err(NoWay::NoReplica);
        }
        self.connection(master, lane, now)
    }

    /// A node's connection if it is ready for reads; opens one for later if there is none.
    fn ready(&mut self, id: NodeId, lane: Lane, now: Time) -> Option<BackendId> {
        if lane.replica && self.map.node(id)?.is_resting(now) {
            return None;
        }
        let backend = self.connection(id, lane, now).ok()?;
        self.backends.find(backend)?.is_ready().then_some(backend)
    }

    /// The node's connection of that lane; opens it if there is none and the node did not fail just now.
    #[inline(always)]
    pub(super) fn connection(&mut self, id: NodeId, lane: Lane, now: Time) -> Result<BackendId, NoWay> {
        let node = self.map.node(id).ok_or(NoWay::Uncovered)?;
        if let Some(Some(backend)) = node.backends.get(lane.index()) {
            return Ok(*backend);
        }
        let may_connect = node.may_connect(now);
        self.connect(id, lane, may_connect, now)
    }

    #[cold]
    fn connect(&mut self, id: NodeId, lane: Lane, may_connect: bool, now: Time) -> Result<BackendId, NoWay> {
        let shared = match self.idle_spare(id, lane) {
            Some(spare) => spare,
            None if may_connect => self.dial(id, lane, now),
            None => return Err(NoWay::Down),
        };
        self.share(shared, id, lane);
        Ok(shared)
    }

    /// Makes a connection the one that new commands take.
    pub(super) fn share(&mut self, backend: BackendId, id: NodeId, lane: Lane) {
        if let Some(node) = self.map.node_mut(id)
            && let Some(place) = node.backends.get_mut(lane.index())
        {
            *place = Some(backend);
        }
        if let Some(backend) = self.backends.find_mut(backend) {
            backend.spare = false;
            backend.lane = lane;
        }
    }

    /// Opens a connection.
    pub(super) fn dial(&mut self, id: NodeId, lane: Lane, now: Time) -> BackendId {
        let backend = self.backends.insert(Backend::new(id, lane, self.settings.chunk, now));
        if let Some(node) = self.map.node(id) {
            self.actions.push_back(Action::Connect { backend, address: node.address.clone() });
        }
        self.timers.add(now.after(self.settings.connect_timeout), Due::Backend(backend));
        backend
    }

    #[inline(always)]
    pub(super) fn push(&mut self, id: BackendId, mut ticket: Ticket, request: &mut Cow<'_, [u8]>, now: Time) {
        let Some(backend) = self.backends.find_mut(id) else { return };
        self.stats.requests += 1;
        if !backend.is_ready() {
            ticket.wait_from(now);
            if backend.tickets.is_empty() {
                self.timers.add(ticket.waiting.after(self.settings.wait_timeout), Due::Unsent(id));
            }
        }
        self.stats.replica_reads += u64::from(backend.lane.replica);
        backend.push(ticket, request, now);
        if !backend.dirty {
            backend.dirty = true;
            self.dirty_backends.push(id);
        }
        if !backend.watched {
            self.watch(id, now);
        }
    }

    /// Has a timer look whether the node speaks.
    #[cold]
    pub(super) fn watch(&mut self, id: BackendId, now: Time) {
        if let Some(backend) = self.backends.find_mut(id)
            && !backend.watched
        {
            backend.watched = true;
            self.timers.add(now.after(self.settings.silence_timeout), Due::Backend(id));
        }
    }

    pub(super) fn mark_backend(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.find_mut(id)
            && !backend.dirty
        {
            backend.dirty = true;
            self.dirty_backends.push(id);
        }
    }
}
