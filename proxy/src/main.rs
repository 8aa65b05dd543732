//! The program: arguments in, exit code out.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use tsubaki::cli::{Cli, Command};
use tsubaki::{demo, dev_cluster, doctor, run};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // For the doctor 1 means findings.
    let failure = if matches!(command, Command::Doctor(_)) { ExitCode::from(2) } else { ExitCode::FAILURE };
    let outcome = match command {
        Command::Run(settings) => run::run(settings),
        Command::Check(settings) => run::check(settings).map(|()| ExitCode::SUCCESS),
        Command::DevCluster(args) => dev_cluster::run(args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(args),
        Command::Demo(args) => demo::run(args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(std::io::stderr(), "tsubaki: {error:#}");
        failure
    })
}
