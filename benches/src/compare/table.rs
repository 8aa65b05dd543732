//! The results as text: one small table a cell, tsubaki's goals below it.
//!
//! Must not know: how figures come about.

use std::fmt::Write as _;

use super::{
    CellResults, Options, Results,
    goal::{Check, judge, judge_idle},
    machine::Machine,
    measure::Sample,
    subject::{TSUBAKI, names},
    summary::{Row, median},
};
use crate::load::Load;

const HEADER: &str =
    "            ops/s  /direct  /floor  p50 ms  p99 ms |  proxy  /floor   nodes    load | MiB";

/// Renders everything.
///
/// # Errors
/// Never in practice: the text is written to memory.
pub fn render(results: &Results, options: &Options) -> anyhow::Result<String> {
    let mut out = String::new();
    let machine = Machine::describe();
    writeln!(out, "{} x {}, kernel {}; {}", machine.cpus, machine.cpu, machine.kernel, machine.redis)?;
    writeln!(
        out,
        "medians of {} rounds of {} s; {} load thread(s); CPU (proxy, nodes, load) in us a command",
        options.rounds, options.seconds, options.threads
    )?;
    let mut checks = Vec::new();
    for cell in &results.cells {
        checks.extend(render_cell(&mut out, cell)?);
    }
    checks.extend(render_idle(&mut out, results)?);
    render_strangers(&mut out, results)?;
    if !checks.is_empty() {
        let hold = checks.iter().filter(|check| check.holds).count();
        writeln!(out, "\n{hold} of {} goals hold", checks.len())?;
    }
    Ok(out)
}

/// What a cell is called.
#[must_use]
pub fn title(load: &Load) -> String {
    format!("{}, {} clients, pipeline {}", load.command, load.clients, load.pipeline)
}

fn render_cell(out: &mut String, cell: &CellResults) -> anyhow::Result<Vec<Check>> {
    writeln!(out, "\n{}\n{HEADER}", title(&cell.load))?;
    for name in names() {
        if let Some(row) = Row::of(cell, name) {
            writeln!(out, "{}", line(name, &row))?;
        }
    }
    let calls = names().into_iter().find_map(|name| Some((name, Row::of(cell, name)?.calls?)));
    if let Some((name, calls)) = calls {
        let (recv, send, wait) = (calls.recv, calls.send, calls.epoll_wait);
        writeln!(
            out,
            "  the {name}'s system calls a command: recv {recv:.3}, send {send:.3}, epoll_wait {wait:.3}"
        )?;
    }
    let checks = Row::of(cell, TSUBAKI).map(|row| judge(&cell.load, &row)).unwrap_or_default();
    render_checks(out, &checks)?;
    Ok(checks)
}

fn line(name: &str, row: &Row) -> String {
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    format!(
        "{name:<8} {:>8.0} {:>8} {:>7} {:>7.3} {:>7.3} | {:>6} {:>7} {:>7.2} {:>7.2} | {:>3}",
        row.ops,
        optional(row.to_direct),
        optional(row.to_floor),
        row.p50_ms,
        row.p99_ms,
        optional(row.proxy_us),
        optional(row.proxy_to_floor),
        row.nodes_us,
        row.load_us,
        row.resident_mib.map_or_else(|| "-".to_owned(), |mib| format!("{mib:.0}")),
    )
}

fn render_idle(out: &mut String, results: &Results) -> anyhow::Result<Vec<Check>> {
    for (name, idle) in &results.idle {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            out,
            "\n{} idle clients, {name}: {:.1} MiB before, {:.1} MiB after, {:.2} KiB each",
            idle.clients,
            mib(idle.before),
            mib(idle.after),
            idle.kib_each()
        )?;
    }
    let checks: Vec<_> =
        results.idle.get(TSUBAKI).map(|idle| judge_idle(idle.kib_each())).into_iter().collect();
    render_checks(out, &checks)?;
    Ok(checks)
}

fn render_checks(out: &mut String, checks: &[Check]) -> anyhow::Result<()> {
    for Check { text, holds } in checks {
        writeln!(out, "  {:<4} {text}", if *holds { "ok" } else { "MISS" })?;
    }
    Ok(())
}

/// How far the figures can be trusted: a machine that does other work measures that too.
fn render_strangers(out: &mut String, results: &Results) -> anyhow::Result<()> {
    let samples = || results.cells.iter().flat_map(|cell| cell.samples.values().flatten());
    let shares = || samples().map(|Sample { strangers, .. }| strangers * 100.0);
    let (usual, worst) = (median(shares()).unwrap_or_default(), shares().fold(0.0, f64::max));
    writeln!(
        out,
        "\nCPU of the machine that went to others: {usual:.1} % in the median, {worst:.1} % at worst"
    )?;
    Ok(())
}
