//! The command line of the benchmarks.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use tsubaki_benches::{compare, floor, instructions, load::open_loop, relay};

#[derive(Parser)]
#[command(about = "Benchmarks of tsubaki")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure tsubaki beside direct cluster access, the floor and other proxies, and print the tables
    Compare(compare::Options),
    /// Write the newest record into README
    Readme(compare::readme::Options),
    /// Serve as the floor: answer from memory, with the least work that any server does
    Floor {
        /// Port on 127.0.0.1
        #[arg(long)]
        port: u16,
    },
    /// Count the instructions of the hot path and compare them with the committed record
    Instructions(instructions::Options),
    /// Send commands at a fixed rate and print their latencies
    OpenLoop(open_loop::Options),
    /// Hold bytes between two ports for a set time, as a network does
    Relay(relay::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Compare(options) => compare::run(&options)?,
        Command::Readme(options) => compare::readme::run(&options)?,
        Command::Floor { port } => {
            floor::serve(port).with_context(|| format!("the floor on 127.0.0.1:{port} ended"))?;
        }
        Command::Instructions(options) => return instructions::run(&options),
        Command::OpenLoop(options) => open_loop::run_alone(&options)?,
        Command::Relay(options) => relay::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}
