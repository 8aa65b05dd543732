//! Connections beside the shared ones: for large requests, and those on which others must not wait for a large reply.
//!
//! ```text
//!            a large reply begins                    carries nothing
//!   shared ----------------------> spare, draining -----------------> spare, idle --> closed, if there are enough
//!      ^                                                   ^   |
//!      |                                 a large request   |   | a large request is to go
//!      |                                 was answered      '---'
//!      '------------ a command finds no shared connection -----'
//! ```
//!
//! A node may take no more connections. Then the draining one is shared again, and others wait behind the large reply,
//! which is read as fast as the node writes; from then on a shared connection is given up only for one that is ready.

use super::Worker;
use super::send::NoWay;
use crate::BackendId;
use crate::action::{Action, Event};
use crate::backend::{Backend, Lane, Traits};
use crate::fault::Fault;
use crate::limits::KEEP_SPARES;
use crate::map::{Node, NodeId};
use crate::time::Time;

impl Worker {
    /// A connection that carries nothing, to where the shared one `beside` leads; opens one for later if there is none.
    pub(super) fn spare_beside(&mut self, beside: BackendId, now: Time) -> Result<BackendId, NoWay> {
        let Some((node, lane)) = self.place_of(beside) else { return Err(NoWay::Down) };
        if let Some(spare) = self.idle_spare(node, lane) {
            return Ok(spare);
        }
        // One at a time: whoever waits longest takes it, and the next has the next opened.
        if self.spares(node).any(|(_, backend)| backend.lane.is_like(lane) && !backend.is_ready()) {
            return Err(NoWay::Down);
        }
        match self.map.node(node) {
            Some(node) if node.may_add(now) => {}
            Some(node) if node.may_connect(now) => return Err(NoWay::Busy),
            _ => return Err(NoWay::Down),
        }
        if !self.make_room() && !self.end_stalled(now) {
            return Err(NoWay::Busy);
        }
        let spare = self.dial(node, lane, now);
        if let Some(backend) = self.backends.find_mut(spare) {
            backend.spare = true;
        }
        Err(NoWay::Down)
    }

    /// True if there may be one more spare connection; one that carries nothing, to wherever it leads, is closed for it.
    fn make_room(&mut self) -> bool {
        let all = || self.backends.iter().filter(|(_, backend)| backend.spare);
        if all().count() < self.settings.max_spares {
            return true;
        }
        let idle = all().find(|(_, backend)| backend.is_ready() && backend.is_idle()).map(|(id, _)| id);
        idle.and_then(|id| self.close_backend(id)).is_some()
    }

    /// Ends a client that began a large request and has sent nothing of it for as long as a node may be silent, if there is
    /// one: others wait for its place.
    fn end_stalled(&mut self, now: Time) -> bool {
        let patience = self.settings.silence_timeout;
        let stalled = self.backends.iter().find_map(|(_, backend)| backend.stalled_client(patience, now));
        let Some(id) = stalled else { return false };
        if let Some(client) = self.clients.find(id) {
            let client = client.session.address.to_string();
            self.report(Event::RequestStalled { client });
        }
        self.close_client(id);
        true
    }

    pub(super) fn idle_spare(&self, node: NodeId, lane: Lane) -> Option<BackendId> {
        let fits = |backend: &Backend| backend.lane.is_like(lane) && backend.is_ready() && backend.is_idle();
        self.spares(node).find(|(_, backend)| fits(backend)).map(|(id, _)| id)
    }

    fn spares(&self, node: NodeId) -> impl Iterator<Item = (BackendId, &Backend)> {
        self.backends.iter().filter(move |(_, backend)| backend.spare && backend.node == node)
    }

    fn place_of(&self, id: BackendId) -> Option<(NodeId, Lane)> {
        self.backends.find(id).map(|backend| (backend.node, backend.lane))
    }

    /// A large reply is under way on a shared connection: has new commands take another.
    pub(super) fn detour(&mut self, id: BackendId, now: Time) {
        let Some((node, lane)) = self.place_of(id) else { return };
        let is_full = self.map.node(node).is_some_and(Node::is_full);
        let spare = if is_full { self.spare_beside(id, now).ok() } else { self.idle_spare(node, lane) };
        if let Some(spare) = spare {
            self.replace(id, spare);
        } else if !is_full && self.make_room() {
            self.unlink(id, node, lane);
            self.detach(id);
        }
    }

    /// A spare connection carries nothing: new commands take it, if a large reply is under way on the shared one.
    pub(super) fn relieve(&mut self, spare: BackendId) -> bool {
        let Some((node, lane)) = self.place_of(spare) else { return false };
        let is_jammed = |(_, backend): &(BackendId, &Backend)| {
            let is_shared = !backend.spare && backend.node == node && backend.lane.is_like(lane);
            is_shared && backend.download.is_some()
        };
        let jammed = self.backends.iter().find(is_jammed).map(|(id, _)| id);
        jammed.inspect(|jammed| self.replace(*jammed, spare)).is_some()
    }

    /// Has new commands take `spare` instead of `id`.
    fn replace(&mut self, id: BackendId, spare: BackendId) {
        if let Some((node, lane)) = self.place_of(id) {
            self.share(spare, node, lane);
            self.detach(id);
        }
    }

    /// New commands take another connection. What is in flight here is waited for before its clients' newer commands on
    /// the same slots go there.
    fn detach(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.find_mut(id) {
            backend.spare = true;
        }
        if !self.faults.is(Fault::UntrackedDetour) {
            self.track(id, |_| true);
        }
    }

    /// A connection failed. True if its node has another that new commands take, or can take again: then nothing is known
    /// against the node, but that it may take no more.
    pub(super) fn is_beside(&mut self, failed: &Backend, now: Time) -> bool {
        let (node, lane) = (failed.node, failed.lane);
        let is_beside = if failed.spare {
            self.backends.iter().any(|(_, other)| !other.spare && other.node == node && other.is_ready())
        } else {
            !failed.is_ready() && self.share_again(node, lane)
        };
        if is_beside
            && !failed.is_ready()
            && let Some(node) = self.map.node_mut(node)
        {
            node.is_found_full(now);
        }
        is_beside
    }

    /// No connection can be had but one that others were to wait behind no longer: they do again.
    fn share_again(&mut self, node: NodeId, lane: Lane) -> bool {
        let fits = |(_, backend): &(BackendId, &Backend)| {
            backend.lane.is_like(lane) && backend.is_ready() && backend.download.is_some()
        };
        let Some(draining) = self.spares(node).find(fits).map(|(id, _)| id) else { return false };
        self.share(draining, node, lane);
        self.resume_backend(draining);
        true
    }

    /// A spare connection has moved on: when it carries nothing, and enough others do not either, it is closed.
    pub(super) fn settle_spare(&mut self, id: BackendId) {
        let Some(backend) = self.backends.find(id).filter(|backend| backend.is_ready() && backend.is_idle())
        else {
            return;
        };
        let (node, lane) = (backend.node, backend.lane);
        if self.relieve(id) {
            return;
        }
        let idle = |(_, backend): &(BackendId, &Backend)| backend.lane.is_like(lane) && backend.is_idle();
        if self.spares(node).filter(idle).count() > KEEP_SPARES {
            self.close_backend(id);
        } else {
            // Someone may wait for it.
            self.stir_all();
        }
    }

    /// Ends a connection for no fault of its node. Nothing on it is owed to anybody.
    pub(super) fn close_backend(&mut self, id: BackendId) -> Option<Backend> {
        let backend = self.backends.remove(id)?;
        self.unlink(id, backend.node, backend.lane);
        self.actions.push_back(Action::CloseBackend(id));
        Some(backend)
    }

    /// A connection may be read again.
    pub(super) fn resume_backend(&mut self, id: BackendId) {
        if self.faults.is(Fault::ForgottenResume) {
            return;
        }
        if let Some(backend) = self.backends.find_mut(id).filter(|backend| backend.paused) {
            backend.paused = false;
            backend.excused = true;
            self.actions.push_back(Action::ResumeBackend(id));
        }
    }

    /// True of what needs a connection of its own.
    pub(super) fn is_large(&self, traits: Traits, len: usize) -> bool {
        traits.has(Traits::PROBE) || len > self.settings.large_value
    }
}
