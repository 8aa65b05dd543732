//! The subjects: what a load can go through, and how each is started.
//!
//! Must not know: loads and figures.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};

use crate::{
    cluster::{Cluster, store},
    connection::{Connection, wait_for},
    load::redis_benchmark::{KEYS, VALUE_BYTES},
    peers::{self, Start},
    process::{Server, free_port},
};

/// The load generator speaks to the cluster itself.
pub const DIRECT: &str = "direct";

/// The server that only answers.
pub const FLOOR: &str = "floor";

/// The proxy that this project is about.
pub const TSUBAKI: &str = "tsubaki";

/// The same, reading from masters and replicas in turn.
pub const TSUBAKI_ANY: &str = "tsubaki-any";

/// The same, with its workers left to the kernel (`placement.mode = "off"`).
pub const TSUBAKI_UNPINNED: &str = "tsubaki-unpinned";

/// The least that a middle-man does: TCP alone, in front of one plain server.
pub const HAPROXY: &str = "haproxy";

/// Envoy's Redis proxy.
pub const ENVOY: &str = "envoy";

/// predixy.
pub const PREDIXY: &str = "predixy";

/// Camellia, which tsubaki replaces.
pub const CAMELLIA: &str = "camellia";

/// twemproxy, in front of plain servers: it knows no cluster.
pub const TWEMPROXY: &str = "twemproxy";

/// Every subject; each is one row of each table.
pub const SUBJECTS: [Subject; 10] = [
    Subject { name: DIRECT, start: None },
    Subject { name: FLOOR, start: Some(floor) },
    Subject { name: TSUBAKI, start: Some(tsubaki) },
    Subject { name: TSUBAKI_ANY, start: Some(tsubaki_any) },
    Subject { name: TSUBAKI_UNPINNED, start: Some(tsubaki_unpinned) },
    // Beside tsubaki, as the nearest: the less time between two, the less noise in their ratio.
    Subject { name: PREDIXY, start: Some(peers::predixy) },
    Subject { name: HAPROXY, start: Some(peers::haproxy) },
    Subject { name: ENVOY, start: Some(peers::envoy) },
    Subject { name: CAMELLIA, start: Some(peers::camellia) },
    Subject { name: TWEMPROXY, start: Some(peers::twemproxy) },
];

/// What a load can go through.
pub struct Subject {
    /// As tables and flags call it.
    pub name: &'static str,
    start: Option<StartFn>,
}

type StartFn = fn(&Site<'_>, port: u16, threads: u32) -> anyhow::Result<Start>;

/// What subjects are started from.
pub struct Site<'a> {
    /// The cluster behind them.
    pub cluster: &'a Cluster,
    /// The tsubaki to measure; `None`: the one beside this program.
    pub tsubaki: Option<&'a Path>,
}

/// Where the load goes when a subject runs.
pub enum Running {
    /// To the cluster itself.
    Direct,
    /// Through a process.
    Middle(Middle),
    /// Nowhere: the subject is not on this machine; why, and what to do, in one line.
    Missing(String),
}

/// A running subject between the load and the cluster.
pub struct Middle {
    /// Its process.
    pub server: Server,
    /// Servers of its own behind it, where it does not speak to the cluster.
    pub nodes: Vec<Server>,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// True: its `INFO` tells the floor's counts.
    pub counts: bool,
}

impl Subject {
    /// True for other people's proxies: where one is missing, the rest is measured without it.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        ![DIRECT, FLOOR, TSUBAKI, TSUBAKI_ANY, TSUBAKI_UNPINNED].contains(&self.name)
    }

    /// Starts the subject with so many threads and waits until it serves.
    ///
    /// # Errors
    /// If it is there, and does not store and return a key within ten seconds.
    pub fn start(&self, site: &Site<'_>, threads: u32) -> anyhow::Result<Running> {
        let Some(start) = self.start else { return Ok(Running::Direct) };
        let port = free_port()?;
        let (server, nodes) =
            match start(site, port, threads).with_context(|| format!("cannot start {}", self.name))? {
                Start::Running { server, nodes } => (server, nodes),
                Start::Missing(why) => return Ok(Running::Missing(why)),
            };
        let password = site.cluster.password();
        let serves = || match server.cpu_time() {
            Ok(_) => stores_a_key(port, password).map(Ok),
            Err(ended) => Some(Err(ended)),
        };
        let connection = wait_for(&format!("{} to serve", self.name), serves);
        let mut connection = connection.with_context(|| server.last_words())??;
        if !nodes.is_empty() {
            // The cluster's keys are filled directly; these servers have no other way.
            store(&mut connection, (0..KEYS).map(|number| format!("key:{number:012}")), VALUE_BYTES)?;
        }
        Ok(Running::Middle(Middle { server, nodes, port, counts: self.name == FLOOR }))
    }
}

impl Middle {
    /// CPU time of the servers of its own behind it.
    ///
    /// # Errors
    /// If one has ended.
    pub fn nodes_cpu_time(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(Server::cpu_time).sum()
    }
}

/// The names of all subjects.
#[must_use]
pub fn names() -> Vec<&'static str> {
    SUBJECTS.iter().map(|subject| subject.name).collect()
}

/// The subject of this name.
///
/// # Errors
/// If there is none.
pub fn named(name: &str) -> anyhow::Result<&'static Subject> {
    let unknown = || format!("no subject is called {name:?}; there are {}", names().join(", "));
    SUBJECTS.iter().find(|subject| subject.name == name).with_context(unknown)
}

fn stores_a_key(port: u16, password: Option<&str>) -> Option<Connection> {
    let mut connection = Connection::open_as(port, password).ok()?;
    connection.call(&["SET", "key:000000000000", &"x".repeat(VALUE_BYTES as usize)]).ok()?;
    connection.call(&["GET", "key:000000000000"]).ok()?;
    Some(connection)
}

fn floor(site: &Site<'_>, port: u16, _threads: u32) -> anyhow::Result<Start> {
    let arguments = ["floor", "--port", &port.to_string()];
    let server = Server::start(env::current_exe()?, arguments, &site.cluster.folder().join("floor.log"))?;
    Ok(Start::Running { server, nodes: Vec::new() })
}

fn tsubaki(site: &Site<'_>, port: u16, workers: u32) -> anyhow::Result<Start> {
    start_tsubaki(site, TSUBAKI, port, workers, &Differs { ..DEFAULTS })
}

fn tsubaki_any(site: &Site<'_>, port: u16, workers: u32) -> anyhow::Result<Start> {
    start_tsubaki(site, TSUBAKI_ANY, port, workers, &Differs { read_policy: "any", ..DEFAULTS })
}

fn tsubaki_unpinned(site: &Site<'_>, port: u16, workers: u32) -> anyhow::Result<Start> {
    start_tsubaki(site, TSUBAKI_UNPINNED, port, workers, &Differs { placement: "off", ..DEFAULTS })
}

/// In what the subjects that are tsubaki differ.
struct Differs {
    read_policy: &'static str,
    placement: &'static str,
}

const DEFAULTS: Differs = Differs { read_policy: "master", placement: "auto" };

fn start_tsubaki(
    site: &Site<'_>,
    name: &str,
    port: u16,
    workers: u32,
    differs: &Differs,
) -> anyhow::Result<Start> {
    let program = site.tsubaki.map_or_else(beside_this_program, |path| Ok(path.to_owned()))?;
    ensure!(
        program.exists(),
        "there is no {}: run `cargo build --release -p tsubaki`, or name the program with --tsubaki",
        program.display()
    );
    let folder = site.cluster.folder();
    let configuration = folder.join(format!("{name}.toml"));
    fs::write(&configuration, settings(site.cluster.password(), differs))?;
    let seeds: Vec<_> = site.cluster.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let (listen, seeds, workers) = (format!("127.0.0.1:{port}"), seeds.join(","), workers.to_string());
    let arguments = ["--listen", &listen, "--cluster", &seeds, "--workers", &workers, "--admin", "off"];
    let file = ["run".as_ref(), "--config".as_ref(), configuration.as_os_str()];
    let arguments = file.into_iter().chain(arguments.iter().map(OsStr::new));
    let server = Server::start(&program, arguments, &folder.join(format!("{name}.log")))?;
    Ok(Start::Running { server, nodes: Vec::new() })
}

/// Defaults, but for what has no flag; and the crowd is larger than the default lets in.
fn settings(password: Option<&str>, Differs { read_policy, placement }: &Differs) -> String {
    let password = password.map(|password| format!("password = {password:?}\n")).unwrap_or_default();
    format!(
        "max_clients = 100000\n{password}[placement]\nmode = {placement:?}\n[cluster]\nread_policy = {read_policy:?}\n{password}"
    )
}

fn beside_this_program() -> anyhow::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name("tsubaki"))
}

#[cfg(test)]
mod tests {
    use super::{DEFAULTS, Differs, named, settings};

    #[test]
    fn an_unknown_subject_is_an_error_that_names_the_known_ones() {
        let error = named("flour").err().unwrap().to_string();
        assert!(
            error.starts_with("no subject is called \"flour\"; there are direct, floor, tsubaki, "),
            "{error}"
        );
    }

    #[test]
    fn clients_and_nodes_share_the_password() {
        let text = "max_clients = 100000\npassword = \"p\"\n[placement]\nmode = \"auto\"\n[cluster]\nread_policy = \"any\"\npassword = \"p\"\n";
        assert_eq!(settings(Some("p"), &Differs { read_policy: "any", ..DEFAULTS }), text);
        assert!(!settings(None, &DEFAULTS).contains("password"));
    }
}
