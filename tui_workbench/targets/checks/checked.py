"""What the checks use of a target. `targets.base.protocol.Target` provides it."""

from __future__ import annotations

from typing import Protocol

from tui_workbench.core.model import ComputeTarget, Problem, RunSpec
from tui_workbench.targets.gpu.framework_location import FrameworkLocation
from tui_workbench.targets.hosts.host import Host


class CheckedEnvironment(Protocol):
    """The Python environment of runs."""

    def interpreter(self) -> str:
        """Return the path of the interpreter on the machine. Raises WorkbenchError."""

    def framework_location(self) -> FrameworkLocation:
        """Return where the frameworks are looked for. Raises EnvironmentMissing or another WorkbenchError."""


class CheckedTarget(Protocol):
    """A target that is checked."""

    target: ComputeTarget
    host: Host

    def check(self) -> list[Problem]:
        """Return the problems that prevent runs, each with its remedy."""

    def python_environment(self, spec: RunSpec) -> CheckedEnvironment:
        """Return the Python environment of a run. Contacts no other machine."""
