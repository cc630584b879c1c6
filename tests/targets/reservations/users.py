"""Two real users of this machine, who share a folder of reservations. Only root can start programs as other users."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, require
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, HostProcess, LocalHost, LocalProcess

GROUP = 65432
"""A group without a name, of which both users are members."""

NEEDS_ROOT = "only root can start programs as other users"


def words_for(name: str, *, in_group: bool = True) -> tuple[str, ...]:
    """Return the words before a command that execute it as this user."""
    groups = f"--groups={GROUP}" if in_group else "--clear-groups"
    return require("setpriv"), f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", groups


def interpreter_for(name: str) -> tuple[str, dict[str, str]]:
    """Return an interpreter that a user can execute, and the variables with which it finds the workbench.

    That of the tests may be in a private folder. Then the test uses the interpreter of the system, if it has the same
    version, and otherwise is skipped.
    """
    packages = os.pathsep.join((str(REPOSITORY), sysconfig.get_path("purelib")))
    for path, variables in ((sys.executable, {}), ("/usr/bin/python3", {"PYTHONPATH": packages})):
        # The shell needs the permissions of the user to execute the interpreter; setpriv still has those of root.
        words = (*words_for(name), "sh", "-c", '"$@"', "sh", path, "-c", "import sys; print(sys.version_info[:2])")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.stdout.strip() == str(sys.version_info[:2]):
            return path, variables
    pytest.skip("other users can execute no interpreter of this version")


class UserHost(LocalHost):
    """This machine, on which programs are started as another user who is in GROUP, or is not."""

    def __init__(self, name: str, folder: Path, *, in_group: bool = True) -> None:
        self.name = name
        self.runs = folder / name
        self._words = words_for(name, in_group=in_group)
        self.runs.mkdir(mode=0o700)
        os.chown(self.runs, pwd.getpwnam(name).pw_uid, -1)

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return LocalProcess((*self._words, *argv))

    def spec(self, reservations: Path, gpus: str = "free", number: int = 1) -> RunSpec:
        """Return a run of this user with the directory of the run, which only this user can read."""
        directory = self.runs / f"project_{number}"
        directory.mkdir(exist_ok=True)
        target = ComputeTarget("here", "", "local", gpus=gpus, gpu_reservations=str(reservations))
        configuration = RunConfiguration("here", "", "here", framework="Python")
        folder = str(self.runs)
        return RunSpec(directory.name, str(directory), folder, "project", folder, "train.py", (), configuration, target)


def shared_folder(path: Path) -> Path:
    """Create a folder as the documentation says, for GROUP."""
    path.mkdir()
    os.chown(path, 0, GROUP)
    path.chmod(0o3770)
    return path
