//! The write halves of a worker's sockets, by the engine's ids; and what it takes to end their readers.
//!
//! Must not know: what the bytes mean.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tsubaki_core::time::Time;
use tsubaki_core::{BackendId, ClientId, Worker};

use super::shell::Inner;
use crate::gate::Place;

/// An id of the engine's that a socket can be found by, and what the engine has to do with that socket.
pub(super) trait Key: Copy + PartialEq + 'static {
    fn index(self) -> usize;
    fn table(sockets: &mut Sockets) -> &mut Table<Self>;
    /// The bytes that the socket should take next.
    fn output(self, worker: &Worker) -> &[u8];
    /// The socket took `count` of them.
    fn sent(self, worker: &mut Worker, count: usize);
    /// The socket cannot be written to any more.
    fn broken(self, inner: &mut Inner, error: &io::Error, now: Time);
}

impl Key for ClientId {
    fn index(self) -> usize {
        Self::index(self)
    }

    fn table(sockets: &mut Sockets) -> &mut Table<Self> {
        &mut sockets.clients
    }

    fn output(self, worker: &Worker) -> &[u8] {
        worker.client_output(self)
    }

    fn sent(self, worker: &mut Worker, count: usize) {
        worker.client_sent(self, count);
    }

    fn broken(self, inner: &mut Inner, _: &io::Error, now: Time) {
        inner.worker.handle_client_closed(self, now);
        inner.sockets.clients.remove(self);
    }
}

impl Key for BackendId {
    fn index(self) -> usize {
        Self::index(self)
    }

    fn table(sockets: &mut Sockets) -> &mut Table<Self> {
        &mut sockets.backends
    }

    fn output(self, worker: &Worker) -> &[u8] {
        worker.backend_output(self)
    }

    fn sent(self, worker: &mut Worker, count: usize) {
        worker.backend_sent(self, count);
    }

    /// The engine has the socket closed.
    fn broken(self, inner: &mut Inner, error: &io::Error, now: Time) {
        inner.worker.handle_backend_closed(self, &error.to_string(), now);
    }
}

/// One connection.
pub(super) struct Socket<K> {
    id: K,
    /// `None` until a node's connection is open.
    pub(super) write: Option<Rc<OwnedWriteHalf>>,
    reader: AbortHandle,
    /// The task that waits for room in the socket, while one does.
    pub(super) writer: Option<AbortHandle>,
    /// Wakes the reader of a paused connection; made at the first pause, which most never have.
    resume: Option<Rc<Notify>>,
    _place: Option<Place>,
}

impl<K> Socket<K> {
    /// A client's connection, in its place behind the gate.
    pub(super) fn client(id: K, write: OwnedWriteHalf, reader: AbortHandle, place: Place) -> Self {
        Self { id, write: Some(Rc::new(write)), reader, writer: None, resume: None, _place: Some(place) }
    }

    /// A node's connection that is being opened.
    pub(super) fn backend(id: K, reader: AbortHandle) -> Self {
        Self { id, write: None, reader, writer: None, resume: None, _place: None }
    }

    /// What wakes the reader after a pause.
    pub(super) fn resume(&mut self) -> Rc<Notify> {
        Rc::clone(self.resume.get_or_insert_default())
    }
}

impl<K> Drop for Socket<K> {
    fn drop(&mut self) {
        // Both tasks hold the socket open.
        self.reader.abort();
        if let Some(writer) = &self.writer {
            writer.abort();
        }
    }
}

/// The connections of one kind.
pub(super) struct Table<K>(Vec<Option<Socket<K>>>);

/// What a worker has open.
pub(super) struct Sockets {
    pub(super) clients: Table<ClientId>,
    pub(super) backends: Table<BackendId>,
}

impl Sockets {
    pub(super) fn new() -> Self {
        Self { clients: Table(Vec::new()), backends: Table(Vec::new()) }
    }
}

impl<K: Key> Table<K> {
    pub(super) fn insert(&mut self, socket: Socket<K>) {
        let index = socket.id.index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = Some(socket);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    pub(super) fn find_mut(&mut self, id: K) -> Option<&mut Socket<K>> {
        self.0.get_mut(id.index())?.as_mut().filter(|socket| socket.id == id)
    }

    pub(super) fn remove(&mut self, id: K) {
        if self.find_mut(id).is_some()
            && let Some(place) = self.0.get_mut(id.index())
        {
            *place = None;
        }
    }
}

/// How a write ended.
pub(super) enum Written {
    /// The socket took so many bytes, possibly fewer than offered.
    Some(usize),
    /// The socket has no room now.
    Full,
    /// The connection is broken.
    Broken(io::Error),
}

pub(super) fn write(socket: &OwnedWriteHalf, bytes: &[u8]) -> Written {
    match socket.try_write(bytes) {
        Ok(count) => Written::Some(count),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Written::Full,
        Err(error) => Written::Broken(error),
    }
}

/// What every connection gets: no delay of small writes, and probes that find a peer that vanished. Connections get from
/// their listener what it has.
pub(crate) fn tune(socket: &impl AsFd, keepalive: Duration) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    let probes = TcpKeepalive::new()
        .with_time(keepalive)
        .with_interval((keepalive / 3).max(Duration::from_secs(1)))
        .with_retries(3);
    socket.set_tcp_keepalive(&probes)
}

/// A connection attempt to a local port that nobody listens on can, by chance, meet itself: TCP allows it.
pub(crate) fn refuse_self(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        Err(io::ErrorKind::ConnectionRefused.into())
    } else {
        Ok(())
    }
}
