"""Two real users of this machine, who share a folder of reservations. Only root can start programs as other users."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import require
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, HostProcess, LocalHost, LocalProcess

GROUP = 65432
"""A group without a name, of which both users are members."""

NEEDS_ROOT = "only root can start programs as other users"


class UserHost(LocalHost):
    """This machine, on which programs are started as another user who is in GROUP, or is not."""

    def __init__(self, name: str, folder: Path, *, in_group: bool = True) -> None:
        self.name = name
        self.runs = folder / name
        self._words = (
            require("setpriv"),
            f"--reuid={name}",
            f"--regid={pwd.getpwnam(name).pw_gid}",
            f"--groups={GROUP}" if in_group else "--clear-groups",
        )
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
