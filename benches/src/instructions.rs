//! Instruction counts under callgrind: figures that need no quiet machine, and so show a regression anywhere.
//!
//! Must not know: how a cell does its work.
//!
//! ```text
//!  instructions            one line a cell, beside the committed record
//!     `- valgrind --tool=callgrind  this program, --cell NAME --rounds N       and again with 2 N
//!        instructions a unit = (count of 2 N rounds - count of N rounds) / units of N rounds
//! ```
//!
//! The difference leaves out the start of the process and the preparation of the cell, which are the same in both
//! runs. The environment of the runs is empty and the seeds are fixed, so the same program gives the same counts.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use self::cell::Cell;

pub mod cell;

/// A cell that needs so much more than the record says has got worse.
const TOLERANCE: f64 = 0.03;

/// The cell that has a goal, and the most instructions that it may take.
const GOAL: (&str, f64) = ("engine: GET, 1 of 50 clients, pipeline 1", 1_200.0);

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Keep the counts as benches/record/instructions.json
    #[arg(long)]
    pub record: bool,
    /// Count only the cells whose name contains this
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "record")]
    pub only: String,
    /// Run this cell, instead of counting
    #[arg(long, hide = true)]
    pub cell: Option<String>,
    /// How often
    #[arg(long, hide = true, default_value_t = 1)]
    pub rounds: u64,
}

/// The committed counts, and what they depend on besides the program.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    rustc: String,
    valgrind: String,
    /// Instructions a unit, by cell.
    instructions: BTreeMap<String, f64>,
}

/// Counts and compares with the record; or, where a cell is named, runs it to be counted.
///
/// The exit code is 1 if a cell got worse by more than 3 % or the goal is missed.
///
/// # Errors
/// If valgrind is missing or fails, or the record cannot be read or written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(name) = &options.cell {
        let cell = cell::all().into_iter().find(|cell| cell.name == *name);
        cell.with_context(|| format!("there is no cell {name:?}"))?.run(options.rounds);
        return Ok(ExitCode::SUCCESS);
    }
    let valgrind = version("valgrind").context("cannot start valgrind; install it (Debian: valgrind)")?;
    let before = read()?;
    let mut now = Record { rustc: version("rustc").unwrap_or_default(), valgrind, ..Record::default() };
    say(&differences(&before, &now))?;
    say(&format!("{:<52} {:>9} {:>9}\n", "instructions a unit", "now", "record"))?;
    for cell in cell::all().into_iter().filter(|cell| cell.name.contains(&options.only)) {
        let count = count(&cell)?;
        say(&line(&cell.name, count, before.instructions.get(&cell.name).copied()))?;
        now.instructions.insert(cell.name, count);
    }
    if options.record {
        write(&now)?;
        return Ok(ExitCode::SUCCESS);
    }
    let failures = failures(&before.instructions, &now.instructions);
    say(&failures.concat())?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Instructions that one unit of a cell takes, to one digit behind the point.
fn count(cell: &Cell) -> anyhow::Result<f64> {
    let once = collected(cell, cell.rounds)?;
    let twice = collected(cell, 2 * cell.rounds)?;
    let units = (cell.rounds * cell.units) as f64;
    Ok((twice.saturating_sub(once) as f64 / units * 10.0).round() / 10.0)
}

/// Instructions of a whole process that runs a cell.
fn collected(cell: &Cell, rounds: u64) -> anyhow::Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        // Both numbers have the same width, so that the stack of both runs begins at the same place.
        .args(["instructions", "--cell", &cell.name, "--rounds", &format!("{rounds:08}")])
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default());
    let Output { status, stderr, .. } = command.output()?;
    let text = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "{command:?} ended with {status}: {text}");
    parse(&text).with_context(|| format!("{command:?} printed no count: {text}"))
}

/// The number behind `Collected :`, callgrind's last word.
fn parse(text: &str) -> Option<u64> {
    text.rsplit_once("Collected : ")?.1.split_whitespace().next()?.parse().ok()
}

/// What a program says about its version, if it is there.
fn version(program: &str) -> io::Result<String> {
    let output = Command::new(program).arg("--version").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record/instructions.json")
}

fn read() -> anyhow::Result<Record> {
    let file = file();
    match fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is no record", file.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Record::default()),
        Err(error) => bail!("cannot read {}: {error}", file.display()),
    }
}

fn write(record: &Record) -> anyhow::Result<()> {
    let file = file();
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&file, serde_json::to_string_pretty(record)? + "\n")
        .with_context(|| format!("cannot write {}", file.display()))?;
    say(&format!("kept as {}\n", file.display()))
}

/// Tools that differ from the record's: another compiler may well count differently.
fn differences(before: &Record, now: &Record) -> String {
    let tools = [(&before.rustc, &now.rustc), (&before.valgrind, &now.valgrind)];
    let changed = tools.into_iter().filter(|(before, now)| !before.is_empty() && before != now);
    changed.map(|(before, now)| format!("the record was made with {before}, this is {now}\n")).collect()
}

fn line(name: &str, now: f64, before: Option<f64>) -> String {
    let (before, change) = before.map_or_else(
        || ("-".to_owned(), "new".to_owned()),
        |before| (format!("{before:.1}"), format!("{:+.1} %", 100.0 * (now / before - 1.0))),
    );
    format!("{name:<52} {now:>9.1} {before:>9} {change:>8}\n")
}

/// One line for each cell that got worse, and for the goal if it is missed.
fn failures(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Vec<String> {
    let worse = now.iter().filter_map(|(name, &now)| {
        let before = *before.get(name)?;
        (now > before * (1.0 + TOLERANCE)).then(|| {
            let percent = 100.0 * (now / before - 1.0);
            format!("WORSE {name}: {now:.1}, {percent:.1} % more than {before:.1}\n")
        })
    });
    let (cell, goal) = GOAL;
    let missed = now.get(cell).filter(|&&count| count > goal);
    let missed = missed.map(|count| format!("MISS  {cell}: {count:.1}, the goal is {goal}\n"));
    worse.chain(missed).collect()
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{GOAL, cell, failures, line, parse};

    fn counts<const N: usize>(counts: [(&str, f64); N]) -> BTreeMap<String, f64> {
        counts.map(|(name, count)| (name.to_owned(), count)).into()
    }

    #[test]
    fn callgrinds_count_is_read() {
        let text = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n==7== I   refs:      123,456\n";
        assert_eq!(parse(text), Some(123_456));
        assert_eq!(parse("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn more_than_three_per_cent_is_worse() {
        let before = counts([("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let now = counts([("a", 102.9), ("b", 103.1), ("c", 50.0), ("new", 1.0)]);
        assert_eq!(failures(&before, &now), ["WORSE b: 103.1, 3.1 % more than 100.0\n"]);
    }

    #[test]
    fn a_missed_goal_is_a_failure_without_a_record() {
        let (cell, goal) = GOAL;
        assert!(failures(&BTreeMap::new(), &counts([(cell, goal)])).is_empty());
        assert_eq!(failures(&BTreeMap::new(), &counts([(cell, goal + 1.0)])).len(), 1);
    }

    #[test]
    fn the_goals_cell_exists() {
        assert!(cell::all().iter().any(|cell| cell.name == GOAL.0));
    }

    #[test]
    fn a_change_is_shown_in_per_cent() {
        assert!(line("a", 90.0, Some(100.0)).ends_with("      90.0     100.0  -10.0 %\n"));
        assert!(line("a", 90.0, None).ends_with("      90.0         -      new\n"));
    }
}
