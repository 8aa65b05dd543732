//! Asks one node what it knows of the cluster.

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tsubaki_core::settings::Login;
use tsubaki_core::shown_refusal;
use tsubaki_core::topology::View;
use tsubaki_protocol::cluster::{ClusterError, nodes};
use tsubaki_protocol::resp::reply::{ReplyScan, ReplyScanner};
use tsubaki_protocol::resp::tree::{self, Value};
use tsubaki_protocol::resp::write;

use crate::driver::refuse_self;

/// Most bytes of one node's answer. CLUSTER NODES takes about 200 bytes a node, and a cluster has at most some thousand.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// How the proxy gets at nodes.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) login: Option<Login>,
    /// For the whole of one question: connect, ask, hear.
    pub(crate) timeout: Duration,
}

/// What a node said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) view: View,
    /// Its `redis_version`, if it tells.
    pub(crate) version: Option<String>,
}

/// Why a node gave no view.
#[derive(Debug, Error)]
pub(crate) enum NodeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    #[error("the node refuses the password or user: {0}")]
    Login(String),
    #[error("the node is not part of a cluster: {0}")]
    NoCluster(String),
    #[error("the node says: {0}")]
    Refused(String),
    #[error("the answer is not what CLUSTER NODES should say: {0}")]
    Odd(String),
}

impl From<ClusterError> for NodeError {
    fn from(error: ClusterError) -> Self {
        Self::Odd(error.to_string())
    }
}

/// Asks the node at `address` (`host:port`).
pub(crate) async fn ask(address: &str, access: &Access) -> Result<Answer, NodeError> {
    tokio::time::timeout(access.timeout, ask_now(address, access))
        .await
        .unwrap_or(Err(NodeError::Silent(access.timeout)))
}

async fn ask_now(address: &str, access: &Access) -> Result<Answer, NodeError> {
    let mut stream = TcpStream::connect(address).await?;
    refuse_self(&stream)?;
    let mut replies = Replies::default();
    if let Some(login) = &access.login {
        stream.write_all(&auth(login)).await?;
        if let Some(error) = error_text(&replies.next(&mut stream).await?) {
            return Err(NodeError::Login(shown_refusal(&error).to_owned()));
        }
    }
    let mut questions = Vec::new();
    write::command(&mut questions, [b"CLUSTER".as_slice(), b"NODES"]);
    write::command(&mut questions, [b"INFO".as_slice(), b"server"]);
    stream.write_all(&questions).await?;
    let nodes_reply = replies.next(&mut stream).await?;
    if let Some(error) = error_text(&nodes_reply) {
        return Err(refusal(error));
    }
    let text = nodes_reply.as_str().ok_or_else(|| NodeError::Odd("not a text".to_owned()))?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let view = View { host: host.to_owned(), nodes: nodes::parse(text)? };
    let info = replies.next(&mut stream).await?;
    Ok(Answer { view, version: info.as_str().and_then(version) })
}

fn auth(login: &Login) -> Vec<u8> {
    let mut out = Vec::new();
    match &login.user {
        Some(user) => {
            write::command(&mut out, [b"AUTH".as_slice(), user.as_bytes(), login.password.expose()])
        }
        None => write::command(&mut out, [b"AUTH".as_slice(), login.password.expose()]),
    }
    out
}

fn error_text(reply: &Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(text.clone()),
        _ => None,
    }
}

fn refusal(text: String) -> NodeError {
    if text.contains("cluster support disabled") {
        NodeError::NoCluster(text)
    } else if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") || text.starts_with("NOPERM") {
        NodeError::Login(text)
    } else {
        NodeError::Refused(text)
    }
}

fn version(info: &str) -> Option<String> {
    info.lines().find_map(|line| line.strip_prefix("redis_version:")).map(|version| version.trim().to_owned())
}

/// Reads one reply after the other.
#[derive(Default)]
struct Replies {
    bytes: Vec<u8>,
    scanner: ReplyScanner,
}

impl Replies {
    async fn next(&mut self, stream: &mut TcpStream) -> Result<Value, NodeError> {
        loop {
            let odd = |error: &dyn std::fmt::Display| NodeError::Odd(error.to_string());
            if let ReplyScan::Complete(reply) = self.scanner.scan(&self.bytes).map_err(|error| odd(&error))? {
                let frame: Vec<u8> = self.bytes.drain(..reply.len).collect();
                return tree::decode(&frame).map_err(|error| odd(&error));
            }
            if self.bytes.len() > MAX_ANSWER {
                return Err(NodeError::Odd(format!("longer than {MAX_ANSWER} bytes")));
            }
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
