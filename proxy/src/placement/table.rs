//! A plan as people read it.

use super::{Arrivals, Change, ChangeKind, Plan, Seat};

/// The plan in words and columns, for a terminal of 80 columns or more.
pub(crate) fn table(plan: &Plan) -> String {
    let mut text = format!("{}: {}.\n\n", workers(plan.workers.len()), plan.reason);
    let mut rows = vec![["worker", "CPU", "node", "memory", "queues"].map(str::to_owned)];
    rows.extend(
        plan.workers
            .iter()
            .enumerate()
            .map(|(number, seat)| row(number.to_string(), seat, queues(plan, number))),
    );
    rows.push(row("control".to_owned(), &plan.control, String::new()));
    columns(&mut text, &rows);
    text.push('\n');
    match &plan.arrivals {
        Arrivals::Cpu => text += "A client is taken in by the worker on whose CPU its packets arrive.\n",
        Arrivals::Count { why } => text += &format!("Clients are spread evenly: {why}.\n"),
    }
    if !plan.changes.is_empty() {
        text += "\nThe system differs from the plan:\n\n";
        let mut rows = vec![["file", "holds", "planned", "change"].map(str::to_owned)];
        rows.extend(plan.changes.iter().map(change));
        columns(&mut text, &rows);
    }
    text
}

fn workers(count: usize) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

fn row(name: String, seat: &Seat, queues: String) -> [String; 5] {
    let number = |number: Option<usize>, none: &str| {
        number.map_or_else(|| none.to_owned(), |number| number.to_string())
    };
    let cpus = if seat.cpus.is_empty() { "any".to_owned() } else { seat.cpus.to_string() };
    [name, cpus, number(seat.node, "any"), number(seat.memory, "any"), queues]
}

/// `eth0 0,2`: the queues of a worker, card by card.
fn queues(plan: &Plan, worker: usize) -> String {
    let mut cards: Vec<(&str, Vec<String>)> = Vec::new();
    for queue in plan.queues.iter().filter(|queue| queue.worker == worker) {
        match cards.iter_mut().find(|(card, _)| *card == queue.card) {
            Some((_, queues)) => queues.push(queue.queue.to_string()),
            None => cards.push((&queue.card, vec![queue.queue.to_string()])),
        }
    }
    let cards: Vec<_> = cards.iter().map(|(card, queues)| format!("{card} {}", queues.join(","))).collect();
    if cards.is_empty() { "-".to_owned() } else { cards.join("; ") }
}

fn change(change: &Change) -> [String; 4] {
    let planned = match change.kind {
        ChangeKind::IrqAffinity => change.after.to_string(),
        ChangeKind::Xps => format!("{} (mask {})", change.after, crate::machine::mask([change.after])),
    };
    let holds = match &change.before {
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.to_string(),
        None => "?".to_owned(),
    };
    let made = change.forbidden.map_or_else(|| "at the start".to_owned(), |why| format!("no: {why}"));
    [format!("/{}", change.path), holds, planned, made]
}

/// Columns two spaces apart.
fn columns<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
