//! A copy of a machine's /proc and /sys in a temporary folder, and the doctor who looks at it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tsubaki_config::CpuList;

/// A machine's files.
pub(crate) struct Tree {
    folder: TempDir,
    interrupts: Vec<String>,
}

/// What the doctor said.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// How a driver calls the interrupts of its queues.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Driver {
    /// `mlx5_comp3@pci:0000:5e:00.0`, one a pair of queues, and one of no queue.
    Mlx5,
    /// `i40e-eth0-TxRx-3`, one a pair of queues.
    I40e,
    /// `virtio0-input.3` and `virtio0-output.3`, and one of no queue, at the device above.
    Virtio,
}

impl Tree {
    /// A machine with these CPUs online, all of them allowed.
    pub(crate) fn new(online: &str) -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap(), interrupts: Vec::new() };
        tree.file("sys/devices/system/cpu/online", online).allowed(online, "0")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap().trim().to_owned()
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    /// What the process may use.
    pub(crate) fn allowed(self, cpus: &str, nodes: &str) -> Self {
        let status = format!("Name:\ttsubaki\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}");
        self.file("proc/self/status", &status)
    }

    /// Its nodes, in the order of their numbers: number, CPUs, memory in GiB, distances. All memory is allowed.
    pub(crate) fn nodes(self, nodes: &[(usize, &str, u64, &str)]) -> Self {
        let numbers: CpuList = nodes.iter().map(|(id, ..)| *id).collect();
        let mut tree = self.file("sys/devices/system/node/online", &numbers.to_string());
        let allowed = tree.read("sys/devices/system/cpu/online");
        tree = tree.allowed(&allowed, &numbers.to_string());
        for (id, cpus, gib, distances) in nodes {
            let folder = format!("sys/devices/system/node/node{id}");
            tree = tree
                .file(&format!("{folder}/cpulist"), cpus)
                .file(&format!("{folder}/distance"), distances)
                .file(&format!("{folder}/meminfo"), &format!("Node {id} MemTotal:       {} kB", gib << 20));
        }
        tree
    }

    /// Threads of the same core, core by core.
    pub(crate) fn cores<'a>(self, cores: impl IntoIterator<Item = &'a str>) -> Self {
        for core in cores {
            for cpu in core.parse::<CpuList>().unwrap().iter() {
                self.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), core);
            }
        }
        self
    }

    /// Cores of two threads each, whose numbers are so far apart.
    pub(crate) fn threads_apart(self, cores: std::ops::Range<usize>, apart: usize) -> Self {
        let cores: Vec<String> = cores.map(|core| format!("{core},{}", core + apart)).collect();
        self.cores(cores.iter().map(String::as_str))
    }

    /// A card at this node with so many pairs of queues; its interrupts begin at `first` and may go to `affinity`.
    pub(crate) fn card(
        mut self,
        name: &str,
        node: i64,
        queues: usize,
        driver: Driver,
        (first, affinity): (usize, &str),
    ) -> Self {
        let device = format!("sys/devices/pci0000:00/{name}-pci");
        let port =
            if matches!(driver, Driver::Virtio) { format!("{device}/virtio0") } else { device.clone() };
        let folder = format!("{port}/net/{name}");
        for queue in 0..queues {
            self.write(&format!("{folder}/queues/rx-{queue}/rps_cpus"), "0");
            self.write(&format!("{folder}/queues/tx-{queue}/xps_cpus"), "0");
        }
        self.write(&format!("{device}/numa_node"), &node.to_string());
        self.write(&format!("{folder}/operstate"), "up");
        self.link(&port, &format!("{folder}/device"));
        self.link(&folder, &format!("sys/class/net/{name}"));
        let names: Vec<String> =
            match driver {
                Driver::Mlx5 => std::iter::once("mlx5_async0@pci:0000:5e:00.0".to_owned())
                    .chain((0..queues).map(|queue| format!("mlx5_comp{queue}@pci:0000:5e:00.0")))
                    .collect(),
                Driver::I40e => (0..queues).map(|queue| format!("i40e-{name}-TxRx-{queue}")).collect(),
                Driver::Virtio => std::iter::once("virtio0-config".to_owned())
                    .chain((0..queues).flat_map(|queue| {
                        [format!("virtio0-input.{queue}"), format!("virtio0-output.{queue}")]
                    }))
                    .collect(),
            };
        for (number, action) in (first..).zip(names) {
            self.write(&format!("{device}/msi_irqs/{number}"), "msix");
            self.write(&format!("proc/irq/{number}/smp_affinity_list"), affinity);
            self.interrupts
                .push(format!("{number:>4}:          7          0  PCI-MSI {number}-edge      {action}"));
        }
        let table = format!("            CPU0       CPU1\n{}", self.interrupts.join("\n"));
        self.file("proc/interrupts", &table)
    }

    /// A bond, VLAN or bridge over others.
    pub(crate) fn over(self, name: &str, lower: &[&str]) -> Self {
        self.write(&format!("sys/devices/virtual/net/{name}/operstate"), "up");
        self.link(&format!("sys/devices/virtual/net/{name}"), &format!("sys/class/net/{name}"));
        for below in lower {
            self.link(
                &format!("sys/class/net/{below}"),
                &format!("sys/devices/virtual/net/{name}/lower_{below}"),
            );
        }
        self
    }

    /// The interface of the default route.
    pub(crate) fn default_route(self, name: &str) -> Self {
        let route = format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask\n{name} 00000000 0100000A 0003 0 0 0 00000000"
        );
        self.file("proc/net/route", &route)
    }

    /// A process, and the CPUs that it may use.
    pub(crate) fn process(self, pid: u32, name: &str, cpus: &str) -> Self {
        let status = format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}");
        self.file(&format!("proc/{pid}/comm"), name)
            .file(&format!("proc/{pid}/status"), &status)
            .file(&format!("proc/{pid}/task/{pid}/status"), &status)
    }

    fn link(&self, target: &str, at: &str) {
        let at = self.path().join(at);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(self.path().join(target), at).unwrap();
    }

    /// The doctor's plan for clients that come from other machines.
    pub(crate) fn plan(&self, settings: &[(&str, &str)]) -> String {
        let finished = self.doctor(&["--plan", "--listen", "*:6380"], settings);
        assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
        finished.stdout
    }

    /// Has the doctor look.
    pub(crate) fn doctor(&self, args: &[&str], settings: &[(&str, &str)]) -> Finished {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsubaki"));
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TSUBAKI_"))
        {
            command.env_remove(name);
        }
        let output = command
            .arg("doctor")
            .args(args)
            .arg("--root")
            .arg(self.path())
            .envs(settings.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
