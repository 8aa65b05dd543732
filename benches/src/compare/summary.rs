//! The figures of one row: medians over the rounds, and ratios to other subjects.
//!
//! Must not know: how they are printed or judged.

use super::{
    CellResults,
    measure::{Calls, Sample},
    subject::{DIRECT, FLOOR},
};

/// One subject in one cell.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Commands a second.
    pub ops: f64,
    /// Commands a second, as a multiple of direct cluster access.
    pub to_direct: Option<f64>,
    /// Commands a second, as a multiple of the floor's.
    pub to_floor: Option<f64>,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// The latency that one command in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
    /// Microseconds of the subject's CPU a command.
    pub proxy_us: Option<f64>,
    /// The same as a multiple of the floor's.
    pub proxy_to_floor: Option<f64>,
    /// Microseconds of all nodes' CPU a command.
    pub nodes_us: f64,
    /// Microseconds of the load generator's CPU a command.
    pub load_us: f64,
    /// Resident memory of the subject in MiB.
    pub resident_mib: Option<f64>,
    /// The floor's system calls a command.
    pub calls: Option<Calls>,
}

impl Row {
    /// Sums one subject up; `None` if it was not measured.
    #[must_use]
    pub fn of(cell: &CellResults, subject: &str) -> Option<Self> {
        let samples = cell.samples.get(subject)?;
        let figure = |figure: fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(figure));
        // Of the samples of one round, which were taken right after each other.
        let ratio = |to: &str, figure: fn(&Sample) -> Option<f64>| {
            let others = cell.samples.get(to)?;
            median(samples.iter().zip(others).filter_map(|(own, other)| Some(figure(own)? / figure(other)?)))
        };
        Some(Self {
            ops: figure(|sample| Some(sample.ops))?,
            to_direct: ratio(DIRECT, |sample| Some(sample.ops)),
            to_floor: ratio(FLOOR, |sample| Some(sample.ops)),
            p50_ms: figure(|sample| Some(sample.p50_ms))?,
            p99_ms: figure(|sample| Some(sample.p99_ms))?,
            proxy_us: figure(|sample| sample.proxy_us),
            proxy_to_floor: ratio(FLOOR, |sample| sample.proxy_us),
            nodes_us: figure(|sample| Some(sample.nodes_us))?,
            load_us: figure(|sample| Some(sample.load_us))?,
            resident_mib: figure(|sample| Some(sample.resident_bytes? as f64 / f64::from(1 << 20))),
            calls: samples.last().and_then(|sample| sample.calls),
        })
    }
}

/// The middle value; the mean of the two middle values of an even number; `None` of nothing.
#[must_use]
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{CellResults, DIRECT, FLOOR, Row, Sample, median};
    use crate::compare::{CELLS, subject::TSUBAKI};

    fn sample(ops: f64, proxy_us: Option<f64>) -> Sample {
        Sample {
            ops,
            p50_ms: 1.0,
            p99_ms: 2.0,
            proxy_us,
            nodes_us: 3.0,
            load_us: 4.0,
            resident_bytes: None,
            calls: None,
            strangers: 0.0,
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), Some(2.5));
        assert_eq!(median([].into_iter()), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is ten times slower in the second and third round, for everybody.
        let samples = BTreeMap::from([
            (DIRECT, [100.0, 10.0, 10.0].map(|ops| sample(ops, None)).to_vec()),
            (FLOOR, [200.0, 20.0, 20.0].map(|ops| sample(ops, Some(1.0))).to_vec()),
            (TSUBAKI, [80.0, 8.0, 8.0].map(|ops| sample(ops, Some(1.5))).to_vec()),
        ]);
        let cell = CellResults { load: CELLS[0], samples };
        let row = Row::of(&cell, TSUBAKI).unwrap();
        assert_eq!((row.to_direct, row.to_floor, row.proxy_to_floor), (Some(0.8), Some(0.4), Some(1.5)));
        let direct = Row::of(&cell, DIRECT).unwrap();
        assert_eq!((direct.to_direct, direct.proxy_us, direct.proxy_to_floor), (Some(1.0), None, None));
        assert!(Row::of(&cell, "nobody").is_none());
    }
}
