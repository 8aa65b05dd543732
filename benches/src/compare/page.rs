//! A record as a page to look at: goals, plots and tables, in one file that needs no other.
//!
//! Must not know: how figures come about.

use std::fmt::Write as _;

use super::{
    record::{CellResults, Check, Record, Run},
    subject::names,
    summary::Row,
    table,
};

pub mod plot;

const STYLE: &str = "body{font:15px/1.5 sans-serif;color:#222;background:#fff;max-width:1100px;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ddd;padding:2px 9px;text-align:right;\
font-size:13px}td:first-child,th:first-child,.left{text-align:left}.ok{color:#1b7f3b}.miss{color:#c2185b;font-weight:bold}\
svg{max-width:100%;height:auto}h3{margin-bottom:0}.remark{color:#666;margin:0}";

/// Renders the page.
///
/// # Errors
/// If a plot cannot be drawn.
pub fn render(record: &Record) -> anyhow::Result<String> {
    let mut body = String::new();
    let machine = &record.machine;
    let versions: Vec<_> =
        machine.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    writeln!(body, "<h1>tsubaki side by side, {}</h1>", escape(&record.date))?;
    writeln!(body, "<p>{}. {}.</p>", escape(&machine.words()), escape(&versions.join(", ")))?;
    writeln!(
        body,
        "<p>Clients, proxies and nodes share this machine. Ratios are taken within a round; medians over the rounds. \
         Compare ratios, never figures of two machines.</p>"
    )?;
    for (suite, runs) in &record.suites {
        writeln!(body, "<h2>{}, {} run(s)</h2>", escape(suite), runs.len())?;
        body += &goals(runs)?;
        let cells = record.cells(suite);
        for (title, svg) in [
            (
                "Throughput, as a multiple of direct cluster access; a line marks the goal",
                plot::throughput(&cells)?,
            ),
            ("Latency in ms: p50, p99, p99.9", plot::latency(&cells)?),
            ("CPU in us a command: proxy, nodes, load generator", plot::cpu(&cells)?),
        ] {
            writeln!(body, "<h3>{title}</h3>\n{svg}")?;
        }
        body += &tables(&cells)?;
        body += &memory(runs)?;
    }
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tsubaki, {}</title>\
         <style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(&record.date)
    ))
}

/// One row a goal, one column a run.
fn goals(runs: &[Run]) -> anyhow::Result<String> {
    let mut out = String::new();
    let Some(last) = runs.iter().rfind(|run| !run.checks.is_empty()) else { return Ok(out) };
    writeln!(
        out,
        "<table><tr><th>cell</th><th class=\"left\">goal</th>{}</tr>",
        "<th>run</th>".repeat(runs.len())
    )?;
    for wanted in &last.checks {
        write!(out, "<tr><td>{}</td><td class=\"left\">{}</td>", escape(&wanted.cell), escape(&wanted.goal))?;
        for run in runs {
            let same = |check: &&Check| (&check.cell, &check.goal) == (&wanted.cell, &wanted.goal);
            match run.checks.iter().find(same) {
                Some(check) => {
                    let (class, word) = if check.holds { ("ok", "ok") } else { ("miss", "MISS") };
                    write!(out, "<td class=\"{class}\">{} {word}</td>", escape(&check.figures()))?;
                }
                None => write!(out, "<td></td>")?,
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>")?;
    for note in runs.iter().flat_map(|run| &run.notes) {
        writeln!(out, "<p class=\"remark\">{}</p>", escape(note))?;
    }
    Ok(out)
}

fn tables(cells: &[CellResults]) -> anyhow::Result<String> {
    let mut out = String::new();
    for cell in cells {
        writeln!(out, "<h3>{}: {}</h3>", escape(&cell.name), escape(&cell.title))?;
        writeln!(out, "<p class=\"remark\">{}</p>", escape(&cell.remark))?;
        writeln!(
            out,
            "<table><tr><th></th><th>ops/s</th><th>/ direct</th><th>min-max</th><th>/ floor</th><th>p50 ms</th><th>p99</th>\
             <th>p99.9</th><th>max</th><th>proxy us</th><th>/ floor's</th><th>nodes us</th><th>load us</th><th>MiB</th>\
             <th>others %</th></tr>"
        )?;
        for name in names() {
            if let Some(row) = Row::of(cell, name) {
                writeln!(out, "{}", table_row(name, &row))?;
            }
        }
        writeln!(out, "</table>")?;
    }
    Ok(out)
}

fn table_row(name: &str, row: &Row) -> String {
    let digits = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let columns = [
        digits(Some(row.ops), 0),
        digits(row.to_direct, 2),
        row.spread.map_or_else(String::new, |(least, most)| format!("{least:.2}-{most:.2}")),
        digits(row.to_floor, 2),
        digits(Some(row.p50_ms), 3),
        digits(Some(row.p99_ms), 3),
        digits(row.p999_ms, 3),
        digits(row.max_ms, 1),
        digits(row.proxy_us, 2),
        digits(row.proxy_to_floor, 2),
        digits(Some(row.nodes_us), 2),
        digits(Some(row.load_us), 2),
        digits(row.resident_mib, 0),
        digits(Some(row.strangers * 100.0), 1),
    ];
    let columns = columns.map(|column| format!("<td>{column}</td>")).concat();
    format!("<tr><td>{name}</td>{columns}</tr>")
}

fn memory(runs: &[Run]) -> anyhow::Result<String> {
    let mut out = String::new();
    for (name, idle) in runs.iter().flat_map(|run| &run.idle) {
        writeln!(
            out,
            "<p>{} idle clients of {name}: {:.0} bytes each.</p>",
            idle.clients,
            idle.bytes_each()
        )?;
    }
    for crowd in runs.iter().filter_map(|run| run.crowd.as_ref()) {
        writeln!(out, "<p>tsubaki, {}.</p>", escape(&table::crowd(crowd)))?;
    }
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::compare::{
        goal,
        record::tests::{cell_of, record_of},
    };

    #[test]
    fn a_page_needs_no_other_file() {
        let cell =
            cell_of("get-50", &[("direct", 100.0, 0.0), ("floor", 150.0, 4.0), ("tsubaki", 90.0, 6.0)]);
        let mut record = record_of(vec![vec![cell.clone()], vec![cell]]);
        for run in record.suites.values_mut().flatten() {
            run.checks = goal::judge(&run.cells);
            run.notes.push("without predixy: a < b".to_owned());
        }
        let page = render(&record).unwrap();
        assert!(!page.contains("href") && !page.contains("src=") && !page.contains("@import"));
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(page.contains("<td class=\"ok\">0.900; 0.600 ok</td>") && page.contains("a &lt; b"));
    }
}
