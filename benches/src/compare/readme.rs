//! README's table, written from the newest record.
//!
//! Must not know: how figures come about.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use super::{
    progress::note,
    record::{CellResults, Record, Run},
    subject::{CAMELLIA, DIRECT, ENVOY, PREDIXY, TSUBAKI, TSUBAKI_UNPINNED},
    summary::{Figure, Row},
};

const BEGIN: &str = "<!-- record -->\n";
const END: &str = "<!-- /record -->\n";

/// What a user may choose.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Change nothing; fail if README is not what the newest record says
    #[arg(long)]
    pub check: bool,
}

/// Writes the newest record into README, between two comments that mark the place, and draws its page.
///
/// # Errors
/// If there is no record or no place, or with `--check`, if README says something else.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let (file, record) = Record::newest()?.context("there is no record: make one with --record")?;
    let readme = fs::read_to_string(path())?;
    let wanted = with_record(&readme, &record, &file)?;
    if options.check {
        ensure!(readme == wanted, "README.md is not what {} says: run `make readme`", file.display());
    } else {
        fs::write(path(), wanted)?;
        record.draw(&file)?;
        note(&format!("README.md says what {} says", file.display()));
    }
    Ok(())
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

fn with_record(readme: &str, record: &Record, file: &Path) -> anyhow::Result<String> {
    let place = readme.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) =
        place.with_context(|| format!("README.md has no {} … {}", BEGIN.trim(), END.trim()))?;
    let name = file.file_stem().and_then(|name| name.to_str()).context("the record's name is no UTF-8")?;
    Ok(format!("{head}{BEGIN}{}{END}{tail}", render(record, name)))
}

fn render(record: &Record, name: &str) -> String {
    let rounds: u32 = record.suites.values().flatten().map(|run| run.rounds).sum();
    let path = format!("benches/record/{name}");
    let (machine, date) = (record.machine.words(), &record.date);
    let mut lines = vec![
        format!("Measured on {date} on one machine for everything, {machine}; medians of {rounds} rounds in all."),
        format!("[The record]({path}.json) has every sample, [its page]({path}.html) the plots, other proxies and goals."),
        String::new(),
        "| workload | throughput / direct | / predixy | / Camellia | / Envoy | proxy CPU / the floor's | p99, direct -> \
         tsubaki | nodes' CPU a command, direct -> tsubaki |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let peers = record.cells("peers");
    let mut cells = record.cells("goals");
    cells.extend(record.cells("field"));
    lines.extend(cells.iter().filter_map(|cell| row(cell, &peers)));
    lines.push(String::new());
    lines.extend(remarks(&cells));
    lines.extend(placement(&record.cells("placement")));
    lines.extend(goals(record));
    lines.join("\n") + "\n"
}

/// `None` where nothing can be compared with direct access.
fn row(cell: &CellResults, peers: &[CellResults]) -> Option<String> {
    let (direct, own) = (Row::of(cell, DIRECT)?, Row::of(cell, TSUBAKI)?);
    let beside_peers = peers.iter().find(|other| other.name == cell.name);
    let two = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let to = |peer| two(beside_peers.and_then(|cell| Figure::Throughput(peer).of(cell, peers)));
    Some(format!(
        "| {} | {:.2} | {} | {} | {} | {} | {:.2} -> {:.2} ms | {:.1} -> {:.1} us |",
        cell.title,
        own.to_direct?,
        to(PREDIXY),
        to(CAMELLIA),
        to(ENVOY),
        two(own.proxy_to_floor),
        direct.p99_ms,
        own.p99_ms,
        direct.nodes_us,
        own.nodes_us
    ))
}

/// Workers each on a CPU against the same left to the kernel; nothing where that was not measured.
fn placement(cells: &[CellResults]) -> Vec<String> {
    let two = |figure: Figure, cell: &CellResults| figure.of(cell, cells).map(|ratio| format!("{ratio:.2}"));
    let row = |cell: &CellResults| {
        let throughput = two(Figure::Throughput(TSUBAKI_UNPINNED), cell)?;
        let (p99, cpu) =
            (two(Figure::P99(TSUBAKI_UNPINNED), cell)?, two(Figure::ProxyCpu(TSUBAKI_UNPINNED), cell)?);
        Some(format!("| {} | {throughput} | {p99} | {cpu} |", cell.title))
    };
    let rows: Vec<String> = cells.iter().filter_map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let head = [
        "Workers each on a CPU of its own, the default where they are as many as CPUs, against the same left to the kernel \
         (`placement.mode = \"off\"`). A machine with one NUMA node shows what staying on a CPU is worth, and nothing of what \
         memory and network queues of the other node cost; that placement is right on two nodes `make e2e-numa` proves, \
         without figures of speed.",
        "",
        "| workload | throughput | p99 | proxy CPU |",
        "|---|---|---|---|",
    ];
    head.map(str::to_owned).into_iter().chain(rows).chain([String::new()]).collect()
}

/// What a reader must know of some cells, each remark once.
fn remarks(cells: &[CellResults]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest: Vec<_> = cells.iter().filter(|cell| !cell.remark.is_empty()).collect();
    while let Some(&first) = rest.first() {
        let (same, others): (Vec<_>, _) = rest.into_iter().partition(|cell| cell.remark == first.remark);
        let titles: Vec<_> = same.iter().map(|cell| cell.title.as_str()).collect();
        lines.extend([format!("*{}*: {}.", titles.join("*, *"), first.remark), String::new()]);
        rest = others;
    }
    lines
}

/// How many goals hold, by suite, run after run.
fn goals(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    for (suite, runs) in &record.suites {
        let of_run = |run: &Run| {
            let held = run.checks.iter().filter(|check| check.holds).count();
            format!("{held} of {}", run.checks.len())
        };
        let counts: Vec<_> = runs.iter().filter(|run| !run.checks.is_empty()).map(of_run).collect();
        if !counts.is_empty() {
            lines.push(format!("Goals that hold in `{suite}`, run by run: {}.", counts.join(", ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{BEGIN, CellResults, END, note, path, remarks, with_record};
    use crate::compare::record::{
        Record,
        tests::{cell_of, record_of},
    };

    #[test]
    fn the_place_between_the_marks_is_written_anew() {
        let record =
            record_of(vec![vec![cell_of("get-50", &[("direct", 10.0, 0.0), ("tsubaki", 9.0, 1.0)])]]);
        let readme = format!("before\n{BEGIN}old\n{END}after\n");
        let text = with_record(&readme, &record, Path::new("2001-02-03-a-cpu.json")).unwrap();
        assert!(
            text.starts_with("before\n") && text.ends_with(&format!("{END}after\n")) && !text.contains("old")
        );
        assert!(text.contains("| get-50 | 0.90 |  |  |  |  | 2.00 -> 2.00 ms | 3.0 -> 3.0 us |\n"), "{text}");
        assert!(text.contains("(benches/record/2001-02-03-a-cpu.html)") && text.contains("A CPU"));
        assert_eq!(with_record(&text, &record, Path::new("2001-02-03-a-cpu.json")).unwrap(), text);
    }

    #[test]
    fn a_remark_stands_once_below_the_table_for_all_whom_it_concerns() {
        let cell = |name: &str, remark: &str| {
            let remark = remark.to_owned();
            CellResults { remark, ..cell_of(name, &[("direct", 1.0, 0.0), ("tsubaki", 1.0, 1.0)]) }
        };
        let cells = [cell("a", "one key"), cell("b", ""), cell("c", "two CPUs"), cell("d", "one key")];
        assert_eq!(remarks(&cells), ["*a*, *d*: one key.", "", "*c*: two CPUs.", ""]);
    }

    #[test]
    fn a_readme_without_a_place_is_an_error() {
        let error = with_record("nothing", &record_of(Vec::new()), Path::new("x.json")).unwrap_err();
        assert_eq!(error.to_string(), "README.md has no <!-- record --> … <!-- /record -->");
    }

    #[test]
    fn readme_says_what_the_committed_record_says() {
        let Some((file, record)) = Record::newest().unwrap() else {
            return note("there is no record yet: README is compared with nothing");
        };
        let readme = fs::read_to_string(path()).unwrap();
        assert_eq!(with_record(&readme, &record, &file).unwrap(), readme, "run `make readme`");
    }
}
