//! Results, and how they are kept as JSON, so that later runs can be compared with them.
//!
//! Must not know: what the figures mean.
//!
//! ```text
//!  benches/record/<date>-<cpu>.json     machine
//!                                       suites: goals: run, run, run
//!                                               peers: run, run, run    one after each `--record`
//!                                               field: run
//!  benches/record/<date>-<cpu>.html     the same to look at
//! ```

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{cell::Cell, idle::Idle, machine::Machine, measure::Sample, page};
use crate::crowd::Crowd;

/// Characters of the longest line of a record, where it can be broken.
const LONGEST_LINE: usize = 320;

/// Everything that was found on one machine on one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The day, in UTC.
    pub date: String,
    /// What the figures depend on.
    pub machine: Machine,
    /// By suite, in the order in which they were run.
    pub suites: BTreeMap<String, Vec<Run>>,
}

/// What one run found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Rounds; each measured every subject once in every cell.
    pub rounds: u32,
    /// Seconds that one measurement lasted.
    pub seconds: f64,
    /// Threads of the load generator.
    pub threads: u32,
    /// The goals, and whether they hold.
    pub checks: Vec<Check>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
    /// In the order of the suite.
    pub cells: Vec<CellResults>,
    /// What idle clients cost each subject that has clients of its own.
    pub idle: BTreeMap<String, Idle>,
    /// tsubaki and very many clients.
    pub crowd: Option<Crowd>,
}

/// A goal beside its figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The cell.
    pub cell: String,
    /// What was asked for.
    pub goal: String,
    /// What was measured: one figure for each way to meet the goal, none if tsubaki lost the cell.
    pub figures: Vec<f64>,
    /// True if one of the figures meets the goal.
    pub holds: bool,
}

/// What was found in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResults {
    /// As the table of cells calls it.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What a reader must know.
    pub remark: String,
    /// By subject; one sample a round.
    pub samples: BTreeMap<String, Vec<Sample>>,
    /// Subjects that could not serve the load, and why.
    pub lost: BTreeMap<String, String>,
}

impl CellResults {
    fn join(&mut self, other: &Self) {
        for (subject, samples) in &mut self.samples {
            samples.extend(other.samples.get(subject).into_iter().flatten());
        }
    }

    /// Nothing found yet.
    #[must_use]
    pub fn new(cell: &Cell) -> Self {
        Self {
            name: cell.name.clone(),
            title: cell.title(),
            remark: cell.remark.to_owned(),
            samples: BTreeMap::new(),
            lost: BTreeMap::new(),
        }
    }
}

impl Check {
    /// The figures, as a reader wants them.
    #[must_use]
    pub fn figures(&self) -> String {
        let figure =
            |figure: &f64| if *figure < 100.0 { format!("{figure:.3}") } else { format!("{figure:.0}") };
        let figures: Vec<_> = self.figures.iter().map(figure).collect();
        if figures.is_empty() { "not measured".to_owned() } else { figures.join("; ") }
    }
}

impl Record {
    /// The cells of a suite, the samples of all its runs together.
    ///
    /// A ratio is taken within a round, so runs count only in which everybody served whom the last run had.
    #[must_use]
    pub fn cells(&self, suite: &str) -> Vec<CellResults> {
        let runs = self.suites.get(suite).map(Vec::as_slice).unwrap_or_default();
        let mut cells: Vec<CellResults> = Vec::new();
        for cell in runs.iter().rev().flat_map(|run| &run.cells) {
            match cells.iter_mut().find(|known| known.name == cell.name) {
                Some(known) if known.samples.keys().eq(cell.samples.keys()) => known.join(cell),
                Some(_) => {}
                None => cells.push(cell.clone()),
            }
        }
        cells
    }

    /// Adds a run to the record of this day and machine, and draws its page anew; returns both paths.
    ///
    /// # Errors
    /// If there is a record that cannot be read, or the files cannot be written.
    pub fn keep(suite: &str, run: Run) -> anyhow::Result<[PathBuf; 2]> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
        let (date, machine) = (date(seconds.as_secs() / 86_400), Machine::describe());
        let file = folder().join(format!("{date}-{}.json", slug(&machine.cpu)));
        fs::create_dir_all(folder())?;
        let before = file.exists().then(|| Self::read(&file)).transpose()?;
        let suites = before.map(|record| record.suites).unwrap_or_default();
        let record = Self { date, machine, suites }.with(suite, run);
        write(&file, layout(&serde_json::to_value(&record)?, 0) + "\n")?;
        let page = record.draw(&file)?;
        Ok([file, page])
    }

    /// Draws the page beside the `file` that keeps this record; returns its path.
    ///
    /// # Errors
    /// If it cannot be drawn or written.
    pub fn draw(&self, file: &Path) -> anyhow::Result<PathBuf> {
        let page = file.with_extension("html");
        write(&page, page::render(self)?)?;
        Ok(page)
    }

    /// The newest record that is kept, and its file; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn newest() -> anyhow::Result<Option<(PathBuf, Self)>> {
        let files = fs::read_dir(folder()).into_iter().flatten().flatten().map(|entry| entry.path());
        let newest = files.filter(|file| is_record(file)).max();
        newest.map(|file| Self::read(&file).map(|record| (file, record))).transpose()
    }

    fn read(file: &Path) -> anyhow::Result<Self> {
        let unreadable = || format!("{} is no record of this version", file.display());
        serde_json::from_str(&fs::read_to_string(file)?).with_context(unreadable)
    }

    fn with(mut self, suite: &str, run: Run) -> Self {
        self.suites.entry(suite.to_owned()).or_default().push(run);
        self
    }
}

fn write(file: &Path, text: String) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// JSON with one line for whatever fits into one: a sample, mostly.
fn layout(value: &Value, indent: usize) -> String {
    let short = value.to_string();
    if short.len() <= LONGEST_LINE {
        return short;
    }
    let (open, items, close) = match value {
        Value::Array(items) => ("[", items.iter().map(|item| layout(item, indent + 1)).collect(), "]"),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), layout(value, indent + 1))
            };
            ("{", fields.iter().map(field).collect::<Vec<_>>(), "}")
        }
        _ => return short,
    };
    let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + 1));
    format!("{open}\n{inner}{}\n{outer}{close}", items.join(&format!(",\n{inner}")))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record")
}

/// Named after a day; other things are kept beside.
fn is_record(file: &Path) -> bool {
    let day = file
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    day && file.extension() == Some(OsStr::new("json"))
}

/// Lower-case words joined by `-`.
fn slug(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}

/// The date in UTC, `days` after 1970-01-01.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
pub(super) mod tests {
    use std::{collections::BTreeMap, path::Path};

    use super::{CellResults, Machine, Record, Run, Sample, date, is_record, layout, slug};

    /// A sample with a throughput and a subject's CPU.
    pub(in crate::compare) fn sample(ops: f64, proxy_us: Option<f64>) -> Sample {
        Sample {
            seconds: 3.0,
            ops,
            p50_ms: 1.0,
            p99_ms: 2.0,
            p999_ms: Some(3.0),
            max_ms: Some(4.0),
            proxy_us,
            nodes_us: 3.0,
            load_us: 4.0,
            resident_bytes: None,
            calls: None,
            strangers: 0.0,
        }
    }

    /// A cell with one round: subjects with their throughput and CPU.
    pub(in crate::compare) fn cell_of(name: &str, subjects: &[(&str, f64, f64)]) -> CellResults {
        let samples =
            subjects.iter().map(|&(subject, ops, cpu)| (subject.to_owned(), vec![sample(ops, Some(cpu))]));
        CellResults {
            name: name.to_owned(),
            title: name.to_owned(),
            remark: String::new(),
            samples: samples.collect(),
            lost: BTreeMap::new(),
        }
    }

    /// A record of goals, with as many runs as there are lists of cells.
    pub(in crate::compare) fn record_of(runs: Vec<Vec<CellResults>>) -> Record {
        let runs = runs.into_iter().map(|cells| Run { cells, ..Run::default() }).collect();
        let machine = Machine { cpu: "A CPU".to_owned(), ..Machine::default() };
        Record {
            date: "2001-02-03".to_owned(),
            machine,
            suites: BTreeMap::from([("goals".to_owned(), runs)]),
        }
    }

    #[test]
    fn runs_of_a_day_are_kept_beside_each_other() {
        let run = |threads| Run { threads, ..Run::default() };
        let record = record_of(vec![Vec::new()]).with("peers", run(2)).with("goals", run(3));
        let threads = |suite: &str| record.suites[suite].iter().map(|run| run.threads).collect::<Vec<_>>();
        assert_eq!((threads("goals"), threads("peers")), (vec![0, 3], vec![2]));
    }

    #[test]
    fn the_samples_of_all_runs_with_the_same_subjects_come_together() {
        let cell = |subjects: &[(&str, f64, f64)]| vec![cell_of("get-50", subjects)];
        let both = |pace| cell(&[("direct", pace, 1.0), ("tsubaki", 2.0 * pace, 1.0)]);
        let record = record_of(vec![both(1.0), cell(&[("direct", 2.0, 1.0)]), both(3.0)]);
        let cells = record.cells("goals");
        let ops =
            |subject: &str| cells[0].samples[subject].iter().map(|sample| sample.ops).collect::<Vec<_>>();
        assert_eq!((ops("direct"), ops("tsubaki")), (vec![3.0, 1.0], vec![6.0, 2.0]));
        assert_eq!((cells.len(), record.cells("field").len()), (1, 0));
    }

    #[test]
    fn what_is_kept_is_what_is_read() {
        let record = record_of(vec![vec![cell_of("get-50", &[("tsubaki", 1.5, 2.5)])]]);
        let text = layout(&serde_json::to_value(&record).unwrap(), 0);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn a_sample_is_one_line() {
        let record = record_of(vec![vec![cell_of("get-50", &[("direct", 1.0, 1.0), ("tsubaki", 1.5, 2.5)])]]);
        let text = layout(&serde_json::to_value(&record).unwrap(), 0);
        let samples = text.lines().filter(|line| line.contains("strangers")).count();
        assert_eq!(samples, 2, "{text}");
    }

    #[test]
    fn other_files_beside_are_no_records() {
        let is = |name: &str| is_record(Path::new(name));
        assert!(is("record/2001-02-03-a-cpu.json"));
        assert!(!is("record/2001-02-03-a-cpu.html") && !is("record/instructions.json"));
    }

    #[test]
    fn days_become_dates() {
        let cases = [
            (0, "1970-01-01"),
            (30, "1970-01-31"),
            (31, "1970-02-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_088, "2024-12-31"),
            (20_089, "2025-01-01"),
        ];
        for (days, text) in cases {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn a_processors_name_becomes_part_of_a_file_name() {
        assert_eq!(slug("Intel(R) Xeon(R) CPU @ 2.20GHz"), "intel-r-xeon-r-cpu-2-20ghz");
    }
}
