//! The command line of the benchmarks.

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use tsubaki_benches::{compare, floor};

#[derive(Parser)]
#[command(about = "Benchmarks of tsubaki")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure tsubaki beside direct cluster access and the floor, and print the table
    Compare(compare::Options),
    /// Serve as the floor: answer from memory, with the least work that any server does
    Floor {
        /// Port on 127.0.0.1
        #[arg(long)]
        port: u16,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Compare(options) => compare::run(&options),
        Command::Floor { port } => {
            floor::serve(port).with_context(|| format!("the floor on 127.0.0.1:{port} ended"))
        }
    }
}
