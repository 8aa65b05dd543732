//! The goals, as one table, and whether a run meets them.
//!
//! Must not know: how figures come about.

use super::{
    idle::Idle,
    record::{CellResults, Check},
    subject::{CAMELLIA, DIRECT, ENVOY, FLOOR, HAPROXY, PREDIXY, TSUBAKI},
    summary::Figure::{self, Added, Keys, NodesSaved, P99, ProxyCpu, Throughput},
};

/// What tsubaki promises for some cells.
struct Goal {
    cells: &'static [&'static str],
    /// It is enough to meet one of them.
    either: &'static [(Figure, Bound)],
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    Least(f64),
    Most(f64),
}
use Bound::{Least, Most};

const CAPPED: &[&str] = &["capped-get-200", "capped-set-200", "capped-get-500", "capped-set-500"];
const CAPPED_200: &[&str] = &["capped-get-200", "capped-set-200"];
const CAPPED_500: &[&str] = &["capped-get-500", "capped-set-500"];
const SHARED: &[&str] = &["get-50", "set-50", "get-500", "set-500"];
const SHARED_50: &[&str] = &["get-50", "set-50"];
const SHARED_500: &[&str] = &["get-500", "set-500"];
const PIPELINED: &[&str] = &["get-50-p32", "set-50-p32"];
const PIPELINED_GET: &[&str] = &["get-50-p32"];
const MGET: &[&str] = &["mget-50"];
const MEMTIER: &[&str] = &["memtier"];
const ONE_CLIENT: &[&str] = &["one-client"];
const OPEN_LOOP: &[&str] = &["open-loop"];

/// The goals.
const GOALS: [Goal; 20] = [
    goal(CAPPED_200, &[(Throughput(DIRECT), Least(4.0))]),
    goal(CAPPED_500, &[(Throughput(DIRECT), Least(7.0))]),
    goal(CAPPED, &[(Throughput(PREDIXY), Least(1.1))]),
    goal(CAPPED_500, &[(NodesSaved, Least(7.0))]),
    goal(SHARED_50, &[(Throughput(DIRECT), Least(0.9)), (Throughput(FLOOR), Least(0.75))]),
    goal(SHARED_500, &[(Throughput(DIRECT), Least(1.05)), (Throughput(FLOOR), Least(0.97))]),
    goal(SHARED, &[(Throughput(PREDIXY), Least(1.15))]),
    goal(ONE_CLIENT, &[(Throughput(PREDIXY), Least(1.0))]),
    goal(SHARED, &[(ProxyCpu(FLOOR), Most(1.3))]),
    goal(SHARED, &[(ProxyCpu(ENVOY), Most(0.5))]),
    goal(SHARED, &[(ProxyCpu(CAMELLIA), Most(0.5))]),
    goal(MEMTIER, &[(Throughput(DIRECT), Least(1.2))]),
    goal(MEMTIER, &[(Throughput(PREDIXY), Least(1.1))]),
    goal(PIPELINED_GET, &[(Throughput(DIRECT), Least(0.68))]),
    goal(PIPELINED_GET, &[(ProxyCpu(FLOOR), Most(1.9))]),
    goal(PIPELINED, &[(ProxyCpu(ENVOY), Most(0.25))]),
    goal(PIPELINED, &[(ProxyCpu(CAMELLIA), Most(0.25))]),
    goal(MGET, &[(Keys, Least(0.8))]),
    goal(ONE_CLIENT, &[(Added(HAPROXY), Most(1.1))]),
    goal(OPEN_LOOP, &[(P99(DIRECT), Most(1.3))]),
];

/// What no figure may fall below, even where a goal is missed.
const LIMITS: [Goal; 5] = [
    goal(SHARED_50, &[(Throughput(DIRECT), Least(0.75)), (Throughput(FLOOR), Least(0.65))]),
    goal(SHARED_500, &[(Throughput(DIRECT), Least(0.85)), (Throughput(FLOOR), Least(0.88))]),
    goal(SHARED, &[(ProxyCpu(FLOOR), Most(1.6))]),
    goal(PIPELINED, &[(Throughput(DIRECT), Least(0.5))]),
    goal(PIPELINED, &[(ProxyCpu(FLOOR), Most(2.8))]),
];

/// Most resident memory of an idle client, in bytes.
const IDLE_BYTES: f64 = 1536.0;

/// Judges the cells of a run; what a goal compares tsubaki with must have been measured.
///
/// A cell that tsubaki lost is a goal that it missed.
#[must_use]
pub fn judge(cells: &[CellResults]) -> Vec<Check> {
    let of = |goals: &'static [Goal], prefix: &'static str| {
        let rows = goals.iter().flat_map(|goal| goal.cells.iter().map(move |cell| (goal, *cell)));
        rows.filter_map(move |(goal, cell)| goal.judge(cells, cell, prefix))
    };
    of(&GOALS, "").chain(of(&LIMITS, "limit: ")).collect()
}

/// Judges the memory of tsubaki's idle clients.
#[must_use]
pub fn judge_idle(idle: &Idle) -> Check {
    let bytes = idle.bytes_each();
    Check {
        cell: "idle".to_owned(),
        goal: format!("bytes of an idle client at most {IDLE_BYTES}"),
        figures: vec![bytes],
        holds: bytes <= IDLE_BYTES,
    }
}

/// The least throughput against direct access that the goals ask of a cell, for plots.
#[must_use]
pub fn least_throughput(cell: &str) -> Option<f64> {
    let of_cell = GOALS.iter().filter(|goal| goal.cells.contains(&cell));
    of_cell.flat_map(|goal| goal.either).find_map(|(figure, bound)| match (figure, bound) {
        (Throughput(DIRECT), Least(bound)) => Some(*bound),
        _ => None,
    })
}

const fn goal(cells: &'static [&'static str], either: &'static [(Figure, Bound)]) -> Goal {
    Goal { cells, either }
}

impl Goal {
    /// `None` if it is not about what was measured.
    fn judge(&self, cells: &[CellResults], name: &str, prefix: &str) -> Option<Check> {
        let cell = cells.iter().find(|cell| cell.name == name)?;
        let measured =
            self.either.iter().filter_map(|(figure, bound)| Some((figure, bound, figure.of(cell, cells)?)));
        let measured: Vec<_> = measured.collect();
        let here = |name: &str| cell.samples.contains_key(name) || cell.lost.contains_key(name);
        let owed =
            cell.lost.contains_key(TSUBAKI) && self.either.iter().any(|(figure, _)| here(figure.other()));
        if measured.is_empty() && !owed {
            return None;
        }
        let words: Vec<_> = self
            .either
            .iter()
            .map(|(figure, bound)| format!("{} {}", figure.words(), bound.words()))
            .collect();
        Some(Check {
            cell: name.to_owned(),
            goal: format!("{prefix}{}", words.join(", or ")),
            holds: measured.iter().any(|(_, bound, figure)| bound.holds(*figure)),
            figures: measured.into_iter().map(|(.., figure)| figure).collect(),
        })
    }
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Least(bound) => figure >= bound,
            Most(bound) => figure <= bound,
        }
    }

    fn words(self) -> String {
        match self {
            Least(bound) => format!("at least {bound}"),
            Most(bound) => format!("at most {bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CAMELLIA, CellResults, DIRECT, ENVOY, FLOOR, GOALS, LIMITS, PREDIXY, TSUBAKI, judge};
    use crate::compare::{cell::Suite, record::tests::cell_of};

    fn holds(cell: CellResults, what: &str) -> Vec<bool> {
        let checks = judge(&[cell]).into_iter().filter(|check| check.goal.starts_with(what));
        checks.map(|check| check.holds).collect()
    }

    #[test]
    fn throughput_may_meet_either_ratio() {
        let cell = |direct, floor| {
            cell_of("get-50", &[(DIRECT, direct, 1.0), (FLOOR, floor, 1.0), (TSUBAKI, 90.0, 1.0)])
        };
        assert_eq!(holds(cell(100.0, 1000.0), "throughput"), [true]);
        assert_eq!(holds(cell(1000.0, 120.0), "throughput"), [true]);
        assert_eq!(holds(cell(101.0, 121.0), "throughput"), [false]);
    }

    #[test]
    fn a_peer_that_was_not_measured_is_not_judged() {
        let alone = cell_of("set-50-p32", &[(TSUBAKI, 90.0, 1.0)]);
        assert_eq!(judge(&[alone]), []);
        let beside = cell_of("set-50-p32", &[(TSUBAKI, 90.0, 1.0), (ENVOY, 9.0, 4.0), (CAMELLIA, 9.0, 3.9)]);
        assert_eq!(holds(beside, "proxy CPU"), [true, false]);
    }

    #[test]
    fn a_cell_that_tsubaki_lost_is_a_goal_missed() {
        let mut cell = cell_of("get-50", &[(DIRECT, 1.0, 1.0), (PREDIXY, 1.0, 1.0)]);
        cell.lost.insert(TSUBAKI.to_owned(), "it ended".to_owned());
        let checks = judge(&[cell]);
        assert!(
            !checks.is_empty()
                && checks.iter().all(|check| !check.holds && check.figures() == "not measured")
        );
    }

    #[test]
    fn a_check_says_figures_and_bounds() {
        let cell = cell_of("get-500", &[(DIRECT, 100.0, 1.0), (FLOOR, 200.0, 1.0), (TSUBAKI, 104.0, 1.0)]);
        let check = &judge(&[cell])[0];
        assert_eq!(check.goal, "throughput / direct at least 1.05, or throughput / floor at least 0.97");
        assert_eq!(check.figures(), "1.040; 0.520");
    }

    #[test]
    fn every_goal_has_its_cells_and_subjects_in_some_suite() {
        let cells: Vec<_> = [Suite::Goals, Suite::Peers].into_iter().flat_map(Suite::cells).collect();
        let names: BTreeSet<_> = cells.iter().map(|cell| &*cell.name).collect();
        for goal in GOALS.iter().chain(&LIMITS) {
            assert!(goal.cells.iter().all(|cell| names.contains(cell)), "{:?}", goal.cells);
        }
        let everybody = |name: &str| {
            let subjects = cells.iter().filter(|cell| cell.name == name).flat_map(|cell| cell.subjects);
            let samples: Vec<_> = subjects.map(|&subject| (subject, 1.0, 1.0)).collect();
            cell_of(name, &samples)
        };
        let all: Vec<_> = names.iter().map(|name| everybody(name)).collect();
        let rows: usize = GOALS.iter().chain(&LIMITS).map(|goal| goal.cells.len()).sum();
        // Everybody is equally fast: nothing is added to direct's latency, and no ratio of it can be judged.
        assert_eq!(judge(&all).len(), rows - 1);
    }
}
