//! `tsubaki dev-cluster`: a cluster until Ctrl-C.

use std::io;
use std::path::PathBuf;

use clap::Args;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{DevCluster, Node, Options, Role, Server};
use crate::progress::Progress;

/// A local Redis Cluster of the installed redis-server or valkey-server, until Ctrl-C.
///
/// The nodes listen on 127.0.0.1 only, keep nothing on disk, and end with this command.
#[derive(Debug, Args)]
pub struct DevClusterArgs {
    /// Masters; they share the 16384 slots evenly.
    #[arg(long, default_value_t = 3, value_name = "N")]
    masters: u16,
    /// Replicas of each master.
    #[arg(long, default_value_t = 1, value_name = "N")]
    replicas: u16,
    /// Port of the first node; the others take the ports that follow.
    #[arg(long, default_value_t = 7000, value_name = "PORT")]
    base_port: u16,
    /// The redis-server or valkey-server (7.0 or later) to run, instead of the one found.
    ///
    /// Looked for: $TSUBAKI_REDIS_SERVER, redis-server on the PATH, $TSUBAKI_VALKEY_SERVER, valkey-server
    /// on the PATH, .cache/valkey of the source tree.
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// A password that every node asks for.
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// A line for every node's redis.conf, such as 'maxmemory 100mb'; may be given several times.
    #[arg(long = "node-config", value_name = "LINE")]
    node_config: Vec<String>,
}

/// Starts the cluster, prints its nodes, and ends it at SIGINT or SIGTERM.
///
/// # Errors
/// When the cluster does not come up, with the reason.
pub fn run(args: DevClusterArgs) -> anyhow::Result<()> {
    let server = args.server.map_or_else(Server::find, Server::at)?;
    let progress = Progress::new();
    let options = Options {
        masters: args.masters,
        replicas: args.replicas,
        base_port: Some(args.base_port),
        password: args.password,
        node_config: args.node_config,
        ..Options::new(server.clone())
    };
    let cluster = DevCluster::start(options, &mut |step| progress.step(step))?;
    progress.done(format!("{server}, cluster of {} nodes is ok", cluster.nodes().len()));
    for node in cluster.nodes() {
        progress.line(describe(&cluster, node));
    }
    let stop = Stop::catch()?;
    progress.line(format!("ready: tsubaki run --cluster 127.0.0.1:{}", args.base_port));
    stop.wait();
    progress.line("stopping the nodes");
    Ok(())
}

/// SIGINT and SIGTERM, caught from the moment that this exists; before, they end the process at once.
pub(crate) struct Stop {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// # Errors
    /// When the system gives no signal handlers.
    pub(crate) fn catch() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (interrupt, terminate) = {
            let _entered = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        Ok(Self { runtime, interrupt, terminate })
    }

    /// Waits for either of them.
    pub(crate) fn wait(mut self) {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        });
    }
}

fn describe(cluster: &DevCluster, node: &Node) -> String {
    let role = match node.role() {
        Role::Master(slots) => format!("master   slots {}-{}", slots.start(), slots.end()),
        Role::Replica(master) => match cluster.nodes().get(*master) {
            Some(master) => format!("replica  of {}", master.addr()),
            None => "replica".to_owned(),
        },
    };
    format!("{}  pid {:<8}{role}", node.addr(), node.pid().unwrap_or_default())
}
