//! `tsubaki run` and `tsubaki check`: from a configuration to running workers, and back to nothing.

mod ground;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU8;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tsubaki_config::{Config, ConfigError, ConfigFile, Overrides, Sources};
use tsubaki_core::settings::MAX_SPARES;

use self::ground::{Ground, homes};
use crate::admin;
use crate::clock::Clock;
use crate::control::{Access, Refresher, Status};
use crate::driver::{self, Job, Mail, Mailbox};
use crate::gate::Gate;
use crate::placement::Applied;
use crate::{cli, listeners, log};

/// Prints the configuration that `run` would use.
///
/// # Errors
///
/// A configuration that `run` would refuse.
pub fn check(settings: cli::Settings) -> anyhow::Result<()> {
    use std::io::Write as _;
    let config = load(Overrides::from(settings), Config::load)?;
    write!(std::io::stdout(), "{config}").context("cannot print")
}

/// Runs the proxy until it is told to stop.
///
/// # Errors
///
/// A bad configuration, or an address or thread that the system refuses. A cluster that does not answer is no error.
pub fn run(settings: cli::Settings) -> anyhow::Result<ExitCode> {
    let config = load(Overrides::from(settings), Config::load)?;
    log::start(&config.log);
    let files = raise_open_files();
    let ground = Ground::survey(&config)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .context("cannot start the control thread")?;
    let sizes = Sizes::affordable(&config, files, ground.plan.workers.len());
    let outcome = runtime.block_on(control(&config, ground, &sizes));
    // Not dropped: that would wait for name look-ups that nobody needs any more.
    runtime.shutdown_background();
    log::flush();
    outcome
}

/// The configuration of flags, environment and file, checked by `parse`.
pub(crate) fn load(
    flags: Overrides,
    parse: impl Fn(&Sources<'_>) -> Result<Config, ConfigError>,
) -> anyhow::Result<Config> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.to_string_lossy().into_owned())))
        .collect();
    let file = match flags.config_path(&env) {
        Some(path) => {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
            Some(ConfigFile { path: path.display().to_string(), text })
        }
        None => None,
    };
    let sources = Sources { file, env, flags, read_file: &|path| fs::read_to_string(path) };
    parse(&sources).map_err(|error: ConfigError| anyhow::anyhow!("{error}"))
}

/// As many files as the system allows; returns how many.
fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Refused or not: what counts is what holds then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current
}

/// What the limit of open files allows.
pub(crate) struct Sizes {
    /// Clients of the process.
    clients: usize,
    /// Connections of one worker for large values on their way.
    spares: usize,
}

impl Sizes {
    /// As Redis does: fewer clients, where the files do not suffice for all that are allowed.
    fn affordable(config: &Config, files: Option<u64>, workers: usize) -> Self {
        let wanted = config.listen.max_clients;
        let Some(files) = files else { return Self { clients: wanted as usize, spares: MAX_SPARES } };
        let spares = spares(files, workers);
        let reserved = reserved_files(workers, config.cluster.connections_per_node, spares);
        let affordable = files.saturating_sub(reserved).max(1);
        if affordable < u64::from(wanted) {
            tracing::warn!(
                files,
                max_clients = wanted,
                lowered_to = affordable,
                "the limit of open files is too low for max_clients: raise it (LimitNOFILE, ulimit -n) or lower max_clients"
            );
        }
        Self { clients: affordable.min(u64::from(wanted)) as usize, spares }
    }

    /// Files that all clients that are allowed and all connections to nodes take.
    pub(crate) fn needed(config: &Config, workers: usize) -> u64 {
        let reserved = reserved_files(workers, config.cluster.connections_per_node, MAX_SPARES);
        reserved + u64::from(config.listen.max_clients)
    }
}

/// Large values get an eighth of few files, and of many no more than is of use.
fn spares(files: u64, workers: usize) -> usize {
    (files as usize / 8 / workers.max(1)).clamp(1, MAX_SPARES)
}

/// Files that are kept from clients: nodes must be reachable however many clients there are (64 connections a worker,
/// twenty nodes in three lanes, as often as is set, and those for large values), and 32 for listeners, admin, log and the
/// refresher. Redis keeps 32.
fn reserved_files(workers: usize, connections_per_node: NonZeroU8, spares: usize) -> u64 {
    let shared = 64 * u64::from(connections_per_node.get());
    32 + workers as u64 * (shared + spares as u64)
}

async fn control(config: &Config, mut ground: Ground, sizes: &Sizes) -> anyhow::Result<ExitCode> {
    // Signals first: one that comes during the start must not end the process half-way.
    let mut signals = Signals::new()?;
    let clock = Clock::start();
    let (refresh, requests) = mpsc::unbounded_channel();
    let mut mailboxes = Vec::new();
    let mut mails = Vec::new();
    let workers = ground.plan.workers.len();
    for _ in 0..workers {
        let (mailbox, mail) = Mailbox::new();
        mailboxes.push(mailbox);
        mails.push(mail);
    }
    let peers: Arc<[Mailbox]> = mailboxes.into();
    let status = Arc::new(Status::default());
    let gates = Gate::all(sizes.clients, workers);
    // Every worker has a gate, and there is a worker at least.
    let away = gates.first().map(Gate::away).context("the plan has no worker")?;
    let system = ground.watch(away);
    let admin = admin::start(config.admin.listen.as_ref(), Arc::clone(&peers), Arc::clone(&status), system)?;
    let bound = listeners::bind(&config.listen, workers)?;
    // Only now that nothing can fail any more: interrupts shall not move to and fro with every try to start.
    let applied = ground.prepare(config);
    let (plan, cpus) = (&ground.plan, ground.accepting_cpus());
    listeners::steer(&bound, &cpus);
    let homes = homes(&cpus);
    let identity = settings::identity(config, workers, sizes.clients, &clock);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), pid = std::process::id(), workers, placement = plan.reason, arrivals = %plan.arrivals,
        listen = %addresses(&config.listen.addresses), admin = admin.as_deref().unwrap_or("off"), "tsubaki starts"
    );
    let mut threads = Vec::new();
    let seats = plan.workers.iter().cloned();
    for (index, (((listeners, mail), gate), seat)) in
        bound.into_iter().zip(mails).zip(gates).zip(seats).enumerate()
    {
        threads.push(driver::spawn(Job {
            index,
            settings: settings::engine(config, &identity, index, sizes.spares),
            listeners,
            mail,
            peers: Arc::clone(&peers),
            refresh: refresh.clone(),
            gate,
            clock,
            seat,
            memory: config.placement.memory,
            homes: Arc::clone(&homes),
            tcp_keepalive: config.listen.tcp_keepalive.as_duration(),
        })?);
    }
    drop(refresh);
    tokio::task::spawn_local(
        Refresher {
            seeds: config.cluster.seeds.iter().map(ToString::to_string).collect(),
            access: Access {
                login: settings::login(config),
                timeout: config.cluster.connect_timeout.as_duration(),
            },
            addresses: settings::address_map(config),
            interval: config.cluster.refresh_interval.as_duration(),
            clock,
            workers: Arc::clone(&peers),
            requests,
            status: Arc::clone(&status),
        }
        .run(),
    );
    signals.next().await;
    status.stopping.store(true, Ordering::Relaxed);
    Ok(stop(&peers, threads, config.listen.shutdown_timeout.as_duration(), &mut signals, applied).await)
}

/// Lets the workers finish what they owe, as long as the time and the operator allow.
async fn stop(
    peers: &[Mailbox],
    threads: Vec<JoinHandle<()>>,
    patience: Duration,
    signals: &mut Signals,
    applied: Applied,
) -> ExitCode {
    tracing::info!(
        patience_ms = patience.as_millis() as u64,
        "stopping: listeners close, what is in flight is answered"
    );
    peers.iter().for_each(|worker| worker.send(Mail::Stop));
    // A thread of its own: the runtime's may all be waiting for a name server.
    let (sender, finished) = oneshot::channel();
    std::thread::spawn(move || sender.send(threads.into_iter().all(|thread| thread.join().is_ok())));
    let code = tokio::select! {
        finished = finished => {
            tracing::info!("stopped");
            return if finished.unwrap_or(false) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        () = tokio::time::sleep(patience) => {
            tracing::warn!("stopped: some clients were still owed replies, or had not taken them, and were cut off");
            0
        }
        number = signals.next() => {
            tracing::warn!("stopped at once by a second signal");
            128 + number
        }
    };
    // What `exit` does not drop.
    drop(applied);
    log::flush();
    std::process::exit(code)
}

/// The signals that mean stop; a closed terminal is one.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the next signal.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
        }
    }
}

fn addresses(list: &[impl ToString]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
