//! On which NUMA node a process' memory lies.

use std::collections::BTreeMap;

use super::files::Root;

/// Which memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// All that is resident.
    Resident,
    /// What it allocated: no pages of files.
    Anonymous,
}

/// Bytes by node, as `/proc/<process>/numa_maps` has them; empty where the kernel does not say.
///
/// The kernel walks all pages of the process for it: some milliseconds a gigabyte.
pub(crate) fn memory_by_node(root: &Root, process: &str, which: Memory) -> BTreeMap<usize, u64> {
    let mut bytes = BTreeMap::new();
    let text = root.text(format!("proc/{process}/numa_maps")).unwrap_or_default();
    for line in text.lines().filter(|line| which == Memory::Resident || line.contains(" anon=")) {
        let words = || line.split_whitespace();
        let page_kib =
            words().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse().ok()).unwrap_or(4);
        for (node, pages) in words().filter_map(|word| word.strip_prefix('N')?.split_once('=')) {
            if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                *bytes.entry(node).or_default() += pages * page_kib * 1024;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_node_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        std::fs::create_dir_all(root.path("proc/self")).unwrap();
        let text = "5601 default file=/bin/x mapped=3 N0=3 kernelpagesize_kB=4\n\
                    7f00 prefer:1 anon=5 dirty=5 N0=1 N1=4 kernelpagesize_kB=4\n\
                    7f10 prefer:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n\
                    7f20 default\n";
        std::fs::write(root.path("proc/self/numa_maps"), text).unwrap();
        let by_node = |which| memory_by_node(&root, "self", which).into_iter().collect::<Vec<_>>();
        assert_eq!(by_node(Memory::Anonymous), [(0, 4096), (1, 4 * 4096 + 2 * 2048 * 1024)]);
        assert_eq!(by_node(Memory::Resident)[0], (0, 4 * 4096));
        assert!(memory_by_node(&root, "1", Memory::Resident).is_empty());
    }
}
