//! The processes of a comparison: started, measured through /proc, and ended with the harness.
//!
//! Must not know: what the processes do.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail};

/// What stands before a program that is to end with whoever started it. `setpriv` (util-linux) becomes the program itself:
/// same process, and no unsafe code for one prctl here.
const TIED: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// A program whose arguments follow, and that is killed after `seconds` at the latest, and with the harness.
///
/// Start it from the main thread, as a [`Server`].
pub fn bounded(program: impl AsRef<OsStr>, seconds: f64) -> Command {
    // `timeout` (coreutils) ends with the harness, and the program with `timeout`.
    let mut command = tied("timeout");
    command.arg("--signal=KILL").arg(seconds.to_string()).args(TIED).arg(program);
    command
}

fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(TIED[0]);
    command.args(&TIED[1..]).arg(program);
    command
}

/// A server that dies with this value, and with the harness even if that is killed.
pub struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `program`; what it prints goes to the file `log`.
    ///
    /// Call it from the main thread: the kernel ends the child when the thread that started it ends.
    ///
    /// # Errors
    /// If the program or `setpriv` (util-linux) cannot be started.
    pub fn start<A: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let program = program.as_ref();
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = tied(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {} through setpriv", program.display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines that the server printed, for error messages.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// CPU time that all threads of the server used so far.
    ///
    /// # Errors
    /// If the server has ended.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        let stat = self.read("stat")?;
        let in_ticks = parse_stat(&stat).context("unreadable /proc/<pid>/stat")?.own;
        // The threads' own clocks are exact, but leave out threads that have ended.
        Ok(in_ticks.max(self.cpu_time_of_threads()))
    }

    /// Nothing where the kernel does not tell.
    fn cpu_time_of_threads(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let nanoseconds = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Resident memory, in bytes.
    ///
    /// # Errors
    /// If the server has ended.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let statm = self.read("statm")?;
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Ok(pages.context("unreadable /proc/<pid>/statm")? * rustix::param::page_size() as u64)
    }

    fn read(&self, file: &str) -> anyhow::Result<String> {
        match fs::read_to_string(format!("/proc/{}/{file}", self.pid())) {
            // A child that ended and was not waited for has no memory and no further CPU time.
            Ok(text) if !text.contains(") Z ") => Ok(text),
            _ => bail!("a server ended by itself; its last words:\n{}", self.last_words()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of this process, and of all its children that ended and were waited for: of every load generator.
///
/// # Errors
/// If /proc is not there.
pub fn cpu_time_of_the_load() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let Stat { own, children } = parse_stat(&stat).context("unreadable /proc/self/stat")?;
    Ok(own + children)
}

/// A port on 127.0.0.1 that nobody listens on at this moment, and that this process was not given before: the nodes of a
/// cluster that has ended are still looked for at their old ports by those that outlived them for a moment.
///
/// # Errors
/// If the system has none.
pub fn free_port() -> std::io::Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port) {
            return Ok(port);
        }
    }
}

struct Stat {
    own: Duration,
    children: Duration,
}

/// Fields 14 to 17 of proc_pid_stat(5); the name in field 2 may hold spaces and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let mut ticks = fields.split(' ').skip(11).map(|field| field.parse::<u64>().ok());
    let mut pair = || Some(from_ticks(ticks.next()?? + ticks.next()??));
    Some(Stat { own: pair()?, children: pair()? })
}

/// The kernel's unit of CPU time, 10 ms nearly everywhere.
pub(crate) fn from_ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::{Server, bounded, from_ticks, parse_stat};
    use crate::connection::wait_for;

    #[test]
    fn stat_is_read_behind_a_name_with_parentheses() {
        let stat = parse_stat("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 20 3 40 5 20 0 1 0\n").unwrap();
        assert_eq!(stat.own, from_ticks(23));
        assert_eq!(stat.children, from_ticks(45));
    }

    #[test]
    fn a_server_uses_cpu_and_memory_and_ends_with_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let busy = ["-c", "while :; do :; done"];
        let server = Server::start("sh", busy, &folder.path().join("log")).unwrap();
        wait_for("CPU time", || (!server.cpu_time().unwrap().is_zero()).then_some(())).unwrap();
        assert!(server.resident_bytes().unwrap() > 0);
        let entry = format!("/proc/{}", server.pid());
        drop(server);
        assert!(fs::exists(&entry).is_ok_and(|there| !there));
    }

    #[test]
    fn a_load_ends_with_whoever_started_it() {
        let mut load = bounded("sh", 600.0);
        load.args(["-c", "echo $$; exec sleep 600"]).stdout(Stdio::piped());
        let mut outer = load.spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(outer.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        let entry = format!("/proc/{}/cmdline", pid.trim());
        let runs = || fs::read_to_string(&entry).is_ok_and(|line| line.starts_with("sleep"));
        wait_for("the load", || runs().then_some(())).unwrap();
        outer.kill().unwrap();
        outer.wait().unwrap();
        wait_for("the load's end", || (!runs()).then_some(())).unwrap();
    }

    #[test]
    fn a_load_is_killed_when_its_time_is_up() {
        let status = bounded("sleep", 0.1).arg("600").status().unwrap();
        assert!(!status.success());
    }

    #[test]
    fn a_server_that_ended_is_told_by_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start("sh", ["-c", "echo no luck"], &folder.path().join("log")).unwrap();
        let error = wait_for("the end", || server.cpu_time().err()).unwrap();
        assert!(error.to_string().ends_with("no luck"), "{error}");
    }
}
