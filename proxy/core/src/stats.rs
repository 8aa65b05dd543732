//! What one worker counts, in plain numbers; the caller turns them into metrics.
//!
//! Must not know: how they are shown.

/// Counters since the worker's start, and a few gauges, of one worker; or of several, added up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Client connections accepted.
    pub accepted: u64,
    /// Client connections turned away by the limit.
    pub rejected: u64,
    /// Client connections open (a gauge).
    pub clients: u64,
    /// Node connections open (a gauge).
    pub backends: u64,
    /// Commands read from clients.
    pub commands: u64,
    /// Commands, or parts of them, written to nodes.
    pub requests: u64,
    /// Commands answered by the proxy itself.
    pub local: u64,
    /// Commands split over several slots.
    pub split: u64,
    /// Error replies of the proxy's own to what a client asked: refused commands, unknown ones, wrong arity, CROSSSLOT.
    pub own_errors: u64,
    /// Commands refused because they are not supported yet.
    pub refused: u64,
    /// Bytes read from clients.
    pub client_in_bytes: u64,
    /// Bytes written to clients.
    pub client_out_bytes: u64,
    /// Bytes read from nodes.
    pub node_in_bytes: u64,
    /// Bytes written to nodes.
    pub node_out_bytes: u64,
    /// Error replies of nodes that reached a client.
    pub node_errors: u64,
    /// Clients closed for breaking the protocol.
    pub protocol_errors: u64,
    /// Clients closed for leaving replies unread.
    pub output_limit: u64,
    /// Commands answered with an error because they could not be written in time.
    pub wait_timeouts: u64,
    /// Commands answered with an error because their node fell silent or its connection died after they were written.
    pub lost: u64,
    /// Commands answered with an error because a later one on the same key had run.
    pub overtaken: u64,
    /// Commands answered with an error after too many redirects.
    pub redirect_loops: u64,
    /// Replies whose client had left.
    pub orphans: u64,
    /// MOVED replies.
    pub moved: u64,
    /// ASK replies.
    pub ask: u64,
    /// TRYAGAIN replies.
    pub tryagain: u64,
    /// CLUSTERDOWN replies.
    pub clusterdown: u64,
    /// LOADING replies.
    pub loading: u64,
    /// READONLY replies.
    pub readonly: u64,
    /// MASTERDOWN replies.
    pub masterdown: u64,
    /// Commands sent again after a pause.
    pub retries: u64,
    /// Large requests that were streamed.
    pub large_requests: u64,
    /// Large replies.
    pub large_replies: u64,
    /// Batches that waited for more because their node was strained.
    pub paced_batches: u64,
    /// Reads sent to replicas.
    pub replica_reads: u64,
    /// Node connections opened.
    pub connects: u64,
    /// Node connections that failed or were lost.
    pub disconnects: u64,
    /// Refreshes asked for.
    pub refreshes: u64,
    /// How many commands one write to a node carried.
    pub batch: Histogram,
    /// Microseconds from a command's arrival to its reply by a node.
    pub latency: Histogram,
}

impl Stats {
    /// Adds another worker's figures.
    pub fn add(&mut self, other: &Self) {
        for ((_, own), (_, its)) in self.fields_mut().into_iter().zip(other.clone().fields_mut()) {
            *own += *its;
        }
        self.batch.add(&other.batch);
        self.latency.add(&other.latency);
    }

    /// Every plain figure with its name, gauges included, in one fixed order.
    pub fn fields_mut(&mut self) -> [(&'static str, &mut u64); 37] {
        macro_rules! fields { ($($name:ident),* $(,)?) => { [$((stringify!($name), &mut self.$name)),*] } }
        fields![
            accepted,
            rejected,
            clients,
            backends,
            commands,
            requests,
            local,
            split,
            own_errors,
            refused,
            client_in_bytes,
            client_out_bytes,
            node_in_bytes,
            node_out_bytes,
            node_errors,
            protocol_errors,
            output_limit,
            wait_timeouts,
            lost,
            overtaken,
            redirect_loops,
            orphans,
            moved,
            ask,
            tryagain,
            clusterdown,
            loading,
            readonly,
            masterdown,
            retries,
            large_requests,
            large_replies,
            paced_batches,
            replica_reads,
            connects,
            disconnects,
            refreshes,
        ]
    }
}

/// A histogram of whole numbers with a relative error of at most 1/8: eight buckets for each power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Self::BUCKETS],
    sum: u64,
}

impl Histogram {
    /// Values from 0 to 2^36 - 1 (19 hours in microseconds); greater ones count as the greatest.
    const BUCKETS: usize = 8 + 33 * 8;

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(Self::bucket(value)) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Non-empty buckets: the greatest value that falls into each, and how many did.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (Self::top(index), *count))
    }

    /// The least bucket top below which at least `share` (0 to 1) of the values lie; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        self.buckets()
            .find(|(_, count)| {
                seen += count;
                seen >= wanted
            })
            .map_or(0, |(top, _)| top)
    }

    fn add(&mut self, other: &Self) {
        for (own, its) in self.counts.iter_mut().zip(&other.counts) {
            *own += its;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    #[inline]
    fn bucket(value: u64) -> usize {
        if value < 8 {
            return value as usize;
        }
        let power = 63 - value.leading_zeros() as usize;
        let eighth = (value >> (power - 3)) as usize & 7;
        ((power - 2) * 8 + eighth).min(Self::BUCKETS - 1)
    }

    fn top(index: usize) -> u64 {
        if index < 8 {
            return index as u64;
        }
        let (power, eighth) = (index / 8 + 2, index as u64 % 8);
        (((eighth + 9) << (power - 3)) - 1).max(1)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; Self::BUCKETS], sum: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bucket_and_no_bucket_is_wider_than_an_eighth() {
        for value in
            (0..5000).chain((13..36).map(|power| (1 << power) - 1)).chain((13..36).map(|power| 1 << power))
        {
            let index = Histogram::bucket(value);
            let top = Histogram::top(index);
            assert!(value <= top, "{value} above its bucket's top {top}");
            assert!(top - value <= value / 8, "{value} far below {top}");
            assert!(index == 0 || Histogram::top(index - 1) < value);
        }
    }

    #[test]
    fn quantiles_and_sums() {
        let mut histogram = Histogram::default();
        for value in 1..=100 {
            histogram.record(value);
        }
        assert_eq!((histogram.count(), histogram.sum()), (100, 5050));
        assert!((50..=55).contains(&histogram.quantile(0.5)));
        assert_eq!(Histogram::default().quantile(0.99), 0);
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 101);
    }

    #[test]
    fn stats_of_workers_add_up() {
        let mut sum = Stats { moved: 2, ..Stats::default() };
        let mut other = Stats { moved: 3, clients: 1, ..Stats::default() };
        other.latency.record(10);
        sum.add(&other);
        assert_eq!((sum.moved, sum.clients, sum.latency.count()), (5, 1, 1));
    }
}
