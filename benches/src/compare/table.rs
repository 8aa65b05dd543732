//! A run as text: one small table a cell, tsubaki's goals below.
//!
//! Must not know: how figures come about.

use super::{
    machine::Machine,
    record::{CellResults, Check, Run},
    subject::{FLOOR, names},
    summary::{Row, median},
};
use crate::crowd::Crowd;

const HEADER: &str = "                ops/s  /direct    (min-max)  /floor     p50     p99   p99.9     max ms |  proxy  /floor   \
     nodes    load | MiB  others %";

/// Renders everything.
#[must_use]
pub fn render(run: &Run) -> String {
    let machine = Machine::describe();
    let versions: Vec<_> =
        machine.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut lines = vec![
        format!("{}; {}", machine.words(), versions.join(", ")),
        format!(
            "medians of {} rounds of {} s; {} load thread(s); CPU (proxy, nodes, load) in us a command",
            run.rounds, run.seconds, run.threads
        ),
    ];
    lines.extend(run.cells.iter().flat_map(cell));
    lines.extend(idle(run));
    lines.extend(goals(&run.checks));
    lines.extend(run.notes.iter().map(|note| format!("note: {note}")));
    lines.push(strangers(run));
    lines.join("\n") + "\n"
}

fn cell(cell: &CellResults) -> Vec<String> {
    let mut lines = vec![String::new(), format!("{}: {}", cell.name, cell.title)];
    if !cell.remark.is_empty() {
        lines.push(format!("  {}", cell.remark));
    }
    lines.push(HEADER.to_owned());
    lines.extend(names().into_iter().filter_map(|name| Some(line(name, &Row::of(cell, name)?))));
    lines.extend(cell.lost.iter().map(|(name, why)| format!("{name:<11} lost: {why}")));
    if let Some(calls) = Row::of(cell, FLOOR).and_then(|row| row.calls) {
        let (recv, send, wait) = (calls.recv, calls.send, calls.epoll_wait);
        lines.push(format!(
            "  the floor's system calls a command: recv {recv:.3}, send {send:.3}, epoll_wait {wait:.3}"
        ));
    }
    lines
}

fn line(name: &str, row: &Row) -> String {
    let two = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let spread = row.spread.map(|(least, most)| format!("{least:.2}-{most:.2}")).unwrap_or_default();
    format!(
        "{name:<11} {:>9.0} {:>8} {:>12} {:>7} {:>7} {:>7} {:>7} {:>10} | {:>6} {:>7} {:>7.2} {:>7.2} | {:>3} {:>9.1}",
        row.ops,
        two(row.to_direct),
        spread,
        two(row.to_floor),
        ms(Some(row.p50_ms)),
        ms(Some(row.p99_ms)),
        ms(row.p999_ms),
        ms(row.max_ms),
        two(row.proxy_us),
        two(row.proxy_to_floor),
        row.nodes_us,
        row.load_us,
        row.resident_mib.map_or_else(|| "-".to_owned(), |mib| format!("{mib:.0}")),
        row.strangers * 100.0,
    )
}

fn idle(run: &Run) -> Vec<String> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut lines = vec![String::new()];
    lines.extend(run.idle.iter().map(|(name, idle)| {
        let (before, after) = (mib(idle.before), mib(idle.after));
        let (clients, each) = (idle.clients, idle.bytes_each());
        format!("{clients} idle clients, {name}: {before:.1} MiB before, {after:.1} MiB after, {each:.0} bytes each")
    }));
    lines.extend(run.crowd.iter().map(crowd));
    lines
}

/// The crowd in one line.
pub(super) fn crowd(crowd: &Crowd) -> String {
    let fewer = if crowd.allowed < crowd.wanted {
        format!(" (of {}: the limit of open files)", crowd.wanted)
    } else {
        String::new()
    };
    format!(
        "a crowd of {}{fewer}, {} failed, at {:.0} a second: first answer after {:.2} ms, p99 {:.1}, max {:.1}; \
         {:.0} bytes each; {} of them active: {:.0} GET/s, p99 {:.1} ms",
        crowd.clients,
        crowd.failures,
        crowd.connect_rate,
        crowd.connect_p50_ms,
        crowd.connect_p99_ms,
        crowd.connect_max_ms,
        crowd.bytes_each(),
        crowd.active,
        crowd.ops,
        crowd.p99_ms
    )
}

fn goals(checks: &[Check]) -> Vec<String> {
    if checks.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    lines.extend(checks.iter().map(|check| {
        let (verdict, Check { cell, goal, .. }) = (if check.holds { "ok" } else { "MISS" }, check);
        format!("{verdict:<4} {cell:<15} {goal}: {}", check.figures())
    }));
    let hold = checks.iter().filter(|check| check.holds).count();
    lines.push(format!("{hold} of {} goals hold", checks.len()));
    lines
}

/// How far the figures can be trusted: a machine that does other work measures that too.
fn strangers(run: &Run) -> String {
    let samples = run.cells.iter().flat_map(|cell| cell.samples.values().flatten());
    let shares: Vec<_> = samples.map(|sample| sample.strangers * 100.0).collect();
    let worst = shares.iter().copied().fold(0.0, f64::max);
    let usual = median(shares).unwrap_or_default();
    format!("\nCPU of the machine that went to others: {usual:.1} % in the median, {worst:.1} % at worst")
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::{CellResults, Run, render};
    use crate::compare::{
        goal,
        record::tests::cell_of,
        subject::{DIRECT, FLOOR, PREDIXY, TSUBAKI},
    };

    fn rendered(cell: CellResults) -> String {
        let checks = goal::judge(slice::from_ref(&cell));
        render(&Run { cells: vec![cell], checks, ..Run::default() })
    }

    #[test]
    fn a_row_shows_ratios_and_the_goals_follow() {
        let text =
            rendered(cell_of("get-500", &[(DIRECT, 100.0, 0.0), (FLOOR, 200.0, 5.0), (TSUBAKI, 110.0, 7.0)]));
        let row = text.lines().find(|line| line.starts_with("tsubaki")).unwrap();
        let columns: Vec<_> = row.split_whitespace().collect();
        assert_eq!(columns[1..5], ["110", "1.10", "1.10-1.10", "0.55"]);
        let goal = "throughput / direct at least 1.05, or throughput / floor at least 0.97";
        assert!(text.contains(&format!("ok   get-500         {goal}: 1.100; 0.550")), "{text}");
        assert!(text.contains("MISS get-500         proxy CPU / floor's at most 1.3: 1.400"), "{text}");
    }

    #[test]
    fn what_was_lost_is_said() {
        let mut cell = cell_of("get-50", &[(DIRECT, 100.0, 0.0)]);
        cell.lost.insert(PREDIXY.to_owned(), "it ended".to_owned());
        assert!(rendered(cell).contains("predixy     lost: it ended"));
    }
}
