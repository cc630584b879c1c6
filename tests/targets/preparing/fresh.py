"""A new Debian machine without a driver and without Docker.

It is `gpubox` of the tests with its real SSH server, sudo and usermod. Its packages are stand-ins, because all machines
of the tests share /usr: `apt-get` adds empty programs instead of installing packages, and `curl` downloads nothing. A
folder of /sys stands in for an NVIDIA GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.machines import Machine

USER = "outsider"

_TOOLS = {
    "apt-get": 'case "$*" in *docker-ce*) cp logs dockerd ;; *nvidia-driver-cuda*) cp fails nvidia-smi ;; '
    "*nvidia-container-toolkit*) cp configures nvidia-ctk ;; esac",
    "curl": 'for file; do :; done; case $file in /etc/*) : >"$file" ;; esac',  # /etc is not shared
    "modprobe": "exit 1",
    "systemctl": "case $1 in enable) python3 bind.py ;; restart) touch /run/docker.pid ;; esac",
    "docker": "exit 1",
    "fails": "exit 9",
    "logs": "",
    "configures": "mkdir -p /etc/docker; echo nvidia >/etc/docker/daemon.json",
}
"""What the stand-ins do, in their folder, after they have written their arguments to the log."""


class Fresh:
    """The new machine. `log` has a line for each stand-in that was executed as root; `system` is its os-release."""

    def __init__(self, machine: Machine, tools: Path) -> None:
        self.machine = machine
        self.system = machine.folder / "os-release"
        self._tools = tools

    @property
    def log(self) -> list[str]:
        path = self._tools / "log"
        return path.read_text().splitlines() if path.exists() else []

    def set_tool(self, name: str, script: str) -> None:
        path = self._tools / name
        head = f'#!/bin/sh\ncd {self._tools}\n[ "$(id -u)" != 0 ] || echo "{name} $*" >>log\n'
        path.write_text(f"{head}{script}\n")
        path.chmod(0o755)

    def add_rootless_engine(self) -> None:
        """Add the socket of an engine of the user, and let `docker` answer."""
        bind = "import socket; socket.socket(socket.AF_UNIX).bind('docker.sock')"
        folder = f"/home/{USER}/.docker/run"
        self.machine.run(["sh", "-c", f'mkdir -p {folder}; cd {folder}; python3 -c "{bind}"; chown -R {USER} {folder}'])
        self.set_tool("docker", "echo 'map[runc:{}]'")

    def ask_for_password(self, compute: Path) -> None:
        """Log in with a password that is not stored."""
        reference = "AzureMlSecret=box#outsider#00112233445566778899aabbccddeeff"
        compute.write_text(f'{compute.read_text()}password: "{reference}"\n')

    def allow_sudo(self, *, allowed: bool) -> None:
        rule = self.machine.folder / "etc" / "sudoers.d" / USER
        rule.unlink(missing_ok=True)
        if allowed:
            rule.write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
            rule.chmod(0o440)


@pytest.fixture
def fresh(gpubox: Machine, ssh_folder: Path, project_root: Path) -> Iterator[Fresh]:
    """Turn gpubox into a new machine, which is attached as `box` with Docker."""
    for program in ("sudo", "usermod", "dockerd"):
        require(program)
    (project_root / "aml_config" / "box.compute").write_text(
        f"type: remotedocker\naddress: {gpubox.address}\nusername: {USER}\nbaseDockerImage: python:3.12-slim\n"
    )
    tools, devices = gpubox.folder / "tools", gpubox.folder / "devices"
    (devices / "0000:00:05.0").mkdir(parents=True)
    (devices / "0000:00:05.0" / "vendor").write_text("0x10de\n")
    (devices / "0000:00:05.0" / "class").write_text("0x030200\n")
    tools.mkdir()
    made = Fresh(gpubox, tools)
    for name, script in _TOOLS.items():
        made.set_tool(name, script)
    (tools / "bind.py").write_text("import socket\nsocket.socket(socket.AF_UNIX).bind('/run/docker.sock')\n")
    made.allow_sudo(allowed=True)
    made.system.write_text('ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n')
    group = gpubox.folder / "etc" / "group"
    before = group.read_text()
    dockerd = gpubox.run(["sh", "-c", "command -v dockerd"]).strip()
    mounts = {
        "/usr/local/sbin": tools,
        "/usr/local/bin": tools,
        "/usr/lib/os-release": made.system,
        "/sys/bus/pci/devices": devices,
        dockerd: "/dev/null",
    }
    gpubox.run(["sh", "-c", "! [ -S /run/docker.sock ] || mv /run/docker.sock /run/away.sock"])
    for place, source in mounts.items():
        gpubox.run(["mount", "--bind", str(source), place])
    yield made
    gpubox.run(["umount", "--lazy", *mounts])
    gpubox.run(
        ["rm", "-rf", "/run/docker.sock", "/etc/docker/daemon.json", f"/home/{USER}/.docker", str(tools), str(devices)]
    )
    gpubox.run(["sh", "-c", "! [ -S /run/away.sock ] || mv /run/away.sock /run/docker.sock"])
    group.write_text(before)
    made.allow_sudo(allowed=False)
