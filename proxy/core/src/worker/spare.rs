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

use super::Worker;
use super::send::NoWay;
use crate::BackendId;
use crate::action::Action;
use crate::backend::{Backend, Lane, Traits};
use crate::fault::Fault;
use crate::limits::{KEEP_SPARES, MAX_SPARES};
use crate::map::NodeId;
use crate::time::Time;

impl Worker {
    /// A connection that carries nothing, to where the shared one `beside` leads; opens one for later if there is none.
    pub(super) fn spare_beside(&mut self, beside: BackendId, now: Time) -> Result<BackendId, NoWay> {
        let Some((node, lane)) = self.backends.find(beside).map(|backend| (backend.node, backend.lane))
        else {
            return Err(NoWay::Down);
        };
        if let Some(spare) = self.idle_spare(node, lane) {
            return Ok(spare);
        }
        // One at a time: whoever waits longest takes it, and the next has the next opened.
        if self.spares(node).any(|(_, backend)| backend.lane.is_like(lane) && !backend.is_ready()) {
            return Err(NoWay::Down);
        }
        if self.spares(node).count() >= MAX_SPARES {
            return Err(NoWay::Busy);
        }
        if self.map.node(node).is_some_and(|node| node.may_connect(now)) {
            let spare = self.dial(node, lane, now);
            if let Some(backend) = self.backends.find_mut(spare) {
                backend.spare = true;
            }
        }
        Err(NoWay::Down)
    }

    pub(super) fn idle_spare(&self, node: NodeId, lane: Lane) -> Option<BackendId> {
        let fits = |backend: &Backend| backend.lane.is_like(lane) && backend.is_ready() && backend.is_idle();
        self.spares(node).find(|(_, backend)| fits(backend)).map(|(id, _)| id)
    }

    fn spares(&self, node: NodeId) -> impl Iterator<Item = (BackendId, &Backend)> {
        self.backends.iter().filter(move |(_, backend)| backend.spare && backend.node == node)
    }

    /// Has new commands take another connection. What is in flight here is waited for before its clients' newer commands
    /// on the same slots go there.
    pub(super) fn detach(&mut self, id: BackendId) {
        let Some((node, lane)) = self.backends.find(id).map(|backend| (backend.node, backend.lane)) else {
            return;
        };
        if self.spares(node).count() >= MAX_SPARES {
            return;
        }
        self.unlink(id, node, lane);
        if let Some(backend) = self.backends.find_mut(id) {
            backend.spare = true;
        }
        if !self.faults.is(Fault::UntrackedDetour) {
            self.track(id, |_| true);
        }
    }

    /// A spare connection has moved on: when it carries nothing, and enough others do not either, it is closed.
    pub(super) fn settle_spare(&mut self, id: BackendId) {
        let Some(backend) = self.backends.find(id).filter(|backend| backend.is_ready() && backend.is_idle())
        else {
            return;
        };
        let lane = backend.lane;
        let idle = |(_, backend): &(BackendId, &Backend)| backend.lane.is_like(lane) && backend.is_idle();
        if self.spares(backend.node).filter(idle).count() > KEEP_SPARES {
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
