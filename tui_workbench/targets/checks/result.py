"""What a check of a target finds, and the names of the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.hosts.host import Host

NAME, PORT, HOST_KEY, LOGIN = "name", "port", "host key", "login"
TOOLS = "tools"
PYTHON = "python"
DOCKER, ENGINE, DISK = "docker", "engine", "disk"
CLOCK = "clock"
GPU, DEVICES, RUNTIME, CONTAINER = "gpu driver", "gpus", "nvidia runtime", "gpu container"
FRAMEWORK, FIT, COMPUTES, MEMORY = "framework", "driver fit", "computes", "shared memory"
CONFIGURATION = "configuration"
READY = "ready"

OK, WARNING, UNNEEDED, BROKEN = "ok", "warning", "unneeded", "failure"


class CheckResult(NamedTuple):
    """What one check of a target found.

    `state` is `ok`, `warning`, `unneeded` (this target does not ask for it) or `failure`, after which nothing follows.
    `command` is what mends it, to be copied; with `there` it is to be typed on the target's machine. `error` is what
    broke it.
    """

    name: str
    state: str
    message: str
    remedy: str = ""
    command: str = ""
    there: bool = False
    error: WorkbenchError | None = None


class CheckFailed(WorkbenchError):
    """Raised by a check that failed: no other follows. `command` is as in `CheckResult`."""

    def __init__(self, message: str, remedy: str = "", command: str = "", *, file: str = "", line: int = 0) -> None:
        super().__init__(message, remedy=remedy, file=file, line=line)
        self.command = command


def run_check(name: str, answer: Callable[[], CheckResult], host: Host) -> CheckResult:
    """The result of a check of a machine, failure where it raises.

    A command of the workbench is to be typed here, and any other one on the machine.
    """
    try:
        found = answer()
    except WorkbenchError as error:
        found = failure(name, error, host.label, error.command if isinstance(error, CheckFailed) else "")
    is_ours = found.command.startswith("workbench-tui ")
    return found._replace(there=bool(found.command) and not is_ours and not host.is_local)


def failure(name: str, error: WorkbenchError, label: str, command: str = "", *, there: bool = False) -> CheckResult:
    """The result of a check that failed."""
    # Whoever reads the results knows which machine they are about.
    message = error.message.removeprefix(f"{label}: ")
    return CheckResult(name, BROKEN, message, error.remedy, command, there, error)
