//! When each command is due: evenly spaced, whatever happens to the ones before.
//!
//! Must not know: clocks, sockets.

use std::time::{Duration, Instant};

/// The share of one thread in a load's arrivals.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    start: Instant,
    /// Seconds between two arrivals of the whole load.
    spacing: f64,
    /// The number of the next arrival, in the whole load.
    next: u64,
    /// Arrivals of the whole load from one of this thread to the next.
    step: u64,
    /// Arrivals of the whole load.
    end: u64,
}

impl Schedule {
    /// The arrivals of thread `thread` of `threads`: `rate` a second altogether, for `seconds`.
    pub(super) fn new(start: Instant, rate: f64, seconds: f64, thread: u64, threads: u64) -> Self {
        Self { start, spacing: 1.0 / rate, next: thread, step: threads, end: (rate * seconds) as u64 }
    }

    /// When the next command is due; `None` after the last.
    pub(super) fn peek(&self) -> Option<Instant> {
        let after = || Duration::from_secs_f64(self.next as f64 * self.spacing);
        (self.next < self.end).then(|| self.start + after())
    }

    /// When the next command was due, if it is by `now`; it is then taken for sent.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.peek().filter(|due| *due <= now)?;
        self.next += self.step;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Schedule;

    #[test]
    fn arrivals_are_evenly_spaced_and_end() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 1_000.0, 0.003, 0, 1);
        let at = |number| start + Duration::from_millis(number);
        assert_eq!(schedule.take(at(0)), Some(at(0)));
        assert_eq!(schedule.take(at(0)), None);
        assert_eq!(schedule.peek(), Some(at(1)));
        // Somebody slept: what should have been sent meanwhile keeps its time.
        assert_eq!(schedule.take(at(9)), Some(at(1)));
        assert_eq!(schedule.take(at(9)), Some(at(2)));
        assert_eq!(schedule.take(at(9)), None);
        assert_eq!(schedule.peek(), None);
    }

    #[test]
    fn threads_share_the_arrivals() {
        let start = Instant::now();
        let arrivals = |thread| {
            let mut schedule = Schedule::new(start, 1_000.0, 0.007, thread, 2);
            let due = std::iter::from_fn(|| schedule.take(start + Duration::from_secs(1)));
            due.map(|due| (due - start).as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(arrivals(0), [0, 2, 4, 6]);
        assert_eq!(arrivals(1), [1, 3, 5]);
    }
}
