//! Deliberate faults that are more than a condition in the code that they spoil. Only with the feature `faults`.

use super::Worker;
use crate::BackendId;
use crate::backend::{Backend, Ticket};
use crate::fault::Fault;

impl Worker {
    /// Switches a fault on.
    pub fn set_fault(&mut self, fault: Fault) {
        self.faults.on = Some(fault);
    }

    /// Spoils the queue of a connection on which a reply has come.
    pub(super) fn spoil_queue(&mut self, id: BackendId) {
        let Some(backend) = self.backends.find_mut(id).filter(|backend| backend.is_ready()) else { return };
        let mut tickets = backend.tickets.iter().copied();
        let (Some(first), Some(second)) = (tickets.next(), tickets.next()) else { return };
        if self.faults.is(Fault::DroppedTombstone) && self.clients.find(first.client).is_none() {
            backend.tickets.pop_front();
            backend.journal.drop_front(first.len as usize);
            self.no_longer_pending(first.len);
        } else if self.faults.is(Fault::SwappedReplies)
            && first.len == second.len
            && backend.journal.front_was_sent(2 * first.len as usize)
        {
            backend.tickets.swap(0, 1);
        }
    }

    /// Who gets a reply, and what it is.
    pub(super) fn spoil_answer<'a>(&self, ticket: &Ticket, reply: &'a [u8]) -> (Ticket, &'a [u8]) {
        let mut ticket = *ticket;
        let mut now_there = self.clients.iter().map(|(id, _)| id);
        if self.faults.is(Fault::ReusedPlace)
            && let Some(client) = now_there.find(|id| id.index() == ticket.client.index())
        {
            ticket.client = client;
        }
        let is_failed_part = ticket.part != Ticket::WHOLE && reply.starts_with(b"-");
        let reply =
            if is_failed_part && self.faults.is(Fault::FailedPartAsNil) { b"*1\r\n$-1\r\n" } else { reply };
        (ticket, reply)
    }

    /// A connection ends.
    pub(super) fn spoil_end(&mut self, backend: &mut Backend) {
        if self.faults.is(Fault::KeptFragment) {
            self.faults.fragment = std::mem::take(&mut backend.input);
        }
    }

    /// A connection becomes ready.
    pub(super) fn spoil_start(&mut self, id: BackendId) {
        if let Some(backend) = self.backends.find_mut(id) {
            backend.input.append(&mut self.faults.fragment);
        }
    }
}
