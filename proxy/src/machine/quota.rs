//! How much CPU time the process' control groups allow.

use std::path::Path;

use super::files::Root;

/// The tightest quota of this process' control groups (version 2, or version 1's cpu controller), in thousandths of a CPU.
pub(super) fn quota(root: &Root) -> Option<usize> {
    let groups = root.text("proc/self/cgroup")?;
    groups.lines().filter_map(|line| group_quota(root, line)).min()
}

/// `line` is `hierarchy:controllers:path` of /proc/self/cgroup.
fn group_quota(root: &Root, line: &str) -> Option<usize> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = path.trim_start_matches('/');
    let unified = controllers.is_empty();
    if !unified && !controllers.split(',').any(|controller| controller == "cpu") {
        return None;
    }
    let top = Path::new(if unified { "sys/fs/cgroup" } else { "sys/fs/cgroup/cpu" });
    // A parent's limit binds its children. In a container the path may lie outside of what is mounted; its top is the group then.
    Path::new(path).ancestors().filter_map(|group| read_quota(root, &top.join(group), unified)).min()
}

fn read_quota(root: &Root, group: &Path, unified: bool) -> Option<usize> {
    let (quota, period) = if unified {
        let text = root.text(group.join("cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        let read = |name| root.value::<i64>(group.join(name));
        (u64::try_from(read("cpu.cfs_quota_us")?).ok()?, u64::try_from(read("cpu.cfs_period_us")?).ok()?)
    };
    Some((quota * 1000 / period.max(1)) as usize)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn quotas_are_read_from_both_versions_and_from_parents() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(quota(&root), None);
        write("proc/self/cgroup", "0::/pod/box\n");
        write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
        assert_eq!(quota(&root), None);
        write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
        assert_eq!(quota(&root), Some(2500));
        write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n");
        write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(&root), None);
        write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n");
        assert_eq!(quota(&root), Some(500));
    }
}
