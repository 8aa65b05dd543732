//! The process' clock: one epoch for all threads, so that their times can be compared.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tsubaki_core::time::Time;

/// Tells the time since the process' start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    epoch: Instant,
    /// When the epoch was, in microseconds since 1970-01-01 UTC.
    pub(crate) epoch_unix_us: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch: Instant::now(), epoch_unix_us: unix.as_micros() as u64 }
    }

    pub(crate) fn now(&self) -> Time {
        Time::new(self.epoch.elapsed())
    }

    /// The same moment as the runtime counts it.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.epoch + time.since_epoch() + Duration::from_micros(1))
    }
}
