//! What whoever watches a run sees: how long it will take, what is measured, what was left out.
//!
//! Must not know: what the figures are.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::{Options, cell::Cell};

/// Seconds of a measurement besides the load: keys to fill, a generator to start.
const AROUND: f64 = 0.5;

/// Seconds until a subject serves, and until its pace in a cell is known.
const FIRST: f64 = 1.5;

/// Commands a second, for lines that ask for a number of commands.
const USUAL_PACE: f64 = 70_000.0;

/// A bar on a terminal, lines elsewhere.
pub struct Progress {
    bar: ProgressBar,
    notes: Vec<String>,
}

impl Progress {
    /// Says what is ahead.
    ///
    /// # Errors
    /// Never in practice: the bar's template is fixed.
    pub fn new(options: &Options, cells: &[Cell]) -> anyhow::Result<Self> {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} [{elapsed}, {eta} left]")?;
        let steps =
            u64::from(options.rounds()) * cells.iter().map(|cell| measured(options, cell)).sum::<u64>();
        let ahead = Duration::from_secs_f64(cells.iter().map(|cell| expected(options, cell)).sum());
        note(&format!(
            "{}: {} cells, {steps} measurements, about {}",
            options.suite.name(),
            cells.len(),
            HumanDuration(ahead)
        ));
        Ok(Self { bar: ProgressBar::new(steps).with_style(style), notes: Vec::new() })
    }

    /// Shows what is done at present.
    pub fn show(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// One measurement is done, or will never be.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// A line of news for those who have no bar.
    pub fn news(&self, line: &str) {
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or_default());
            note(&format!("{line}; {done} of {all}, {} left", HumanDuration(self.bar.eta())));
        }
    }

    /// Something that is missing in the results, which say so too.
    pub fn remark(&mut self, line: String) {
        self.bar.suspend(|| note(&line));
        self.notes.push(line);
    }

    /// Takes the bar away and gives back what was remarked.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        self.bar.finish_and_clear();
        self.notes
    }
}

/// A line for whoever watches; nothing depends on it.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn measured(options: &Options, cell: &Cell) -> u64 {
    cell.subjects.iter().filter(|subject| options.takes(subject)).count() as u64
}

/// Seconds.
fn expected(options: &Options, cell: &Cell) -> f64 {
    let seconds = cell.requests().map_or_else(|| options.seconds(), |requests| requests as f64 / USUAL_PACE);
    measured(options, cell) as f64 * (FIRST + f64::from(options.rounds()) * (seconds + AROUND))
}
