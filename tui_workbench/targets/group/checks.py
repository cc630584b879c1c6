"""Checks that compare the members of a group."""

from __future__ import annotations

from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import NETWORK, OK, PYTHON, CheckFailed, CheckResult
from tui_workbench.targets.group.meeting import find_place
from tui_workbench.targets.hosts.host_for import host_of

_VERSIONS = """\
import sys
from importlib import metadata
try:
    torch = metadata.version("torch")
except Exception:
    torch = ""
print("%d.%d" % sys.version_info[:2], torch)
"""
"""The version of a local build, such as 2.7.1+cu126, counts."""

# $1: the interpreter, $2: the script.
_PYTHON = 'case $1 in "~/"*) set -- "$HOME/${1#??}" "$2" ;; esac; exec "$1" -c "$2"'

PYTHON_SECONDS = 60.0


class GroupChecks:
    """Checks of a group whose members have passed their own checks."""

    def __init__(self, target: ComputeTarget) -> None:
        self._target = target

    def python(self) -> CheckResult:
        """Check that all members have the same versions of Python and PyTorch. Raises WorkbenchError."""
        found = {}
        for part in self._target.parts:
            command = ["sh", "-c", _PYTHON, "sh", part.python_location, _VERSIONS]
            version, _, torch = host_of(part).check(command, timeout=PYTHON_SECONDS).text.strip().partition(" ")
            found[part.name] = f"Python {version} and {f'PyTorch {torch}' if torch else 'no PyTorch'}"
        if len(set(found.values())) > 1:
            raise CheckFailed(
                "; ".join(f"{name} has {versions}" for name, versions in found.items()),
                "Install the same versions on all members, or correct their pythonLocation.",
                file=self._target.path,
            )
        return CheckResult(PYTHON, OK, f"all members have {next(iter(found.values()))}")

    def network(self) -> CheckResult:
        """Find the addresses with which the members connect to each other. Raises WorkbenchError."""
        places = {part.name: find_place(self._target, part.name, host_of(part)) for part in self._target.parts}
        texts = (f"{name} has {place.address} ({place.interface or 'SSH'})" for name, place in places.items())
        return CheckResult(NETWORK, OK, "; ".join(texts))
