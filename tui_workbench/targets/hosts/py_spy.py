"""Read the Python stacks of a run's processes with py-spy, on the machine or in the container that executes them.

py-spy is a program without dependencies. It is sent to a machine when stacks are first read there. py-spy
reads the memory of the processes without pausing them (`--nonblocking`). It therefore cannot disturb a script, and can
also read a process that cannot be paused because it waits for a device.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_file
from tui_workbench.core.installation import package_command
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Completed, Host, disk_full, is_disk_full
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.stacks import MOST_PROCESSES, Reading, parse

MISSING, OTHER_MACHINE = 93, 94
"""Exit codes of SCRIPT: py-spy is not there yet; the machine has another architecture and no py-spy."""

IS_READ = b"stacks "
"""The beginning of the output of SCRIPT, except in case of an error."""

SECONDS = 60.0
"""Time limit in seconds for reading the stacks of all processes. One process takes about 0.05 s."""

SEND_SECONDS = 120.0

LARGEST_PROGRAM = 64 << 20  # bytes; py-spy 0.4 has 8 MB

SCRIPT = shell_script("targets/hosts/scripts/read_stacks.sh")

_SEND = shell_script("targets/hosts/scripts/receive_program.sh")


class PySpy(NamedTuple):
    """The py-spy of this machine."""

    path: str
    version: str
    machine: str  # its architecture, as `uname -m` prints it

    @property
    def name(self) -> str:
        """The name of its copy on other machines."""
        return f"py-spy-{self.version}-{self.machine}"

    def read(self) -> bytes:
        return read_file(self.path, LARGEST_PROGRAM)

    def words(self, path: str, run_id: str) -> list[str]:
        """Return the command that executes SCRIPT with the copy of py-spy at `path`."""
        return ["/bin/sh", "-c", SCRIPT, "sh", path, self.machine, run_id, str(MOST_PROCESSES)]


def installed_py_spy() -> PySpy:
    """Return the py-spy that was installed with the workbench. Raises ConfigurationError if it is missing."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        package = distribution("py-spy")
        candidates = [str(package.locate_file(file)) for file in package.files or () if file.name == "py-spy"]
    except PackageNotFoundError:
        candidates = []
    path = next((os.path.realpath(name) for name in candidates if os.access(name, os.X_OK)), "")
    if not path:
        remedy = f"Install it: `{package_command('py-spy')}`."
        raise ConfigurationError("py-spy is not installed on this machine", remedy=remedy)
    return PySpy(path, package.version, os.uname().machine)


def read_stacks(host: Host, run_id: str) -> Reading:
    """Read the stacks of a run whose processes are on `host`. py-spy is sent if it is missing. Raises WorkbenchError.

    If the run has no Python process, the result has no stacks.
    """
    spy = installed_py_spy()
    path = spy.path if host.is_local else HostLayout(host.home()).tool(spy.name)
    done = host.run(spy.words(path, run_id), timeout=SECONDS)
    if done.code == MISSING:
        send(host, spy, path)
        done = host.run(spy.words(path, run_id), timeout=SECONDS)
    return reading_of(done, spy, host.label)


def send(host: Host, spy: PySpy, path: str) -> None:
    """Send py-spy to another machine. Raises WorkbenchError."""
    data = spy.read()
    done = host.run(["sh", "-c", _SEND, "sh", path, str(len(data))], stdin=data, timeout=SEND_SECONDS)
    if is_disk_full(done.complaint):
        raise disk_full(host.label, "cannot send py-spy")
    if done.code != 0:
        remedy = f"Check the permissions of {os.path.dirname(path)} on that machine."
        raise WorkbenchError(f"cannot send py-spy to {host.label}: {done.complaint}", remedy=remedy)


def reading_of(done: Completed, spy: PySpy, label: str, *, package_place: str = "on that machine") -> Reading:
    """Parse the result of SCRIPT. `package_place` says where py-spy could be installed. Raises WorkbenchError."""
    if done.code == OTHER_MACHINE:
        machine = done.text.split("\n")[-1][:40]
        raise ConfigurationError(
            f"py-spy for {machine} is missing on {label}: the py-spy of this machine is for {spy.machine}",
            remedy=f"Install py-spy {package_place}, so that it is on the PATH there: `pip install py-spy`.",
        )
    if done.code != 0:
        raise WorkbenchError(
            f"cannot read the stacks on {label}: {done.complaint}",
            remedy="Check the free space in /tmp, and that `sh`, `grep`, `tr` and `sed` work there.",
        )
    return parse(done.stdout)
