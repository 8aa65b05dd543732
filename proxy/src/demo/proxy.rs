//! The proxy's process, from its start to its graceful end.

use std::env;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::dev_cluster::{Client, DevCluster, Reply, free_port, is_free};

/// The port that a proxy of Redis likes: the one beside Redis' own.
const FIRST_PORT: u16 = 6380;
const PORTS: u16 = 100;

/// A local proxy before a healthy cluster needs well under a second.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// The proxy gives what is in flight 10 s.
const STOP_PATIENCE: Duration = Duration::from_secs(12);

const POLL: Duration = Duration::from_millis(20);
const LOG_LINES: usize = 10;

/// Where the proxy will listen: at the port that was asked for, or at the first free one from 6380 on.
pub(super) fn listen_addr(asked: Option<u16>) -> anyhow::Result<SocketAddr> {
    let port = match asked {
        Some(port) if is_free(port) => port,
        Some(port) => bail!("port {port} on 127.0.0.1 is taken: choose another one with --port"),
        None => (FIRST_PORT..FIRST_PORT + PORTS).find(|&port| is_free(port)).with_context(|| {
            format!("ports {FIRST_PORT} to {} are taken: choose one with --port", FIRST_PORT + PORTS - 1)
        })?,
    };
    Ok(local(port))
}

pub(super) struct Proxy {
    child: Child,
    addr: SocketAddr,
    admin: SocketAddr,
    log: PathBuf,
}

impl Proxy {
    /// Starts it on `addr` and waits until it serves all masters.
    pub(super) fn start(cluster: &DevCluster, addr: SocketAddr) -> anyhow::Result<Self> {
        let admin = local(free_port().context("no free port for the admin address")?);
        let log = cluster.dir().join("proxy.log");
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let seeds: Vec<String> = cluster.seeds().iter().map(SocketAddr::to_string).collect();
        let program = env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command
            .args(["run", "--listen", &addr.to_string(), "--admin", &admin.to_string()])
            .args(["--cluster", &seeds.join(",")])
            .stdout(output.try_clone()?)
            .stderr(output);
        without_settings(&mut command);
        let child = cluster.process_group().spawn(&mut command).context("cannot start the proxy")?;
        let mut proxy = Self { child, addr, admin, log };
        proxy.wait_until_it_serves()?;
        Ok(proxy)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The end of its log, to follow an error.
    pub(super) fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.split_at(lines.len().saturating_sub(LOG_LINES)).1;
        format!("the end of the proxy's log:\n{}", end.join("\n"))
    }

    /// Ends it as an operator would, and fails if it does not end well.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(io::Error::from)
            .context("cannot stop the proxy")?;
        let start = Instant::now();
        while start.elapsed() < STOP_PATIENCE {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the proxy ended with {status}; {}", self.last_words()),
                None => thread::sleep(POLL),
            }
        }
        bail!("the proxy did not stop within {} s; {}", STOP_PATIENCE.as_secs(), self.last_words())
    }

    fn wait_until_it_serves(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                bail!("the proxy ended with {status} instead of serving; {}", self.last_words());
            }
            match self.serves() {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > START_PATIENCE => {
                    bail!("the proxy does not serve: {error:#}; {}", self.last_words());
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Whether it answers, and reaches a key of each master; nothing is written for that.
    fn serves(&self) -> anyhow::Result<()> {
        let mut client = Client::connect(self.addr, None)?;
        if client.call(&["PING"])? != Reply::Simple("PONG".to_owned()) {
            bail!("the proxy answered PING with something else than PONG");
        }
        for key in ["city:2", "user:1", "visits"] {
            match client.call(&["EXISTS", key])? {
                Reply::Integer(0) => {}
                reply => return Err(anyhow!("EXISTS {key}: {reply:?}")),
            }
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // After a graceful stop there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the user's environment sets for another proxy is not meant for this one.
fn without_settings(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("TSUBAKI_") {
            command.env_remove(name);
        }
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_refused_and_a_free_one_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().port();
        let error = listen_addr(Some(taken)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {taken} on 127.0.0.1 is taken")), "{error}");

        let free = free_port().unwrap();
        assert_eq!(listen_addr(Some(free)).unwrap(), local(free));
    }
}
