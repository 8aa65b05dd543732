//! The program under test: started with settings, watched through its admin pages and its log, stopped by a signal.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::{env, io, thread};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tsubaki::dev_cluster::{DevCluster, ProcessGroup, free_port};

use super::client::Client;
use super::http::{self, Page};
use super::{wait_for, wait_until};

/// The last lines of a log that a failing test shows.
const LOG_LINES: usize = 40;

/// What to start. Settings of the environment that the tests run in do not reach it.
pub(crate) struct Start {
    addr: SocketAddr,
    admin: SocketAddr,
    args: Vec<OsString>,
    env: Vec<(&'static str, String)>,
}

impl Start {
    /// `tsubaki run` on free ports with two workers, before these nodes.
    pub(crate) fn before(seeds: &[SocketAddr]) -> Self {
        let seeds: Vec<String> = seeds.iter().map(SocketAddr::to_string).collect();
        Self::bare().arg("--cluster").arg(seeds.join(",")).set("TSUBAKI_WORKERS", "2")
    }

    /// `tsubaki run` on free ports, without a cluster and a number of workers.
    pub(crate) fn bare() -> Self {
        let (addr, admin) = (free_addr(), free_addr());
        let mut args: Vec<OsString> = vec!["run".into()];
        args.extend(["--listen".into(), addr.to_string().into(), "--admin".into(), admin.to_string().into()]);
        Self { addr, admin, args, env: Vec::new() }
    }

    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// A setting in the environment, such as `TSUBAKI_WORKERS`.
    pub(crate) fn set(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.env.push((variable, value.into()));
        self
    }

    /// Listens where another proxy did before.
    pub(crate) fn at(mut self, addr: SocketAddr) -> Self {
        for arg in self.args.iter_mut().filter(|arg| **arg == *self.addr.to_string()) {
            *arg = addr.to_string().into();
        }
        self.addr = addr;
        self
    }

    /// Starts it and waits until it knows the cluster.
    pub(crate) fn ready(self) -> Proxy {
        let mut proxy = self.listening();
        wait_until("the proxy is ready", || {
            proxy.assert_runs();
            proxy.is_ready()
        });
        proxy
    }

    /// Starts it and waits until it listens, whether it knows a cluster or not.
    pub(crate) fn listening(self) -> Proxy {
        let mut proxy = self.launch();
        wait_until("the proxy listens", || {
            proxy.assert_runs();
            proxy.page("/health/live").is_ok() && Client::try_connect(proxy.addr).is_ok()
        });
        proxy
    }

    /// Starts it and waits for nothing.
    pub(crate) fn launch(self) -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("proxy.log");
        let output = File::create(&log).unwrap();
        let group = ProcessGroup::new(None).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubaki"));
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TSUBAKI_")) {
            command.env_remove(name);
        }
        command.args(&self.args).envs(self.env).stdout(output.try_clone().unwrap()).stderr(output);
        let child = group.spawn(&mut command).unwrap();
        Proxy { child, addr: self.addr, admin: self.admin, log, _group: group, _dir: dir }
    }
}

/// A running proxy; dropping it ends it.
pub(crate) struct Proxy {
    child: Child,
    addr: SocketAddr,
    admin: SocketAddr,
    log: PathBuf,
    _group: ProcessGroup,
    _dir: TempDir,
}

impl Proxy {
    /// A proxy with two workers and default settings before `cluster`.
    pub(crate) fn before(cluster: &DevCluster) -> Self {
        Start::before(&cluster.seeds()).ready()
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// An admin page.
    pub(crate) fn page(&self, path: &str) -> io::Result<Page> {
        http::get(self.admin, path)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.page("/health/ready").is_ok_and(|page| page.status == 200)
    }

    /// A figure of its metrics, added up over workers: `label` is one label of the samples (`kind="moved"`), or empty.
    pub(crate) fn metric(&self, name: &str, label: &str) -> u64 {
        http::sum(&self.page("/metrics").unwrap().body, name, label) as u64
    }

    /// All that it wrote to stdout and stderr so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the proxy ends", || self.child.try_wait().unwrap())
    }

    /// Stops it as an operator would. It must end well.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert!(status.success(), "the proxy ended with {status}:\n{}", self.log());
    }

    fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("the proxy ended with {status}:\n{}", self.log());
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // After a stop there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
            eprintln!("the end of the proxy's log:\n{}", end.join("\n"));
        }
    }
}

fn free_addr() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()))
}
