//! The comparison: direct cluster access, the floor, tsubaki and other proxies, measured in turn within one run.
//!
//! Must not know: how a subject is started, or how a goal is judged.
//!
//! ```text
//!  stage: a cluster and everybody in front of it; one for each kind of cluster that the cells need
//!    round 1:  cell 1: direct floor tsubaki   cell 2: direct floor tsubaki   ...
//!    round 2:  cell 1: floor tsubaki direct   ...
//! ```
//!
//! A noisy machine slows neighbours alike, so a ratio is taken within each round, and the median of the
//! rounds is reported.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::ensure;

use self::{
    cell::{Cell, Suite},
    progress::Progress,
    record::{Record, Run},
    stage::Stage,
    subject::{FLOOR, Running, Site, TSUBAKI},
};
use crate::{cluster::Cluster, crowd};

pub mod cell;
pub mod goal;
pub mod idle;
pub mod machine;
pub mod measure;
pub mod page;
pub mod progress;
pub mod readme;
pub mod record;
pub mod stage;
pub mod subject;
pub mod summary;
pub mod table;

/// What a user may choose.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// What to measure
    #[arg(long, value_enum, default_value_t = Suite::Goals)]
    pub suite: Suite,
    /// Only the cells whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these subjects [default: all of each cell]
    #[arg(long, value_delimiter = ',')]
    pub subjects: Vec<String>,
    /// Rounds; each measures every subject once in every cell [default: 7, or 5 of field and full]
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Seconds that one measurement lasts [default: what fits the suite into its time]
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Threads of the load generator, the same for every subject
    ///
    /// One thread of redis-benchmark ends at about 100,000 unpipelined commands a second, which direct access
    /// can exceed: with one, the load would be what is measured.
    #[arg(long, default_value_t = 2)]
    pub threads: u32,
    /// The tsubaki to measure [default: the one that was built beside this program]
    #[arg(long)]
    pub tsubaki: Option<PathBuf>,
    /// Keep the figures under benches/record
    #[arg(long)]
    pub record: bool,
}

/// Runs the comparison and prints its tables.
///
/// # Errors
/// If a program is missing that every cell needs, or no cell is chosen.
pub fn run(options: &Options) -> anyhow::Result<()> {
    options.subjects.iter().try_for_each(|name| subject::named(name).map(drop))?;
    let cells: Vec<_> = options.suite.cells().into_iter().filter(|cell| options.wants(cell)).collect();
    ensure!(!cells.is_empty(), "no cell of {} is chosen", options.suite.name());
    // Servers inherit the limit, so it is raised before any starts.
    crowd::raise_file_limit(crowd::Options::default().clients);
    let mut run = measure(options, &cells)?;
    run.checks = goal::judge(&run.cells);
    run.checks.extend(run.idle.get(TSUBAKI).map(goal::judge_idle));
    io::stdout().write_all(table::render(&run).as_bytes())?;
    if options.record {
        for file in Record::keep(options.suite.name(), run)? {
            progress::note(&format!("recorded in {}", file.display()));
        }
    }
    Ok(())
}

fn measure(options: &Options, cells: &[Cell]) -> anyhow::Result<Run> {
    let mut progress = Progress::new(options, cells)?;
    let mut run = Run {
        rounds: options.rounds(),
        seconds: options.seconds(),
        threads: options.threads,
        ..Run::default()
    };
    // Cells that need the same cluster and workers share a stage, in the order of the table.
    let mut waiting: Vec<&Cell> = cells.iter().collect();
    while let Some(&first) = waiting.first() {
        let (now, later) = waiting.into_iter().partition(|cell| cell.shares_stage(first));
        waiting = later;
        run.cells.extend(Stage::start(options, now, &mut progress)?.run()?);
    }
    run.cells.sort_by_key(|results| cells.iter().position(|cell| cell.name == results.name));
    if options.suite == Suite::Goals && options.only.is_empty() {
        measure_memory(options, &mut run, &mut progress)?;
    }
    run.notes = progress.finish();
    Ok(run)
}

/// The cells that are about memory: each subject is started anew for each.
fn measure_memory(options: &Options, run: &mut Run, progress: &mut Progress) -> anyhow::Result<()> {
    let cluster = Cluster::start()?;
    let site = Site { cluster: &cluster, tsubaki: options.tsubaki.as_deref() };
    for name in [FLOOR, TSUBAKI].into_iter().filter(|name| options.takes(name)) {
        progress.show(&format!("idle clients of {name}"));
        let Running::Middle(middle) = subject::named(name)?.start(&site, 1)? else { continue };
        match idle::measure(&middle) {
            Ok(idle) => drop(run.idle.insert(name.to_owned(), idle)),
            Err(error) => progress.remark(format!("no figure of {name}'s idle clients: {error:#}")),
        }
    }
    if options.takes(TSUBAKI) {
        progress.show("a crowd of clients");
        let Running::Middle(middle) = subject::named(TSUBAKI)?.start(&site, 1)? else { return Ok(()) };
        match crowd::measure(middle.port, &middle.server, &crowd::Options::default()) {
            Ok(crowd) => run.crowd = Some(crowd),
            Err(error) => progress.remark(format!("no crowd: {error:#}")),
        }
    }
    Ok(())
}

impl Options {
    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or_else(|| self.suite.effort().0)
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or_else(|| self.suite.effort().1)
    }

    fn wants(&self, cell: &Cell) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|part| cell.name.contains(part));
        named && cell.subjects.iter().any(|subject| self.takes(subject))
    }

    fn takes(&self, subject: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|name| name == subject)
    }
}
