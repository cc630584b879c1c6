"""The Python environment of a run: its interpreter, its frameworks and its packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base import machine_info
from tui_workbench.targets.base.values import Report
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import FrameworkLocation, Interpreter, variables_of
from tui_workbench.targets.hosts.host import Host


class PythonEnvironment:
    """The Python environment of a run: by default, an interpreter that exists on the machine of the target.

    Subclasses override methods for other environments, such as images.
    """

    def __init__(self, host: Host, spec: RunSpec) -> None:
        self.host = host
        self.spec = spec

    def interpreter(self) -> str:
        """Return the path of the interpreter on its machine. Raises ConfigurationError or TargetUnreachable."""
        return self.spec.target.python_location

    def command(self, arguments: Sequence[str], path: str = "") -> list[str]:
        """Return a command that starts this Python with the network of its machine. A non-empty `path` is PYTHONPATH.

        Raises the errors of `framework_location`.
        """
        return [*(("env", f"PYTHONPATH={path}") if path else ()), self.interpreter(), *arguments]

    def framework_location(self) -> FrameworkLocation:
        """Return the location of the frameworks.

        Raises EnvironmentMissing, the errors of `interpreter`, or another WorkbenchError.
        """
        visible = choice.named_variables(self.host, self.spec)
        return Interpreter(self.host, self.interpreter(), variables_of(self.spec, visible))

    def machine_info(self, planned: str) -> dict[str, Any]:
        """Return facts about the machine and the packages. Raises WorkbenchError.

        `planned` is the interpreter of the run's plan.
        """
        return machine_info.interpreter_info(self.host, self.spec, planned)

    def prepare(self, report: Report) -> str:
        """Build the environment if it is missing, and return its name. Only for targets that build environments.

        Raises Interrupted or WorkbenchError.
        """
        raise NotImplementedError
