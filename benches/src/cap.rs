//! A cap on the CPU of processes: each may run for 1 ms in every 20 ms, by a control group's quota.
//!
//! Must not know: what the processes do.
//!
//! ```text
//!  cap on:   <cpu controller>/tsubaki-benches-<our pid>-0   quota 1000, period 20000   <- first process
//!                            /tsubaki-benches-<our pid>-1                              <- second process
//!  cap off:  each process back into the group that it came from, and the groups removed
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, anyhow};

/// Microseconds of CPU that a process may use in each [`PERIOD`].
const QUOTA: u32 = 1_000;

/// Microseconds.
const PERIOD: u32 = 20_000;

/// What the names of our groups begin with; the id of the process that made them follows.
const PREFIX: &str = "tsubaki-benches-";

/// Processes under a cap, which ends with this value.
pub struct Cap {
    groups: Vec<Group>,
}

struct Group {
    path: PathBuf,
    pid: u32,
    /// The group that the process came from.
    home: PathBuf,
}

/// Where this machine has the CPU controller, and in which of the two layouts.
#[derive(Debug, PartialEq, Eq)]
enum Controller {
    /// Files `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    First(PathBuf),
    /// File `cpu.max`.
    Second(PathBuf),
}

impl Cap {
    /// Caps each of the processes by itself.
    ///
    /// # Errors
    /// If there is no CPU controller, or no right to make groups in it; one line that says so.
    pub fn on(pids: &[u32]) -> anyhow::Result<Self> {
        let mounts = fs::read_to_string("/proc/mounts")?;
        let controller = Controller::among(&mounts).context("this machine has no CPU controller")?;
        controller.sweep();
        let mut cap = Self { groups: Vec::new() };
        for (index, &pid) in pids.iter().enumerate() {
            let path = controller.root().join(format!("{PREFIX}{}-{index}", process::id()));
            let refused =
                |error| anyhow!("no right to cap CPU under {}: {error}", controller.root().display());
            cap.enter(&controller, path, pid).map_err(refused)?;
        }
        Ok(cap)
    }

    fn enter(&mut self, controller: &Controller, path: PathBuf, pid: u32) -> io::Result<()> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let home = controller.root().join(controller.group_of(&groups).unwrap_or_default());
        fs::create_dir_all(&path)?;
        self.groups.push(Group { path: path.clone(), pid, home });
        controller.limit(&path)?;
        fs::write(path.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        for group in &self.groups {
            // A process that has ended left its group by itself.
            let _ = fs::write(group.home.join("cgroup.procs"), group.pid.to_string());
            let _ = fs::remove_dir(&group.path);
        }
    }
}

impl Controller {
    /// Finds the controller in the text of /proc/mounts; the first layout is asked first, as in a mixture of both
    /// the second has no CPU controller.
    fn among(mounts: &str) -> Option<Self> {
        let mut mounted = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((PathBuf::from(fields.next()?), fields.next()?, fields.next()?))
        });
        let first = |options: &str| options.split(',').any(|option| option == "cpu");
        let of_first = mounted.clone().find(|(_, kind, options)| *kind == "cgroup" && first(options));
        let of_second =
            || mounted.find(|(_, kind, _)| *kind == "cgroup2").map(|(path, ..)| Self::Second(path));
        of_first.map(|(path, ..)| Self::First(path)).or_else(of_second)
    }

    fn root(&self) -> &Path {
        match self {
            Self::First(root) | Self::Second(root) => root,
        }
    }

    /// The group of a process below the root, from the text of its `/proc/<pid>/cgroup`.
    fn group_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let of_this = |controllers: &str| match self {
            Self::First(_) => controllers.split(',').any(|name| name == "cpu"),
            Self::Second(_) => controllers.is_empty(),
        };
        let line = |line: &'a str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            of_this(controllers).then(|| path.trim_start_matches('/'))
        };
        text.lines().find_map(line)
    }

    fn limit(&self, group: &Path) -> io::Result<()> {
        match self {
            Self::First(_) => {
                fs::write(group.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                fs::write(group.join("cpu.cfs_quota_us"), QUOTA.to_string())
            }
            Self::Second(root) => {
                fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
                fs::write(group.join("cpu.max"), format!("{QUOTA} {PERIOD}"))
            }
        }
    }

    /// Removes what a harness that was killed left behind; groups that still have processes stay.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(self.root()) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::{Cap, Controller};
    use crate::process::Server;

    const MIXED: &str = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
";

    #[test]
    fn the_controller_is_found_in_either_layout() {
        let first = Controller::First(PathBuf::from("/sys/fs/cgroup/cpu"));
        assert_eq!(Controller::among(MIXED), Some(first));
        let second = Controller::Second(PathBuf::from("/sys/fs/cgroup"));
        assert_eq!(Controller::among("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), Some(second));
        assert_eq!(Controller::among("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn a_process_has_one_group_for_each_layout() {
        let text = "4:memory:/m\n3:cpu,cpuacct:/docker/a:b\n0::/slice\n";
        assert_eq!(Controller::First(PathBuf::new()).group_of(text), Some("docker/a:b"));
        assert_eq!(Controller::Second(PathBuf::new()).group_of(text), Some("slice"));
    }

    #[test]
    fn a_cap_ends_with_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start("sleep", ["1000"], &folder.path().join("log")).unwrap();
        let groups = || fs::read_to_string(format!("/proc/{}/cgroup", server.pid())).unwrap();
        let before = groups();
        // Without the rights there is nothing to see; the error is the harness's own line.
        let Ok(cap) = Cap::on(&[server.pid()]) else { return };
        assert!(groups().contains(super::PREFIX));
        let paths: Vec<_> = cap.groups.iter().map(|group| group.path.clone()).collect();
        drop(cap);
        assert_eq!(groups(), before);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
