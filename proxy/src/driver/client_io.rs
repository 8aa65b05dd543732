//! Reads one client.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;

use tokio::net::tcp::OwnedReadHalf;
use tsubaki_core::ClientId;
use tsubaki_core::action::Flow;

use super::shell::{Filled, Input, Shell};

/// Boxed and kept small, as there are many: a task aligns what it holds to 128 bytes, and an `async fn` would keep its
/// arguments twice.
pub(super) fn read(
    shell: Rc<Shell>,
    id: ClientId,
    mut socket: OwnedReadHalf,
) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        let behind = Behind::new(&shell);
        loop {
            let input = poll_fn(|cx| {
                let input = shell.poll_read(&mut socket, cx, |inner, bytes, now| {
                    inner.worker.handle_client_input(id, bytes, now)
                });
                behind.set(input.is_ready());
                input
            });
            match input.await {
                Input::Bytes(Flow::Read, Filled::Partly) => {}
                Input::Bytes(Flow::Read, Filled::Wholly) => tokio::task::yield_now().await,
                // Every client would have room for what few wait for.
                Input::Bytes(Flow::Pause, _) => Box::pin(shell.resumed(id)).await,
                Input::End => {
                    shell.with(|inner, now| inner.worker.handle_client_finished(id, now));
                    return;
                }
                Input::Broken(_) => {
                    shell.close_client(id);
                    return;
                }
            }
        }
    })
}

/// Tells the shell while the client's socket may hold more than was read.
struct Behind<'a> {
    shell: &'a Shell,
    is: Cell<bool>,
}

impl<'a> Behind<'a> {
    fn new(shell: &'a Shell) -> Self {
        Self { shell, is: Cell::new(false) }
    }

    fn set(&self, is: bool) {
        if self.is.replace(is) != is {
            self.shell.count_behind(is);
        }
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}
