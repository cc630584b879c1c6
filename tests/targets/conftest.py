"""Machines and logins for the tests of targets."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_folder, require
from tests.machines import Machine, machine, make_key, wait_for
from tests.proc import PROC
from tests.second_factor import codes  # noqa: F401  (a fixture)
from tests.targets.docker_fixtures import (  # noqa: F401  (fixtures)
    engine,
    gpubox_engine,
    localdocker_harness,
    remotedocker_harness,
    session_engine,
    session_gpubox_engine,
    shellless_harness,
)
from tests.targets.remote_fixtures import remote_harness  # noqa: F401  (a fixture)
from tests.targets.remote_project import box  # noqa: F401  (a fixture)
from tests.targets.slurm_fixtures import (  # noqa: F401  (fixtures)
    each_slurm,
    session_slurm,
    session_slurm_accounting,
    session_slurm_newer,
    slurm,
    slurm_accounting,
    slurm_accounting_host,
    slurm_host,
    slurm_newer,
)
from tests.targets.slurm_harness import localslurm_harness, slurm_harness  # noqa: F401  (fixtures)
from tests.targets.spark_harness import cluster_harness  # noqa: F401  (a fixture)
from tests.torch_parts import lay_out, require_same_python
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator


SHELLS = [path for name in ("sh", "dash", "bash", "busybox") if (path := shutil.which(name))]
"""The installed shells that are used as `sh` on some systems."""


@pytest.fixture(params=sorted({os.path.realpath(path) for path in SHELLS}), ids=os.path.basename)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a link to a shell with the name `sh`, which selects the shell's POSIX mode."""
    link = tmp_path / "shell" / "sh"
    link.parent.mkdir()
    link.symlink_to(request.param)
    return str(link)


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a private key that the users of every machine accept."""
    return make_key(tmp_path_factory.mktemp("keys") / "id_ed25519")


@pytest.fixture(scope="session")
def gpubox(key: Path) -> Iterator[Machine]:
    """Another machine, shared by all tests; a test that changes it restores it."""
    with open_folder() as folder, machine("gpubox", folder, key) as made:
        yield made


@pytest.fixture
def without_engine(gpubox: Machine) -> Iterator[None]:
    """Hide gpubox's Docker engine if another test has started it."""
    gpubox.run(["sh", "-c", "! [ -S /run/docker.sock ] || mv /run/docker.sock /run/away.sock"])
    yield
    gpubox.run(["sh", "-c", "! [ -S /run/away.sock ] || mv /run/away.sock /run/docker.sock"])


@pytest.fixture
def connections(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of this test's SSH link, which ends with the test."""
    folder = Path(tempfile.mkdtemp(prefix="wb-"))  # a socket's path must be short
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield folder
    end_links(folder)
    shutil.rmtree(folder)


@pytest.fixture
def ssh_folder(home: Path, connections: Path, gpubox: Machine, key: Path) -> Path:
    """`~/.ssh` of a user who has logged in to gpubox with a key before."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700)
    shutil.copy(key, folder / "id_ed25519")
    shutil.copy(key.with_suffix(".pub"), folder / "id_ed25519.pub")
    (folder / "known_hosts").write_text(gpubox.known_hosts_line)
    return folder


@pytest.fixture
def known(home: Path, connections: Path, gpubox: Machine) -> Path:
    """`~/.ssh/known_hosts` of a user who has accepted gpubox's host key and has no key."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700)
    (folder / "known_hosts").write_text(gpubox.known_hosts_line)
    return folder / "known_hosts"


@pytest.fixture
def bastion(gpubox: Machine, key: Path, ssh_folder: Path) -> Iterator[Machine]:
    """Return a jump host for `inner` of ~/.ssh/config, which is gpubox; neither host key is known."""
    with open_folder() as folder, machine("bastion", folder, key) as made:
        inner = made.wire_to(gpubox)
        (ssh_folder / "config").write_text(
            f"Host inner\n  HostName {inner}\n  ProxyJump research@{made.address}\n  User research\n"
        )
        (ssh_folder / "known_hosts").unlink()
        yield made


@pytest.fixture
def login(gpubox: Machine, ssh_folder: Path) -> wire.Login:
    """Return a login on gpubox that works."""
    return wire.Login("gpubox", gpubox.address, "research")


@pytest.fixture
def host(login: wire.Login) -> SshHost:
    """Return the account of the user research on gpubox."""
    return SshHost(login)


def link_processes(folder: Path, module: str = "targets.ssh.ssh_link") -> list[int]:
    """Return the processes of the links whose sockets lie below the folder, or processes of another module."""
    found = []
    for path in PROC.iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes()
                mine = f"XDG_RUNTIME_DIR={folder}\0".encode() in (path / "environ").read_bytes()
                if f"tui_workbench.{module}".encode() in words and mine:
                    found.append(int(path.name))
    return found


def end_links(folder: Path) -> None:
    """End every link whose socket lies below the folder, and before them the processes that would start another one."""
    for module in ("runs.lifecycle", "targets.ssh.ssh_link"):
        # A process that is ending may still start another one.
        wait_for(partial(_have_ended, folder, module), f"the processes of {module} to end")


def _have_ended(folder: Path, module: str) -> bool:
    """End the processes of a module, and return True if there were none."""
    found = link_processes(folder, module)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return not found


@pytest.fixture
def keyring(home: Path, connections: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an unlocked keyring for this test, on a separate message bus; return the folder of its files."""
    bus = connections / "bus"
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={bus}")
    processes = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        log = connections / f"{Path(command[0]).name}.log"
        with log.open("wb") as output:
            processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output))
        return processes[-1]

    try:
        start(require("dbus-daemon"), "--session", "--nofork", "--nopidfile", f"--address=unix:path={bus}")
        wait_for(lambda: _answers(bus), "the message bus to start")
        daemon = start(require("gnome-keyring-daemon"), "--foreground", "--unlock", "--components=secrets")
        assert daemon.stdin
        daemon.stdin.write(b"test\n")
        daemon.stdin.close()
        wait_for((connections / "keyring" / "control").exists, "the keyring to start")
        yield home / ".local/share/keyrings"
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
            if process.stdin:
                process.stdin.close()


def _answers(path: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        return True
    return False


@pytest.fixture(scope="module")
def torch_path() -> Iterator[Path]:
    """Return a folder with PyTorch that the users of other machines can read."""
    require_same_python()
    with open_folder() as folder:
        lay_out(folder)
        yield folder
