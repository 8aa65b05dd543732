//! Takes clients in, as long as there is a place and a file descriptor for each; those whose place is at another worker
//! are handed over.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{JoinHandle, spawn_local};

use super::shell::Shell;
use super::sockets::Socket;
use super::{Mail, client_io};
use crate::events;
use crate::gate::{Gate, Home, Place};

/// How long no connection is taken after the system had no descriptor or memory for one. Without a pause the loop would
/// spin, because the connection stays in the queue; a client notices a tenth of a second less than a refusal.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections taken before clients that are inside get their turn: half a millisecond's work.
const BATCH: usize = 64;

/// Turns of the event loop, after the listeners are closed, in which the last clients are first read.
const LAST_TURNS: usize = 16;

/// A client that was accepted, in its place.
pub(crate) struct Arrival {
    pub(super) socket: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) place: Place,
}

/// What decides where a client is taken in.
pub(super) struct Door {
    pub(super) gate: Gate,
    /// For each CPU by number the worker that is pinned to it; empty where clients are spread by their number alone.
    pub(super) homes: Arc<[Option<usize>]>,
}

/// How far a batch got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// The kernel has queued no more.
    All,
    /// There may be more.
    Some,
}

pub(super) async fn accept(shell: Rc<Shell>, listener: std::net::TcpListener, door: Rc<Door>) {
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for types that change their descriptor; std's listener never does"
    )]
    let listener = match AsyncFd::with_interest(listener, Interest::READABLE) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot use the listening socket");
            return;
        }
    };
    loop {
        let ready = tokio::select! {
            biased;
            () = shell.stopping() => break,
            ready = listener.readable() => ready,
        };
        let Ok(mut ready) = ready else { break };
        match take_batch(&shell, listener.get_ref(), &door) {
            Ok(Taken::All) => ready.clear_ready(),
            Ok(Taken::Some) => tokio::task::yield_now().await,
            Err(errno) => pause_after(errno).await,
        }
    }
    // What the kernel has queued was told that it is connected.
    while let Ok(Taken::Some) = take_batch(&shell, listener.get_ref(), &door) {
        tokio::task::yield_now().await;
    }
}

/// Ends accepting, reads what clients have sent so far, then tells the engine to stop.
pub(super) async fn stop(shell: &Rc<Shell>, listening: Vec<JoinHandle<()>>, gate: &Gate) {
    shell.stop_accepting();
    for task in listening {
        // A listener's task does not panic; were it to, the others still have to be waited for.
        let _ = task.await;
    }
    gate.close();
    shell.complete(|| gate.clients()).await;
    for _ in 0..LAST_TURNS {
        tokio::task::yield_now().await;
    }
    shell.caught_up().await;
    shell.with(|inner, now| inner.worker.handle_stop(now));
}

/// Takes in a client that has its place here.
pub(super) fn take_in(shell: &Rc<Shell>, arrival: Arrival) {
    let Arrival { socket, address, place } = arrival;
    // Where it fails the client is gone already, or the kernel has no memory: either way its connection ends.
    let Ok(local) = socket.local_addr() else { return };
    let Ok(stream) = tokio::net::TcpStream::from_std(socket) else { return };
    let (read, write) = stream.into_split();
    shell.with(|inner, now| {
        let id = inner.worker.handle_client_accepted(address, local, now);
        let reader = spawn_local(client_io::read(Rc::clone(shell), id, read));
        inner.sockets.clients.insert(Socket::client(id, write, reader.abort_handle(), place));
    });
}

fn take_batch(shell: &Rc<Shell>, listener: &std::net::TcpListener, door: &Door) -> Result<Taken, Errno> {
    for _ in 0..BATCH {
        match acceptfrom_with(listener.as_fd(), SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, Some(address))) => {
                // A listener of TCP gives no other addresses.
                if let Ok(address) = SocketAddr::try_from(address) {
                    admit(shell, socket, address, door);
                }
            }
            Ok((_, None)) => {}
            Err(Errno::AGAIN) => return Ok(Taken::All),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Taken::Some)
}

fn admit(shell: &Rc<Shell>, socket: OwnedFd, address: SocketAddr, door: &Door) {
    let Some(place) = door.gate.enter(door.home(&socket, address)) else {
        shell.with(|inner, _| inner.worker.handle_client_rejected());
        // Best effort, as in Redis: the client is not worth waiting for.
        let _ = rustix::io::write(socket, b"-ERR max number of clients reached\r\n");
        events::clients_full();
        return;
    };
    let arrival = Arrival { socket: socket.into(), address, place };
    if door.gate.is_own(&arrival.place) {
        take_in(shell, arrival);
    } else if let Some(peer) = shell.peers.get(arrival.place.worker()) {
        // It waits for those who have a place at it, so it is there.
        peer.send(Mail::Client(arrival));
    }
}

impl Door {
    /// Where a client belongs, as far as the kernel knows on which CPU its packets arrive.
    fn home(&self, socket: &OwnedFd, peer: SocketAddr) -> Home {
        if self.homes.is_empty() {
            return Home::Any;
        }
        let socket = SockRef::from(socket);
        let own = socket.local_addr().ok().and_then(|address| address.as_socket());
        // From the same machine: packets arrive on whichever CPU the sender runs.
        if own.is_none_or(|own| own.ip() == peer.ip()) || peer.ip().to_canonical().is_loopback() {
            return Home::Any;
        }
        match socket.cpu_affinity() {
            Ok(cpu) => self.homes.get(cpu).copied().flatten().map_or(Home::None, Home::Worker),
            Err(_) => Home::Any,
        }
    }
}

async fn pause_after(errno: Errno) {
    if [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno) {
        events::accept_paused(&io::Error::from(errno));
        tokio::time::sleep(PAUSE).await;
    }
    // Anything else concerns one connection that did not come about.
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// A connection from one loopback address to another, as if it came from elsewhere, and the CPU of its packets.
    fn connection(from: Ipv4Addr, to: Ipv4Addr) -> (OwnedFd, SocketAddr, usize) {
        let listener = TcpListener::bind((to, 0)).unwrap();
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        client.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        let cpu = SockRef::from(&socket).cpu_affinity().unwrap();
        (socket.into(), peer, cpu)
    }

    fn home(homes: &[Option<usize>], from: Ipv4Addr, peer: Option<SocketAddr>) -> (Home, usize) {
        let (socket, address, cpu) = connection(from, Ipv4Addr::LOCALHOST);
        let door = Door { gate: Gate::all(1, 1).remove(0), homes: homes.into() };
        (door.home(&socket, peer.unwrap_or(address)), cpu)
    }

    #[test]
    fn a_client_belongs_to_the_worker_of_the_cpu_where_its_packets_arrive() {
        let elsewhere = Some(SocketAddr::from(([192, 0, 2, 1], 5)));
        let all: Vec<Option<usize>> = (0..4096).map(|cpu| Some(cpu + 7)).collect();
        let (found, cpu) = home(&all, Ipv4Addr::LOCALHOST, elsewhere);
        assert_eq!(found, Home::Worker(cpu + 7));
        assert_eq!(home(&vec![None; 4096], Ipv4Addr::LOCALHOST, elsewhere).0, Home::None);
        assert_eq!(
            home(&[], Ipv4Addr::LOCALHOST, elsewhere).0,
            Home::Any,
            "clients are spread by their number"
        );
    }

    #[test]
    fn a_client_of_the_same_machine_belongs_to_nobody() {
        let all = vec![Some(0); 4096];
        assert_eq!(home(&all, Ipv4Addr::LOCALHOST, None).0, Home::Any);
        assert_eq!(home(&all, Ipv4Addr::new(127, 0, 0, 2), None).0, Home::Any);
    }
}
