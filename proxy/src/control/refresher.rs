//! Fetches the cluster's topology: at the start, on a timer, and when workers ask; one fetch at a time for the process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tsubaki_core::topology::{AddressMap, Topology};

use super::RefreshRequest;
use super::diagnosis::Diagnosis;
use super::known::{Known, Learnt};
use super::node::{self, Access, Answer, NodeError};
use crate::clock::Clock;
use crate::driver::{Mail, Mailbox};

/// Least time between two fetches, and the time to which it doubles while they bring nothing new. Ten a second follow a slot
/// migration closely; a node that stays dead is no reason to go on asking so often.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Nodes whose views are joined. Two views may both be stale in the moment of a failover; three seldom are.
const VIEWS: usize = 3;

/// How long the first view waits for others to join it.
const COMPANY: Duration = Duration::from_millis(50);

/// Pause after a fetch in which no node answered, so that clients are served soon after the cluster is.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// Every so many fetches the seeds are asked first, their names resolved anew.
const SEED_TURN: u64 = 30;

/// Nodes that redirects named and that are asked first; more are not remembered.
const MAX_HINTS: usize = 16;

/// What others may see of the refresher.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// True since the first view that serves a slot.
    pub(crate) known: AtomicBool,
    /// True since the proxy was told to stop.
    pub(crate) stopping: AtomicBool,
    pub(crate) refreshes: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Slots with a master in the newest view.
    pub(crate) covered: AtomicU64,
    pub(crate) masters: AtomicU64,
    pub(crate) replicas: AtomicU64,
}

pub(crate) struct Refresher {
    pub(crate) seeds: Vec<String>,
    pub(crate) access: Access,
    pub(crate) addresses: AddressMap,
    pub(crate) interval: Duration,
    pub(crate) clock: Clock,
    pub(crate) workers: Arc<[Mailbox]>,
    pub(crate) requests: mpsc::UnboundedReceiver<RefreshRequest>,
    pub(crate) status: Arc<Status>,
}

impl Refresher {
    /// Runs until the workers are gone.
    pub(crate) async fn run(mut self) {
        let mut diagnosis = Diagnosis::default();
        let mut known = Known::default();
        let mut hints = BTreeSet::new();
        let mut least_pause = PAUSE.0;
        loop {
            let began = Instant::now();
            let hinted = !hints.is_empty();
            let changed = self.fetch(std::mem::take(&mut hints), &mut known, &mut diagnosis).await;
            least_pause =
                if hinted || changed == Some(true) { PAUSE.0 } else { PAUSE.1.min(least_pause * 2) };
            let pause = match changed {
                Some(_) => self.interval,
                None => AFTER_FAILURE.min(self.interval),
            };
            tokio::select! {
                () = sleep_until(began + pause + self.jitter(pause)) => {}
                request = self.requests.recv() => {
                    let Some(request) = request else { return };
                    tracing::debug!(reason = ?request.reason, "a refresh of the topology is wanted");
                    let pause = if request.hint.is_some() { PAUSE.0 } else { least_pause + self.jitter(least_pause) };
                    hints.extend(request.hint);
                    sleep_until(began + pause).await;
                }
            }
            // What was asked meanwhile is answered by the fetch that begins now.
            while let Ok(request) = self.requests.try_recv() {
                hints.extend(request.hint.filter(|_| hints.len() < MAX_HINTS));
            }
        }
    }

    /// Up to a tenth of a pause: many proxies that started together do not ask together.
    fn jitter(&self, pause: Duration) -> Duration {
        pause.mul_f64(f64::from(self.clock.now().since_epoch().subsec_micros() % 1000) / 10_000.0)
    }

    /// Fetches a newer view and publishes it: whether it changed; `None`, and what was known stays, if there is none.
    async fn fetch(
        &self,
        hints: BTreeSet<String>,
        known: &mut Known,
        diagnosis: &mut Diagnosis,
    ) -> Option<bool> {
        let count = self.status.refreshes.fetch_add(1, Ordering::Relaxed);
        let fetched = self.clock.now();
        let mut answers = Vec::new();
        let nodes = known.candidates(&hints);
        if !nodes.is_empty() && count % SEED_TURN != SEED_TURN - 1 {
            answers = self.collect(nodes, diagnosis).await;
        }
        if answers.is_empty() {
            let seeds = self.resolve(diagnosis).await;
            answers = self.collect(seeds, diagnosis).await;
        }
        if answers.is_empty() {
            self.status.failures.fetch_add(1, Ordering::Relaxed);
            diagnosis.nobody_answers(&self.seeds);
            return None;
        }
        diagnosis.answered();
        match known.learn(answers, &self.addresses, fetched) {
            Learnt::OnlyStrangers(strangers) => {
                diagnosis.strangers(&strangers);
                None
            }
            Learnt::View { changed, strangers } => {
                diagnosis.strangers(&strangers);
                self.publish(&known.topology, diagnosis);
                diagnosis.probe(&known.topology, &self.access);
                Some(changed)
            }
        }
    }

    /// The seeds' addresses: a name may have several, and others than before.
    async fn resolve(&self, diagnosis: &mut Diagnosis) -> Vec<String> {
        let mut addresses = Vec::new();
        for seed in &self.seeds {
            match timeout(self.access.timeout, lookup_host(seed)).await {
                Ok(Ok(found)) => addresses.extend(found.map(|address| address.to_string())),
                Ok(Err(error)) => diagnosis.failed(seed, &NodeError::Io(error)),
                Err(_) => diagnosis.failed(seed, &NodeError::Silent(self.access.timeout)),
            }
        }
        let mut seen = BTreeSet::new();
        addresses.retain(|address| seen.insert(address.clone()));
        addresses
    }

    /// Asks the candidates, a few at a time, until there are enough views or nobody is left.
    async fn collect(&self, candidates: Vec<String>, diagnosis: &mut Diagnosis) -> Vec<(String, Answer)> {
        let mut candidates = candidates.into_iter();
        let mut asked = JoinSet::new();
        let mut answers = Vec::new();
        let start = |asked: &mut JoinSet<_>, address: String| {
            let access = self.access.clone();
            asked.spawn_local(async move {
                let answer = node::ask(&address, &access).await;
                (address, answer)
            });
        };
        candidates.by_ref().take(VIEWS).for_each(|address| start(&mut asked, address));
        let mut deadline = None;
        while answers.len() < VIEWS {
            let next = match deadline {
                None => asked.join_next().await,
                Some(deadline) => timeout(deadline, asked.join_next()).await.unwrap_or(None),
            };
            let Some(Ok((address, answer))) = next else { break };
            match answer {
                Ok(answer) => {
                    answers.push((address, answer));
                    deadline = Some(COMPANY);
                }
                Err(error) => {
                    diagnosis.failed(&address, &error);
                    if let Some(address) = candidates.next() {
                        start(&mut asked, address);
                    }
                }
            }
        }
        answers
    }

    fn publish(&self, topology: &Topology, diagnosis: &mut Diagnosis) {
        let replicas: usize = topology.shards.iter().map(|shard| shard.replicas.len()).sum();
        let status = &self.status;
        status.covered.store(topology.covered() as u64, Ordering::Relaxed);
        status.masters.store(topology.shards.len() as u64, Ordering::Relaxed);
        status.replicas.store(replicas as u64, Ordering::Relaxed);
        let (masters, slots) = (topology.shards.len(), topology.covered());
        if slots == 0 {
            diagnosis.no_slots(&self.seeds);
        } else if !status.known.swap(true, Ordering::Relaxed) {
            tracing::info!(masters, replicas, slots, "the cluster is known; commands are served");
        }
        let topology = Arc::new(topology.clone());
        for worker in self.workers.iter() {
            worker.send(Mail::Topology(Arc::clone(&topology)));
        }
    }
}
