"""Compare the members of a group: their home folders, their versions of Python and PyTorch, and their clocks.

Members with the same home folder, such as two names of one machine, are refused: the parts of a run need separate
folders. Different versions and clocks are reported.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.waiting import at_once
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.run_times import Clock, clock_of
from tui_workbench.targets.ssh.host_for import host_of

CLOCK_SECONDS = 5.0
"""Smallest difference between two clocks that is reported, in seconds.

torchrun compares the clocks of its nodes, and drops a node whose clock is 15 seconds behind (`keep_alive_interval`
times `keep_alive_max_attempt` of its rendezvous).
"""

PYTHON_SECONDS = 60.0
"""Time limit of the start of an interpreter, in seconds."""

NO_TORCH = "no PyTorch"

_VERSIONS = """\
import sys
from importlib import metadata
try:
    torch = metadata.version("torch")
except Exception:
    torch = ""
print("%d.%d" % sys.version_info[:2], torch)
"""
"""A program that prints the versions of Python and PyTorch, with the local version of a build, such as 2.7.1+cu126."""

_OWNER = shell_script("targets/group/scripts/own_folder.sh")


def owner_of_folder(host: Host, run_id: str, member: str) -> str:
    """Return the name of the member that owns the run's folder on a host.

    If the folder has no owner yet, `member` becomes its owner. Raises WorkbenchError.
    """
    # The owner is the text of a symbolic link: only one of several members that create it at once succeeds.
    return host.check(["sh", "-c", _OWNER, "sh", HostLayout(host.home()).run(run_id), member]).text.strip()


def require_own_folders(group: ComputeTarget, owners: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the folder of a member belongs to another member.

    `owners` maps each member to the owner of its folder.
    """
    for name, owner in owners.items():
        if name != owner:
            raise ConfigurationError(
                f"members {owner} and {name} have the same home folder",
                remedy="Remove one of them from `members`. Each member needs its own home folder.",
                file=group.path,
                line=line_of_key(group.path, "members"),
            )


def versions_of(members: Mapping[str, PythonEnvironment]) -> dict[str, str]:
    """Return the versions on each member, such as `Python 3.12 and PyTorch 2.7.1`.

    Raises EnvironmentMissing, TargetUnreachable or another WorkbenchError.
    """
    return at_once({name: functools.partial(_versions_in, member) for name, member in members.items()})


def _versions_in(environment: PythonEnvironment) -> str:
    path = environment.spec.run_configuration.environment_variables.get(PYTHON_PATH_VARIABLE, "")
    done = environment.host.check(environment.command(["-c", _VERSIONS], path), timeout=PYTHON_SECONDS)
    version, _, torch = done.text.strip().partition(" ")
    return f"Python {version} and {f'PyTorch {torch}' if torch else NO_TORCH}"


def describe_versions(versions_by_member: Mapping[str, str]) -> str:
    """Describe the result of `versions_of` in one line."""
    return "; ".join(f"{name} has {versions}" for name, versions in versions_by_member.items())


def clocks_of(group: ComputeTarget) -> dict[str, Clock]:
    """Read the clocks of the members. Raises TargetUnreachable or WorkbenchError."""
    return {part.name: clock_of(host_of(part)) for part in group.parts}


def clock_warning(clocks: Mapping[str, Clock]) -> str:
    """Return a warning if the clocks of two members differ by CLOCK_SECONDS or more, otherwise ""."""
    ahead = max(clocks, key=lambda name: clocks[name].least)
    behind = min(clocks, key=lambda name: clocks[name].most)
    seconds = clocks[ahead].least - clocks[behind].most
    if seconds < CLOCK_SECONDS:
        return ""
    return f"the clock of member {ahead} is at least {int(seconds)} s ahead of the clock of member {behind}"
