//! What the kernel counts, twice, a second apart.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::Root;

const VMSTAT: &str = "proc/vmstat";
const PAUSE: Duration = Duration::from_secs(1);

/// The counters of `/proc/vmstat`.
pub(super) struct Sample {
    now: BTreeMap<String, u64>,
    /// What they were, and how many seconds ago; a copy of a machine stands still.
    before: Option<(BTreeMap<String, u64>, f64)>,
}

impl Sample {
    pub(super) fn take(root: &Root) -> Self {
        if root.is_copy() {
            return Self { now: root.counters(VMSTAT), before: None };
        }
        let start = Instant::now();
        let before = root.counters(VMSTAT);
        thread::sleep(PAUSE);
        Self { now: root.counters(VMSTAT), before: Some((before, start.elapsed().as_secs_f64())) }
    }

    /// A counter since the machine started.
    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.now.get(name).copied()
    }

    /// By how much it rises a second.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        let (before, seconds) = self.before.as_ref()?;
        let rise = self.count(name)?.checked_sub(*before.get(name)?)?;
        Some(rise as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_by_the_second_and_of_what_was_there_before() {
        let counters = |text: &str| BTreeMap::from([(text.to_owned(), 300)]);
        let before = BTreeMap::from([("a".to_owned(), 100), ("b".to_owned(), 1)]);
        let sample = Sample { now: counters("a"), before: Some((before, 2.0)) };
        assert_eq!((sample.rate("a"), sample.rate("b"), sample.count("a")), (Some(100.0), None, Some(300)));
        assert_eq!(Sample { now: counters("a"), before: None }.rate("a"), None);
    }
}
