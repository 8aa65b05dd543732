//! Files below a root: the system's own `/`, or a copy of another machine's `/sys` and `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tsubaki_config::CpuList;

/// Where `sys` and `proc` are.
#[derive(Debug, Clone)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// This machine.
    pub(crate) fn system() -> Self {
        Self::at("/")
    }

    /// A copy.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// True if this is not the system itself.
    pub(crate) fn is_copy(&self) -> bool {
        self.0 != Path::new("/")
    }

    /// The file at `path`, which has no slash in front.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Its text without white space around it.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The one value that the file holds.
    pub(crate) fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The list of CPUs or nodes that the file holds.
    pub(crate) fn list(&self, path: impl AsRef<Path>) -> Option<CpuList> {
        self.value(path)
    }

    /// Lines of a name and a number.
    pub(crate) fn counters(&self, path: impl AsRef<Path>) -> BTreeMap<String, u64> {
        let text = self.text(path).unwrap_or_default();
        let line = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }

    /// The folder of this process' own control group of version 2.
    pub(crate) fn own_group(&self) -> Option<PathBuf> {
        let groups = self.text("proc/self/cgroup")?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some(Path::new("sys/fs/cgroup").join(path.trim_start_matches('/')))
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub(crate) fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The numbers of a folder's entries that are called `prefix` and a number, in rising order.
    pub(crate) fn numbered(&self, folder: impl AsRef<Path>, prefix: &str) -> Vec<usize> {
        let names = self.names(folder);
        let mut numbers: Vec<usize> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The folder that `path` leads to, and those above it up to the root, as paths for this root.
    pub(crate) fn ancestors(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let (Ok(target), Ok(root)) = (self.path(path).canonicalize(), self.0.canonicalize()) else {
            return Vec::new();
        };
        let below = target.ancestors().map_while(|folder| folder.strip_prefix(&root).ok());
        below.map(Path::to_path_buf).collect()
    }
}
