//! A real cluster of three masters on loopback, filled with every key that the loads ask for.
//!
//! Must not know: what the cluster is measured through.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use tempfile::TempDir;
use tsubaki_protocol::{
    resp::write,
    slot::{SLOTS, Slot},
};

use crate::{
    connection::{Connection, wait_for},
    load::{KEYS, Load, Target, VALUE_BYTES},
    process::{Server, free_port},
};

/// Masters of the cluster.
pub const MASTERS: usize = 3;

/// SETs sent before their replies are read, when the keys are filled.
const BATCH: usize = 1000;

/// Three masters that end with this value.
pub struct Cluster {
    nodes: Vec<Node>,
    folder: TempDir,
}

struct Node {
    server: Server,
    port: u16,
    bus_port: u16,
}

impl Cluster {
    /// Starts the installed `redis-server` three times and waits until the cluster is ok.
    ///
    /// # Errors
    /// If redis-server is missing, or the nodes do not agree within ten seconds.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let nodes = (0..MASTERS).map(|index| Node::start(index, folder.path())).collect::<Result<_, _>>()?;
        let cluster = Self { nodes, folder };
        cluster.join()?;
        Ok(cluster)
    }

    /// The nodes' ports on 127.0.0.1.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
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

    /// Stores every key that redis-benchmark will ask for, so that each GET finds 64 bytes.
    ///
    /// Without `--cluster` the keys are `key:000000000042`. With it they are `key:{06S}:000000000042`:
    /// one hash tag a node, of its first slot, from a table inside redis-benchmark.
    ///
    /// # Errors
    /// If a node refuses a key.
    pub fn fill(&self) -> anyhow::Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            let prefix = self.tagged_prefix(index)?;
            let tagged = (0..KEYS).map(|number| format!("{prefix}:{number:012}"));
            let plain = (0..KEYS).map(|number| format!("key:{number:012}"));
            let own = plain.filter(|key| owner(Slot::of(key.as_bytes()).index()) == index);
            node.store(tagged.chain(own)).context("cannot fill the keys")?;
        }
        Ok(())
    }

    fn join(&self) -> anyhow::Result<()> {
        let (port, bus_port) = (self.nodes[0].port.to_string(), self.nodes[0].bus_port.to_string());
        for (index, node) in self.nodes.iter().enumerate() {
            let mut connection = Connection::open_when_ready(node.port).context(node.server.last_words())?;
            let (start, end) = (start_of(index).to_string(), (start_of(index + 1) - 1).to_string());
            connection.call(&["CLUSTER", "ADDSLOTSRANGE", &start, &end])?;
            // Every node its own epoch, or their views differ until the collisions are resolved.
            connection.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            if index > 0 {
                connection.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port])?;
            }
        }
        for node in &self.nodes {
            let mut connection = Connection::open(node.port)?;
            let state = format!("node 127.0.0.1:{} to say cluster_state:ok", node.port);
            wait_for(&state, || connection.call(&["CLUSTER", "INFO"]).ok().filter(|info| is_whole(info)))?;
        }
        Ok(())
    }

    /// What redis-benchmark puts before the numbers of one node's keys, read from a key that it stored.
    fn tagged_prefix(&self, index: usize) -> anyhow::Result<String> {
        let mut connection = Connection::open(self.nodes[index].port)?;
        if connection.call(&["DBSIZE"])? == "0" {
            let target = Target { port: self.nodes[0].port, cluster: true, threads: 1 };
            Load { command: "SET", clients: 3, pipeline: 1 }.run(target, 300)?;
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
    fn start(index: usize, folder: &Path) -> anyhow::Result<Self> {
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
        ];
        let log = folder.join(format!("node-{index}.log"));
        let server =
            Server::start("redis-server", settings.iter().flat_map(|&(name, value)| [name, value]), &log)?;
        Ok(Self { server, port, bus_port })
    }

    fn store(&self, keys: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.port)?;
        let value = "x".repeat(VALUE_BYTES as usize);
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            let mut requests = Vec::new();
            let mut expected = Vec::new();
            for key in keys.by_ref().take(BATCH) {
                write::command(&mut requests, [b"SET", key.as_bytes(), value.as_bytes()]);
                expected.extend_from_slice(b"+OK\r\n");
            }
            connection.exchange(&requests, &expected)?;
        }
        Ok(())
    }
}

/// The first slot of the master at `index`.
fn start_of(index: usize) -> usize {
    index * SLOTS / MASTERS
}

/// The index of the master that owns `slot`.
fn owner(slot: usize) -> usize {
    (0..MASTERS).rfind(|&index| start_of(index) <= slot).unwrap_or_default()
}

fn is_whole(info: &str) -> bool {
    info.contains("cluster_state:ok") && info.contains(&format!("cluster_known_nodes:{MASTERS}"))
}

#[cfg(test)]
mod tests {
    use super::{Cluster, SLOTS, owner, start_of};
    use crate::{
        connection::Connection,
        load::{KEYS, Load, Target},
    };

    #[test]
    fn every_slot_has_the_owner_whose_range_holds_it() {
        assert!((0..SLOTS).all(|slot| (start_of(owner(slot))..start_of(owner(slot) + 1)).contains(&slot)));
    }

    #[test]
    fn the_loads_find_every_key() {
        let cluster = Cluster::start().unwrap();
        cluster.fill().unwrap();
        let stored = || -> u32 {
            let size = |port| Connection::open(port).unwrap().call(&["DBSIZE"]).unwrap();
            cluster.ports().into_iter().map(|port| size(port).parse::<u32>().unwrap()).sum()
        };
        assert_eq!(stored(), 4 * KEYS);
        let target = Target { port: cluster.ports()[0], cluster: true, threads: 1 };
        Load { command: "SET", clients: 10, pipeline: 10 }.run(target, 20_000).unwrap();
        assert_eq!(stored(), 4 * KEYS, "redis-benchmark stored keys that were not filled");
    }
}
