//! How many clients the process may have, counted over all workers; touched once a connection, not once a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts clients against the limit.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: usize,
    inside: AtomicUsize,
}

/// A client's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Gate>);

impl Gate {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, inside: AtomicUsize::new(0) })
    }

    /// A place for one more client, or `None` if the limit is reached.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        // The place is made first, so that dropping it undoes the count.
        let before = self.inside.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(self));
        (before < self.limit).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let gate = Gate::new(2);
        let first = gate.enter().unwrap();
        let _second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        assert!(gate.enter().is_some());
    }
}
