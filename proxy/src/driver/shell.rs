//! The engine and its sockets behind the only `RefCell` of the program.
//!
//! [`Shell::with`] is the only way in: it runs one step of the engine, carries out what the engine asks for, and ends
//! the borrow. Its closure is not async, so no borrow lives across an `.await`, and nothing in it calls `with` again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_local;
use tsubaki_core::action::{Action, GatherId};
use tsubaki_core::time::Time;
use tsubaki_core::{ClientId, Worker};

use super::sockets::{self, Key, Socket, Sockets, Written};
use super::{Mailbox, backend_io, mailbox};
use crate::clock::Clock;
use crate::control::RefreshRequest;
use crate::events;

/// Bytes read from a socket at once. As much as a loopback or a large-window TCP connection gives at a time; one buffer a worker.
const READ: usize = 64 * 1024;

pub(super) struct Shell {
    inner: RefCell<Inner>,
    /// Where every socket's bytes arrive; what must stay is copied out by the engine.
    read: RefCell<Box<[u8]>>,
    /// Reads in this turn of the event loop.
    reads: Cell<usize>,
    pub(super) clock: Clock,
    pub(super) peers: Arc<[Mailbox]>,
    pub(super) tcp_keepalive: Duration,
    refresh: mpsc::UnboundedSender<RefreshRequest>,
    flush: Notify,
    /// True while the flush task is due to run.
    flushing: Cell<bool>,
    /// When the timer task will wake; `None`: not by itself.
    alarm: Cell<Option<Time>>,
    rearm: Notify,
    /// Says that a client came from another worker.
    arrived: Notify,
    /// Says that a client was closed.
    closed: Notify,
    /// Clients whose sockets may hold more than was read.
    behind: Cell<usize>,
    /// Says that there is none of them.
    caught_up: Notify,
    stop: watch::Sender<bool>,
}

pub(super) struct Inner {
    pub(super) worker: Worker,
    pub(super) sockets: Sockets,
}

/// What came out of a socket.
pub(super) enum Input<R> {
    /// Bytes, and what the engine said to them.
    Bytes(R, Filled),
    /// The peer will send nothing more.
    End,
    /// The connection is gone.
    Broken(io::Error),
}

/// How much of the buffer a read filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// The socket is empty.
    Partly,
    /// There may be more. Whoever reads on without a break keeps all others waiting, and their output unwritten.
    Wholly,
}

impl Shell {
    pub(super) fn new(
        worker: Worker,
        clock: Clock,
        refresh: mpsc::UnboundedSender<RefreshRequest>,
        peers: Arc<[Mailbox]>,
        tcp_keepalive: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            inner: RefCell::new(Inner { worker, sockets: Sockets::new() }),
            read: RefCell::new(vec![0; READ].into_boxed_slice()),
            reads: Cell::new(0),
            clock,
            peers,
            tcp_keepalive,
            refresh,
            flush: Notify::new(),
            flushing: Cell::new(false),
            alarm: Cell::new(None),
            rearm: Notify::new(),
            arrived: Notify::new(),
            closed: Notify::new(),
            behind: Cell::new(0),
            caught_up: Notify::new(),
            stop: watch::Sender::new(false),
        })
    }

    /// One step of the engine.
    pub(super) fn with<R>(self: &Rc<Self>, step: impl FnOnce(&mut Inner, Time) -> R) -> R {
        let now = self.clock.now();
        let mut inner = self.inner.borrow_mut();
        let result = step(&mut inner, now);
        self.finish(&mut inner);
        self.flush_soon();
        result
    }

    /// Has the flush task run behind all that is ready now.
    fn flush_soon(&self) {
        if !self.flushing.replace(true) {
            self.flush.notify_one();
        }
    }

    /// Reads a socket once into the shared buffer and hands the bytes to one step of the engine.
    pub(super) fn poll_read<R>(
        self: &Rc<Self>,
        socket: &mut OwnedReadHalf,
        cx: &mut Context<'_>,
        step: impl FnOnce(&mut Inner, &[u8], Time) -> R,
    ) -> Poll<Input<R>> {
        let mut buffer = self.read.borrow_mut();
        let mut buffer = ReadBuf::new(&mut buffer);
        // This way of reading clears the readiness after a short read, which saves a second call that finds nothing.
        match std::pin::Pin::new(socket).poll_read(cx, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Input::Broken(error)),
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Input::End),
            Poll::Ready(Ok(())) => {
                self.reads.set(self.reads.get() + 1);
                let filled = if buffer.remaining() == 0 { Filled::Wholly } else { Filled::Partly };
                Poll::Ready(Input::Bytes(self.with(|inner, now| step(inner, buffer.filled(), now)), filled))
            }
        }
    }

    /// Carries out what the engine asks for.
    fn finish(self: &Rc<Self>, inner: &mut Inner) {
        while let Some(action) = inner.worker.poll_action() {
            self.perform(inner, action);
        }
    }

    fn perform(self: &Rc<Self>, inner: &mut Inner, action: Action) {
        match action {
            Action::Connect { backend, address } => {
                let reader = spawn_local(backend_io::connect(Rc::clone(self), backend, address));
                inner.sockets.backends.insert(Socket::backend(backend, reader.abort_handle()));
            }
            Action::CloseBackend(id) => inner.sockets.backends.remove(id),
            Action::CloseClient(id) => {
                inner.sockets.clients.remove(id);
                self.closed.notify_one();
            }
            Action::ResumeClient(id) => resume(inner, id),
            Action::ResumeBackend(id) => resume(inner, id),
            Action::Refresh { reason, hint } => {
                // The control thread ends last; once it is gone there is nothing to refresh for.
                let _ = self.refresh.send(RefreshRequest { reason, hint });
            }
            Action::Gather(id) => self.gather(id),
            Action::Report(event) => events::log(&event),
        }
    }

    fn gather(self: &Rc<Self>, id: GatherId) {
        let shell = Rc::clone(self);
        spawn_local(async move {
            let gathered = mailbox::gather(&shell.peers, id.clients).await;
            shell.with(|inner, now| inner.worker.handle_gathered(id, &gathered, now));
        });
    }

    fn flush_clients(self: &Rc<Self>) {
        self.flush(Worker::next_dirty_client);
    }

    fn flush_nodes(self: &Rc<Self>) {
        self.flush(Worker::next_dirty_backend);
    }

    /// Writes what those have whom the engine names.
    fn flush<K: Key>(self: &Rc<Self>, next: impl Fn(&mut Worker, Time) -> Option<K>) {
        let now = self.clock.now();
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        while let Some(id) = next(&mut inner.worker, now) {
            self.write(inner, id);
        }
        self.finish(inner);
    }

    /// Writes what one connection has, as far as its socket takes it.
    fn write<K: Key>(self: &Rc<Self>, inner: &mut Inner, id: K) {
        let Some(socket) = K::table(&mut inner.sockets).find_mut(id) else { return };
        let Some(write_half) = socket.write.as_ref().filter(|_| socket.writer.is_none()) else { return };
        loop {
            let bytes = id.output(&inner.worker);
            if bytes.is_empty() {
                return;
            }
            match sockets::write(write_half, bytes) {
                Written::Some(count) => id.sent(&mut inner.worker, count),
                Written::Full => {
                    let writer = spawn_local(unblock(Rc::clone(self), id, Rc::clone(write_half)));
                    socket.writer = Some(writer.abort_handle());
                    return;
                }
                Written::Broken(error) => {
                    id.broken(inner, &error, self.clock.now());
                    self.closed.notify_one();
                    // Others may have been answered, or set free.
                    self.flush_soon();
                    return;
                }
            }
        }
    }

    /// Has the timer task wake no later than the engine wants.
    fn arm(&self) {
        if let Some(at) = self.inner.borrow().worker.poll_timeout()
            && self.alarm.get().is_none_or(|alarm| at < alarm)
        {
            self.alarm.set(Some(at));
            self.rearm.notify_one();
        }
    }

    pub(super) fn close_client(self: &Rc<Self>, id: ClientId) {
        self.with(|inner, now| {
            inner.worker.handle_client_closed(id, now);
            inner.sockets.clients.remove(id);
        });
        self.closed.notify_one();
    }

    /// Returns when a paused connection is to be read again.
    pub(super) async fn resumed<K: Key>(&self, id: K) {
        let resume = K::table(&mut self.inner.borrow_mut().sockets).find_mut(id).map(Socket::resume);
        match resume {
            Some(resume) => resume.notified().await,
            // The connection is closed, and its reader ends with it.
            None => std::future::pending().await,
        }
    }

    /// A client's reader fell behind what its socket holds, or caught up with it.
    pub(super) fn count_behind(&self, is_behind: bool) {
        let count = self.behind.get();
        self.behind.set(if is_behind { count + 1 } else { count.saturating_sub(1) });
        if self.behind.get() == 0 {
            self.caught_up.notify_one();
        }
    }

    /// Returns when all that clients have sent so far is read.
    pub(super) async fn caught_up(&self) {
        while self.behind.get() > 0 {
            self.caught_up.notified().await;
        }
    }

    /// A client came from another worker.
    pub(super) fn count_arrival(&self) {
        self.arrived.notify_one();
    }

    /// Returns when all `expected` clients are here.
    pub(super) async fn complete(&self, expected: impl Fn() -> usize) {
        while self.inner.borrow().sockets.clients.len() < expected() {
            self.arrived.notified().await;
        }
    }

    /// Returns when a stopping worker has no clients any more.
    pub(super) async fn drained(&self) {
        while !self.inner.borrow().worker.is_drained() {
            self.closed.notified().await;
        }
    }

    /// Has the accept tasks end.
    pub(super) fn stop_accepting(&self) {
        self.stop.send_replace(true);
    }

    /// Returns when no more clients are to be accepted.
    pub(super) async fn stopping(&self) {
        // The sender lives as long as the shell, so waiting cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}

/// Has a paused connection read again.
fn resume<K: Key>(inner: &mut Inner, id: K) {
    if let Some(socket) = K::table(&mut inner.sockets).find_mut(id) {
        socket.resume().notify_one();
    }
}

/// Writes what the engine has, once for each turn of the event loop: the task is queued behind those that were ready
/// with it, so that all of their bytes leave in one write a connection.
///
/// Clients come first: while they are written, those that were answered first send their next commands. Where several
/// sockets were ready, the turn is not over before one more look at all of them, and what came meanwhile joins the nodes'
/// batches. One that is alone is not kept waiting.
pub(super) async fn flush(shell: Rc<Shell>) {
    loop {
        shell.flush.notified().await;
        shell.flush_clients();
        if shell.reads.get() > 1 {
            // The runtime looks at its sockets before it goes on with a task that yielded.
            tokio::task::yield_now().await;
            shell.flush_clients();
        }
        shell.reads.set(0);
        shell.flushing.set(false);
        shell.flush_nodes();
        shell.arm();
    }
}

/// Wakes the engine when something is due.
pub(super) async fn keep_time(shell: Rc<Shell>) {
    loop {
        match shell.alarm.get() {
            None => shell.rearm.notified().await,
            Some(alarm) => {
                tokio::select! {
                    () = tokio::time::sleep_until(shell.clock.instant(alarm)) => {
                        shell.alarm.set(None);
                        shell.with(|inner, now| inner.worker.handle_timeout(now));
                        shell.arm();
                    }
                    () = shell.rearm.notified() => {}
                }
            }
        }
    }
}

/// Goes on with a connection whose socket was full.
async fn unblock<K: Key>(shell: Rc<Shell>, id: K, socket: Rc<OwnedWriteHalf>) {
    // An error shows itself at the next write.
    let _ = socket.writable().await;
    shell.with(|inner, _| {
        if let Some(socket) = K::table(&mut inner.sockets).find_mut(id) {
            socket.writer = None;
            shell.write(inner, id);
        }
    });
}
