//! `tsubaki demo`: a cluster and the proxy on this machine, a proof on the screen, and then a place to play.
//!
//! The proxy is a process of its own, started as a user would start it, so what is shown is what is shipped;
//! nothing here may reach into the data path.
//!
//! ```text
//! demo ── DevCluster: 3 masters, 3 replicas
//!   ├──── tsubaki run --listen 127.0.0.1:6380 --cluster …   (proxy.rs)
//!   ├──── commands, each checked                            (proof.rs)
//!   └──── a load through the proxy and directly             (load.rs, compare.rs)
//! ```

mod compare;
mod load;
mod proof;
mod proxy;

use anyhow::anyhow;
use clap::Args;

use self::proxy::Proxy;
use crate::dev_cluster::{DevCluster, Options, Server, Stop};
use crate::progress::Progress;

/// The proxy before a local cluster: a proof on the screen, then it serves until Ctrl-C.
///
/// Starts 3 masters and 3 replicas of the installed redis-server or valkey-server on free ports and the proxy
/// before them, sends commands for keys of different slots through the one address, then measures five
/// seconds of load through the proxy and five directly. Nothing is kept on disk and nothing is left running.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// End after the proof; the exit code is 0 only if every reply was right.
    #[arg(long)]
    once: bool,
    /// The proxy's port, instead of the first free one from 6380 on.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
}

/// Runs the demo.
///
/// # Errors
/// When the cluster or the proxy does not start, or any reply is wrong.
pub fn run(args: DemoArgs) -> anyhow::Result<()> {
    let server = Server::find()?;
    let addr = proxy::listen_addr(args.port)?;
    let progress = Progress::new();
    let options = Options { replicas: 1, ..Options::new(server.clone()) };
    let cluster = DevCluster::start(options, &mut |step| progress.step(step))?;
    progress.done(format!("{server}, a cluster of 3 masters and 3 replicas"));

    progress.step("starting the proxy");
    let proxy = Proxy::start(&cluster, addr)?;
    progress.done(format!("tsubaki, one address before it: {}", proxy.addr()));

    let shown = proof::show(&cluster, proxy.addr(), &progress)
        .and_then(|()| compare::show(&cluster, proxy.addr(), &progress));
    shown.map_err(|error| anyhow!("{error:#}; {}", proxy.last_words()))?;

    if !args.once {
        let stop = Stop::catch()?;
        let port = proxy.addr().port();
        progress
            .line(format!("\nserves at redis-cli -p {port}   metrics at http://{}/metrics", proxy.admin()));
        progress.line("Ctrl-C ends it all");
        stop.wait();
    }
    progress.step("stopping");
    proxy.stop()
}
