//! Clients that pipeline commands on keys that are on the move, each checking every reply against its model.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::harness::client::Client;
use crate::harness::wait_until;
use crate::model::{Errors, Model, Op};
use crate::random::Random;

/// Keys of each kind that a client has under each of its tags.
const VALUES: usize = 4;

/// A client sends more when fewer commands than this are unanswered.
const DEPTH: usize = 24;

/// The most commands in one write.
const BURST: usize = 16;

/// Running clients.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    /// One for each client.
    progress: Vec<Arc<Progress>>,
    clients: Vec<JoinHandle<Model>>,
    addr: SocketAddr,
}

/// How many commands a client has sent, and how many of them were answered.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    answered: AtomicU64,
}

/// What all clients of a load saw together.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) commands: u64,
    pub(crate) errors: Errors,
}

impl Load {
    /// Starts `clients` clients at `addr`; each works on keys of two of `tags`, which name the slots.
    pub(crate) fn start(addr: SocketAddr, clients: usize, tags: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let progress: Vec<Arc<Progress>> = (0..clients).map(|_| Arc::default()).collect();
        let clients = progress.iter().enumerate().map(|(number, progress)| {
            let own = [0, 1].map(|offset| tags[(number + offset) % tags.len()].clone());
            let (stop, progress) = (Arc::clone(&stop), Arc::clone(progress));
            thread::spawn(move || Worker::new(addr, number, own, progress).run(&stop))
        });
        let clients = clients.collect();
        Self { stop, progress, clients, addr }
    }

    /// Commands that were answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.progress.iter().map(|progress| progress.answered.load(Ordering::Relaxed)).sum()
    }

    /// Waits until so many more commands are answered.
    pub(crate) fn wait_for(&self, commands: u64) {
        let wanted = self.answered() + commands;
        wait_until("clients go on", || self.failed() || self.answered() >= wanted);
    }

    /// Waits until all that is under way is answered.
    pub(crate) fn wait_for_those_under_way(&self) {
        let sent: Vec<u64> =
            self.progress.iter().map(|progress| progress.sent.load(Ordering::Relaxed)).collect();
        wait_until("clients go on", || {
            let answered =
                |(progress, sent): (&Arc<Progress>, &u64)| progress.answered.load(Ordering::Relaxed) >= *sent;
            self.failed() || self.progress.iter().zip(&sent).all(answered)
        });
    }

    /// True if a client saw something wrong; [`Load::finish`] then says what.
    pub(crate) fn failed(&self) -> bool {
        self.clients.iter().any(JoinHandle::is_finished)
    }

    /// Ends the load. Every key must hold what its client knows, and no increment is lost or counted twice.
    pub(crate) fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let commands = self.answered();
        let models: Vec<Model> = self.clients.into_iter().map(|client| client.join().unwrap()).collect();
        let mut errors = Errors::default();
        let mut shared: BTreeMap<String, (Vec<i64>, u64)> = BTreeMap::new();
        for model in &models {
            errors.overtaken += model.errors.overtaken;
            errors.may_have_run += model.errors.may_have_run;
            for (key, answers) in &model.shared {
                shared.entry(key.clone()).or_default().0.extend(answers);
            }
            for (key, uncertain) in &model.shared_uncertain {
                shared.entry(key.clone()).or_default().1 += uncertain;
            }
        }
        let mut client = Client::connect(self.addr);
        for (key, (answers, uncertain)) in shared {
            check_counter(&mut client, &key, answers, uncertain);
        }
        Seen { commands, errors }
    }
}

/// Each number was given to one increment only; the counter holds those that were answered and some of the uncertain.
fn check_counter(client: &mut Client, key: &str, mut answers: Vec<i64>, uncertain: u64) {
    let reply = client.call(&["GET", key]);
    let held: i64 = std::str::from_utf8(reply.bulk().unwrap()).unwrap().parse().unwrap();
    let answered = answers.len() as i64;
    assert!(
        (answered..=answered + uncertain as i64).contains(&held),
        "{key} holds {held} after {answered} increments and {uncertain} that may have run"
    );
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(answers.len() as i64, answered, "two increments of {key} got the same number");
}

/// One client.
struct Worker {
    client: Client,
    number: usize,
    tags: [String; 2],
    progress: Arc<Progress>,
    random: Random,
    model: Model,
    unanswered: VecDeque<Op>,
    /// Makes every value unique.
    written: u64,
}

impl Worker {
    fn new(addr: SocketAddr, number: usize, tags: [String; 2], progress: Arc<Progress>) -> Self {
        Self {
            client: Client::connect(addr),
            number,
            tags,
            progress,
            random: Random::new(number as u64),
            model: Model::default(),
            unanswered: VecDeque::new(),
            written: 0,
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Model {
        let first = self.first_values();
        self.send(first);
        while !stop.load(Ordering::Relaxed) {
            let burst = 1 + self.random.below(BURST);
            let unknown = self.model.uncertain().into_iter().map(|key| Op::Get(vec![key]));
            let ops = unknown.chain((0..burst).map(|_| self.next_op()).collect::<Vec<_>>()).collect();
            self.send(ops);
            while self.unanswered.len() > DEPTH {
                self.receive();
            }
        }
        self.send(self.model.all().into_iter().map(|key| Op::Get(vec![key])).collect());
        while !self.unanswered.is_empty() {
            self.receive();
        }
        assert_eq!(self.client.poll_receive().unwrap(), None, "more replies than commands");
        self.model
    }

    /// Without a value of each key, MSET of several keys could never run while their slot moves.
    fn first_values(&mut self) -> Vec<Op> {
        let keys: Vec<String> = (0..2)
            .flat_map(|tag| (0..VALUES).map(move |value| (tag, value)))
            .map(|(tag, value)| self.value_key(tag, value))
            .collect();
        keys.into_iter().map(|key| Op::Set(vec![(key, self.value())])).collect()
    }

    fn send(&mut self, ops: Vec<Op>) {
        let mut pipeline = Vec::new();
        ops.iter().for_each(|op| op.write(&mut pipeline));
        // Counted before they can be answered.
        self.progress.sent.fetch_add(ops.len() as u64, Ordering::Relaxed);
        self.unanswered.extend(ops);
        self.client.send(&pipeline);
    }

    fn receive(&mut self) {
        let reply = self.client.receive();
        let op = self.unanswered.pop_front().unwrap();
        self.model.take(&op, &reply, &self.unanswered);
        self.progress.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn next_op(&mut self) -> Op {
        let tag = self.random.below(2);
        match self.random.below(20) {
            0..=2 => Op::Set(vec![(self.one_value_key(tag), self.value())]),
            3..=5 => Op::Get(vec![self.one_value_key(tag)]),
            6..=8 => Op::Get(self.value_keys(tag)),
            9..=10 => {
                let keys = self.value_keys(tag);
                Op::Set(keys.into_iter().map(|key| (key, self.value())).collect())
            }
            11 => Op::Get([self.value_keys(0), self.value_keys(1)].concat()),
            12 => {
                let keys = [self.value_keys(0), self.value_keys(1)].concat();
                Op::Set(keys.into_iter().map(|key| (key, self.value())).collect())
            }
            13 => Op::Delete(vec![self.own_key(tag, "gone")]),
            14 => Op::Set(vec![(self.own_key(tag, "gone"), self.value())]),
            15 => {
                self.written += 1;
                Op::Append(self.own_key(tag, "log"), format!("{},", self.written).into_bytes())
            }
            16 => Op::Increment(self.own_key(tag, "count")),
            17 => Op::IncrementByScript(self.own_key(tag, "count")),
            _ => Op::IncrementShared(format!("{{{}}}shared", self.tags[tag])),
        }
    }

    fn one_value_key(&mut self, tag: usize) -> String {
        let value = self.random.below(VALUES);
        self.value_key(tag, value)
    }

    /// Two or more of the keys under a tag, each once.
    fn value_keys(&mut self, tag: usize) -> Vec<String> {
        let count = 2 + self.random.below(VALUES - 1);
        let first = self.random.below(VALUES);
        (0..count).map(|offset| self.value_key(tag, (first + offset) % VALUES)).collect()
    }

    fn value_key(&self, tag: usize, value: usize) -> String {
        self.own_key(tag, &format!("value-{value}"))
    }

    fn own_key(&self, tag: usize, name: &str) -> String {
        format!("{{{}}}{}:{name}", self.tags[tag], self.number)
    }

    /// A value that no other client and no other command writes; one in eight is long.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("client {} value {} ", self.number, self.written).into_bytes();
        let len = if self.random.below(8) == 0 { self.random.below(3000) } else { self.random.below(40) };
        value.resize(value.len() + len, b'.');
        value
    }
}
