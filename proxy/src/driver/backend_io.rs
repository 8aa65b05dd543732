//! Opens and reads one node connection. How long that may take is the engine's to say: it ends this task with the socket.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tsubaki_core::BackendId;
use tsubaki_core::action::Flow;

use super::shell::{Filled, Input, Shell};
use super::sockets;

pub(super) async fn connect(shell: Rc<Shell>, id: BackendId, address: String) {
    let reason = match open(&shell, id, &address).await {
        Ok(socket) => read(&shell, id, socket).await,
        Err(error) => error.to_string(),
    };
    shell.with(|inner, now| inner.worker.handle_backend_closed(id, &reason, now));
}

async fn open(shell: &Rc<Shell>, id: BackendId, address: &str) -> io::Result<OwnedReadHalf> {
    let stream = TcpStream::connect(address).await?;
    sockets::refuse_self(&stream)?;
    sockets::tune(&stream, shell.tcp_keepalive)?;
    let (read, write) = stream.into_split();
    shell.with(|inner, now| {
        if let Some(socket) = inner.sockets.backends.find_mut(id) {
            socket.write = Some(Rc::new(write));
            inner.worker.handle_backend_connected(id, now);
        }
    });
    Ok(read)
}

async fn read(shell: &Rc<Shell>, id: BackendId, mut socket: OwnedReadHalf) -> String {
    loop {
        let input = poll_fn(|cx| {
            shell.poll_read(&mut socket, cx, |inner, bytes, now| {
                inner.worker.handle_backend_input(id, bytes, now)
            })
        });
        match input.await {
            Input::Bytes(Flow::Read, Filled::Partly) => {}
            Input::Bytes(Flow::Read, Filled::Wholly) => tokio::task::yield_now().await,
            Input::Bytes(Flow::Pause, _) => shell.resumed(id).await,
            Input::End => return "it closed the connection".to_owned(),
            Input::Broken(error) => return error.to_string(),
        }
    }
}
