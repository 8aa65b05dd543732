//! A Redis Cluster of local processes, for developing, for the demo, and for tests and benches.
//!
//! It speaks to its nodes over a client of its own and must not know the proxy: what it builds is a plain
//! cluster that any client can use. Nothing of it outlives this process, however this process ends.
//!
//! ```text
//! DevCluster ── ProcessGroup ── sh (waits for our end of a pipe to close, then kills its group)
//!     │              ├── redis-server, node 0: master, slots 0-5460
//!     │              ├── redis-server, node 1: master, slots 5461-10921
//!     │              └── …                     masters first, then replicas
//!     └── a temporary folder: one folder a node with its redis.conf, nodes.conf and log
//! ```

mod client;
mod command;
mod error;
mod form;
mod node;
mod ports;
mod process_group;
mod server;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tsubaki_protocol::slot::Slot;

pub(crate) use self::client::encode;
pub use self::client::{Client, ClientError, Reply};
pub(crate) use self::command::Stop;
pub use self::command::{DevClusterArgs, run};
pub use self::error::DevClusterError;
use self::error::machine;
pub use self::node::{Node, Role};
pub use self::ports::{free_port, is_free};
pub use self::process_group::ProcessGroup;
pub use self::server::{Server, ServerError};

/// How long a node may take to start, and the cluster to agree: a loaded machine needs seconds, a broken
/// cluster never gets there.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many times a node that lost the race for a free port gets other ones.
const PORT_ATTEMPTS: u32 = 10;

/// What cluster to build.
#[derive(Clone)]
pub struct Options {
    /// Masters, which share the 16384 slots evenly; 1 to 1000.
    pub masters: u16,
    /// Replicas of each master.
    pub replicas: u16,
    /// The first node's port, the next ones follow; without it every node takes a free port.
    pub base_port: Option<u16>,
    /// The program that every node runs.
    pub server: Server,
    /// The password that clients (`requirepass`) and replicas (`masterauth`) need.
    pub password: Option<String>,
    /// More lines for every node's `redis.conf`, such as `cluster-require-full-coverage no`.
    pub node_config: Vec<String>,
    /// `cluster-node-timeout`: how long a node is silent before the others call it failed.
    pub node_timeout: Duration,
}

impl Options {
    /// Three masters without replicas on free ports, no password, a node timeout of 5 s.
    pub fn new(server: Server) -> Self {
        Self {
            masters: 3,
            replicas: 0,
            base_port: None,
            server,
            password: None,
            node_config: Vec::new(),
            node_timeout: Duration::from_secs(5),
        }
    }
}

/// What the start of a cluster is at; its text is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The processes are being started.
    Starting {
        /// How many nodes the cluster will have.
        nodes: usize,
    },
    /// The nodes get to know each other.
    Joining,
    /// The replicas are attached to their masters.
    Replicating,
    /// The nodes agree on the slots and the replicas load their masters' data.
    Settling,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting { nodes } => write!(f, "starting {nodes} nodes"),
            Self::Joining => f.write_str("the nodes join the cluster"),
            Self::Replicating => f.write_str("the replicas follow their masters"),
            Self::Settling => f.write_str("waiting until every node says ok"),
        }
    }
}

/// A running cluster; dropping it ends its processes and removes its files.
pub struct DevCluster {
    nodes: Vec<Node>,
    server: Server,
    password: Option<String>,
    group: ProcessGroup,
    dir: TempDir,
}

impl DevCluster {
    /// Starts the nodes, makes a cluster of them and waits until every node says that it is ok, all replicas
    /// included. Takes about three seconds: a new master waits for two before it takes slots.
    ///
    /// # Errors
    /// When the server or a port is not to be had, a node ends, or the cluster is not ok after 30 s.
    pub fn start(options: Options, on_step: &mut dyn FnMut(Step)) -> Result<Self, DevClusterError> {
        let nodes = node::plan(&options)?;
        let dir = tempfile::Builder::new()
            .prefix("tsubaki-dev-cluster-")
            .tempdir()
            .map_err(machine("make a temporary folder"))?;
        let group = ProcessGroup::new(Some(dir.path())).map_err(machine("run sh"))?;
        let Options { server, password, .. } = &options;
        let mut cluster = Self { nodes, server: server.clone(), password: password.clone(), group, dir };

        on_step(Step::Starting { nodes: cluster.nodes.len() });
        cluster.start_nodes(&options)?;
        form::form(&mut cluster, on_step)?;
        Ok(cluster)
    }

    fn start_nodes(&mut self, options: &Options) -> Result<(), DevClusterError> {
        for node in &mut self.nodes {
            node.configure(self.dir.path(), options)?;
            node.spawn(&self.server, &self.group)?;
        }
        for node in &mut self.nodes {
            let mut attempts = 1;
            while let Err(error) = node.wait_until_it_answers(PATIENCE) {
                let lost_its_port = options.base_port.is_none() && node.found_its_port_taken();
                if !lost_its_port || attempts == PORT_ATTEMPTS {
                    return Err(error);
                }
                attempts += 1;
                node.take_other_ports()?;
                node.configure(self.dir.path(), options)?;
                node.spawn(&self.server, &self.group)?;
            }
        }
        Ok(())
    }

    /// Ends node `i` at once, as `kill -9` does. Its data is lost, its identity and slots are kept on disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(&mut self, i: usize) -> Result<(), DevClusterError> {
        self.node_mut(i)?.kill()
    }

    /// Starts node `i` again, on the same port and with the same identity, and waits until it answers. A
    /// node that still runs is killed first.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self, i: usize) -> Result<(), DevClusterError> {
        self.kill(i)?;
        let Self { nodes, server, group, .. } = self;
        let node = nodes.get_mut(i).ok_or_else(|| no_such_node(i))?;
        node.spawn(server, group)?;
        node.wait_until_it_answers(PATIENCE)
    }

    /// Stops node `i` without closing its connections (SIGSTOP), as a machine that hangs.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&mut self, i: usize) -> Result<(), DevClusterError> {
        self.node_mut(i)?.pause()
    }

    /// Lets a paused node `i` go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&mut self, i: usize) -> Result<(), DevClusterError> {
        self.node_mut(i)?.resume()
    }

    /// Waits until every node that runs says `cluster_state:ok`, all slots are served, and every replica
    /// that runs is in step with its master; 30 s at most.
    ///
    /// # Errors
    /// With what did not happen.
    pub fn wait_ok(&self) -> Result<(), DevClusterError> {
        form::wait_until_ok(self)
    }

    /// Sends one command to node `i` over a connection of its own. An error reply is a reply.
    ///
    /// # Errors
    /// When the node cannot be talked to.
    pub fn call(&self, i: usize, command: &[&str]) -> Result<Reply, DevClusterError> {
        self.node(i)?.call(command)
    }

    /// A connection to node `i` that has given its password.
    ///
    /// # Errors
    /// When the node cannot be talked to.
    pub fn connect(&self, i: usize) -> Result<Client, DevClusterError> {
        self.node(i)?.connect()
    }

    /// The nodes: masters by their slots, then replicas; each master's `k`-th replica is at
    /// `masters * (k + 1) + master`.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of the master that `key`'s slot was given to; a failover or a move changes the owner, not
    /// this.
    pub fn master_of(&self, key: &[u8]) -> usize {
        let slot = Slot::of(key).index();
        let owns = |node: &Node| node.slots().is_some_and(|slots| slots.contains(&(slot as u16)));
        self.nodes.iter().position(owns).unwrap_or_default()
    }

    /// Every node's address, for `--cluster` or a configuration's seeds.
    pub fn seeds(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Node::addr).collect()
    }

    /// The password that the nodes ask for.
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The program that the nodes run.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The group that ends with this process; a child that serves this cluster may join it.
    pub fn process_group(&self) -> &ProcessGroup {
        &self.group
    }

    /// The folder of the nodes' files, which goes when the cluster does.
    pub fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Node `i` of [`nodes`](Self::nodes).
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, i: usize) -> Result<&Node, DevClusterError> {
        self.nodes.get(i).ok_or_else(|| no_such_node(i))
    }

    fn node_mut(&mut self, i: usize) -> Result<&mut Node, DevClusterError> {
        self.nodes.get_mut(i).ok_or_else(|| no_such_node(i))
    }
}

fn no_such_node(i: usize) -> DevClusterError {
    let source = io::Error::from(io::ErrorKind::NotFound);
    DevClusterError::Machine { doing: format!("find node {i} of this cluster"), source }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // A node that cannot be killed is left to the process group, which tries again.
            let _ = node.kill();
        }
    }
}
