//! Time as the engine sees it: a number that the caller passes in.
//!
//! Must not know: any clock.

use std::time::Duration;

/// A moment: microseconds since an epoch that the whole process shares (its start).
///
/// Shared, so that a topology view fetched by the control thread and a MOVED seen by a worker can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(u64);

impl Time {
    /// The moment `since_epoch` after the process' epoch.
    #[must_use]
    pub const fn new(since_epoch: Duration) -> Self {
        Self(since_epoch.as_micros() as u64)
    }

    /// How long after the epoch this is.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// The time from `earlier` to this moment; zero if `earlier` lies later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The microseconds from `earlier` to this moment; zero if `earlier` lies later.
    pub(crate) const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment and `duration` later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_micros() as u64))
    }
}
