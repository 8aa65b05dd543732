//! The goals, as one table, and whether a row meets them.
//!
//! Must not know: how figures come about.

use super::summary::Row;
use crate::load::Load;

/// What tsubaki promises for the cells of one shape.
pub struct Goal {
    clients: u32,
    pipeline: u32,
    /// Most CPU a command, as a multiple of the floor's.
    cpu: f64,
    /// Least throughput, as a multiple of direct access.
    to_direct: f64,
    /// Or, where this is less, as a multiple of the floor's.
    to_floor: Option<f64>,
}

/// The goals of the cells.
pub const GOALS: [Goal; 3] = [
    Goal { clients: 50, pipeline: 1, cpu: 1.6, to_direct: 0.75, to_floor: Some(0.65) },
    Goal { clients: 500, pipeline: 1, cpu: 1.6, to_direct: 0.85, to_floor: Some(0.88) },
    Goal { clients: 50, pipeline: 32, cpu: 2.8, to_direct: 0.5, to_floor: None },
];

/// Most resident memory of an idle client, in KiB.
pub const IDLE_KIB: f64 = 3.0;

/// A goal beside its figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The goal and the figure.
    pub text: String,
    /// True if the figure meets the goal.
    pub holds: bool,
}

/// Judges tsubaki's row of a cell; nothing is judged where a figure is missing.
#[must_use]
pub fn judge(load: &Load, row: &Row) -> Vec<Check> {
    let goal = GOALS.iter().find(|goal| (goal.clients, goal.pipeline) == (load.clients, load.pipeline));
    goal.map(|goal| [goal.cpu(row), goal.throughput(row)].into_iter().flatten().collect()).unwrap_or_default()
}

/// Judges the memory of tsubaki's idle clients.
#[must_use]
pub fn judge_idle(kib: f64) -> Check {
    Check {
        text: format!("memory of an idle client {kib:.2} KiB, at most {IDLE_KIB}"),
        holds: kib <= IDLE_KIB,
    }
}

impl Goal {
    fn cpu(&self, row: &Row) -> Option<Check> {
        let figure = row.proxy_to_floor?;
        let text = format!("proxy CPU {figure:.2} of the floor's, at most {}", self.cpu);
        Some(Check { text, holds: figure <= self.cpu })
    }

    fn throughput(&self, row: &Row) -> Option<Check> {
        let direct = row.to_direct?;
        let mut text = format!("throughput {direct:.2} of direct, at least {}", self.to_direct);
        let mut holds = direct >= self.to_direct;
        if let Some((goal, figure)) = self.to_floor.zip(row.to_floor) {
            text += &format!("; or {figure:.2} of the floor's, at least {goal}");
            holds |= figure >= goal;
        }
        Some(Check { text, holds })
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, GOALS, Row, judge};
    use crate::compare::CELLS;

    fn row(to_direct: f64, to_floor: f64, proxy_to_floor: f64) -> Row {
        Row {
            ops: 1.0,
            to_direct: Some(to_direct),
            to_floor: Some(to_floor),
            p50_ms: 1.0,
            p99_ms: 1.0,
            proxy_us: Some(1.0),
            proxy_to_floor: Some(proxy_to_floor),
            nodes_us: 1.0,
            load_us: 1.0,
            resident_mib: None,
            calls: None,
        }
    }

    fn holds(cell: usize, row: &Row) -> Vec<bool> {
        judge(&CELLS[cell], row).into_iter().map(|Check { holds, .. }| holds).collect()
    }

    #[test]
    fn throughput_may_meet_either_ratio() {
        assert_eq!(holds(0, &row(0.75, 0.1, 1.6)), [true, true]);
        assert_eq!(holds(0, &row(0.1, 0.65, 1.6)), [true, true]);
        assert_eq!(holds(0, &row(0.74, 0.64, 1.61)), [false, false]);
    }

    #[test]
    fn pipelined_throughput_is_measured_against_direct_alone() {
        assert_eq!(holds(4, &row(0.49, 9.0, 2.8)), [true, false]);
        assert_eq!(holds(5, &row(0.5, 0.0, 2.8)), [true, true]);
    }

    #[test]
    fn every_goal_has_a_cell_and_every_cell_a_goal() {
        assert!(CELLS.iter().all(|load| judge(load, &row(1.0, 1.0, 1.0)).len() == 2));
        let measured =
            |clients, pipeline| CELLS.iter().any(|load| (load.clients, load.pipeline) == (clients, pipeline));
        assert!(GOALS.iter().all(|goal| measured(goal.clients, goal.pipeline)));
    }

    #[test]
    fn a_check_says_the_figure_and_the_goal() {
        let texts: Vec<_> =
            judge(&CELLS[2], &row(0.9, 0.8, 1.234)).into_iter().map(|check| check.text).collect();
        assert_eq!(
            texts,
            [
                "proxy CPU 1.23 of the floor's, at most 1.6",
                "throughput 0.90 of direct, at least 0.85; or 0.80 of the floor's, at least 0.88"
            ]
        );
    }
}
