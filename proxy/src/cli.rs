//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tsubaki_config::Overrides;

use crate::demo::DemoArgs;
use crate::dev_cluster::DevClusterArgs;
use crate::doctor::DoctorArgs;

/// A Redis Cluster proxy: clients that know one Redis address use a whole cluster, unchanged.
#[derive(Debug, Parser)]
#[command(
    name = "tsubaki",
    version,
    after_help = "\
Examples:
  tsubaki run --listen 127.0.0.1:6380 --cluster 10.0.0.1:6379,10.0.0.2:6379
  tsubaki run --config /etc/tsubaki.toml
  tsubaki check --config /etc/tsubaki.toml
  tsubaki doctor
  tsubaki demo"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What tsubaki can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the proxy until SIGTERM or Ctrl-C; a second signal ends it at once.
    Run(Settings),
    /// Check a configuration and print what would be in force, passwords left out.
    Check(Settings),
    /// Start a local cluster from the installed redis-server or valkey-server, until Ctrl-C.
    DevCluster(DevClusterArgs),
    /// Look at this machine for what stands in the way of Redis and of the proxy, and say how to mend it.
    Doctor(DoctorArgs),
    /// Start a local cluster and the proxy, show what the proxy does, and serve until Ctrl-C.
    Demo(DemoArgs),
}

/// Settings on the command line; each wins over the environment, which wins over the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Without flags: clients connect to 127.0.0.1:6380, metrics and health are at 127.0.0.1:16380.
Every other setting stands in the file or in a TSUBAKI_… variable; config/tsubaki.toml and docs/configuration.md list
them. Passwords have no flag: TSUBAKI_PASSWORD is what clients send, TSUBAKI_CLUSTER_PASSWORD what the nodes ask for.

Examples:
  tsubaki run --cluster 10.0.0.1:6379,10.0.0.2:6379
  TSUBAKI_CLUSTER_PASSWORD=… tsubaki run --listen '*:6380' --cluster redis.internal:6379
  tsubaki check --config /etc/tsubaki.toml && tsubaki run --config /etc/tsubaki.toml")]
pub struct Settings {
    /// Configuration file (TOML) [env: TSUBAKI_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where clients connect, several parted by commas [env: TSUBAKI_LISTEN]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Some nodes of the cluster, parted by commas; one that is up suffices [env: TSUBAKI_CLUSTER]
    #[arg(long, value_name = "HOST:PORT,…")]
    pub cluster: Option<String>,
    /// Worker threads; by default one for each CPU that the process may use [env: TSUBAKI_WORKERS]
    #[arg(long, value_name = "N")]
    pub workers: Option<String>,
    /// Where metrics and health are served, or "off" [env: TSUBAKI_ADMIN]
    #[arg(long, value_name = "ADDR:PORT")]
    pub admin: Option<String>,
}

impl From<Settings> for Overrides {
    fn from(settings: Settings) -> Self {
        let Settings { config, listen, cluster, workers, admin } = settings;
        Self { config, listen, cluster, workers, admin }
    }
}
