"""A real Slurm cluster for tests, made of machines of namespaces (see `machines`).

Four machines share accounts, home folders and a scratch folder, and have a network of their own: `login` (with an SSH
server; the only one that this machine reaches), `head` (slurmctld, munged and, with accounting, slurmdbd and its
database) and two compute nodes with stand-in GPUs. The daemons are Debian's; they use Slurm's default ports and files,
because every machine has a separate network and a separate /etc, so any number of clusters can run side by side.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_folder, require, require_root
from tests.machines import ENVIRONMENT, PATIENCE, USERS, Daemon, Machine, ip, wait_for
from tests.slurm_configuration import ACCOUNTS, GPUS_PER_NODE, NODES, configuration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
"""Exists where the kernel limits memory by cgroups of version 1."""

NEWER_DEBIAN = Path("/var/cache/workbench-tui-tests/trixie/usr")

_CREATE = "create database mysql;\nuse mysql;"
_SYSTEM_TABLES = "/usr/share/mysql/mysql_system_tables.sql"


class SlurmCluster:
    """A cluster with its files in `folder`, which every user must be able to reach; `key` opens its login node.

    `scratch` is a folder that all machines share at the same path, also with this machine; `run_root` lies in it and
    belongs to the user research. `login_only` is a folder of research that only the login node has. With `accounting`
    there are slurmdbd and the accounts `lab` (the users' default) and `closed` (outsider's), and limits of partitions
    are checked at submission. With `memory_limits`, a process that uses more than `--mem` is killed (OUT_OF_MEMORY).
    """

    def __init__(
        self,
        folder: Path,
        key: Path,
        *,
        accounting: bool = False,
        memory_limits: bool = False,
        usr: Path | None = None,
    ) -> None:
        self.folder = folder
        self.accounting = accounting
        self.memory_limits = memory_limits
        self._values = {"first_job_id": 1, "min_job_age": 300, "message_timeout": 5, "slurmd_timeout": 300}
        self._controller = 0
        self.login = Machine("login", folder / "login", key, usr=usr)
        self.head = Machine("head", folder / "head", key, like=self.login, usr=usr)
        self.nodes = {name: Machine(name, folder / name, key, like=self.login, usr=usr) for name in NODES}
        self._addresses = {"head": "172.30.0.1", "login": "172.30.0.2"}
        self._addresses |= {name: f"172.30.0.{11 + number}" for number, name in enumerate(NODES)}
        self.scratch = folder / "scratch"
        self.run_root = self.scratch / "research" / "workbench"
        self.login_only = Path("/run/login-only")
        log = folder / "log"
        self.munged = Daemon(self.head, self._munged_command(), log / "munged-output")
        self.slurmctld = Daemon(self.head, [require("slurmctld"), "-D"], log / "slurmctld-output")
        self.slurmd = {
            name: Daemon(node, [require("slurmd"), "-D"], log / f"slurmd-{name}-output")
            for name, node in self.nodes.items()
        }
        if accounting:
            # Always with this system's programs: slurmdbd 24.11 fails with the MariaDB 11.8 beside it.
            self.store = Machine("store", folder / "store", key, like=self.login)
            self.database = Daemon(self.store, self._database_command(), log / "database-output")
            self.slurmdbd = Daemon(self.head, [require("slurmdbd"), "-D"], log / "slurmdbd-output")

    # Start and stop

    def start(self) -> None:
        """Start all machines and daemons and wait until both nodes are idle."""
        self._write_files()
        self.head.boot()
        self._link_munge(self.head)
        # With a separate address. Otherwise the bridge takes that of a port, and has another one after `lose`: for
        # half a minute the other machines would send to the old address, and reach no slurmctld.
        self.head.run(["ip", "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge"])
        self.head.run(["ip", "addr", "add", f"{self._addresses['head']}/24", "dev", "br0"])
        self.head.run(["ip", "link", "set", "br0", "up"])
        self.munged.start()
        self.start_login()
        for name in self.nodes:
            self._boot_node(name)
        wait_for((self.folder / "munge/socket").is_socket, "munged")
        if self.accounting:
            self._start_accounting()
        self.slurmctld.start()
        for daemon in self.slurmd.values():
            daemon.start()
        if self.accounting:
            self._add_accounts()
        self.until_idle()
        self._controller = self.slurmctld.pid

    def stop(self) -> None:
        """Kill all machines at once."""
        for machine in self._machines():
            machine.stop()
        for folder in MEMORY_CGROUPS.glob(f"{self.folder.name}-*"):
            for path, _, _ in os.walk(folder, topdown=False):
                os.rmdir(path)

    def start_login(self) -> None:
        """Start the login node; also after `login.stop()`, like a restart of the machine."""
        self.login.start()
        self._join(self.login)
        uid = str(USERS["research"])
        self.login.run(["install", "-d", "-o", uid, "-g", uid, str(self.login_only)])

    def restart(self, daemon: Daemon) -> None:
        """Kill a daemon of this cluster with SIGKILL, start it again and wait until it answers."""
        daemon.kill()
        daemon.start()
        if daemon.name == "slurmdbd":
            self.until_accounting_answers()
        else:
            self.until_answers()

    def lose(self, node: str) -> None:
        """Kill a compute node with all its processes; slurmctld notices after `slurmd_timeout` (see `mark_down`)."""
        self.nodes[node].stop()

    def recover(self, node: str) -> None:
        """Start a compute node again after `lose`.

        If slurmctld has not noticed the loss, it considers the jobs of the node running, often for minutes.
        """
        self.slurmd[node].kill()
        self._boot_node(node)
        self.slurmd[node].start()

    def mark_down(self, node: str) -> None:
        """Mark a node as down, as slurmctld does if it does not answer; its jobs end with NODE_FAIL at once."""
        self.manage("update", f"nodename={node}", "state=down", "reason=Not responding")

    @contextlib.contextmanager
    def unplugged(self, machine: Machine) -> Iterator[None]:
        """Cut a machine off from the rest of the cluster within the context; this machine still reaches `login`."""
        self.head.run(["ip", "link", "set", f"to-{machine.name}", "down"])
        try:
            yield
        finally:
            self.head.run(["ip", "link", "set", f"to-{machine.name}", "up"])

    @contextlib.contextmanager
    def configured(self, **values: int) -> Iterator[None]:
        """Change `min_job_age`, `message_timeout` or `slurmd_timeout` within the context."""
        before = dict(self._values)
        try:
            self._reconfigure(self._values | values)
            yield
        finally:
            self._reconfigure(before)

    # Commands

    def command(
        self, user: str, argv: Sequence[str], *, stdin: str = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the login node as a user, in the user's home folder, and return how it ended."""
        uid = str(USERS[user]) if user != "root" else "0"
        home = f"/home/{user}" if user != "root" else "/root"
        words = ["nsenter", "-t", str(self.login.pid), "--net", "--mount", "--uts", "--pid", "--"]
        words += ["env", f"--chdir={home}", "setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups", *argv]
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env={**ENVIRONMENT, "HOME": home, "USER": user, "LOGNAME": user, **(environment or {})},
        )

    def output(self, argv: Sequence[str], *, user: str = "research", stdin: str = "") -> str:
        """Run a program on the login node that must succeed and return its output without the last line end."""
        done = self.command(user, argv, stdin=stdin)
        assert done.returncode == 0, f"{argv}: exit code {done.returncode}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def submit(self, script: str, *options: str, user: str = "research") -> str:
        """Submit a batch script, given as shell commands, and return the ID of the job."""
        words = ["sbatch", "--parsable", f"--output={self.run_root}/%x-%j.txt", *options]
        return self.output(words, user=user, stdin=f"#!/bin/sh\n{script}\n").partition(";")[0]

    def state(self, job: str) -> str:
        """Return the state of a job that slurmctld still knows, for example RUNNING; otherwise an empty string."""
        done = self.command("root", ["scontrol", "--oneliner", "show", "job", job])
        return done.stdout.partition("JobState=")[2].partition(" ")[0]

    def until_state(self, job: str, *states: str) -> str:
        """Wait until a job has one of the states; return it."""
        try:
            wait_for(lambda: self.state(job) in states, f"job {job} to be {' or '.join(states)}", 2 * PATIENCE)
        except AssertionError as error:
            commands = (["scontrol", "show", "job", job], ["squeue", "-a", "-t", "all"], ["sinfo", "-N", "-l"])
            shown = [self.command("root", words).stdout for words in commands]
            raise AssertionError("\n".join([str(error), *shown, self._logs()])) from error
        return self.state(job)

    def end_time_limit(self, job: str) -> None:
        """Let the time limit of a running job end now; slurmctld, which looks every 30 s, then ends it as TIMEOUT."""
        self.manage("update", f"job={job}", "EndTime=now")

    def manage(self, *words: str) -> str:
        """Run `scontrol` as the administrator, once slurmctld answers, and return its output."""
        self.until_answers()
        return self.output(["scontrol", *words], user="root")

    # Waiting

    def until_answers(self) -> None:
        """Wait until slurmctld answers; if it has crashed, print its log and start it again."""
        if self.slurmctld.has_crashed:
            print(f"slurmctld has crashed:\n{self._logs()}")
            self.slurmctld.kill()
            self.slurmctld.start()
        wait_for(lambda: self.command("root", ["sinfo", "-h"]).returncode == 0, "slurmctld to answer")

    def until_accounting_answers(self) -> None:
        """Wait until slurmdbd answers."""
        wait_for(lambda: self.command("root", ["sacctmgr", "-n", "show", "cluster"]).returncode == 0, "slurmdbd")

    def until_saved(self, name: str) -> None:
        """Wait until slurmctld has written a job with this name to its disk.

        It does so every 5 seconds. If it is killed before, it forgets the job, and may give its ID to another one.
        """
        file = self.folder / "state/job_state"
        wait_for(lambda: file.exists() and name.encode() in file.read_bytes(), f"slurmctld to save {name}")

    def until_idle(self) -> None:
        """Wait until no job runs and both nodes can take one."""
        words = ["sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %T"]
        idle = "\n".join(f"{name} idle" for name in NODES)
        wait_for(lambda: self.command("root", words).stdout.strip() == idle, f"idle nodes: {self._logs()}")

    def clear(self) -> None:
        """Cancel all jobs, repair machines and daemons, and empty the scratch folder."""
        if not self.login.pid:
            self.start_login()
        for name in self.nodes:
            if not self.nodes[name].pid:
                self.recover(name)
        daemons = [self.slurmctld, *self.slurmd.values(), *([self.slurmdbd] if self.accounting else [])]
        for daemon in daemons:
            if not daemon.is_running:
                self.restart(daemon)
        self.until_answers()
        for user in USERS:
            self.output(["scancel", "--quiet", "--user", user], user="root")
        if self.slurmctld.pid != self._controller:
            # It may have forgotten jobs, and give their IDs to new ones: a slurmd that knows the IDs refuses them.
            self._controller = self.slurmctld.pid
            self._reconfigure(self._values | {"first_job_id": self._values["first_job_id"] + 1000})
        self.command("root", ["scontrol", "update", f"nodename={','.join(NODES)}", "state=resume"])
        self.until_idle()
        shutil.rmtree(self.scratch)
        self._make_scratch()

    # Details

    def _write_files(self) -> None:
        folder = self.folder
        for name in ("log", "state", "spool", "munge", "dev", "database", *(f"spool/{name}" for name in NODES)):
            (folder / name).mkdir(mode=0o755)
        for machine in self._machines():
            machine.install()
        self._make_scratch()
        key = folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        with (self.login.folder / "etc/hosts").open("a") as hosts:
            hosts.writelines(f"{address} {name}\n" for name, address in self._addresses.items())
        self._write_configuration()
        for number in range(GPUS_PER_NODE):
            # Slurm wants a device. This one has NVIDIA's number, and no driver: it cannot be opened.
            os.mknod(folder / f"dev/nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(195, number))

    def _machines(self) -> list[Machine]:
        return [self.login, self.head, *self.nodes.values(), *([self.store] if self.accounting else [])]

    def _make_scratch(self) -> None:
        self.run_root.mkdir(parents=True)
        self.scratch.chmod(0o1777)
        for path in (self.run_root.parent, self.run_root):
            os.chown(path, USERS["research"], USERS["research"])

    def _reconfigure(self, values: dict[str, int]) -> None:
        self._values = values
        self._write_configuration()
        self.manage("reconfigure")

    def _write_configuration(self) -> None:
        folder = self.login.folder / "etc/slurm"
        folder.mkdir(exist_ok=True)
        files = configuration(
            self.folder,
            self._addresses,
            self._values,
            accounting=self.accounting,
            memory_limits=self.memory_limits,
        )
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600 if name == "slurmdbd.conf" else 0o644)

    def _munged_command(self) -> list[str]:
        folder = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        return [require("munged"), "--foreground", *(f"--{option}={folder / name}" for option, name in files.items())]

    def _database_command(self) -> list[str]:
        words = ["--no-defaults", f"--datadir={self.folder / 'database'}", "--user=root", "--skip-grant-tables"]
        words += ["--skip-networking", f"--socket={self.folder}/database.sock"]
        words += ["--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync"]
        return [require("mariadbd"), *words, "--skip-innodb-doublewrite", "--innodb-flush-log-at-trx-commit=0"]

    def _start_accounting(self) -> None:
        """Start the database and slurmdbd."""
        self.store.boot()
        # In memory: on a busy disk its many small writes take seconds.
        self.store.run(["mount", "-t", "tmpfs", "tmpfs", str(self.folder / "database")])
        bootstrap = shlex.join([*self._database_command(), "--bootstrap"])
        self.store.run(["sh", "-c", f"(echo '{_CREATE}'; cat {_SYSTEM_TABLES}) | {bootstrap}"])
        self.database.start()
        # Without a database, slurmdbd would wait five seconds before it tries again.
        wait_for(lambda: b"ready for connections" in self.database.log.read_bytes(), "the database")
        link = f"ln -s {self.folder}/database.sock /run/mysqld/mysqld.sock"
        self.head.run(["sh", "-c", f"mkdir /run/mysqld && {link}"])
        self.slurmdbd.start()
        self.until_accounting_answers()

    def _add_accounts(self) -> None:
        """Create accounts, users and limits; only slurmctld tells slurmdbd of its cluster and of GPUs."""
        wait_for(lambda: "gpu" in self.output(["sacctmgr", "-n", "show", "tres"], user="root"), "slurmctld's message")
        for words in ACCOUNTS.splitlines():
            self.output(["sacctmgr", "--immediate", *words.split()], user="root")

    def _boot_node(self, name: str) -> None:
        node = self.nodes[name]
        node.boot()
        self._join(node)
        if self.memory_limits:
            # slurmd uses a folder with the node's name, which other clusters use too.
            own, used = MEMORY_CGROUPS / f"{self.folder.name}-{name}", MEMORY_CGROUPS / f"slurm_{name}"
            for folder in (own, used):
                folder.mkdir(exist_ok=True)
            node.run(["mount", "--bind", str(own), str(used)])

    def _join(self, machine: Machine) -> None:
        """Connect a machine to the cluster's network."""
        near = f"to-{machine.name}"
        ip("link", "add", near, "netns", str(self.head.pid), "type", "veth", "peer", "name", "cluster", "netns",
           str(machine.pid))  # fmt: skip
        self.head.run(["ip", "link", "set", near, "master", "br0", "up"])
        machine.run(["ip", "addr", "add", f"{self._addresses[machine.name]}/24", "dev", "cluster"])
        machine.run(["ip", "link", "set", "cluster", "up"])
        self._link_munge(machine)

    def _link_munge(self, machine: Machine) -> None:
        """Let a machine use the cluster's munged, which tells users apart across network namespaces."""
        socket = self.folder / "munge/socket"
        machine.run(["sh", "-c", f"mkdir -m 755 /run/munge && ln -s {socket} /run/munge/munge.socket.2"])

    def _logs(self) -> str:
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-2000:]}" for path in (self.folder / "log").iterdir()
        )


def newer_debian() -> Path:
    """Return /usr of the Debian that `.ci/run` installs for a newer Slurm; end the test if it is missing."""
    if not NEWER_DEBIAN.is_dir():
        # On CI too: the archive that `.ci/run` installs from may not have it.
        pytest.skip(f"a newer Slurm is not installed in {NEWER_DEBIAN}")
    return NEWER_DEBIAN


@contextlib.contextmanager
def slurm_cluster(
    key: Path, *, accounting: bool = False, memory_limits: bool = False, usr: Path | None = None
) -> Iterator[SlurmCluster]:
    """Run a cluster within the context. The login node accepts the public key of the private key file `key`."""
    require_root("to make machines")
    for command in ("sshd", "setpriv", "unshare", "nsenter", "ip"):
        require(command)
    with open_folder("wb-slurm-") as folder:
        cluster = SlurmCluster(folder, key, accounting=accounting, memory_limits=memory_limits, usr=usr)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
