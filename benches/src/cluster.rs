//! A real cluster on loopback, filled with every key that the loads ask for.
//!
//! Must not know: what the cluster is measured through.

use std::{cell::Cell, path::Path, time::Duration};

use anyhow::Context as _;
use tempfile::TempDir;
use tsubaki_protocol::{
    resp::write,
    slot::{SLOTS, Slot},
};

use crate::{
    connection::{Connection, wait_for},
    load::{
        Load, Target,
        redis_benchmark::{Command, RedisBenchmark, VALUE_BYTES, keys_for},
    },
    process::{Server, free_port},
};

/// Masters of nearly every cell's cluster.
pub const MASTERS: usize = 3;

/// Bytes of SETs sent before their replies are read, when the keys are filled.
const BATCH: usize = 128 << 10;

/// What a cluster consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Masters, each with an equal share of the slots.
    pub masters: usize,
    /// True: each master has a replica.
    pub replicas: bool,
    /// What the nodes want to hear with AUTH.
    pub password: Option<&'static str>,
}

/// A cluster that ends with this value.
pub struct Cluster {
    shape: Shape,
    /// The masters, by their slots, then their replicas in the same order.
    nodes: Vec<Node>,
    folder: TempDir,
    /// Bytes of the values behind the keys that are filled at present.
    filled: Cell<Option<u32>>,
}

struct Node {
    server: Server,
    port: u16,
    bus_port: u16,
    password: Option<&'static str>,
}

impl Shape {
    /// Three masters, without a password: what nearly every cell needs.
    pub const THREE_MASTERS: Self = Self { masters: MASTERS, replicas: false, password: None };

    fn nodes(self) -> usize {
        if self.replicas { 2 * self.masters } else { self.masters }
    }

    /// The first slot of the master at `index`.
    fn start_of(self, index: usize) -> usize {
        index * SLOTS / self.masters
    }

    /// The index of the master that owns `slot`.
    fn owner(self, slot: usize) -> usize {
        (0..self.masters).rfind(|&index| self.start_of(index) <= slot).unwrap_or_default()
    }
}

impl Cluster {
    /// Starts three masters, as [`Cluster::of`] does.
    ///
    /// # Errors
    /// As [`Cluster::of`].
    pub fn start() -> anyhow::Result<Self> {
        Self::of(Shape::THREE_MASTERS)
    }

    /// Starts the installed `redis-server` for each node and waits until the cluster is ok.
    ///
    /// # Errors
    /// If redis-server is missing, or the nodes do not agree within ten seconds.
    pub fn of(shape: Shape) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let start = |index| Node::start(index, shape.password, folder.path());
        let nodes = (0..shape.nodes()).map(start).collect::<Result<_, _>>()?;
        let cluster = Self { shape, nodes, folder, filled: Cell::new(None) };
        cluster.join()?;
        cluster.replicate()?;
        Ok(cluster)
    }

    /// The masters' ports on 127.0.0.1.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.masters().iter().map(|node| node.port).collect()
    }

    /// The process ids of all nodes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.server.pid()).collect()
    }

    /// What the nodes want to hear with AUTH, from clients and from each other.
    #[must_use]
    pub const fn password(&self) -> Option<&str> {
        self.shape.password
    }

    /// A folder for logs, removed with the cluster.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// CPU time of all nodes together.
    ///
    /// # Errors
    /// If a node has ended.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(|node| node.server.cpu_time()).sum()
    }

    /// Makes the cluster hold what `load` expects: every key that it reads, and no lists that grew in earlier
    /// measurements.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn prepare(&self, load: &Load) -> anyhow::Result<()> {
        let wanted = match load {
            Load::RedisBenchmark(RedisBenchmark { command: Command::Lpush, .. }) => {
                self.filled.set(None);
                return self.flush();
            }
            Load::RedisBenchmark(RedisBenchmark { value_bytes, keys: Some(_), .. }) => *value_bytes,
            Load::OpenLoop(_) | Load::RoundTrip => VALUE_BYTES,
            // Lines of field reports store what they read.
            Load::RedisBenchmark(_) | Load::Memtier(_) => return Ok(()),
        };
        if self.filled.get() != Some(wanted) {
            self.flush()?;
            self.fill(wanted)?;
            self.filled.set(Some(wanted));
        }
        Ok(())
    }

    /// Stores every key that redis-benchmark will ask for, so that each GET finds a value.
    ///
    /// Without `--cluster` the keys are `key:000000000042`. With it they are `key:{06S}:000000000042`:
    /// one hash tag a node, of its first slot, from a table inside redis-benchmark.
    fn fill(&self, value_bytes: u32) -> anyhow::Result<()> {
        for (index, node) in self.masters().iter().enumerate() {
            let prefix = self.tagged_prefix(index)?;
            let keys = 0..keys_for(value_bytes);
            let tagged = keys.clone().map(|number| format!("{prefix}:{number:012}"));
            let plain = keys.map(|number| format!("key:{number:012}"));
            let own = plain.filter(|key| self.shape.owner(Slot::of(key.as_bytes()).index()) == index);
            store(&mut node.connect()?, tagged.chain(own), value_bytes)?;
        }
        Ok(())
    }

    fn flush(&self) -> anyhow::Result<()> {
        for node in self.masters() {
            node.connect()?.call(&["FLUSHALL"])?;
        }
        Ok(())
    }

    fn masters(&self) -> &[Node] {
        &self.nodes[..self.shape.masters]
    }

    fn join(&self) -> anyhow::Result<()> {
        let (port, bus_port) = (self.nodes[0].port.to_string(), self.nodes[0].bus_port.to_string());
        for (index, node) in self.nodes.iter().enumerate() {
            let connection = Connection::open_when_ready_as(node.port, node.password);
            let mut connection = connection.with_context(|| node.server.last_words())?;
            if index < self.shape.masters {
                let (start, end) = (self.shape.start_of(index), self.shape.start_of(index + 1) - 1);
                connection.call(&["CLUSTER", "ADDSLOTSRANGE", &start.to_string(), &end.to_string()])?;
            }
            // Every node its own epoch, or their views differ until the collisions are resolved.
            connection.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
        }
        // Only now: a node that has met another takes no epoch any more.
        for node in self.nodes.iter().skip(1) {
            node.connect()?.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port])?;
        }
        let nodes = format!("cluster_known_nodes:{}\r", self.nodes.len());
        self.nodes.iter().try_for_each(|node| node.wait_to_say("CLUSTER", &["cluster_state:ok", &nodes]))
    }

    fn replicate(&self) -> anyhow::Result<()> {
        let (masters, replicas) = self.nodes.split_at(self.shape.masters);
        for (master, replica) in masters.iter().zip(replicas) {
            let id = master.connect()?.call(&["CLUSTER", "MYID"])?;
            replica.connect()?.call(&["CLUSTER", "REPLICATE", &id])?;
        }
        replicas.iter().try_for_each(|replica| replica.wait_to_say("", &["master_link_status:up"]))
    }

    /// What redis-benchmark puts before the numbers of one node's keys, read from a key that it stored.
    fn tagged_prefix(&self, index: usize) -> anyhow::Result<String> {
        let mut connection = self.nodes[index].connect()?;
        if connection.call(&["DBSIZE"])? == "0" {
            let password = self.password().map(str::to_owned);
            let target = Target { port: self.nodes[0].port, cluster: true, threads: 1, password };
            let clients = self.shape.masters as u32;
            RedisBenchmark::new(Command::Set, clients, 1).run(&target, 100 * u64::from(clients))?;
        }
        let key = connection.call(&["RANDOMKEY"])?;
        let (prefix, _) = key
            .rsplit_once(':')
            .filter(|(prefix, _)| prefix.contains('{'))
            .with_context(|| format!("redis-benchmark stored {key:?}, which has no hash tag"))?;
        Ok(prefix.to_owned())
    }
}

impl Node {
    fn start(index: usize, password: Option<&'static str>, folder: &Path) -> anyhow::Result<Self> {
        let (port, bus_port) = (free_port()?, free_port()?);
        let (port_text, bus_text) = (port.to_string(), bus_port.to_string());
        let configuration = format!("nodes-{index}.conf");
        let settings = [
            ("--port", &*port_text),
            ("--cluster-port", &bus_text),
            ("--bind", "127.0.0.1"),
            ("--cluster-enabled", "yes"),
            ("--cluster-config-file", &configuration),
            ("--dir", folder.to_str().context("the temporary folder's name is no UTF-8")?),
            ("--save", ""),
            ("--appendonly", "no"),
            ("--requirepass", password.unwrap_or_default()),
            ("--masterauth", password.unwrap_or_default()),
        ];
        let log = folder.join(format!("node-{index}.log"));
        let server =
            Server::start("redis-server", settings.iter().flat_map(|&(name, value)| [name, value]), &log)?;
        Ok(Self { server, port, bus_port, password })
    }

    fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open_as(self.port, self.password)
    }

    /// Waits until the node's INFO (or with a prefix, as `CLUSTER INFO`) has all of these texts.
    fn wait_to_say(&self, prefix: &str, texts: &[&str]) -> anyhow::Result<()> {
        let mut connection = self.connect()?;
        let command: Vec<_> = [prefix, "INFO"].into_iter().filter(|word| !word.is_empty()).collect();
        wait_for(&format!("node 127.0.0.1:{} to say {}", self.port, texts.join(" and ")), || {
            let info = connection.call(&command).ok()?;
            texts.iter().all(|text| info.contains(text)).then_some(())
        })
    }
}

/// Stores `keys`, with values of one size, through one connection.
///
/// # Errors
/// If a key is refused.
pub fn store(
    connection: &mut Connection,
    keys: impl Iterator<Item = String>,
    value_bytes: u32,
) -> anyhow::Result<()> {
    let value = "x".repeat(value_bytes as usize);
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        let mut requests = Vec::new();
        let mut expected = Vec::new();
        while let Some(key) = keys.next_if(|_| requests.len() < BATCH) {
            write::command(&mut requests, [b"SET", key.as_bytes(), value.as_bytes()]);
            expected.extend_from_slice(b"+OK\r\n");
        }
        connection.exchange(&requests, &expected).context("cannot fill the keys")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Cluster, SLOTS, Shape};
    use crate::{
        connection::Connection,
        load::{
            Load, Target,
            redis_benchmark::{Command, KEYS, RedisBenchmark},
        },
    };

    #[test]
    fn every_slot_has_the_owner_whose_range_holds_it() {
        for masters in [3, 9] {
            let shape = Shape { masters, ..Shape::THREE_MASTERS };
            let range = |index| shape.start_of(index)..shape.start_of(index + 1);
            assert!((0..SLOTS).all(|slot| range(shape.owner(slot)).contains(&slot)));
        }
    }

    #[test]
    fn the_loads_find_every_key() {
        let cluster = Cluster::start().unwrap();
        let load = RedisBenchmark::new(Command::Set, 10, 10);
        cluster.prepare(&Load::RedisBenchmark(load)).unwrap();
        let stored = || -> u32 {
            let size = |port| Connection::open(port).unwrap().call(&["DBSIZE"]).unwrap();
            cluster.ports().into_iter().map(|port| size(port).parse::<u32>().unwrap()).sum()
        };
        assert_eq!(stored(), 4 * KEYS);
        let target = Target { port: cluster.ports()[0], cluster: true, threads: 1, password: None };
        load.run(&target, 20_000).unwrap();
        assert_eq!(stored(), 4 * KEYS, "redis-benchmark stored keys that were not filled");
    }

    #[test]
    fn replicas_follow_their_masters_behind_a_password() {
        let shape = Shape { masters: 3, replicas: true, password: Some("secret") };
        let cluster = Cluster::of(shape).unwrap();
        assert_eq!((cluster.ports().len(), cluster.pids().len()), (3, 6));
        for port in cluster.ports() {
            let mut master = Connection::open_as(port, Some("secret")).unwrap();
            assert!(master.call(&["INFO", "replication"]).unwrap().contains("connected_slaves:1\r"));
        }
    }
}
