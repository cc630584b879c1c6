"""A machine for benchmarks over SSH: namespaces of this machine with an SSH server.

Its network is virtual, so that only the work of both sides is measured. `relay` adds a delay.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from benchmarks.harness import scratch_folder
from tests.machines import Machine, machine, make_key
from tests.targets.conftest import end_links
from tui_workbench.projects.project import Project
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login

USER = "research"


class Remote(NamedTuple):
    """The machine, its SSH host, and the `ssh` command for the same account."""

    machine: Machine
    host: SshHost
    ssh: list[str]
    folder: Path  # folder on this machine for files of the benchmark

    @property
    def home(self) -> Path:
        """The home folder of the account, as a path on this machine."""
        return self.machine.home(USER)

    def make_project(self, name: str, script: str, folder: str = "project", *, port: int = 0) -> Project:
        """Create a project with this script, and with the target and run configuration `box`.

        With a port, the target is this port of this machine, such as that of a `relay`.
        """
        root = self.folder / folder
        (root / "aml_config").mkdir(parents=True)
        address = f"127.0.0.1:{port}" if port else self.machine.address
        target = {"type": "remote", "address": address, "username": USER, "pythonLocation": "python3"}
        configuration = {"Target": "box", "Framework": "Python"}
        (root / "aml_config" / "box.compute").write_text(json.dumps(target))
        (root / "aml_config" / "box.runconfig").write_text(json.dumps(configuration))
        (root / name).write_text(script)
        return Project.find(os.fspath(root))


@contextlib.contextmanager
def remote() -> Iterator[Remote]:
    """Run the machine while the context is active, with an empty HOME. Requires root."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(scratch_folder()))
        folder.chmod(0o755)
        key = make_key(folder / "id_ed25519")
        box = stack.enter_context(machine("gpubox", folder / "gpubox", key))
        ssh_folder = folder / "home" / ".ssh"
        ssh_folder.mkdir(parents=True)
        for name in (key, key.with_suffix(".pub")):
            shutil.copy(name, ssh_folder)
        known = ssh_folder / "known_hosts"
        known.write_text(box.known_hosts_line)
        runtime = folder / "run"
        runtime.mkdir(mode=0o700)
        changes = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(runtime)}
        stack.enter_context(mock.patch.dict(os.environ, changes))
        host = SshHost(Login("gpubox", box.address, USER))
        stack.callback(end_links, runtime)
        options = ["-i", str(key), "-o", f"UserKnownHostsFile={known}", "-o", "LogLevel=ERROR", "-F", "none"]
        yield Remote(box, host, ["ssh", *options, f"{USER}@{box.address}"], folder)


def is_possible() -> bool:
    """Return True if this process may create a machine."""
    return os.geteuid() == 0


@contextlib.contextmanager
def relay(address: str, delay: float) -> Iterator[int]:
    """Forward a port of this machine to the SSH server with a delay in seconds. Yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = server.accept()
                    far = socket.create_connection((address, 22))
                    for ends in ((near, far), (far, near)):
                        ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        threading.Thread(target=_forward, args=(*ends, delay), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _forward(source: socket.socket, sink: socket.socket, delay: float) -> None:
    """Copy bytes with a delay, which does not limit the throughput."""
    waiting: deque[tuple[float, bytes]] = deque()
    arrived = threading.Condition()

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                with arrived:
                    arrived.wait_for(lambda: waiting)
                    due, data = waiting.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    threading.Thread(target=send, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        with arrived:
            waiting.append((time.monotonic() + delay, data))
            arrived.notify()
