//! The figures of one row: medians over the rounds, and ratios to other subjects.
//!
//! Must not know: how they are printed or judged.

use super::{
    measure::{Calls, Sample},
    record::CellResults,
    subject::{DIRECT, FLOOR, TSUBAKI},
};
use crate::load::redis_benchmark::MGET_KEYS;

/// The cell that MGET is compared with.
const PIPELINED_BY_TEN: &str = "get-50-p10";

/// What a goal is about. Each is a ratio; each is taken within a round, and its median over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// tsubaki's commands a second over those of another subject.
    Throughput(&'static str),
    /// tsubaki's CPU a command over that of another subject.
    ProxyCpu(&'static str),
    /// The nodes' CPU a command, reached directly over reached through tsubaki.
    NodesSaved,
    /// Keys that MGET fetches a second through tsubaki, over those of GETs pipelined by ten.
    Keys,
    /// What tsubaki adds to direct's median latency over what another subject adds.
    Added(&'static str),
    /// tsubaki's p99 over that of another subject.
    P99(&'static str),
}

/// One subject in one cell.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Commands a second.
    pub ops: f64,
    /// Commands a second, as a multiple of direct cluster access.
    pub to_direct: Option<f64>,
    /// The least and the greatest of these ratios in any round.
    pub spread: Option<(f64, f64)>,
    /// Commands a second, as a multiple of the floor's.
    pub to_floor: Option<f64>,
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// The latency that one in a hundred exceeds, in milliseconds.
    pub p99_ms: f64,
    /// The latency that one in a thousand exceeds, in milliseconds.
    pub p999_ms: Option<f64>,
    /// The longest latency, in milliseconds.
    pub max_ms: Option<f64>,
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
    /// The share of the machine's CPU, from 0 to 1, that went to others.
    pub strangers: f64,
}

impl Figure {
    /// The figure in `cell`, one of `cells`; `None` if anything for it was not measured.
    #[must_use]
    pub fn of(self, cell: &CellResults, cells: &[CellResults]) -> Option<f64> {
        let own = |figure: fn(&Sample) -> Option<f64>| figures(cell, TSUBAKI, figure);
        let of = |subject, figure: fn(&Sample) -> Option<f64>| figures(cell, subject, figure);
        match self {
            Self::Throughput(other) => ratio(own(ops), of(other, ops)),
            Self::ProxyCpu(other) => {
                ratio(own(|sample| sample.proxy_us), of(other, |sample| sample.proxy_us))
            }
            Self::NodesSaved => ratio(of(DIRECT, nodes), own(nodes)),
            Self::Keys => {
                let pipelined = cells.iter().find(|cell| cell.name == PIPELINED_BY_TEN)?;
                ratio(own(ops), figures(pipelined, TSUBAKI, ops)).map(|ratio| ratio * f64::from(MGET_KEYS))
            }
            Self::Added(other) => {
                let added = |subject| difference(&of(subject, p50), &of(DIRECT, p50));
                ratio(added(TSUBAKI), added(other))
            }
            Self::P99(other) => ratio(own(p99), of(other, p99)),
        }
    }

    /// Whom tsubaki is compared with.
    #[must_use]
    pub const fn other(self) -> &'static str {
        match self {
            Self::Throughput(other) | Self::ProxyCpu(other) | Self::Added(other) | Self::P99(other) => other,
            Self::NodesSaved => DIRECT,
            Self::Keys => TSUBAKI,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Throughput(other) => format!("throughput / {other}"),
            Self::ProxyCpu(other) => format!("proxy CPU / {other}'s"),
            Self::NodesSaved => "nodes' CPU, direct / through tsubaki".to_owned(),
            Self::Keys => "keys a second / those of GET pipelined by 10".to_owned(),
            Self::Added(other) => format!("added p50 / what {other} adds"),
            Self::P99(other) => format!("p99 / {other}'s"),
        }
    }
}

impl Row {
    /// Sums one subject up; `None` if it was not measured.
    #[must_use]
    pub fn of(cell: &CellResults, subject: &str) -> Option<Self> {
        let figure = |figure: fn(&Sample) -> Option<f64>| median(figures(cell, subject, figure));
        let to = |other, figure: fn(&Sample) -> Option<f64>| {
            ratio(figures(cell, subject, figure), figures(cell, other, figure))
        };
        let to_direct = ratios(figures(cell, subject, ops), figures(cell, DIRECT, ops));
        Some(Self {
            ops: figure(ops)?,
            to_direct: median(to_direct.clone()),
            spread: spread(&to_direct),
            to_floor: to(FLOOR, ops),
            p50_ms: figure(p50)?,
            p99_ms: figure(p99)?,
            p999_ms: figure(|sample| sample.p999_ms),
            max_ms: figure(|sample| sample.max_ms),
            proxy_us: figure(|sample| sample.proxy_us),
            proxy_to_floor: to(FLOOR, |sample| sample.proxy_us),
            nodes_us: figure(nodes)?,
            load_us: figure(|sample| Some(sample.load_us))?,
            resident_mib: figure(|sample| Some(sample.resident_bytes? as f64 / f64::from(1 << 20))),
            calls: cell.samples.get(subject)?.last()?.calls,
            strangers: figure(|sample| Some(sample.strangers))?,
        })
    }
}

fn ops(sample: &Sample) -> Option<f64> {
    Some(sample.ops)
}

fn nodes(sample: &Sample) -> Option<f64> {
    Some(sample.nodes_us)
}

fn p50(sample: &Sample) -> Option<f64> {
    Some(sample.p50_ms)
}

fn p99(sample: &Sample) -> Option<f64> {
    Some(sample.p99_ms)
}

/// One figure a round; nothing if the subject was not measured, or has no such figure.
fn figures(cell: &CellResults, subject: &str, figure: fn(&Sample) -> Option<f64>) -> Vec<f64> {
    cell.samples.get(subject).into_iter().flatten().filter_map(figure).collect()
}

/// Of the samples of one round, which were taken right after each other.
fn ratios(own: Vec<f64>, others: Vec<f64>) -> Vec<f64> {
    own.into_iter().zip(others).filter(|&(_, other)| other > 0.0).map(|(own, other)| own / other).collect()
}

fn ratio(own: Vec<f64>, others: Vec<f64>) -> Option<f64> {
    median(ratios(own, others))
}

fn difference(own: &[f64], others: &[f64]) -> Vec<f64> {
    own.iter().zip(others).map(|(own, other)| own - other).collect()
}

fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    Some((least, values.iter().copied().max_by(f64::total_cmp)?))
}

/// The middle value; the mean of the two middle values of an even number; `None` of nothing.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

#[cfg(test)]
mod tests {
    use super::{DIRECT, FLOOR, Figure, Row, TSUBAKI, median};
    use crate::compare::{
        record::tests::{cell_of, sample},
        subject::HAPROXY,
    };

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is ten times slower in the second and third round, for everybody.
        let mut cell = cell_of("get-50", &[]);
        let rounds = [1.0, 0.1, 0.1];
        cell.samples.insert(DIRECT.to_owned(), rounds.map(|pace| sample(100.0 * pace, None)).to_vec());
        cell.samples.insert(FLOOR.to_owned(), rounds.map(|pace| sample(200.0 * pace, Some(1.0))).to_vec());
        cell.samples.insert(TSUBAKI.to_owned(), rounds.map(|pace| sample(80.0 * pace, Some(1.5))).to_vec());
        let row = Row::of(&cell, TSUBAKI).unwrap();
        assert_eq!((row.to_direct, row.to_floor, row.proxy_to_floor), (Some(0.8), Some(0.4), Some(1.5)));
        let direct = Row::of(&cell, DIRECT).unwrap();
        assert_eq!((direct.to_direct, direct.proxy_us, direct.proxy_to_floor), (Some(1.0), None, None));
        assert!(Row::of(&cell, "nobody").is_none());
    }

    #[test]
    fn the_spread_is_that_of_the_ratios() {
        let mut cell = cell_of("get-50", &[]);
        cell.samples.insert(DIRECT.to_owned(), [100.0, 10.0].map(|ops| sample(ops, None)).to_vec());
        cell.samples.insert(TSUBAKI.to_owned(), [50.0, 9.0].map(|ops| sample(ops, None)).to_vec());
        assert_eq!(Row::of(&cell, TSUBAKI).unwrap().spread, Some((0.5, 0.9)));
    }

    #[test]
    fn an_mget_counts_for_each_of_its_keys() {
        let cells =
            [cell_of("mget-50", &[(TSUBAKI, 12.5, 1.0)]), cell_of("get-50-p10", &[(TSUBAKI, 100.0, 1.0)])];
        assert_eq!(Figure::Keys.of(&cells[0], &cells), Some(1.25));
        assert_eq!(Figure::Keys.of(&cells[0], &cells[..1]), None);
    }

    #[test]
    fn latency_is_compared_by_what_was_added_to_direct() {
        let mut cell = cell_of("one-client", &[]);
        for (subject, p50_ms) in [(DIRECT, 0.25), (HAPROXY, 0.75), (TSUBAKI, 1.25)] {
            let own = super::Sample { p50_ms, ..sample(1.0, None) };
            cell.samples.insert(subject.to_owned(), vec![own; 3]);
        }
        assert_eq!(Figure::Added(HAPROXY).of(&cell, &[]), Some(2.0));
    }
}
