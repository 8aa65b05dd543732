//! One node: its place in the cluster, its configuration and its process.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Options;
use super::client::{Client, ClientError, Reply};
use super::error::{DevClusterError, machine};
use super::ports::{free_port, is_free};
use super::process_group::ProcessGroup;
use super::server::Server;

const SLOTS: u32 = 16384;
const MAX_NODES: u32 = 1000;
const POLL: Duration = Duration::from_millis(20);
const LOG: &str = "node.log";
const LOG_LINES: usize = 10;

/// What a node was built as; a failover changes what it is, which `ROLE` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A master of these slots.
    Master(RangeInclusive<u16>),
    /// A replica of the master with this index.
    Replica(usize),
}

/// A node of a [`DevCluster`](super::DevCluster).
pub struct Node {
    port: u16,
    bus_port: u16,
    role: Role,
    password: Option<String>,
    dir: PathBuf,
    child: Option<Child>,
    paused: bool,
}

/// Gives every node its role and its ports. Nothing runs yet.
pub(super) fn plan(options: &Options) -> Result<Vec<Node>, DevClusterError> {
    let Options { masters, replicas, .. } = *options;
    let count = u32::from(masters) * (1 + u32::from(replicas));
    if !(1..=MAX_NODES).contains(&count) {
        return Err(DevClusterError::Shape { masters, replicas });
    }
    let first = |master: u32| u16::try_from(master * SLOTS / u32::from(masters)).unwrap_or(u16::MAX);
    (0..count)
        .map(|i| {
            let master = i % u32::from(masters);
            let role = if i < u32::from(masters) {
                Role::Master(first(master)..=first(master + 1) - 1)
            } else {
                Role::Replica(master as usize)
            };
            let port = match options.base_port {
                Some(base) => asked_port(u32::from(base) + i)?,
                None => any_port()?,
            };
            Ok(Node {
                port,
                bus_port: any_port()?,
                role,
                password: options.password.clone(),
                dir: PathBuf::new(),
                child: None,
                paused: false,
            })
        })
        .collect()
}

fn asked_port(port: u32) -> Result<u16, DevClusterError> {
    let port =
        u16::try_from(port).map_err(|_| DevClusterError::NoPort("above 65535: choose a lower base port"))?;
    if is_free(port) { Ok(port) } else { Err(DevClusterError::PortTaken { port }) }
}

fn any_port() -> Result<u16, DevClusterError> {
    free_port().ok_or(DevClusterError::NoPort("between 10000 and 31999"))
}

impl Node {
    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The port of the cluster bus.
    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    /// The process, if one runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What it was built as.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The slots that it was built with; none for a replica.
    pub fn slots(&self) -> Option<RangeInclusive<u16>> {
        match &self.role {
            Role::Master(slots) => Some(slots.clone()),
            Role::Replica(_) => None,
        }
    }

    /// Whether it runs and is not paused.
    pub fn is_up(&self) -> bool {
        self.child.is_some() && !self.paused
    }

    /// Writes `redis.conf` into a folder of its own below `parent`.
    pub(super) fn configure(&mut self, parent: &Path, options: &Options) -> Result<(), DevClusterError> {
        self.dir = parent.join(format!("node-{}", self.port));
        fs::create_dir_all(&self.dir).map_err(machine(format!("make {}", self.dir.display())))?;
        let path = self.dir.join("redis.conf");
        fs::write(&path, self.config(options)).map_err(machine(format!("write {}", path.display())))
    }

    fn config(&self, options: &Options) -> String {
        let mut config = format!(
            "bind 127.0.0.1\nport {}\ncluster-enabled yes\ncluster-port {}\ncluster-config-file nodes.conf\n\
             cluster-node-timeout {}\nsave \"\"\nappendonly no\ndir {}\n\
             repl-diskless-sync-delay 0\n",
            self.port,
            self.bus_port,
            options.node_timeout.as_millis(),
            quoted(&self.dir.to_string_lossy()),
        );
        if let Some(password) = &options.password {
            let password = quoted(password);
            // Writing to a String cannot fail.
            let _ = writeln!(config, "requirepass {password}\nmasterauth {password}");
        }
        for line in &options.node_config {
            config.push_str(line);
            config.push('\n');
        }
        config
    }

    pub(super) fn spawn(&mut self, server: &Server, group: &ProcessGroup) -> Result<(), DevClusterError> {
        let log = self.log().map_err(machine(format!("write a log in {}", self.dir.display())))?;
        let errors = log.try_clone().map_err(machine("share a log"))?;
        let mut command = Command::new(server.path());
        command.arg(self.dir.join("redis.conf")).stdout(log).stderr(errors);
        let child = group.spawn(&mut command).map_err(machine(format!("run {}", server.path().display())))?;
        self.child = Some(child);
        self.paused = false;
        Ok(())
    }

    /// What the program prints; a bad configuration is told there and not in a log file of its own.
    fn log(&self) -> io::Result<File> {
        File::options().create(true).append(true).open(self.dir.join(LOG))
    }

    /// Waits until this very process answers, not another one on the same port.
    pub(super) fn wait_until_it_answers(&mut self, patience: Duration) -> Result<(), DevClusterError> {
        let start = Instant::now();
        let Some(child) = &mut self.child else {
            return Err(self.dead());
        };
        let own_pid = format!("process_id:{}\r\n", child.id());
        loop {
            let ended = child.try_wait().map_err(machine("wait for a node"))?.is_some();
            if ended {
                self.child = None;
                return Err(self.dead());
            }
            let (addr, password) = (SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), &self.password);
            let info =
                Client::connect(addr, password.as_deref()).and_then(|mut c| c.call(&["INFO", "server"]));
            match info {
                Ok(reply) if reply.text().is_some_and(|text| text.contains(&own_pid)) => return Ok(()),
                Err(source) if start.elapsed() > patience => return Err(self.silent("INFO", source)),
                _ if start.elapsed() > patience => return Err(self.dead()),
                _ => thread::sleep(POLL),
            }
        }
    }

    pub(super) fn found_its_port_taken(&self) -> bool {
        self.child.is_none() && self.log_tail().contains("in use")
    }

    pub(super) fn take_other_ports(&mut self) -> Result<(), DevClusterError> {
        self.port = any_port()?;
        self.bus_port = any_port()?;
        Ok(())
    }

    pub(super) fn kill(&mut self) -> Result<(), DevClusterError> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        self.paused = false;
        child.kill().and_then(|()| child.wait()).map_err(machine("kill a node"))?;
        Ok(())
    }

    pub(super) fn pause(&mut self) -> Result<(), DevClusterError> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    pub(super) fn resume(&mut self) -> Result<(), DevClusterError> {
        self.signal(Signal::CONT)?;
        self.paused = false;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), DevClusterError> {
        let child = self.child.as_ref().ok_or_else(|| self.dead())?;
        kill_process(Pid::from_child(child), signal)
            .map_err(io::Error::from)
            .map_err(machine("signal a node"))
    }

    pub(super) fn connect(&self) -> Result<Client, DevClusterError> {
        Client::connect(self.addr(), self.password.as_deref()).map_err(|source| self.silent("AUTH", source))
    }

    pub(super) fn call(&self, command: &[&str]) -> Result<Reply, DevClusterError> {
        self.connect()?
            .call(command)
            .map_err(|source| self.silent(command.first().copied().unwrap_or_default(), source))
    }

    /// The last lines of its log.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read(self.dir.join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.split_at(lines.len().saturating_sub(LOG_LINES)).1;
        end.join("\n")
    }

    fn dead(&self) -> DevClusterError {
        DevClusterError::Dead { addr: self.addr(), log: self.log_tail() }
    }

    fn silent(&self, command: &str, source: ClientError) -> DevClusterError {
        let (addr, command, log) = (self.addr(), command.to_owned(), self.log_tail());
        DevClusterError::Talk { addr, command, source, log }
    }
}

/// An argument of a `redis.conf` line that may hold any character.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(masters: u16, replicas: u16) -> Options {
        let server = Server::find().unwrap();
        Options { masters, replicas, ..Options::new(server) }
    }

    #[test]
    fn the_masters_share_all_slots_without_a_gap() {
        for masters in [1, 2, 3, 7, 1000] {
            let nodes = plan(&options(masters, 0)).unwrap();
            let mut next = 0;
            for slots in nodes.iter().map(|node| node.slots().unwrap()) {
                assert_eq!(*slots.start(), next);
                next = slots.end() + 1;
            }
            assert_eq!(next, 16384);
        }
    }

    #[test]
    fn every_master_has_its_replicas() {
        let nodes = plan(&options(3, 2)).unwrap();
        let masters: Vec<_> = nodes
            .iter()
            .filter_map(|node| match node.role() {
                Role::Master(_) => None,
                Role::Replica(master) => Some(*master),
            })
            .collect();
        assert_eq!(masters, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn impossible_shapes_and_ports_are_refused() {
        assert!(matches!(plan(&options(0, 1)), Err(DevClusterError::Shape { .. })));
        assert!(matches!(plan(&options(1000, 1)), Err(DevClusterError::Shape { .. })));
        let too_high = Options { base_port: Some(65534), ..options(3, 0) };
        assert!(matches!(plan(&too_high), Err(DevClusterError::NoPort(_))));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = Options { base_port: Some(listener.local_addr().unwrap().port()), ..options(1, 0) };
        assert!(matches!(plan(&taken), Err(DevClusterError::PortTaken { .. })));
    }

    #[test]
    fn a_password_of_odd_characters_is_quoted() {
        assert_eq!(quoted("a \"b\\\u{e9}#"), "\"a \\\"b\\\\\\xc3\\xa9#\"");
    }
}
