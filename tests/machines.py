"""Other machines for tests, created from namespaces.

A machine is a set of namespaces: network, mounts, host name, processes. It has an address, home
folders, user accounts, /run and SSH server; it can be cut off, frozen and restarted. It shares /usr and /tmp. Only root
can create one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import missing, require, require_root
from tests.proc import PROC
from tests.waiting import wait_until
from tui_workbench.targets.hosts.secrets import SecretStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PASSWORD = "correct horse"
_PASSWORD_HASH = "$6$workbench$pzWGAEN5BpywVrfYto9eZoPb1.81ZsOeOzWoRtnlUM7Vl3jxsVEXtULTAPYrv6Y1t0IXZbShTVjUfjndJCGdC."

DOCKER_GROUP = 2375
USERS = {"research": 2001, "outsider": 2002}
"""`research` may use Docker, `outsider` may not."""

PATIENCE = 90.0
"""Time limit in seconds for short actions on a busy machine."""

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""The environment of programs on a machine."""

_SETUP = """\
set -e
hostname "$1"
mount --make-rprivate /
mount --bind "$2/home" /home
mount -t tmpfs tmpfs /run
mount --bind "$2/etc" /etc
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
mkdir -p /run/sshd
ip link set lo up
exec "$3" -S -c "$4"
"""

_REAP = """\
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
print("up", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        signal.sigwait({signal.SIGCHLD})
"""

_SSHD_CONFIGURATION = """\
Port 22
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
UsePAM no
PasswordAuthentication yes
KbdInteractiveAuthentication no
PubkeyAuthentication yes
AuthorizedKeysFile .ssh/authorized_keys
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
UseDNS no
LogLevel VERBOSE
MaxStartups 100
Subsystem sftp internal-sftp
"""


_NUMBERS = itertools.count(1)


class Machine:
    """A machine called `name` with its files in `folder`; `address` is its address as seen from this machine.

    It shares accounts and home folders with the machine `like` if there is one, as the nodes of a cluster do; such a
    machine has no link to this one, and is started with `boot`. Its programs are those of this machine, or of another
    system whose /usr is in the folder `usr`.
    """

    def __init__(
        self, name: str, folder: Path, key: Path, *, like: Machine | None = None, usr: Path | None = None
    ) -> None:
        self.name = name
        self.folder = folder
        self.key = key
        self._like = like
        self._usr = usr
        # Different numbers for each test process, so that test runs do not collide.
        self._network = f"10.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        # A network has room for 62 links.
        self._number = 0 if like else next(_NUMBERS)
        self.link = f"wb{os.getpid() % 100000}n{self._number}"
        self._init: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self._sshd: subprocess.Popen[bytes] | None = None
        self._inside: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return f"{self._network}.{4 * self._number + 2}"

    @property
    def gateway(self) -> str:
        """The address of this machine as seen from it."""
        return f"{self._network}.{4 * self._number + 1}"

    def home(self, user: str = "research") -> Path:
        """Return the home folder of a user as a path on this machine."""
        return self.folder / "home" / user

    def install(self) -> None:
        """Create its accounts, homes and host key."""
        if self._like:
            self.folder.mkdir()
            for name in ("home", "etc"):
                (self.folder / name).symlink_to(self._like.folder / name)
            (self.folder / "boot_id").write_text(self._new_boot_id())
            return
        (self.folder / "home").mkdir(parents=True)
        # The whole folder: if a package replaced /etc/passwd here, a bind mount of the file would show the old one.
        subprocess.run(["cp", "-a", "/etc", str(self.folder / "etc")], check=True)
        (self.folder / "boot_id").write_text(self._new_boot_id())
        base = {name: Path("/etc", name).read_text() for name in ("passwd", "group")}
        users = "".join(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n" for name, uid in USERS.items())
        (self.folder / "etc/passwd").write_text(base["passwd"] + users)
        groups = [line for line in base["group"].splitlines() if not line.startswith("docker:")]
        groups += [f"{name}:x:{uid}:" for name, uid in USERS.items()] + [f"docker:x:{DOCKER_GROUP}:research"]
        (self.folder / "etc/group").write_text("\n".join(groups) + "\n")
        hashes = "".join(f"{name}:{_PASSWORD_HASH}:19000:0:99999:7:::\n" for name in USERS)
        (self.folder / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n" + hashes)
        (self.folder / "etc/shadow").chmod(0o600)
        for user, uid in USERS.items():
            ssh = self.home(user) / ".ssh"
            ssh.mkdir(parents=True, mode=0o700)
            (ssh / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
            (ssh / "authorized_keys").chmod(0o600)
            for path in (self.home(user), ssh, ssh / "authorized_keys"):
                os.chown(path, uid, uid)
        self.new_host_key()
        (self.folder / "sshd_config").write_text(_SSHD_CONFIGURATION.format(folder=self.folder))

    def new_host_key(self) -> None:
        """Replace its host key, as a new installation does."""
        (self.folder / "host_key").unlink(missing_ok=True)
        make_key(self.folder / "host_key")

    @property
    def known_hosts_line(self) -> str:
        """The line of the machine in known_hosts."""
        return f"{self.address} {(self.folder / 'host_key.pub').read_text().rsplit(' ', 1)[0]}\n"

    def start(self, connect: Callable[[], object] = lambda: None) -> None:
        """Start it: namespaces, network, SSH server. `connect` is called before the SSH server starts."""
        self.boot()
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        ip("addr", "add", f"{self.gateway}/30", "dev", self.link)
        ip("link", "set", self.link, "up")
        self.run(["ip", "addr", "add", f"{self.address}/30", "dev", "eth0"])
        self.run(["ip", "link", "set", "eth0", "up"])
        connect()
        self.start_sshd()

    def boot(self) -> None:
        """Start its namespaces only: no network and no SSH server."""
        # The machine ends with the tests, even if they are killed.
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "--pid", "--fork"]
        words += ["--kill-child", "--mount-proc", "/bin/sh", "-c", _SETUP, "sh", self.name, str(self.folder)]
        words += [os.path.realpath(sys.executable), _REAP]
        with (self.folder / "start.log").open("wb") as log:
            self._init = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=ENVIRONMENT
            )
        assert self._init.stdout
        if self._init.stdout.readline() != b"up\n":
            said = (self.folder / "start.log").read_text()
            missing(f"namespaces cannot be made here (root and all its capabilities are needed): {said}")
        self.pid = int((PROC / f"{self._init.pid}/task/{self._init.pid}/children").read_text().split()[0])
        if self._usr:
            self.run(["mount", "--bind", str(self._usr), "/usr"])

    def wire_to(self, other: Machine) -> str:
        """Connect two machines directly; return the address of the other machine."""
        ours, theirs = f"{self._network}.253/30", f"{self._network}.254/30"
        ip("link", "add", "wire", "netns", str(self.pid), "type", "veth", "peer", "name", "wire", "netns",
           str(other.pid))  # fmt: skip
        for machine, address in ((self, ours), (other, theirs)):
            machine.run(["ip", "addr", "add", address, "dev", "wire"])
            machine.run(["ip", "link", "set", "wire", "up"])
        return theirs.partition("/")[0]

    def stop(self) -> None:
        """Kill all its processes at once."""
        if self._init is None:
            return
        # The init of the process namespace: the kernel ends all others with it. An init that was never started has
        # no process ID, and 0 would mean this process and its whole process group.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid or self._init.pid, signal.SIGKILL)
        # Processes that are stopped (see `frozen_sshd`) do not reap their children, for which the kernel waits.
        for process in self._inside:
            process.send_signal(signal.SIGCONT)
        self._init.wait(PATIENCE)
        if self._init.stdout:
            self._init.stdout.close()
        for process in self._inside:
            process.wait(PATIENCE)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        self._inside.clear()
        self._init, self._sshd, self.pid = None, None, 0
        if self._number:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("link", "del", self.link)

    def reboot(self) -> None:
        """Restart it."""
        self.stop()
        self.restart()

    def restart(self, connect: Callable[[], object] = lambda: None) -> None:
        """Start it after `stop`, with another boot ID. `connect` is as in `start`."""
        (self.folder / "boot_id").write_text(self._new_boot_id())
        self.start(connect)

    def start_sshd(self) -> None:
        """Start its SSH server and wait until it answers."""
        log = self.folder / "sshd.log"
        command = [require("sshd"), "-D", "-f", str(self.folder / "sshd_config"), "-E", str(log)]
        self._sshd = self.enter(command)
        require("sshd")
        wait_for(lambda: self._listens(), f"sshd of {self.name}: {log.read_text() if log.exists() else 'no log'}")

    def stop_sshd(self) -> None:
        """End its SSH server and every connection to it."""
        assert self._sshd is not None
        # The listening process first: a connection that it accepted meanwhile would survive.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._sshd_child() or self._sshd.pid, signal.SIGKILL)
        self._sshd.wait(PATIENCE)
        self.leave(self._sshd)
        while pids := self._sshd_processes():
            self._kill(pids)

    def kill_connections(self) -> None:
        """Kill all processes of the SSH server except the listening one."""
        keep = self._sshd_child()
        self._kill(pid for pid in self._sshd_processes() if pid != keep)

    @staticmethod
    def _kill(pids: Iterable[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def configured(self, *lines: str) -> Iterator[None]:
        """Add lines at the beginning of the configuration of its SSH server within the context."""
        path = self.folder / "sshd_config"
        before = path.read_text()
        self.stop_sshd()
        path.write_text("\n".join([*lines, before]))
        try:
            self.start_sshd()
            yield
        finally:
            self.stop_sshd()
            path.write_text(before)
            self.start_sshd()

    @contextlib.contextmanager
    def frozen_sshd(self) -> Iterator[None]:
        """Stop the SSH server and its connections within the context (SIGSTOP)."""
        pids = self._sshd_processes()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # a session that just ended
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            # nsenter stops with its child and would stay stopped.
            for pid in [*pids, self._sshd.pid if self._sshd else 0]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """Drop all packets within the context."""
        ip("link", "set", self.link, "down")
        try:
            yield
        finally:
            ip("link", "set", self.link, "up")

    @contextlib.contextmanager
    def replaced(self, program: str, script: str) -> Iterator[None]:
        """Replace a program on it by a script within the context; $ORIGINAL in the script is the program."""
        name = os.path.basename(program)
        original, replacement = self.folder / f"original-{name}", self.folder / f"replacement-{name}"
        self.run(["cp", "-p", program, str(original)])
        replacement.write_text(f"#!/bin/sh\nORIGINAL={original}\n{script}\n")
        replacement.chmod(0o755)
        self.run(["mount", "--bind", str(replacement), program])
        try:
            yield
        finally:
            self.run(["umount", "--lazy", program])

    def processes(self, name: str = "") -> list[int]:
        """Return the IDs on this machine of its processes with this name, or of all."""
        namespace = os.stat(PROC / f"{self.pid}/ns/pid").st_ino
        found = []
        for pid in filter(str.isdigit, os.listdir(PROC)):
            with contextlib.suppress(OSError):
                same = os.stat(PROC / f"{pid}/ns/pid").st_ino == namespace
                status = (PROC / f"{pid}/status").read_text().split("\n")
                is_named = name in ("", status[0].removeprefix("Name:\t"))
                if same and is_named and "State:\tZ" not in "".join(status[:4]):
                    found.append(int(pid))
        return found

    def enter(self, argv: Sequence[str], **options: object) -> subprocess.Popen[bytes]:
        """Start a program on it as root; the program ends with the machine."""
        words = [*self._entering(), *argv]
        options.setdefault("stdin", subprocess.DEVNULL)
        process: subprocess.Popen[bytes] = subprocess.Popen(words, **options)  # type: ignore[call-overload]
        self._inside.append(process)
        return process

    def _entering(self) -> list[str]:
        """Return the words that run a program in the namespaces of the machine."""
        of = PROC / f"{self.pid}/ns"
        return ["nsenter", f"--net={of}/net", f"--mount={of}/mnt", f"--uts={of}/uts", f"--pid={of}/pid", "--"]

    def leave(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a program that has ended."""
        if process in self._inside:
            self._inside.remove(process)

    def run(self, argv: Sequence[str]) -> str:
        """Run a program on it as root and return its output."""
        words = [*self._entering(), *argv]
        return subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True).stdout

    def _sshd_processes(self) -> list[int]:
        # Newer versions have separate programs for connections.
        return [pid for name in ("sshd", "sshd-session", "sshd-auth") for pid in self.processes(name)]

    def _sshd_child(self) -> int:
        assert self._sshd is not None
        children = (PROC / f"{self._sshd.pid}/task/{self._sshd.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def _listens(self) -> bool:
        import socket

        with contextlib.suppress(OSError), socket.create_connection((self.address, 22), 1.0) as connection:
            return connection.recv(4) == b"SSH-"
        return False

    @staticmethod
    def _new_boot_id() -> str:
        text = os.urandom(16).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) + "\n"


class Daemon:
    """A program that runs on a machine until it is killed; `log` takes its output."""

    def __init__(self, machine: Machine, argv: Sequence[str], log: Path) -> None:
        self._machine = machine
        self._argv = list(argv)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0

    @property
    def name(self) -> str:
        """The name of the program."""
        return os.path.basename(self._argv[0])

    @property
    def is_running(self) -> bool:
        """True if it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_crashed(self) -> bool:
        """True if it has ended without `kill`."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start it; it may need a moment before it answers."""
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = self._machine.enter(self._argv, stdout=log, stderr=log, env=ENVIRONMENT)
        children = PROC / f"{self._process.pid}/task/{self._process.pid}/children"
        wait_for(lambda: not self.is_running or children.read_text(), f"{self.name} to start")
        assert self.is_running, self.log.read_text()
        self.pid = int(children.read_text().split()[0])

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal and wait until it has ended; do nothing if it is not running."""
        if self._process is None:
            return
        if self.is_running:
            self._signal(number)
            self._signal(signal.SIGCONT)
        self._process.wait(PATIENCE)
        self._machine.leave(self._process)
        self._process, self.pid = None, 0

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it with SIGSTOP within the context, so that it does not answer."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if self.is_running:
                self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        if number == signal.SIGCONT:  # nsenter stops with its child and would stay stopped
            self._process.send_signal(number)


@contextlib.contextmanager
def machine(name: str, folder: Path, key: Path) -> Iterator[Machine]:
    """Run a machine within the context. Its users accept the public key of the private key file `key`."""
    require_root("to make a machine")
    for command in ("sshd", "setpriv", "unshare", "nsenter", "ip"):
        require(command)
    made = Machine(name, folder, key)
    made.install()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def make_key(path: Path, passphrase: str = "") -> Path:
    """Create an SSH key pair; return the path of the private key."""
    command = [require("ssh-keygen"), "-q", "-t", "ed25519", "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def fingerprint(public_key: Path) -> str:
    """Return the fingerprint `SHA256:...` of a public key."""
    done = subprocess.run([require("ssh-keygen"), "-lf", str(public_key)], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


def ip(*words: str) -> None:
    """Run the `ip` command."""
    subprocess.run([require("ip"), *words], check=True, capture_output=True)


def wait_for(condition: Callable[[], object], what: str = "it to happen", seconds: float = PATIENCE) -> None:
    """Wait until the condition holds; fail the test after the time limit."""
    wait_until(condition, what, seconds)


def secret_in_keyring(reference: str) -> str | None:
    """Return the secret that was last stored for a login under this reference, or None."""
    text = SecretStore().get(reference)
    return None if text is None else str(json.loads(text)["secrets"][-1]["secret"])
