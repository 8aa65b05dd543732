//! Takes clients in, as long as there is a place and a file descriptor for each.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};

use super::client_io;
use super::shell::Shell;
use super::sockets::{self, Socket};
use crate::events;
use crate::gate::Gate;

/// How long no connection is taken after the system had no descriptor or memory for one. Without a pause the loop would
/// spin, because the connection stays in the queue; a client notices a tenth of a second less than a refusal.
const PAUSE: Duration = Duration::from_millis(100);

/// Turns of the event loop, after the listeners are closed, in which the last clients are first read.
const LAST_TURNS: usize = 16;

pub(super) async fn accept(shell: Rc<Shell>, listener: std::net::TcpListener, gate: Arc<Gate>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot use the listening socket");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shell.stopping() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => admit(&shell, stream, address, &gate),
            Err(error) => pause_after(&error).await,
        }
    }
    drain(&shell, &listener, &gate).await;
}

/// Takes in what the kernel has queued: these clients were told that they are connected.
async fn drain(shell: &Rc<Shell>, listener: &TcpListener, gate: &Arc<Gate>) {
    // The runtime learns of a connection only when it looks at its sockets, which it does when a task yields.
    tokio::task::yield_now().await;
    loop {
        tokio::select! {
            biased;
            Ok((stream, address)) = listener.accept() => admit(shell, stream, address, gate),
            () = std::future::ready(()) => return,
        }
    }
}

/// Ends accepting, reads what clients have sent so far, then tells the engine to stop.
pub(super) async fn stop(shell: &Rc<Shell>, listening: Vec<JoinHandle<()>>) {
    shell.stop_accepting();
    for task in listening {
        // A listener's task does not panic; were it to, the others still have to be waited for.
        let _ = task.await;
    }
    for _ in 0..LAST_TURNS {
        tokio::task::yield_now().await;
    }
    shell.caught_up().await;
    shell.with(|inner, now| inner.worker.handle_stop(now));
}

fn admit(shell: &Rc<Shell>, stream: TcpStream, address: SocketAddr, gate: &Arc<Gate>) {
    let Some(place) = gate.enter() else {
        shell.with(|inner, _| inner.worker.handle_client_rejected());
        // Best effort, as in Redis: the client is not worth waiting for.
        let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
        events::clients_full();
        return;
    };
    // A client that is gone already shows itself at the first read.
    let _ = sockets::tune(&stream, shell.tcp_keepalive);
    let local = stream.local_addr().map_or_else(|_| String::new(), |address| address.to_string());
    let (read, write) = stream.into_split();
    let resume = Rc::default();
    shell.with(|inner, now| {
        let id = inner.worker.handle_client_accepted(address.to_string(), local, now);
        let reader = spawn_local(client_io::read(Rc::clone(shell), id, read, Rc::clone(&resume)));
        inner.sockets.clients.insert(Socket::client(id, write, reader.abort_handle(), resume, place));
    });
}

async fn pause_after(error: &io::Error) {
    use rustix::io::Errno;
    let out_of = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if out_of.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        events::accept_paused(error);
        tokio::time::sleep(PAUSE).await;
    }
    // Anything else concerns one connection that did not come about.
}
