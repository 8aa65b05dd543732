//! What time brings: handshakes that took too long, output that waited for more, nodes that fell silent, holds whose moment has come.

use super::Worker;
use super::send::NoWay;
use crate::BackendId;
use crate::backend::Traits;
use crate::client::Flush;
use crate::fault::Fault;
use crate::time::Time;
use crate::timer::Due;

impl Worker {
    /// Looks at all that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Backend(id) => self.check_backend(id, now),
                Due::Unsent(id) => self.expire_unsent(id, now),
                Due::Batch(id) => self.mark_backend(id),
                Due::Client(id) => self.stir_client(id),
                Due::Hold(id) => {
                    // An entry that an earlier one has replaced wakes nobody.
                    if let Some(hold) = self.holds.find_mut(id)
                        && hold.wake.is_some_and(|wake| wake <= now)
                    {
                        hold.wake = None;
                        self.stirred.push_back(id);
                    }
                }
            }
        }
        self.uncork(now);
        self.settle(now);
    }

    /// Lets the output go that has waited long enough for more.
    fn uncork(&mut self, now: Time) {
        while let Some(&(due, id)) = self.corked.front().filter(|(due, _)| *due <= now) {
            self.corked.pop_front();
            // An entry of a burst that was answered since wakes nobody.
            if let Some(client) =
                self.clients.find_mut(id).filter(|client| client.flush == Flush::Corked(due))
            {
                client.forget_burst();
                client.flush = Flush::Dirty;
                self.dirty_clients.push(id);
            }
        }
    }

    fn check_backend(&mut self, id: BackendId, now: Time) {
        let (connect, silence) = (self.settings.connect_timeout, self.settings.silence_timeout);
        let Some(backend) = self.backends.find_mut(id) else { return };
        if !backend.is_ready() {
            let reason =
                format!("it did not take a connection and answer PING within {} ms", connect.as_millis());
            self.fail_backend(id, &reason, now);
            return;
        }
        if self.faults.is(Fault::IgnoredSilence) {
            return;
        }
        // Without tickets there is nothing to watch; the next command sets the watch again.
        backend.watched = !backend.is_idle();
        if backend.take_excuse(now) {
            backend.heard = now;
        }
        if backend.watched && now.since(backend.heard) >= silence {
            let reason = format!("it owes replies and was silent for {} ms", silence.as_millis());
            self.fail_backend(id, &reason, now);
        } else if backend.watched {
            self.timers.add(backend.heard.after(silence), Due::Backend(id));
        }
    }

    /// Answers the commands that have waited too long for a connection that is still not ready.
    fn expire_unsent(&mut self, id: BackendId, now: Time) {
        let wait = self.settings.wait_timeout;
        loop {
            let Some(backend) = self.backends.find_mut(id).filter(|backend| !backend.is_ready()) else {
                return;
            };
            let Some(due) = backend.tickets.front().map(|ticket| ticket.waiting.after(wait)) else { return };
            if due > now {
                self.timers.add(due, Due::Unsent(id));
                return;
            }
            if let Some(ticket) = backend.take_back()
                && !ticket.traits.has(Traits::ASKING)
            {
                self.expired(&ticket, Some(NoWay::Down), now);
            }
        }
    }
}
