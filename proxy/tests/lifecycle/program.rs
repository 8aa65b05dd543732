//! The program, run to its end or held by its process id, with its two outputs apart.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tsubaki::dev_cluster::ProcessGroup;

use crate::harness::{wait_for, wait_until};

/// What a run that ended left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs it to its end, which must come by itself.
pub(crate) fn finish(args: &[&str], settings: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsubaki"));
    without_settings(&mut command);
    command.args(args).envs(settings.iter().copied()).output().unwrap().into()
}

/// A run that goes on; dropping it ends it.
pub(crate) struct Running {
    child: Child,
    dir: TempDir,
    _group: ProcessGroup,
}

impl Running {
    /// Runs it with these arguments.
    pub(crate) fn start(args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubaki"));
        command.args(args);
        Self::spawn(command, settings)
    }

    /// Runs it by a shell that does `first` before.
    pub(crate) fn start_after(first: &str, args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("{first}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_tsubaki"))
            .args(args);
        Self::spawn(command, settings)
    }

    fn spawn(mut command: Command, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let output = |name| Stdio::from(fs::File::create(dir.path().join(name)).unwrap());
        without_settings(&mut command);
        command.envs(settings.iter().copied()).stdout(output("stdout")).stderr(output("stderr"));
        let group = ProcessGroup::new(None).unwrap();
        let child = group.spawn(&mut command).unwrap();
        Self { child, dir, _group: group }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        self.read("stdout")
    }

    pub(crate) fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Waits until its log has `text`.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_until(&format!("{text:?} in the log"), || self.stderr().contains(text));
    }

    /// Signals it, and waits for its end.
    pub(crate) fn end(self, signal: Signal) -> Finished {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Finished {
        let status = wait_for("the end of the program", || self.child.try_wait().unwrap());
        Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an end there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the program's output:\n{}{}", self.stdout(), self.stderr());
        }
    }
}

/// What the environment sets for another proxy is not meant for this one.
fn without_settings(command: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TSUBAKI_")) {
        command.env_remove(name);
    }
}
