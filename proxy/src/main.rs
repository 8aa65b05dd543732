//! The program: arguments in, exit code out.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use tsubaki::cli::{Cli, Command};
use tsubaki::{demo, dev_cluster, run};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(settings) => run::run(settings),
        Command::Check(settings) => run::check(settings).map(|()| ExitCode::SUCCESS),
        Command::DevCluster(args) => dev_cluster::run(args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(std::io::stderr(), "tsubaki: {error:#}");
        ExitCode::FAILURE
    })
}
