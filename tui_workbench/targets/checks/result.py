"""What a check of a target finds, and the names of the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError

NAME, PORT, HOST_KEY, LOGIN = "name", "port", "host key", "login"
TOOLS = "tools"
PYTHON = "python"
DOCKER, ENGINE, DISK = "docker", "engine", "disk"
CLOCK = "clock"
GPU, DEVICES, RUNTIME, CONTAINER = "gpu driver", "gpus", "nvidia runtime", "gpu container"
FRAMEWORK, FIT, COMPUTES, MEMORY = "framework", "driver fit", "computes", "shared memory"
CONFIGURATION = "configuration"
READY = "ready"

OK, WARNING, UNNEEDED, BROKEN = "ok", "warning", "unneeded", "broken"


class CheckResult(NamedTuple):
    """What one check of a target found.

    `state` is `ok`, `warning`, `unneeded` (this target does not ask for it) or `broken`, after which nothing follows.
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
    """Raised by a check that failed: no other follows. `command` and `there` are as in `CheckResult`."""

    def __init__(
        self, message: str, remedy: str = "", command: str = "", *, there: bool = False, file: str = "", line: int = 0
    ) -> None:
        super().__init__(message, remedy=remedy, file=file, line=line)
        self.command = command
        self.there = there


def answered(name: str, answer: Callable[[], CheckResult], label: str) -> CheckResult:
    """The result of a check, broken where it raises. `label` is the machine's."""
    try:
        return answer()
    except CheckFailed as failed:
        return broken(name, failed, label, failed.command, there=failed.there)
    except WorkbenchError as error:
        return broken(name, error, label)


def broken(name: str, error: WorkbenchError, label: str, command: str = "", *, there: bool = False) -> CheckResult:
    """The result of a check that failed."""
    # Whoever reads the results knows which machine they are about.
    message = error.message.removeprefix(f"{label}: ")
    return CheckResult(name, BROKEN, message, error.remedy, command, there, error)
