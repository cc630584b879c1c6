"""Checks that compare the members of a group."""

from __future__ import annotations

import secrets

from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import CLOCK, HOMES, NETWORK, OK, PYTHON, WARNING, CheckFailed, CheckResult
from tui_workbench.targets.group.connecting import (
    PYTHON_SECONDS,
    clock_warning,
    clocks_of,
    python_words,
    require_connections,
)
from tui_workbench.targets.group.own_folders import owner_of_folder, require_own_folders
from tui_workbench.targets.group.rendezvous import find_place, port_of
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.hosts.host_layout import HostLayout

_VERSIONS = """\
import sys
from importlib import metadata
try:
    torch = metadata.version("torch")
except Exception:
    torch = ""
print("%d.%d" % sys.version_info[:2], torch)
"""
"""Prints the versions of Python and PyTorch, with the local version of a build, such as 2.7.1+cu126."""

CLOCK_REMEDY = "Synchronize the clocks with NTP. torchrun gives up members whose clocks differ by 15 seconds."


class GroupChecks:
    """Checks of a group whose members have passed their own checks."""

    def __init__(self, target: ComputeTarget) -> None:
        self._target = target

    def homes(self) -> CheckResult:
        """Check that the members have different home folders. Raises WorkbenchError."""
        run_id = f"check-{secrets.token_hex(8)}"  # `experiment clean` removes the folder after a lost connection
        hosts = {part.name: host_of(part) for part in self._target.parts}
        try:
            require_own_folders(
                self._target, {name: owner_of_folder(host, run_id, name) for name, host in hosts.items()}
            )
        finally:
            for host in hosts.values():
                host.run(["rm", "-rf", "--", HostLayout(host.home()).run(run_id)])
        return CheckResult(HOMES, OK, "each member has its own home folder")

    def python(self) -> CheckResult:
        """Check that all members have the same versions of Python and PyTorch. Raises WorkbenchError."""
        found = {}
        for part in self._target.parts:
            done = host_of(part).check(python_words(part, "-c", _VERSIONS), timeout=PYTHON_SECONDS)
            version, _, torch = done.text.strip().partition(" ")
            found[part.name] = f"Python {version} and {f'PyTorch {torch}' if torch else 'no PyTorch'}"
        if len(set(found.values())) > 1:
            raise CheckFailed(
                "; ".join(f"{name} has {versions}" for name, versions in found.items()),
                "Install the same versions on all members, or correct their pythonLocation.",
                file=self._target.path,
            )
        versions = next(iter(found.values()))
        if versions.endswith("no PyTorch"):
            remedy = "Runs start torchrun: install PyTorch on all members, or add it to the PYTHONPATH of the runs."
            return CheckResult(PYTHON, WARNING, f"all members have {versions}", remedy)
        return CheckResult(PYTHON, OK, f"all members have {versions}")

    def network(self) -> CheckResult:
        """Check that all other members can connect to the first, as torchrun does. Raises WorkbenchError."""
        places = {part.name: find_place(self._target, part.name, host_of(part)) for part in self._target.parts}
        require_connections(self._target, places, port_of(secrets.token_hex(8)))
        texts = (f"{name} has {place.address} ({place.interface or 'SSH'})" for name, place in places.items())
        return CheckResult(NETWORK, OK, "; ".join(texts))

    def clocks(self) -> CheckResult:
        """Compare the clocks of the members. Raises WorkbenchError."""
        if warning := clock_warning(clocks_of(self._target)):
            return CheckResult(CLOCK, WARNING, warning, CLOCK_REMEDY)
        return CheckResult(CLOCK, OK, "the clocks of the members agree")
