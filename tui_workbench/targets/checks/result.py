"""The result of one check of a target, and the names of the checks."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import Host

NAME, PORT, HOST_KEY, LOGIN = "name", "port", "host key", "login"
TOOLS = "tools"
PYTHON = "python"
DOCKER, ENGINE, DISK = "docker", "engine", "disk"
SLURM, RUN_ROOT, JOB = "slurm", "run root", "job"
SPARK, YARN = "spark", "yarn"
CLOCK = "clock"
HOMES, NETWORK = "home folders", "network"
GPU, DEVICES, RUNTIME, CONTAINER = "gpu driver", "gpus", "nvidia runtime", "gpu container"
FRAMEWORK, COMPATIBILITY, COMPUTES, MEMORY = "framework", "compatibility", "computes", "shared memory"
OF_GPUS = (GPU, DEVICES, RUNTIME, CONTAINER, FRAMEWORK, COMPATIBILITY, COMPUTES, MEMORY)
RESERVATIONS = "reservations"
CONFIGURATION = "configuration"
READY = "ready"

OK, WARNING, UNNEEDED, BROKEN = "ok", "warning", "unneeded", "broken"


class CheckResult(NamedTuple):
    """The result of one check.

    `state` is `ok`, `warning`, `unneeded` (the check does not apply to the target) or `broken`, which ends the checks.
    `command` is a command that fixes or explains the problem. If `there` is True, it must be run on the target's
    machine. In a result of a group member, `place` is the address of the member.
    """

    name: str
    state: str
    message: str
    remedy: str = ""
    command: str = ""
    there: bool = False
    error: WorkbenchError | None = None
    place: str = ""


class CheckFailed(WorkbenchError):
    """A check failed. `command` is as in `CheckResult`."""

    def __init__(self, message: str, remedy: str = "", command: str = "", *, file: str = "", line: int = 0) -> None:
        super().__init__(message, remedy=remedy, file=file, line=line)
        self.command = command


def install_command(target: ComputeTarget) -> str:
    """Return the command that installs missing software on a target's machine; "" if the type has no such command."""
    return f"workbench-tui computetarget prepare {shlex.quote(target.name)}" if target.kind.can_prepare else ""


def run_check(name: str, check: Callable[[], CheckResult], host: Host) -> CheckResult:
    """Run a check of a machine. An error that it raises becomes a result with the state `broken`.

    A `workbench-tui` command is for this machine; any other command is for the target's machine.
    """
    try:
        check_result = check()
    except WorkbenchError as error:
        check_result = failure(name, error, host.label, error.command if isinstance(error, CheckFailed) else "")
    there = bool(check_result.command) and not check_result.command.startswith("workbench-tui ") and not host.is_local
    return check_result._replace(there=there)


def failure(name: str, error: WorkbenchError, label: str, command: str = "", *, there: bool = False) -> CheckResult:
    """Return the result of a check that raised an error."""
    # Omit the name of the machine, which the reader knows.
    message = error.message.removeprefix(f"{label}: ")
    return CheckResult(name, BROKEN, message, error.remedy, command, there, error)
