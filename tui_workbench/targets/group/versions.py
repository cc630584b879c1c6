"""The versions of Python and PyTorch on the members of a group, which should be equal."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tui_workbench.core.waiting import at_once
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE

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


def describe_versions(found: Mapping[str, str]) -> str:
    """Describe the result of `versions_of` in one line."""
    return "; ".join(f"{name} has {versions}" for name, versions in found.items())
