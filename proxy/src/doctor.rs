//! `tsubaki doctor`: what of this machine stands in the way of Redis and of the proxy, and how to mend it.
//!
//! ```text
//!   Machine, files of /proc and /sys, Config, Plan --> CHECKS, each pure --> Report: text or JSON, exit code
//! ```
//!
//! It changes nothing, except with `--restore`.

mod check;
mod cpus;
mod kernel;
mod memory;
mod network;
mod report;
mod sample;
mod servers;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use tsubaki_config::{Config, Overrides};

use self::check::Subject;
use self::report::Report;
use self::sample::Sample;
use crate::machine::{Machine, Root};
use crate::placement::{self, Restored};
use crate::run;

/// What to look at, and how to say it.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 nothing found, 1 findings, 2 could not look.

Examples:
  tsubaki doctor
  tsubaki doctor --config /etc/tsubaki.toml --plan
  tsubaki doctor --json | jq '.checks[] | select(.status == \"finding\")'")]
pub struct DoctorArgs {
    /// The proxy's configuration file, for limits and placement [env: TSUBAKI_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where clients connect, several parted by commas [env: TSUBAKI_LISTEN]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Worker threads [env: TSUBAKI_WORKERS]
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Show which worker would run where, and what would be changed on the system; look at nothing else
    #[arg(long, conflicts_with = "restore")]
    pub plan: bool,
    /// Set back what proxies that crashed had changed on the system
    #[arg(long)]
    pub restore: bool,
    /// Look also at what matters to Redis servers alone, though none runs here
    #[arg(long)]
    pub redis: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Look at a copy of another machine's /proc and /sys below this folder
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// Looks, and prints what was found.
///
/// # Errors
///
/// A bad configuration, or one that this machine cannot fulfil.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let flags =
        Overrides { config: args.config, listen: args.listen, workers: args.workers, ..Overrides::default() };
    let config = run::load(flags, Config::load_without_seeds)?;
    let root = Root::at(args.root);
    if args.restore {
        return restore(&root, &config);
    }
    anyhow::ensure!(
        root.path("proc/self/status").exists(),
        "there is no machine to look at below {}: it has no proc/self/status",
        root.path("").display()
    );
    let mut machine = Machine::read(&root);
    // The one that is examined may run already: its own CPUs are not taken, and no other's can be told from them.
    machine.servers.retain(|server| server.name != "tsubaki");
    let plan = placement::plan(&machine, &config.placement, &config.listen.addresses)?;
    if args.plan {
        let text = if args.json { json(&plan)? } else { placement::table(&plan) };
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sample = Sample::take(&root);
    let subject =
        Subject { root: &root, machine: &machine, config: &config, plan: &plan, sample, redis: args.redis };
    let report = Report::of(&subject);
    print(&if args.json { json(&report)? } else { report.to_string() })?;
    Ok(if report.findings() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn restore(root: &Root, config: &Config) -> anyhow::Result<ExitCode> {
    let state_dir = &config.placement.state_dir;
    // A copy's notes are the copy's.
    let state_dir = match state_dir.strip_prefix("/") {
        Ok(below) if root.is_copy() => root.path(below),
        _ => state_dir.clone(),
    };
    let Restored { done, left, failed, living } = placement::restore(root, &state_dir);
    let mut text = String::new();
    for (path, before) in &done {
        text += &format!("/{path}: {before} again\n");
    }
    for path in &left {
        text += &format!("/{path}: left as it is, somebody has changed it since\n");
    }
    for path in &living {
        text += &format!("{}: its proxy lives, and sets back what it changed when it ends\n", path.display());
    }
    if text.is_empty() && failed.is_empty() {
        text = format!(
            "nothing to set back: no proxy that crashed has left a note in {}\n",
            state_dir.display()
        );
    }
    print(&text)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let failed: Vec<_> = failed.iter().map(|(path, error)| format!("{path}: {error}")).collect();
    anyhow::bail!("cannot set back all: {}", failed.join("; "))
}

fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("cannot write JSON")? + "\n")
}

/// Who closes the pipe has read enough.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot print"),
    }
}
