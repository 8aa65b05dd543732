//! A stage: one cluster, the subjects in front of it, and all cells that need just these.
//!
//! Must not know: what the figures mean.

use std::{collections::BTreeMap, mem};

use anyhow::{Context as _, bail};

use super::{
    Options,
    cell::Cell,
    measure::{Measurement, Sample},
    progress::Progress,
    record::CellResults,
    subject::{self, DIRECT, Middle, Running, Site, Subject},
};
use crate::{
    cap::Cap,
    cluster::Cluster,
    load::{
        Amount, Load,
        open_loop::OpenLoop,
        redis_benchmark::{Command, RedisBenchmark},
    },
};

/// Characters of the longest remark.
const LONGEST_LINE: usize = 400;

/// Commands of a first trial, where there is neither cap nor pipeline.
const TRIAL_COMMANDS: u64 = 40_000;

/// Seconds. redis-benchmark's threads notice every 250 ms only that they are done, and its own figures of a run not much
/// longer than that are nonsense.
const SHORTEST_TRIAL: f64 = 0.5;

/// Seconds. Of runs of 0.65 s a third showed nonsense as their last figure, of longer ones none.
const SHORTEST_SAMPLE: f64 = 0.75;

/// Bytes of values that a trial sends at most.
const TRIAL_BYTES: u64 = 64 << 20;

/// What the open loop sends, of what direct access reaches.
const OPEN_LOOP_SHARE: f64 = 0.5;

/// A cluster and what stands in front of it.
pub struct Stage<'a> {
    options: &'a Options,
    cells: Vec<&'a Cell>,
    cluster: Cluster,
    entrants: Vec<Entrant>,
    progress: &'a mut Progress,
    /// Commands a second, last time, by cell and subject.
    paces: BTreeMap<(String, &'static str), f64>,
}

struct Entrant {
    subject: &'static Subject,
    running: Running,
    /// It failed in the cell before: it may have ended, or owe replies.
    restart: bool,
}

impl<'a> Stage<'a> {
    /// Starts the cluster of the cells, which is the same for all, and every subject that one of them needs.
    ///
    /// # Errors
    /// If the cluster does not start.
    pub fn start(
        options: &'a Options,
        cells: Vec<&'a Cell>,
        progress: &'a mut Progress,
    ) -> anyhow::Result<Self> {
        progress.show("starting a cluster and what stands in front of it");
        let first = cells.first().context("a stage without cells")?;
        let cluster = Cluster::of(first.shape)?;
        let mut stage =
            Self { options, cells, cluster, entrants: Vec::new(), progress, paces: BTreeMap::new() };
        for subject in &subject::SUBJECTS {
            let needed = stage.cells.iter().any(|cell| cell.subjects.contains(&subject.name));
            if !needed || !options.takes(subject.name) {
                continue;
            }
            let running = stage.start_subject(subject);
            if let Running::Missing(why) = &running
                && !subject.is_peer()
            {
                bail!("{why}");
            }
            stage.entrants.push(Entrant { subject, running, restart: false });
        }
        Ok(stage)
    }

    /// Measures all cells in rounds.
    ///
    /// # Errors
    /// If the cluster fails.
    pub fn run(mut self) -> anyhow::Result<Vec<CellResults>> {
        let cells = self.cells.clone();
        let mut results: Vec<_> = cells.iter().map(|cell| CellResults::new(cell)).collect();
        let rounds = self.options.rounds();
        for round in 0..rounds {
            for (cell, results) in cells.iter().zip(&mut results) {
                self.cell(cell, round, results)?;
                self.progress.news(&format!("round {} of {}, {}", round + 1, rounds, cell.name));
            }
        }
        Ok(results)
    }

    /// One round of one cell. A subject that fails loses the cell: what it did in other rounds counts no more.
    fn cell(&mut self, cell: &Cell, round: u32, results: &mut CellResults) -> anyhow::Result<()> {
        self.restart_failed();
        self.cluster.prepare(&cell.load)?;
        let cap = cell.capped.then(|| Cap::on(&self.cluster.pids())).transpose();
        for turn in 0..self.entrants.len() {
            let index = (turn + round as usize) % self.entrants.len();
            let Entrant { subject, running, .. } = &self.entrants[index];
            let name = subject.name;
            if !cell.subjects.contains(&name) {
                continue;
            }
            self.progress.step();
            if results.lost.contains_key(name) {
                continue;
            }
            match (&cap, running) {
                (Err(why), _) => self.lose(name, results, why),
                // A peer that is not here has lost nothing.
                (_, Running::Missing(_)) if subject.is_peer() => {}
                _ => match self.sample(cell, index) {
                    Ok(sample) => results.samples.entry(name.to_owned()).or_default().push(sample),
                    Err(error) => {
                        self.lose(name, results, &error);
                        self.entrants[index].restart = true;
                    }
                },
            }
        }
        Ok(())
    }

    fn lose(&mut self, name: &str, results: &mut CellResults, error: &anyhow::Error) {
        let why = one_line(error);
        self.progress.remark(format!("{name} lost {}: {why}", results.name));
        results.samples.remove(name);
        results.lost.insert(name.to_owned(), why);
    }

    fn sample(&mut self, cell: &Cell, index: usize) -> anyhow::Result<Sample> {
        let name = self.entrants[index].subject.name;
        self.progress.show(&format!("{} through {name}", cell.name));
        let load = self.load(cell)?;
        let key = (cell.name.clone(), name);
        let trial = trial(&load, cell.capped);
        let mut pace = match (self.paces.get(&key), trial) {
            (Some(&pace), _) => pace,
            (None, Some(trial)) => self.pace(index, load, trial)?,
            // It keeps time, or says itself how much it sends.
            (None, None) => 0.0,
        };
        loop {
            let amount = self.lasting(pace);
            let sample = self.measure(index, load, amount)?;
            pace = amount.requests as f64 / sample.seconds;
            // A subject that was held up before, and now is not, ends so soon that the figures are nonsense.
            if trial.is_none() || sample.seconds >= SHORTEST_SAMPLE.min(0.75 * amount.seconds) {
                self.paces.insert(key, pace);
                return Ok(sample);
            }
        }
    }

    /// Commands a second: of trials, each four times the one before, the first that lasts long enough to tell.
    fn pace(&self, index: usize, load: Load, mut trial: Amount) -> anyhow::Result<f64> {
        loop {
            let seconds = self.measure(index, load, trial)?.seconds;
            if seconds >= SHORTEST_TRIAL {
                return Ok(trial.requests as f64 / seconds);
            }
            trial.requests *= 4;
        }
    }

    /// The load of the cell, its rate found out.
    fn load(&mut self, cell: &Cell) -> anyhow::Result<Load> {
        let Load::OpenLoop(open_loop) = cell.load else { return Ok(cell.load) };
        let direct = self.entrants.iter().position(|entrant| entrant.subject.name == DIRECT);
        let direct = direct.context("its rate follows from direct access, which is not measured")?;
        let key = (cell.name.clone(), "the maximum");
        if !self.paces.contains_key(&key) {
            let closed = Load::RedisBenchmark(RedisBenchmark::new(Command::Get, open_loop.clients, 1));
            let first = trial(&closed, false).unwrap_or_else(|| self.lasting(0.0));
            let pace = self.pace(direct, closed, first)?;
            let maximum = self.measure(direct, closed, self.lasting(pace))?.ops;
            self.paces.insert(key.clone(), maximum);
        }
        Ok(Load::OpenLoop(OpenLoop { rate: self.paces[&key] * OPEN_LOOP_SHARE, ..open_loop }))
    }

    fn measure(&self, index: usize, load: Load, amount: Amount) -> anyhow::Result<Sample> {
        let middle: Option<&Middle> = match &self.entrants[index].running {
            Running::Direct => None,
            Running::Middle(middle) => Some(middle),
            Running::Missing(why) => bail!("{why}"),
        };
        // What earlier measurements pushed is taken away; the keys that are read stay.
        self.cluster.prepare(&load)?;
        Measurement { cluster: &self.cluster, middle, load, threads: self.options.threads, amount }.take()
    }

    /// As much as lasts the time that the user wants.
    fn lasting(&self, pace: f64) -> Amount {
        let seconds = self.options.seconds();
        Amount { seconds, requests: (pace * seconds).max(1.0) as u64 }
    }

    fn start_subject(&mut self, subject: &'static Subject) -> Running {
        let workers = self.cells.first().map_or(1, |cell| cell.workers);
        let site = Site { cluster: &self.cluster, tsubaki: self.options.tsubaki.as_deref() };
        let running =
            subject.start(&site, workers).unwrap_or_else(|error| Running::Missing(one_line(&error)));
        if let Running::Missing(why) = &running {
            self.progress.remark(format!("without {}: {why}", subject.name));
        }
        running
    }

    fn restart_failed(&mut self) {
        for index in 0..self.entrants.len() {
            if mem::take(&mut self.entrants[index].restart) {
                // The old one ends first.
                self.entrants[index].running = Running::Missing("it did not start again".to_owned());
                self.entrants[index].running = self.start_subject(self.entrants[index].subject);
            }
        }
    }
}

/// An error with all its causes, in one line of bearable length.
fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= LONGEST_LINE {
        return text;
    }
    text.chars().take(LONGEST_LINE).chain(['…']).collect()
}

/// A first look at how fast a subject is; `None` if the load does not depend on it.
fn trial(load: &Load, capped: bool) -> Option<Amount> {
    let Load::RedisBenchmark(line @ RedisBenchmark { requests: None, .. }) = load else { return None };
    let commands =
        if capped { TRIAL_COMMANDS / 4 } else { TRIAL_COMMANDS * u64::from(line.pipeline.min(10)) };
    let least = u64::from(line.clients * line.pipeline);
    let requests = commands.min(TRIAL_BYTES / u64::from(line.value_bytes)).max(least);
    Some(Amount { seconds: 0.0, requests })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Command, DIRECT, Load, Options, Progress, RedisBenchmark, Stage, one_line, trial};
    use crate::compare::cell::Suite;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_trial_is_short_for_any_load() {
        let commands = |value_bytes, clients, pipeline, capped| {
            let line = RedisBenchmark { value_bytes, ..RedisBenchmark::new(Command::Get, clients, pipeline) };
            trial(&Load::RedisBenchmark(line), capped).unwrap().requests
        };
        assert_eq!(commands(64, 50, 1, false), 40_000);
        assert_eq!(commands(64, 50, 32, false), 400_000);
        assert_eq!(commands(64, 500, 1, true), 10_000);
        assert_eq!(commands(1 << 20, 50, 1, false), 64);
        assert_eq!(commands(1 << 20, 500, 1, false), 500);
        assert!(trial(&Load::RoundTrip, false).is_none());
    }

    #[test]
    fn every_round_takes_a_sample() {
        let line = ["compare", "--rounds", "2", "--seconds", "0.05", "--subjects", DIRECT];
        let options = Line::try_parse_from(line).unwrap().options;
        let cells = Suite::Goals.cells();
        let chosen: Vec<_> =
            cells.iter().filter(|cell| ["get-50", "one-client"].contains(&&*cell.name)).collect();
        let mut progress = Progress::new(&options, &[]).unwrap();
        let results = Stage::start(&options, chosen, &mut progress).unwrap().run().unwrap();
        let counts: Vec<_> = results.iter().map(|cell| (&*cell.name, cell.samples[DIRECT].len())).collect();
        assert_eq!(counts, [("get-50", 2), ("one-client", 2)]);
        let sample = &results[0].samples[DIRECT][0];
        assert!(
            sample.ops > 0.0 && sample.nodes_us > 0.0 && sample.load_us > 0.0 && sample.proxy_us.is_none()
        );
        assert_eq!(progress.finish(), Vec::<String>::new());
    }

    #[test]
    fn an_error_is_one_line() {
        let error = anyhow::anyhow!("a\n  b").context("c");
        assert_eq!(one_line(&error), "c: a b");
        assert_eq!(one_line(&anyhow::anyhow!("x".repeat(1000))).chars().count(), 401);
    }
}
