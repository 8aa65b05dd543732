"""A virtual machine with two NUMA nodes, for proofs that need a real kernel's placement of threads and memory.

It has four CPUs, 0 and 1 on node 0, 2 and 3 on node 1, and on node 1 a network card of four queue pairs. It runs under
QEMU without hardware virtualization, in a network namespace of its own: only what `spawn` starts there can reach it.
Nothing outlives the process that entered it, not even one that was killed: QEMU and whatever was spawned die with it, and
the namespace, which has no name, goes with the last process in it.

This module knows how the machine is built, started and talked to. It must not know what is tested in it, nor tsubaki.
What must be installed beforehand, `install` beside this file installs.
"""

import base64
import contextlib
import lzma
import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "numa"
KERNEL = CACHE / "kernel"

HOST, GUEST = "192.0.2.1", "192.0.2.2"
CPUS_OF_NODE = {0: (0, 1), 1: (2, 3)}
CARD_NODE = 1
QUEUE_PAIRS = 4
MEGABYTES_PER_NODE = 1024

BOOT_LIMIT = 180
# What a guest's answer may take beyond the command's own limit: the guest itself ends the command at that one.
ANSWER_GRACE = 30

# The card's driver and that of the bus it is found on; what these need, they say themselves.
MODULES = ("virtio_pci", "virtio_net")

PROGRAMS = ("ethtool", "setpriv", "redis-server", "redis-cli")

USERS = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"
GROUPS = b"root:x:0:\nnogroup:x:65534:\n"
HOSTS = b"127.0.0.1 localhost\n"

# The tap is made before QEMU starts, in the namespace that QEMU is then started in. Its queues are one for each pair of
# the card: the kernel's tun steers a flow to the queue by which the guest last sent for it.
NAMESPACE = f"""
ip link set lo up
ip tuntap add tap0 mode tap multi_queue
ip address add {HOST}/24 dev tap0
ip link set tap0 up
exec "$@"
"""

# Of this process's death a child is told by the kernel; the order stays over any number of exec.
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


class MachineError(Exception):
    """The machine did not start or ended, or a command in it failed; its text has the output."""


class Machine:
    """The machine, from boot to end: `with Machine({"/usr/bin/tsubaki": path}) as machine:`.

    `files` maps paths in the guest to files of this host. Programs among them come with the libraries they need and
    without debug information. To be entered by the main thread, since SIGTERM becomes an exception meanwhile.
    """

    def __init__(self, files=None, console=CACHE / "console.log"):
        self.files = dict(files or {})
        self.console = Path(console)
        self.boot_seconds = None
        self._resources = contextlib.ExitStack()
        self._unread = b""

    def __enter__(self):
        with contextlib.ExitStack() as resources:
            before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
            resources.callback(signal.signal, signal.SIGTERM, before)
            self._start(resources)
            self._resources = resources.pop_all()
        return self

    def __exit__(self, *_):
        self._resources.close()

    def sh(self, command, timeout=60):
        """Runs a shell command as root in the guest and returns what it printed.

        It waits for the command itself, not for what that leaves in the background.
        """
        text = base64.b64encode(command.encode()).decode()
        self._shell.sendall(f"{timeout} {text}\n".encode())
        code, out, err = self._line(timeout + ANSWER_GRACE, f"no answer to: {command}").split(" ")
        out, err = (base64.b64decode(part).decode(errors="replace") for part in (out, err))
        if code != "0":
            raise MachineError(f"in the guest, exit code {code} (limit {timeout} s): {command}\n{out}{err}")
        return out

    def spawn(self, argv, **options):
        """Starts a program of this host where the guest can be reached; if it still runs then, the exit ends it."""
        namespace = ("nsenter", f"--net=/proc/{self._qemu.pid}/ns/net", "--")
        process = subprocess.Popen([*DIES_WITH_US, *namespace, *argv], stdin=subprocess.DEVNULL, **options)
        self._resources.callback(_end, process)
        return process

    def _start(self, resources):
        # A file without a name, so that nothing of it is left even when this process is killed.
        initramfs = resources.enter_context(os.fdopen(os.memfd_create("initramfs"), "wb"))
        initramfs.write(_initramfs(self.files))
        initramfs.flush()
        self.console.parent.mkdir(parents=True, exist_ok=True)
        self.console.write_bytes(b"")

        self._shell, theirs = socket.socketpair()
        resources.callback(self._shell.close)
        started = time.monotonic()
        with theirs:
            self._qemu = subprocess.Popen(
                [*DIES_WITH_US, "unshare", "--net", "sh", "-euc", NAMESPACE, "sh"]
                + _qemu(initramfs.fileno(), self.console, theirs.fileno()),
                pass_fds=[initramfs.fileno(), theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        resources.callback(self._qemu.stdout.close)
        resources.callback(_end, self._qemu)

        answer = self._line(BOOT_LIMIT, "the guest's shell does not answer")
        if answer != "ready":
            raise MachineError(f"the guest's shell answers {answer!r}")
        self.boot_seconds = time.monotonic() - started

    def _line(self, timeout, complaint):
        """The next line from the guest's shell."""
        end = time.monotonic() + timeout
        parts = [self._unread]
        while b"\n" not in parts[-1]:
            if not select.select([self._shell], [], [], max(0, end - time.monotonic()))[0]:
                raise MachineError(f"{complaint}: waited {timeout} s\n{self._last_words()}")
            parts.append(self._shell.recv(1 << 16))
            if not parts[-1]:
                raise MachineError(f"{complaint}: the machine has ended\n{self._last_words()}")
        line, _, self._unread = b"".join(parts).partition(b"\n")
        return line.decode()

    def _last_words(self):
        _end(self._qemu)
        said = self._qemu.stdout.read().decode(errors="replace")
        console = self.console.read_text(errors="replace").splitlines()[-40:]
        return "\n".join([said, f"the end of {self.console}:", *console])


def _end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def _qemu(initramfs, console, shell):
    """The command line: CPUs and memory on two nodes, the card behind a PCI bridge of its own node.

    `initramfs` and `shell` are descriptors that QEMU inherits.
    """
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
    argv += ["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]
    argv += ["-smp", "4,sockets=2,cores=2", "-m", f"{MEGABYTES_PER_NODE * len(CPUS_OF_NODE)}M"]
    for node, (first, last) in CPUS_OF_NODE.items():
        argv += ["-object", f"memory-backend-ram,id=memory{node},size={MEGABYTES_PER_NODE}M"]
        argv += ["-numa", f"node,nodeid={node},cpus={first}-{last},memdev=memory{node}"]
    argv += ["-device", f"pxb-pcie,id=bridge,bus_nr=128,numa_node={CARD_NODE},bus=pcie.0"]
    argv += ["-device", "pcie-root-port,id=slot1,bus=bridge,chassis=1"]
    argv += ["-netdev", f"tap,id=net,ifname=tap0,queues={QUEUE_PAIRS},vhost=off,script=no,downscript=no"]
    # One interrupt for each direction of each pair, one for the card's settings and one for its control queue.
    vectors = 2 * QUEUE_PAIRS + 2
    argv += ["-device", f"virtio-net-pci,netdev=net,bus=slot1,mq=on,vectors={vectors},romfile="]
    argv += ["-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"]
    argv += ["-chardev", f"socket,id=shell,fd={shell}", "-serial", "chardev:shell"]
    kernel = _only(KERNEL.glob("boot/vmlinuz-*"), "kernel")
    argv += ["-kernel", str(kernel), "-initrd", f"/proc/self/fd/{initramfs}"]
    # What the kernel does not know itself becomes a variable of /init.
    return argv + ["-append", f"console=ttyS0 panic=-1 quiet guest_address={GUEST}/24"]


def _only(paths, what):
    paths = list(paths)
    if len(paths) != 1:
        raise MachineError(f"{len(paths)} files of {KERNEL} are the {what}: run {HERE / 'install'}")
    return paths[0]


def _initramfs(files):
    """The guest's file system. Not compressed, since the guest would take long to unpack it; not kept for the next time
    either: making it takes a fraction of a second, and nothing can be out of date."""
    archive = _Archive()
    archive.device("/dev/console", os.makedev(5, 1))
    archive.file("/init", (HERE / "guest-init").read_bytes())
    archive.file("/etc/passwd", USERS)
    archive.file("/etc/group", GROUPS)
    archive.file("/etc/hosts", HOSTS)
    for number, (name, data) in enumerate(_modules(MODULES).items()):
        archive.file(f"/modules/{number:02}-{name}.ko", data)
    archive.program("/bin/busybox", _program("busybox"))
    for name in PROGRAMS:
        archive.program(f"/usr/bin/{name}", _program(name))
    for path, source in files.items():
        archive.program(path, Path(source))
    return archive.bytes()


def _modules(names):
    """These modules and those they need, in the order to load them in; none names what is built in."""
    modules = {}
    for name in names:
        path = _only(KERNEL.glob(f"**/{name}.ko*"), f"module {name}")
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        needed = re.search(rb"\0depends=([^\0]*)\0", data)[1].decode()
        modules |= _modules(needed.split(",") if needed else ())
        modules[name] = data
    return modules


def _program(name):
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise MachineError(f"no {name}: run {HERE / 'install'}")
    return Path(path)


class _Archive:
    """A cpio archive as the kernel reads it ("newc"); folders are made by what is put into them."""

    def __init__(self):
        self._parts = []
        self._paths = set()

    def program(self, path, source):
        """A file of this host; if it is a program, smaller and with its libraries."""
        data = source.read_bytes()
        if not data.startswith(b"\x7fELF"):
            self.file(path, data)
            return
        with tempfile.NamedTemporaryFile() as stripped:
            subprocess.run(["strip", "--strip-debug", "-o", stripped.name, source], check=True)
            self.file(path, Path(stripped.name).read_bytes())
        # A static program has no libraries, and ldd fails for it.
        libraries = subprocess.run(["ldd", source], capture_output=True, text=True).stdout
        if "not found" in libraries:
            raise MachineError(f"{source} lacks libraries on this host:\n{libraries}")
        for library in re.findall(r"(/\S+) \(0x", libraries):
            self.file(library, Path(library).read_bytes())

    def file(self, path, data):
        self._add(path, stat.S_IFREG | 0o755, data)

    def device(self, path, number):
        self._add(path, stat.S_IFCHR | 0o600, number=number)

    def bytes(self):
        end = self._entry("TRAILER!!!", 0, b"", 0)
        return b"".join([*self._parts, end])

    def _add(self, path, mode, data=b"", number=0):
        if path in self._paths:
            return
        parent = os.path.dirname(path)
        if parent != "/":
            self._add(parent, stat.S_IFDIR | 0o755)
        self._paths.add(path)
        self._parts.append(self._entry(path.lstrip("/"), mode, data, number))

    def _entry(self, path, mode, data, number):
        name = path.encode() + b"\0"
        inode, owner, group, links, changed, device, check = len(self._paths), 0, 0, 1, 0, (0, 0), 0
        fields = [inode, mode, owner, group, links, changed, len(data), *device]
        fields += [os.major(number), os.minor(number), len(name), check]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        return _padded(head) + _padded(data)


def _padded(data):
    return data + bytes(-len(data) % 4)
