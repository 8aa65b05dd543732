//! What other threads tell a worker, and ask it.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tsubaki_core::action::Gathered;
use tsubaki_core::stats::Stats;
use tsubaki_core::topology::Topology;

use super::accept::{self, Arrival};
use super::shell::Shell;

/// A message to a worker.
pub(crate) enum Mail {
    /// A client that another worker accepted and that has its place here.
    Client(Arrival),
    /// A new view of the cluster.
    Topology(Arc<Topology>),
    /// Asks for the worker's figures.
    Report(Report),
    /// Close the listeners, answer what is in flight, end.
    Stop,
}

/// A question and where its answer goes.
pub(crate) struct Report {
    /// True if the list of clients is wanted too.
    pub(crate) clients: bool,
    pub(crate) answer: oneshot::Sender<WorkerReport>,
}

/// A worker's figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerReport {
    pub(crate) stats: Stats,
    /// A line a client; empty if not asked for.
    pub(crate) clients: String,
}

/// The way to a worker.
#[derive(Clone)]
pub(crate) struct Mailbox(mpsc::UnboundedSender<Mail>);

impl Mailbox {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Mail>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Leaves a message. A worker that has ended needs none.
    pub(crate) fn send(&self, mail: Mail) {
        let _ = self.0.send(mail);
    }

    /// The worker's figures; `None` if it is stopping.
    pub(crate) async fn report(&self, clients: bool) -> Option<WorkerReport> {
        let (answer, reply) = oneshot::channel();
        self.send(Mail::Report(Report { clients, answer }));
        reply.await.ok()
    }
}

/// The figures of all workers, added up.
pub(super) async fn gather(peers: &[Mailbox], clients: bool) -> Gathered {
    let mut gathered = Gathered::default();
    for peer in peers {
        if let Some(report) = peer.report(clients).await {
            gathered.stats.add(&report.stats);
            gathered.clients.push_str(&report.clients);
        }
    }
    gathered
}

/// Reads a worker's mail until it is told to stop.
pub(super) async fn serve(shell: &Rc<Shell>, mail: &mut mpsc::UnboundedReceiver<Mail>) {
    while let Some(letter) = mail.recv().await {
        match letter {
            Mail::Client(arrival) => {
                accept::take_in(shell, arrival);
                shell.count_arrival();
            }
            Mail::Topology(topology) => shell.with(|inner, now| inner.worker.handle_topology(&topology, now)),
            Mail::Report(report) => {
                let answer = shell.with(|inner, now| WorkerReport {
                    stats: inner.worker.stats(),
                    clients: if report.clients { inner.worker.client_list(now) } else { String::new() },
                });
                // Whoever asked may have left.
                let _ = report.answer.send(answer);
            }
            Mail::Stop => return,
        }
    }
}
