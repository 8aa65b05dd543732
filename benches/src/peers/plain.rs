//! Plain Redis servers of a peer's own, where it does not speak to a cluster.
//!
//! Must not know: what is in front of them.

use std::path::Path;

use anyhow::Context as _;

use crate::{
    connection::Connection,
    process::{Server, free_port},
};

/// A server that keeps nothing on disk, and its port on 127.0.0.1.
pub(super) struct Plain {
    pub(super) server: Server,
    pub(super) port: u16,
}

impl Plain {
    /// Starts `count` servers, with their logs in `folder`, and waits until they answer.
    pub(super) fn start(count: usize, name: &str, folder: &Path) -> anyhow::Result<Vec<Self>> {
        (1..=count).map(|number| Self::start_one(&folder.join(format!("{name}-node-{number}.log")))).collect()
    }

    fn start_one(log: &Path) -> anyhow::Result<Self> {
        let port = free_port()?;
        let number = port.to_string();
        let settings = ["--port", &number, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let server = Server::start("redis-server", settings, log)?;
        Connection::open_when_ready(port).with_context(|| server.last_words())?;
        Ok(Self { server, port })
    }
}
