//! How many workers, and which core for each.
//!
//! The plan is a pure function of the machine's description; only [`Machine::read`] looks at the system.

use std::fs;
use std::path::Path;

use tsubaki_config::PlacementMode;

/// What of the machine counts for the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// CPUs that this process may use, by number.
    pub(crate) allowed: Vec<usize>,
    /// CPU time that its control group may use, in thousandths of a CPU; `None`: no limit.
    pub(crate) quota_millis: Option<usize>,
}

/// Where workers run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// One entry a worker: its CPU, or `None` to leave it to the scheduler.
    pub(crate) cores: Vec<Option<usize>>,
    /// Why, for the log.
    pub(crate) reason: &'static str,
}

/// Workers = the smaller of allowed CPUs and quota, unless set; pinned only where no quota applies and each allowed CPU has its worker.
pub(crate) fn plan(machine: &Machine, mode: PlacementMode, wanted: Option<usize>) -> Plan {
    let cpus = machine.allowed.len().max(1);
    let by_quota = machine.quota_millis.map_or(cpus, |quota| quota.div_ceil(1000).max(1));
    let workers = wanted.unwrap_or_else(|| cpus.min(by_quota));
    let unpinned = |reason| Plan { cores: vec![None; workers], reason };
    if mode == PlacementMode::Off {
        unpinned("placement.mode is off")
    } else if machine.quota_millis.is_some() {
        unpinned("a CPU quota applies, and a pinned worker could not use another CPU's share")
    } else if workers > machine.allowed.len() {
        unpinned("there are more workers than allowed CPUs")
    } else if workers < machine.allowed.len() {
        // A second proxy would choose the same ones.
        unpinned("there are more allowed CPUs than workers, and others may use some")
    } else {
        Plan {
            cores: machine.allowed.iter().take(workers).copied().map(Some).collect(),
            reason: "each worker has a CPU of its own",
        }
    }
}

impl Machine {
    pub(crate) fn read() -> Self {
        let allowed =
            core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
        Self { allowed, quota_millis: quota(Path::new("/")) }
    }
}

/// The tightest quota of this process' control groups (version 2, or version 1's cpu controller) below `root`.
fn quota(root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| group_quota(root, line)).min()
}

/// `line` is `hierarchy:controllers:path` of /proc/self/cgroup.
fn group_quota(root: &Path, line: &str) -> Option<usize> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = path.trim_start_matches('/');
    let unified = controllers.is_empty();
    if !unified && !controllers.split(',').any(|controller| controller == "cpu") {
        return None;
    }
    let top = root.join(if unified { "sys/fs/cgroup" } else { "sys/fs/cgroup/cpu" });
    // A parent's limit binds its children. In a container the path may lie outside of what is mounted; its top is the group then.
    Path::new(path).ancestors().filter_map(|group| read_quota(&top.join(group), unified)).min()
}

fn read_quota(group: &Path, unified: bool) -> Option<usize> {
    let (quota, period) = if unified {
        let text = fs::read_to_string(group.join("cpu.max")).ok()?;
        let (quota, period) = text.trim().split_once(' ')?;
        (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?)
    } else {
        let read = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse::<i64>().ok();
        (u64::try_from(read("cpu.cfs_quota_us")?).ok()?, u64::try_from(read("cpu.cfs_period_us")?).ok()?)
    };
    Some((quota * 1000 / period.max(1)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: usize, quota_millis: Option<usize>) -> Machine {
        Machine { allowed: (10..10 + cpus).collect(), quota_millis }
    }

    #[test]
    fn a_free_machine_gets_a_pinned_worker_a_cpu() {
        let plan = plan(&machine(3, None), PlacementMode::Auto, None);
        assert_eq!(plan.cores, [Some(10), Some(11), Some(12)]);
    }

    #[test]
    fn a_quota_limits_the_workers_and_forbids_pinning() {
        for (quota, workers) in [(500, 1), (1000, 1), (1500, 2), (64_000, 4)] {
            assert_eq!(plan(&machine(4, Some(quota)), PlacementMode::Auto, None).cores, vec![None; workers]);
        }
    }

    #[test]
    fn as_many_workers_as_cpus_are_pinned_and_no_other_number() {
        assert_eq!(plan(&machine(2, None), PlacementMode::Auto, Some(3)).cores, [None; 3]);
        assert_eq!(plan(&machine(2, None), PlacementMode::Auto, Some(2)).cores, [Some(10), Some(11)]);
        assert_eq!(plan(&machine(2, None), PlacementMode::Auto, Some(1)).cores, [None]);
    }

    #[test]
    fn off_is_off_and_an_unreadable_machine_has_one_cpu() {
        assert_eq!(plan(&machine(2, None), PlacementMode::Off, None).cores, [None; 2]);
        assert_eq!(plan(&machine(0, None), PlacementMode::Auto, None).cores, [None]);
    }

    #[test]
    fn quotas_are_read_from_both_versions_and_from_parents() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(quota(root.path()), None);
        write("proc/self/cgroup", "0::/pod/box\n");
        write("sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
        assert_eq!(quota(root.path()), None);
        write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
        assert_eq!(quota(root.path()), Some(2500));
        write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n");
        write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(root.path()), None);
        write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n");
        assert_eq!(quota(root.path()), Some(500));
    }
}
