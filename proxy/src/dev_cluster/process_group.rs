//! Children that cannot outlive this process.
//!
//! Not PR_SET_PDEATHSIG: that goes off when the *thread* that started the child ends, and tests start their
//! clusters on threads that come and go. Here a small `sh` leads a process group of its own and waits for
//! the end of a pipe whose other end only this process holds. When that closes, by a drop or by `kill -9`,
//! the shell kills its whole group and itself. Members join the group before they run their program, so
//! there is no moment at which one could be missed, and Ctrl-C on a terminal does not reach them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `$1` is a folder to remove, or empty.
const LEADER: &str = r#"read -r _; [ -z "$1" ] || rm -rf -- "$1"; kill -9 0"#;

/// A process group that ends when this value, or this process, does.
#[derive(Debug)]
pub struct ProcessGroup {
    leader: Child,
    pipe: Option<ChildStdin>,
}

impl ProcessGroup {
    /// An empty group; `files` is a folder that goes with it.
    ///
    /// # Errors
    /// When there is no `sh`.
    pub fn new(files: Option<&Path>) -> io::Result<Self> {
        let mut leader = Command::new("sh")
            .args(["-c", LEADER, "tsubaki-dev-cluster"])
            .arg(files.map_or_else(|| OsStr::new(""), Path::as_os_str))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = leader.stdin.take();
        Ok(Self { leader, pipe })
    }

    /// Starts `command` as a member. The caller waits for it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let id = i32::try_from(self.leader.id()).map_err(io::Error::other)?;
        command.process_group(id).stdin(Stdio::null()).spawn()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It ends by its own signal; there is nothing to learn from its status.
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_files_go_with_the_group() {
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("a"), "a").unwrap();
        let group = ProcessGroup::new(Some(files.path())).unwrap();
        let mut member = group.spawn(Command::new("sleep").arg("30")).unwrap();
        assert_eq!(member.try_wait().unwrap(), None);

        drop(group);
        assert!(!member.wait().unwrap().success());
        assert!(!files.path().exists());
    }
}
