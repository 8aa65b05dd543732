//! One seed's world: a virtual clock, what happens when, and the shell around the engine, played by hand.
//!
//! The rest of the world is told in the files beside it: what passes between engine and nodes in `wire`, clients in
//! `clients`, what goes wrong in `chaos` and `migration`, what a reply may be in `model`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU8;
use std::time::Duration;

use tsubaki_core::action::{Action, Event as Report, Gathered};
use tsubaki_core::settings::{CHUNK, Login, MAX_SPARES, Password, ReadPolicy, Settings};
use tsubaki_core::time::Time;
use tsubaki_core::{ClientId, Worker};

use crate::chaos::Chaos;
use crate::clients::FakeClient;
use crate::cluster::Cluster;
use crate::event::{Entry, Event};
use crate::link::Link;
use crate::migration::Migration;
use crate::model::Model;
use crate::node::PASSWORD;
use crate::refresher::View;
use crate::rng::Rng;
use crate::routing::Routing;
use crate::seen::Seen;
use crate::trouble::{Trouble, Troubles};

/// When nobody does new mischief any more, and everything is mended.
const MENDED: u64 = 8_000_000;
/// How long after that the last reply may take.
const PATIENCE: u64 = 60_000_000;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) worker: Worker,
    pub(crate) settings: Settings,
    pub(crate) cluster: Cluster,
    pub(crate) links: Vec<Link>,
    pub(crate) clients: Vec<FakeClient>,
    pub(crate) chaos: Chaos,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) model: Model,
    pub(crate) routing: Routing,
    pub(crate) troubles: Troubles,
    pub(crate) seen: Seen,
    pub(crate) node_turns: Vec<bool>,
    pub(crate) refuse_until: Vec<u64>,
    pub(crate) full_until: Vec<u64>,
    pub(crate) old_view: Option<View>,
    pub(crate) mended: bool,
    stopping: bool,
    pub(crate) fetching: bool,
    flushing: bool,
    timeout_at: Option<u64>,
    queue: BinaryHeap<Reverse<Entry>>,
    order: u64,
    trace: Option<Vec<String>>,
    failure: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let read_policy = rng.pick(&[
            ReadPolicy::Master,
            ReadPolicy::Master,
            ReadPolicy::PreferReplica,
            ReadPolicy::Replica,
            ReadPolicy::Any,
        ]);
        let (masters, tags) = (3 + rng.below(3), 4 + rng.below(6));
        let replicas = 1 + rng.below(2);
        let cluster = Cluster::new(&mut rng, masters, replicas, tags);
        let chaos = Chaos::new(&mut rng, cluster.nodes.len());
        let settings = settings(&mut rng, seed, read_policy, cluster.password, chaos.slow_readers);
        let clients = (0..3 + rng.below(6))
            .map(|_| FakeClient::new(20 + rng.below(100), rng.pick(&[300, 3_000, 8_000])))
            .collect();
        let nodes = cluster.nodes.len();
        Self {
            now: 0,
            rng,
            worker: Worker::new(settings.clone()),
            settings,
            model: Model::new(cluster.keys.len()),
            routing: Routing::new(tags),
            cluster,
            links: Vec::new(),
            clients,
            chaos,
            migrations: Vec::new(),
            troubles: Troubles::default(),
            seen: Seen::default(),
            node_turns: vec![false; nodes],
            refuse_until: vec![0; nodes],
            full_until: vec![0; nodes],
            old_view: None,
            mended: false,
            stopping: false,
            fetching: false,
            flushing: false,
            timeout_at: None,
            queue: BinaryHeap::new(),
            order: 0,
            trace: traced.then(Vec::new),
            failure: None,
        }
    }

    /// Lives through the seed; the error says which promise was broken.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        self.begin();
        while let Some(Reverse(entry)) = self.queue.pop() {
            self.now = entry.at;
            self.trace(|| entry.event.describe());
            let flushed = matches!(entry.event, Event::Flush);
            self.handle(entry.event);
            self.after(flushed);
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.worker.is_drained() {
                return self.last_judgement();
            }
        }
        Err("nothing happens any more, and the engine is not done".to_owned())
    }

    fn begin(&mut self) {
        self.troubles.begin(Trouble::NoView);
        let first_view = if self.rng.percent(20) { self.rng.between(0, 2_500_000) } else { 0 };
        self.at(first_view, Event::Fetch(None));
        for client in 0..self.clients.len() {
            let at = self.rng.between(0, 200_000);
            self.at(at, Event::Connect(client));
        }
        self.at(1, Event::Chaos);
        self.at(MENDED, Event::Mend);
        self.at(100_000, Event::Look);
        // Some engines are stopped while all is under way.
        if self.rng.percent(10) {
            let at = self.rng.between(0, 3_000_000);
            self.at(at, Event::Stop);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timeout => {
                self.timeout_at = None;
                self.worker.handle_timeout(self.time());
            }
            Event::Flush => self.flush(),
            Event::Dialed(link, refused) => self.dialed(link, refused),
            Event::Up(link, bytes) => self.up(link, bytes),
            Event::Down(link, bytes) => self.down(link, bytes),
            Event::LinkClosed(link) => self.close_engine_side(link, "the connection was reset"),
            Event::Pump(link) => self.pump(link),
            Event::Drink(link) => self.drink(link),
            Event::NodeTurn(node) => self.node_turn(node),
            Event::Connect(client) => self.connect(client),
            Event::Act(client) => self.act(client),
            Event::ClientBytes(client, connection, bytes) => self.client_bytes(client, connection, bytes),
            Event::ClientReply(client, connection, bytes) => self.client_reply(client, connection, &bytes),
            Event::ClientFinished(client, connection) => self.client_finished(client, connection),
            Event::ClientPump(client, connection) => self.client_pump(client, connection),
            Event::ReadAgain(client, connection) => self.read_again(client, connection),
            Event::Feed(client, connection) => self.feed(client, connection),
            Event::Gathered(id) => {
                let gathered =
                    Gathered { stats: self.worker.stats(), clients: self.worker.client_list(self.time()) };
                self.worker.handle_gathered(id, &gathered, self.time());
            }
            Event::Fetch(hint) => self.fetch(hint),
            Event::Viewed(view) => self.viewed(&view),
            Event::Chaos => self.make_chaos(),
            Event::Migrate(migration) => self.migrate(migration),
            Event::Hear(node, tag, claim) => self.cluster.learn(node, tag, claim),
            Event::Promote(replica, whole) => self.promote(replica, whole),
            Event::Heal(link) => self.heal(link),
            Event::Restart(node) => self.restart(node),
            Event::Mend => self.mend(),
            Event::Look => self.look(),
            Event::Stop => self.stop(),
        }
    }

    /// After anything that the engine may have taken note of.
    fn after(&mut self, flushed: bool) {
        while let Some(action) = self.worker.poll_action() {
            self.trace(|| format!("  -> {action:?}"));
            self.act_out(action);
        }
        if !self.flushing && !flushed {
            self.flushing = true;
            let pause = if self.rng.percent(60) { 0 } else { self.rng.between(0, 200) };
            self.at(self.now + pause, Event::Flush);
        }
        if let Some(due) = self.worker.poll_timeout().map(|due| due.since_epoch().as_micros() as u64)
            && self.timeout_at.is_none_or(|at| due < at)
        {
            self.timeout_at = Some(due);
            let late = self.rng.between(0, 100);
            self.at(due.max(self.now) + late, Event::Timeout);
        }
    }

    fn act_out(&mut self, action: Action) {
        match action {
            Action::Connect { backend, address } => self.dial(backend, &address),
            Action::CloseBackend(id) => {
                if let Some(link) = self.link_of(id) {
                    self.engine_closes(link);
                }
            }
            Action::CloseClient(id) => {
                if let Some(client) = self.client_of(id) {
                    self.closed_by_engine(client);
                }
            }
            Action::ResumeClient(id) => {
                if let Some(client) = self.client_of(id) {
                    self.clients[client].paused = false;
                    let pause = self.rng.between(0, 50);
                    self.at(self.now + pause, Event::Feed(client, self.clients[client].connection));
                }
            }
            Action::ResumeBackend(id) => {
                if let Some(link) = self.link_of(id) {
                    self.links[link].paused = false;
                    let pause = self.rng.between(0, 50);
                    self.at(self.now + pause, Event::Drink(link));
                }
            }
            Action::Refresh { hint, .. } => {
                let hint = hint.and_then(|address| self.cluster.at(&address));
                if !std::mem::replace(&mut self.fetching, true) {
                    let pause = self.rng.delay(300);
                    self.at(self.now + pause, Event::Fetch(hint));
                }
            }
            Action::Gather(id) => {
                let pause = self.rng.delay(200);
                self.at(self.now + pause, Event::Gathered(id));
            }
            Action::Report(report) => {
                match &report {
                    Report::OutputLimit { .. } => self.model.limit_hit = true,
                    Report::ReplyCut { .. } => self.model.reply_cut = true,
                    _ => {}
                }
                self.seen.report(&report);
            }
        }
    }

    fn flush(&mut self) {
        self.flushing = false;
        let now = self.time();
        while let Some(id) = self.worker.next_dirty_backend(now) {
            if let Some(link) = self.link_of(id) {
                self.pump(link);
            }
        }
        while let Some(id) = self.worker.next_dirty_client(now) {
            if let Some(client) = self.client_of(id) {
                self.client_pump(client, self.clients[client].connection);
            }
        }
        self.check_step();
    }

    fn mend(&mut self) {
        if !std::mem::replace(&mut self.mended, true) {
            self.mend_everything();
            let pause = self.rng.between(10_000, 200_000);
            self.at(self.now + pause, Event::Fetch(None));
            self.at(self.now + PATIENCE / 2, Event::Fetch(None));
        }
    }

    /// Looks whether all is done: then the engine is stopped, and has to close its last client.
    fn look(&mut self) {
        let idle =
            self.clients.iter().all(FakeClient::is_done) && self.migrations.iter().all(Migration::is_over);
        if idle && self.mended && !self.stopping && self.worker.is_quiet() {
            self.stop();
        } else if idle || self.stopping {
            self.mend();
        }
        if self.now > MENDED + PATIENCE {
            self.fail(self.why_not_quiet());
            return;
        }
        // The refresher has a timer of its own.
        if self.rng.percent(30) {
            self.at(self.now, Event::Fetch(None));
        }
        self.at(self.now + 100_000, Event::Look);
    }

    fn stop(&mut self) {
        self.stopping = true;
        self.worker.handle_stop(self.time());
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(Entry { at, order: self.order, event }));
    }

    pub(crate) fn time(&self) -> Time {
        Time::new(Duration::from_micros(self.now))
    }

    pub(crate) fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(crate) fn client_of(&self, id: ClientId) -> Option<usize> {
        self.clients.iter().position(|client| client.id == Some(id))
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            let line: String = line().chars().take(300).collect();
            if !line.is_empty() {
                trace.push(format!("{now:>9} {line}"));
            }
        }
    }

    /// The last `count` events.
    pub(crate) fn last_events(&self, count: usize) -> String {
        let trace = self.trace.as_deref().unwrap_or_default();
        trace[trace.len().saturating_sub(count)..].join("\n")
    }
}

fn settings(
    rng: &mut Rng,
    seed: u64,
    read_policy: ReadPolicy,
    password: bool,
    slow_readers: bool,
) -> Settings {
    let millis = Duration::from_millis;
    Settings {
        read_policy,
        node_login: password.then(|| Login {
            user: rng.percent(50).then(|| "proxy".to_owned()),
            password: Password::new(PASSWORD.to_owned()),
        }),
        connect_timeout: millis(rng.pick(&[200, 1000])),
        wait_timeout: millis(rng.pick(&[300, 1500, 1500])),
        silence_timeout: millis(rng.pick(&[800, 3000])),
        max_in_flight: rng.pick(&[2, 16, 1024]),
        max_in_flight_bytes: rng.pick(&[4096, 1 << 20]),
        large_value: rng.pick(&[200, 1_000, 5_000, 1 << 20]),
        chunk: if seed.is_multiple_of(2) { CHUNK } else { [40, 150, 1_000][seed as usize / 2 % 3] },
        max_spares: if seed % 4 == 2 { 1 + seed as usize % 3 } else { MAX_SPARES },
        connections_per_node: NonZeroU8::new(if seed % 3 == 1 { 3 } else { 1 }).unwrap(),
        max_output: if slow_readers { rng.pick(&[3_000, 20_000, 1 << 30]) } else { 1 << 30 },
        seed,
        ..Settings::default()
    }
}
