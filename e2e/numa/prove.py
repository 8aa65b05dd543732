#!/usr/bin/env python3
"""Proves on a real kernel that tsubaki keeps its workers, their memory and their network queues on one NUMA node.

Four runs in one virtual machine, whose card is attached to node 1: with all rights, without any, with placement off for
contrast, and one that is killed. What is checked is what the guest's kernel says, not what tsubaki says of itself; what
reaches the proxy comes from outside. At the end the doctor looks at the guest, and its commands are tried.

This file knows tsubaki; machine.py knows the machine. `make e2e-numa` installs what it needs, builds and runs it.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from machine import CARD_NODE, CPUS_OF_NODE, GUEST, HERE, Machine, MachineError

BINARY = HERE.parents[1] / "target" / "release" / "tsubaki"

# As many workers as the card's node has CPUs, and a pair of queues for each.
CPUS = CPUS_OF_NODE[CARD_NODE]
PORT, ADMIN, NODE_PORT = 6380, 16380, 7000
LOG, STATE = "/tmp/proxy.log", "/run/tsubaki"
ALLOWED = {"TSUBAKI_PLACEMENT_IRQ_AFFINITY": "true", "TSUBAKI_PLACEMENT_XPS": "true"}

CLIENTS = f"wget -qO- http://127.0.0.1:{ADMIN}/metrics | grep ^tsubaki_clients{{"

# What is wrong with a kernel's defaults, and with queues while no proxy runs.
EXPECTED = {"kernel.numa_balancing", "vm.watermark_scale_factor", "vm.dirty_ratio", "vm.dirty_background_ratio"}
EXPECTED |= {"vm.overcommit_memory", "net.ipv4.tcp_max_syn_backlog", "irq_affinity", "xps"}

LEAST_AT_HOME = 0.95
LEAST_ON_THEIR_CPU = 0.90
VISITS = 30
PATIENCE = 60


class Checks:
    """What was checked, and how much of it did not hold."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, holds, seen=""):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        print(f"{'ok    ' if holds else 'FAILED'}  {what}" + (f": {seen}" if seen != "" else ""), flush=True)

    def equal(self, what, found, expected):
        self.check(what, found == expected, found if found == expected else f"{found}, expected {expected}")


class Guest:
    """The machine as the proofs see it: its proxy, and what its kernel says."""

    def __init__(self, machine):
        self.sh, self.spawn = machine.sh, machine.spawn

    def wait(self, what, command):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.sh(command)
            except MachineError:
                if time.monotonic() > end:
                    raise MachineError(f"waited {PATIENCE} s: {what}\n{self.sh(f'tail -n 30 {LOG}; true')}") from None
                time.sleep(0.2)

    def start(self, settings, user="root"):
        """Starts the proxy and waits until it serves; returns its process id."""
        given = " ".join(f"{name}={value}" for name, value in settings.items())
        run = f"tsubaki run --listen {GUEST}:{PORT} --cluster 127.0.0.1:{NODE_PORT} --admin 127.0.0.1:{ADMIN} --workers {len(CPUS)}"
        as_user = "" if user == "root" else f"/usr/bin/setpriv --reuid {user} --regid nogroup --clear-groups -- "
        self.sh(f"rm -f {LOG}; {given} {as_user}{run} >{LOG} 2>&1 & echo $! >/run/proxy.pid")
        self.wait("the proxy is ready", f"wget -qO- http://127.0.0.1:{ADMIN}/health/ready")
        return int(self.sh("cat /run/proxy.pid"))

    def end(self, pid, signal="TERM"):
        self.sh(f"kill -{signal} {pid}")
        self.wait("the proxy has ended", f"! kill -0 {pid} 2>/dev/null")

    def log(self):
        return self.sh(f"cat {LOG}")

    def cpus_of_threads(self, pid):
        """The CPUs that each thread of a process may use, by the thread's name."""
        lines = self.sh(f"cd /proc/{pid}/task; for t in *; do echo $(cat $t/comm) $(sed -n 's/^Cpus_allowed_list://p' $t/status); done")
        return dict(line.rsplit(" ", 1) for line in lines.splitlines())

    def queues(self):
        """What the interrupts and XPS masks of the card's queues hold."""
        names = self.sh("grep -E 'virtio0-(input|output)' /proc/interrupts").splitlines()
        numbers = {line.split()[-1].split("-")[1]: int(line.split(":")[0]) for line in names}
        there = {name: number for name, number in numbers.items() if int(name.split(".")[1]) < len(CPUS)}
        files = {name: f"/proc/irq/{number}/smp_affinity_list" for name, number in there.items()}
        files |= {f"xps.{queue}": f"/sys/class/net/eth0/queues/tx-{queue}/xps_cpus" for queue in range(len(CPUS))}
        held = self.sh("cat " + " ".join(files.values())).split()
        return dict(zip(files, held))

    def pages_by_node(self, pid):
        """Anonymous pages of a process on each node."""
        pages = {node: 0 for node in CPUS_OF_NODE}
        for line in self.sh(f"grep anon= /proc/{pid}/numa_maps").splitlines():
            for node, count in re.findall(r" N(\d+)=(\d+)", line):
                pages[int(node)] += int(count)
        return pages

    def received(self):
        """Interrupts of each receive queue so far."""
        rows = self.sh("grep virtio0-input /proc/interrupts").splitlines()
        return [sum(map(int, re.findall(r" (\d+)(?= )", row.split("PCI")[0]))) for row in rows][: len(CPUS)]

    def commands(self):
        """Commands of each worker so far."""
        page = self.sh(f"wget -qO- http://127.0.0.1:{ADMIN}/metrics | grep ^tsubaki_commands_total")
        return [int(re.search(rf'worker="{worker}"}} (\d+)', page)[1]) for worker in range(len(CPUS))]

    def clients(self):
        """Clients of each worker now."""
        return [int(line.split()[1]) for line in self.sh(f"{CLIENTS} | sort").splitlines()]

    def load(self):
        """Fifty clients from outside, until they are ended."""
        line = f"redis-benchmark -h {GUEST} -p {PORT} -c 50 -n 100000000 -r 10000 -d 512 -t set -q"
        return self.spawn(line.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def under_load(self, look):
        """What `look` sees while fifty clients have sent at least as many commands as make every buffer used."""
        before = sum(self.commands())
        load = self.load()
        try:
            end = time.monotonic() + PATIENCE
            while sum(self.commands()) < before + 20_000:
                if load.poll() is not None or time.monotonic() > end:
                    raise MachineError("the load does not get through")
                time.sleep(0.5)
            return look()
        finally:
            load.kill()
            load.wait()


def share_on_their_cpu(guest):
    """Of visitors one after the other, the share that is the client of the worker on whose CPU its handshake arrived.

    They send nothing: once a worker has answered, the tap sends a connection's packets to the queue that it answered by,
    which would be its own, wherever the connection had arrived.
    """
    visit = f"import socket, time; s = socket.create_connection(('{GUEST}', {PORT})); print('here', flush=True); time.sleep({PATIENCE})"
    hits = 0
    for _ in range(VISITS):
        received, clients = guest.received(), guest.clients()
        visitor = guest.spawn([sys.executable, "-c", visit], stdout=subprocess.PIPE)
        visitor.stdout.readline()
        guest.wait("the visitor is a client", f"[ {sum(clients) + 1} = $({CLIENTS} | awk '{{ n += $2 }} END {{ print n }}') ]")
        received = [after - before for after, before in zip(guest.received(), received)]
        clients = [after - before for after, before in zip(guest.clients(), clients)]
        hits += received.index(max(received)) == clients.index(max(clients))
        visitor.kill()
        visitor.wait()
        guest.wait("the visitor has gone", f"[ 0 = $({CLIENTS} | awk '{{ n += $2 }} END {{ print n }}') ]")
    return hits / VISITS


def with_all_rights(guest, checks):
    print("\nWith all rights, interrupts and XPS allowed", flush=True)
    before = guest.queues()
    pid = guest.start(ALLOWED)
    threads = guest.cpus_of_threads(pid)
    for worker, cpu in enumerate(CPUS):
        checks.equal(f"worker {worker} may run on CPU", threads.get(f"worker-{worker}"), str(cpu))
        policy = guest.sh(f"grep -c ' prefer:{CARD_NODE} ' /proc/{pid}/task/$(grep -lx worker-{worker} /proc/{pid}/task/*/comm | cut -d/ -f5)/numa_maps; true")
        checks.check(f"worker {worker} asks for memory of node {CARD_NODE}", int(policy) > 0)
        queues = guest.queues()
        for side in ("input", "output"):
            checks.equal(f"the interrupt {side}.{worker} goes to CPU", queues[f"{side}.{worker}"], str(cpu))
        checks.equal(f"transmit queue {worker} is that of the mask", int(queues[f"xps.{worker}"], 16), 1 << cpu)
    pages = guest.under_load(lambda: guest.pages_by_node(pid))
    share = pages[CARD_NODE] / sum(pages.values())
    checks.check(f"anonymous pages on node {CARD_NODE} under load", share >= LEAST_AT_HOME, f"{share:.1%} of {sum(pages.values())}")
    share = share_on_their_cpu(guest)
    checks.check("clients of the worker on whose CPU their packets arrive", share >= LEAST_ON_THEIR_CPU, f"{share:.0%} of {VISITS}")
    guest.end(pid)
    checks.equal("queues after SIGTERM are as before", guest.queues(), before)
    checks.equal("notes left behind", guest.sh(f"ls {STATE}").split(), [])


def killed(guest, checks):
    print("\nKilled", flush=True)
    before = guest.queues()
    pid = guest.start(ALLOWED)
    guest.end(pid, "KILL")
    checks.check("queues stay as they were set", guest.queues() != before)
    guest.sh("tsubaki doctor --restore")
    checks.equal("the doctor sets them back", guest.queues(), before)
    guest.end(guest.start(ALLOWED), "KILL")
    guest.end(guest.start({}))
    checks.equal("and so does the next start", guest.queues(), before)


def without_rights(guest, checks):
    print("\nWithout rights", flush=True)
    before = guest.queues()
    pid = guest.start(ALLOWED | {"TSUBAKI_PLACEMENT_STATE_DIR": "/tmp/state"}, user="nobody")
    threads = guest.cpus_of_threads(pid)
    checks.equal("workers may run on CPUs", [threads.get(f"worker-{worker}") for worker in range(len(CPUS))], [str(cpu) for cpu in CPUS])
    checks.equal("queues stay as they were", guest.queues(), before)
    warnings = [line for line in guest.log().splitlines() if " WARN " in line]
    checks.check("and clients are spread evenly then", "arrivals=clients spread evenly" in guest.log())
    checks.check("one warning for interrupts, one for XPS", len(warnings) == 2, "; ".join(warnings))
    pages = guest.under_load(lambda: guest.pages_by_node(pid))
    share = pages[CARD_NODE] / sum(pages.values())
    checks.check(f"anonymous pages on node {CARD_NODE} under load", share >= LEAST_AT_HOME, f"{share:.1%} of {sum(pages.values())}")
    guest.end(pid)


def with_placement_off(guest, checks):
    print("\nPlacement off, for contrast", flush=True)
    before = guest.queues()
    pid = guest.start(ALLOWED | {"TSUBAKI_PLACEMENT_MODE": "off"})
    threads = guest.cpus_of_threads(pid)
    checks.equal("worker 0 may run on CPUs", threads.get("worker-0"), "0-3")
    checks.equal("queues stay as they were", guest.queues(), before)
    pages = guest.under_load(lambda: guest.pages_by_node(pid))
    print(f"        anonymous pages on node {CARD_NODE} under load: {pages[CARD_NODE] / sum(pages.values()):.1%} of {sum(pages.values())}")
    share = share_on_their_cpu(guest)
    checks.check("clients of the worker on whose CPU their packets arrive are chance", share < LEAST_ON_THEIR_CPU, f"{share:.0%} of {VISITS}")
    guest.end(pid)


def doctor(guest, checks):
    print("\nThe doctor, and what it advises", flush=True)
    look = f"tsubaki doctor --json --listen {GUEST}:{PORT} --workers {len(CPUS)}; [ $? -le 1 ]"
    guest.sh("mkdir -p /etc/sysctl.d; sysctl -w kernel.numa_balancing=1")
    findings = [check for check in json.loads(guest.sh(look))["checks"] if check["status"] == "finding"]
    missed = EXPECTED - {finding["id"] for finding in findings}
    checks.equal("of what is wrong with the guest it misses", missed, set())
    tried = []
    for finding in findings:
        try:
            for command in finding["mend"]:
                guest.sh(command)
            tried.append(finding["id"])
        except MachineError as error:
            checks.check(f"a command of {finding['id']} works", False, str(error))
    left = [check["id"] for check in json.loads(guest.sh(look))["checks"] if check["status"] == "finding"]
    checks.equal("of what its commands mended nothing is found again", [id for id in tried if id in left], [])
    print(f"        mended: {', '.join(tried)}", flush=True)


def main():
    if os.geteuid() != 0:
        sys.exit("this needs root, for a network namespace and a tap in it; make e2e-numa asks sudo for it")
    if not BINARY.exists():
        sys.exit(f"{BINARY} is missing: run make e2e-numa, which builds it")
    checks = Checks()
    with Machine({"/usr/bin/tsubaki": BINARY}) as machine:
        print(f"the machine is up after {machine.boot_seconds:.0f} s", flush=True)
        guest = Guest(machine)
        # The kernel shall not bring memory to where it is used, which is what is proved of the proxy.
        guest.sh("sysctl -w kernel.numa_balancing=0")
        guest.sh(f"ethtool -L eth0 combined {len(CPUS)}")
        # On the other node, and out of the workers' way.
        others = ",".join(str(cpu) for cpu in CPUS_OF_NODE[1 - CARD_NODE])
        guest.sh(f"taskset -c {others} tsubaki dev-cluster --masters 1 --replicas 0 --base-port {NODE_PORT} >/tmp/cluster.log 2>&1 &")
        guest.wait("the cluster is up", f"redis-cli -p {NODE_PORT} cluster info | grep -q cluster_state:ok")
        for proof in (with_all_rights, killed, without_rights, with_placement_off, doctor):
            proof(guest, checks)
    print(f"\n{checks.passed} passed, {checks.failed} failed")
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    try:
        main()
    except (MachineError, KeyboardInterrupt) as error:
        sys.exit(f"\nnot proved: {error or 'interrupted'}")
