//! One worker: an OS thread with its own runtime, listeners, connections and engine.
//!
//! ```text
//!   accept task -----> client tasks (read) ---\                       /---> next client
//!                                              >-- Shell: the engine -+
//!   connect tasks ---> node tasks (read) -----/         |             \---> flush task: one write a connection and turn
//!   mailbox task (clients, topology, stop) -------------'-------------> timer task
//! ```
//!
//! Tasks move bytes; the engine decides. Must not know: the other workers, except that each has a mailbox, into which also
//! a client goes whose place is there.

mod accept;
mod backend_io;
mod client_io;
mod mailbox;
mod shell;
mod sockets;

use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tsubaki_config::MemoryPolicy;
use tsubaki_core::Worker;
use tsubaki_core::settings::Settings;

use self::accept::Door;
pub(crate) use self::mailbox::{Mail, Mailbox};
use self::shell::Shell;
pub(crate) use self::sockets::{refuse_self, tune};
use crate::clock::Clock;
use crate::control::RefreshRequest;
use crate::gate::Gate;
use crate::log;
use crate::placement::{self, Seat};

/// What a worker thread is given.
pub(crate) struct Job {
    pub(crate) index: usize,
    pub(crate) settings: Settings,
    /// This worker's own sockets, bound and listening.
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) mail: mpsc::UnboundedReceiver<Mail>,
    /// Every worker's mailbox, this one's too.
    pub(crate) peers: Arc<[Mailbox]>,
    pub(crate) refresh: mpsc::UnboundedSender<RefreshRequest>,
    pub(crate) gate: Gate,
    pub(crate) clock: Clock,
    pub(crate) seat: Seat,
    pub(crate) memory: MemoryPolicy,
    /// For each CPU by number the worker that is pinned to it; empty where clients are spread by their number alone.
    pub(crate) homes: Arc<[Option<usize>]>,
    pub(crate) tcp_keepalive: Duration,
}

/// Starts a worker. Its thread ends when it was told to stop and all its clients are gone, or their time is up.
pub(crate) fn spawn(job: Job) -> anyhow::Result<JoinHandle<()>> {
    let name = format!("worker-{}", job.index);
    std::thread::Builder::new().name(name).spawn(move || work(job)).context("cannot start a worker thread")
}

fn work(job: Job) {
    placement::take(&job.seat, job.memory, job.index);
    // Tasks are short and many: look for new readiness after each batch of epoll's events, not in the midst of it.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(1024)
        .max_io_events_per_tick(1024)
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => {
            runtime.block_on(run(job));
            // Not dropped: that would wait for name look-ups that nobody needs any more.
            runtime.shutdown_background();
        }
        Err(error) => {
            // Half a proxy is worse than none: a supervisor sees the exit, nobody sees a missing worker.
            tracing::error!(%error, worker = job.index, "cannot build the worker's runtime; the process ends");
            log::flush();
            std::process::exit(1);
        }
    }
}

async fn run(mut job: Job) {
    let shell = Shell::new(Worker::new(job.settings), job.clock, job.refresh, job.peers, job.tcp_keepalive);
    spawn_local(shell::flush(Rc::clone(&shell)));
    spawn_local(shell::keep_time(Rc::clone(&shell)));
    let door = Rc::new(Door { gate: job.gate, homes: job.homes });
    let listening: Vec<_> = job
        .listeners
        .into_iter()
        .map(|listener| spawn_local(accept::accept(Rc::clone(&shell), listener, Rc::clone(&door))))
        .collect();
    mailbox::serve(&shell, &mut job.mail).await;
    let stopped = async {
        accept::stop(&shell, listening, &door.gate).await;
        shell.drained().await;
    };
    // What is in flight may need the newest view, operators the last figures, and clients may be on their way from peers.
    tokio::select! {
        () = stopped => {}
        () = mailbox::serve(&shell, &mut job.mail) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream};
    use std::time::Instant;

    use super::accept::Arrival;
    use super::*;
    use crate::gate::{Home, Place};

    /// A worker without listeners, and the gate of another beside it.
    fn second_worker(mailbox: &Mailbox, mail: mpsc::UnboundedReceiver<Mail>) -> (Gate, JoinHandle<()>) {
        let mut gates = Gate::all(100, 2);
        let job = Job {
            index: 1,
            settings: Settings::default(),
            listeners: Vec::new(),
            mail,
            peers: [mailbox.clone(), mailbox.clone()].into(),
            refresh: mpsc::unbounded_channel().0,
            gate: gates.remove(1),
            clock: Clock::start(),
            seat: Seat::default(),
            memory: MemoryPolicy::default(),
            homes: [].into(),
            tcp_keepalive: Duration::from_secs(60),
        };
        (gates.remove(0), spawn(job).unwrap())
    }

    #[test]
    fn a_client_that_is_on_its_way_to_a_stopping_worker_is_served() {
        let (mailbox, mail) = Mailbox::new();
        let (gate, worker) = second_worker(&mailbox, mail);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let places: [Place; 3] = std::array::from_fn(|_| gate.enter(Home::Any).unwrap());
        let [_first, place, _third] = places;
        assert!(!gate.is_own(&place));

        mailbox.send(Mail::Stop);
        // Two clients are here and one is there: the next has its place there as long as that worker takes any.
        let patience = Instant::now() + Duration::from_secs(30);
        while !gate.is_own(&gate.enter(Home::Any).unwrap()) {
            assert!(Instant::now() < patience, "it goes on taking clients");
            std::thread::yield_now();
        }
        client.write_all(b"PING\r\n").unwrap();
        mailbox.send(Mail::Client(Arrival { socket, address, place }));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"+PONG\r\n");
        worker.join().unwrap();
    }
}
