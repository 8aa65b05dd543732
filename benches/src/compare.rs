//! The comparison: direct cluster access, the floor and tsubaki, measured in turn within one run.
//!
//! Must not know: how a subject is started, or how a goal is judged.
//!
//! ```text
//!  round 1:  cell 1: direct floor tsubaki   cell 2: direct floor tsubaki   ...
//!  round 2:  cell 1: floor tsubaki direct   ...
//! ```
//!
//! A noisy machine slows neighbours alike, so a ratio is taken within each round, and the median of the
//! rounds is reported.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::PathBuf,
};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::{
    idle::Idle,
    measure::{Measurement, Sample},
    subject::{Middle, Site, Subject},
};
use crate::{
    cluster::Cluster,
    load::{Load, Target},
};

pub mod goal;
pub mod idle;
pub mod machine;
pub mod measure;
pub mod record;
pub mod subject;
pub mod summary;
pub mod table;

/// The cells: GET and SET, unpipelined by few and by many clients, and pipelined.
pub const CELLS: [Load; 6] = [
    Load { command: "GET", clients: 50, pipeline: 1 },
    Load { command: "SET", clients: 50, pipeline: 1 },
    Load { command: "GET", clients: 500, pipeline: 1 },
    Load { command: "SET", clients: 500, pipeline: 1 },
    Load { command: "GET", clients: 50, pipeline: 32 },
    Load { command: "SET", clients: 50, pipeline: 32 },
];

/// What a user may choose.
#[derive(Debug, Clone, Serialize, clap::Args)]
pub struct Options {
    /// Rounds; each measures every subject once in every cell
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Seconds that one measurement lasts
    #[arg(long, default_value_t = 3.5)]
    pub seconds: f64,
    /// Threads of the load generator, the same for every subject
    ///
    /// One thread of redis-benchmark ends at about 100,000 unpipelined commands a second, which direct access
    /// can exceed: with one, the load would be what is measured.
    #[arg(long, default_value_t = 2)]
    pub threads: u32,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_values = subject::names())]
    pub subjects: Vec<String>,
    /// The tsubaki to measure [default: the one that was built beside this program]
    #[arg(long)]
    #[serde(skip)]
    pub tsubaki: Option<PathBuf>,
    /// Keep the figures under benches/record
    #[arg(long)]
    pub record: bool,
}

/// Everything that a comparison found out.
#[derive(Debug, Serialize)]
pub struct Results {
    /// In the order of [`CELLS`].
    pub cells: Vec<CellResults>,
    /// What 10,000 idle clients cost each subject that has clients of its own.
    pub idle: BTreeMap<&'static str, Idle>,
}

/// What was found out in one cell.
#[derive(Debug, Serialize)]
pub struct CellResults {
    /// The load.
    pub load: Load,
    /// By subject; one sample a round.
    pub samples: BTreeMap<&'static str, Vec<Sample>>,
}

/// Runs the comparison and prints its table.
///
/// # Errors
/// If a program is missing, or a subject does not serve the load.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let subjects = subject::chosen(&options.subjects)?;
    raise_file_limit()?;
    note("starting a cluster of three masters and filling its keys");
    let cluster = Cluster::start()?;
    cluster.fill()?;
    let site = Site { cluster: &cluster, tsubaki: options.tsubaki.as_deref() };
    let cells = Comparison::start(options, &subjects, &site)?.run()?;
    let idle = idle::measure_all(&subjects, &site)?;
    let results = Results { cells, idle };
    io::stdout().write_all(table::render(&results, options)?.as_bytes())?;
    if options.record {
        note(&format!("recorded in {}", record::write(&results, options)?.display()));
    }
    Ok(())
}

struct Comparison<'a> {
    options: &'a Options,
    cluster: &'a Cluster,
    running: Vec<(&'static str, Option<Middle>)>,
    bar: ProgressBar,
}

impl<'a> Comparison<'a> {
    fn start(options: &'a Options, subjects: &[&Subject], site: &Site<'a>) -> anyhow::Result<Self> {
        let running = subjects
            .iter()
            .map(|subject| Ok((subject.name, subject.start(site)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // One more pass than rounds: the calibration.
        let steps = u64::from(options.rounds + 1) * (CELLS.len() * running.len()) as u64;
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} [{elapsed}, {eta} left]")?;
        let bar = ProgressBar::new(steps).with_style(style);
        Ok(Self { options, cluster: site.cluster, running, bar })
    }

    fn run(&self) -> anyhow::Result<Vec<CellResults>> {
        let requests = self.calibrate()?;
        let mut cells: Vec<_> =
            CELLS.iter().map(|&load| CellResults { load, samples: BTreeMap::new() }).collect();
        for round in 0..self.options.rounds {
            for (cell, requests) in cells.iter_mut().zip(&requests) {
                for turn in 0..self.running.len() {
                    let index = (turn + round as usize) % self.running.len();
                    let sample = self.measurement(index, cell.load, requests[index]).take()?;
                    cell.samples.entry(self.running[index].0).or_default().push(sample);
                    self.bar.inc(1);
                }
            }
            if self.bar.is_hidden() {
                note(&format!("round {} of {} is done", round + 1, self.options.rounds));
            }
        }
        self.bar.finish_and_clear();
        Ok(cells)
    }

    /// For each cell and subject, how many requests last as long as the user wants.
    fn calibrate(&self) -> anyhow::Result<Vec<Vec<u64>>> {
        let lasting = |load: Load, index| -> anyhow::Result<u64> {
            let trial = 50_000 * u64::from(load.pipeline.min(10));
            let speed = self.measurement(index, load, trial).take()?.ops;
            self.bar.inc(1);
            Ok((speed * self.options.seconds) as u64)
        };
        let of_cell = |load: &Load| (0..self.running.len()).map(|index| lasting(*load, index)).collect();
        CELLS.iter().map(of_cell).collect()
    }

    fn measurement(&self, index: usize, load: Load, requests: u64) -> Measurement<'_> {
        let (name, middle) = &self.running[index];
        self.bar.set_message(format!("{} through {name}", table::title(&load)));
        let port = middle.as_ref().map_or_else(|| self.cluster.ports()[0], |middle| middle.port);
        let target = Target { port, cluster: middle.is_none(), threads: self.options.threads };
        Measurement { cluster: self.cluster, middle: middle.as_ref(), load, target, requests }
    }
}

/// 500 clients, and 10,000 idle ones, need more descriptors than a shell allows; children inherit the limit.
fn raise_file_limit() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// A line for whoever watches; nothing depends on it.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
