"""The conformance harness of targets of type remote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.targets.docker_fixtures import Follower, files_of
from tests.targets.harness import PYTHON, Harness, Script
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.remote.remote_target import RemoteTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine
    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.base.protocol import Target
    from tui_workbench.targets.ssh.ssh_host import SshHost

PYTHON_THERE = "/usr/bin/python3"


class RemoteHarness(Harness):
    """Runs of the other machine's Python, over SSH."""

    inherits_environment = False

    def __init__(self, folder: Path, machine: Machine, host: SshHost) -> None:
        super().__init__(folder)
        self.machine = machine
        self.host = host
        self._followers: dict[str, Follower] = {}

    def target(self) -> Target:
        return RemoteTarget(self.compute_target(), self.host)

    def compute_target(self) -> ComputeTarget:
        return ComputeTarget(
            name="remote",
            path=str(self.folder / "project" / "aml_config" / "remote.compute"),
            type="remote",
            address=self.machine.address,
            python_location=PYTHON_THERE,
        )

    def write(self, path: Path, script: Script) -> None:
        path.write_text(PYTHON.format(script=tuple(script)))

    def start(self, spec: RunSpec) -> None:
        target = self.target()
        assert isinstance(target, RemoteTarget)
        plan = target.plan(spec)
        target.prepare(spec, plan, lambda: files_of(Path(spec.working_directory)))
        target.start(spec, plan, {})

    def directory(self, spec: RunSpec) -> Path:
        """Return the run's directory on the other machine, as a path on this machine."""
        return self.machine.home() / ".workbench-tui" / "runs" / spec.run_id

    def lose(self, spec: RunSpec) -> None:
        """Kill the supervising shell and the script."""
        shell = until(lambda: supervisor.read_supervisor(str(self.directory(spec))), "the supervisor")
        self.machine.run(["kill", "-KILL", str(shell.pid)])
        self.target().stop(spec, grace=0)

    def until_written(self, spec: RunSpec, text: str) -> None:
        """Wait for the text while a thread follows the run like a controller."""
        if spec.run_id not in self._followers:
            self._followers[spec.run_id] = Follower(self.target(), spec)
        super().until_written(spec, text)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        super().close()


@pytest.fixture
def remote_harness(tmp_path: Path, gpubox: Machine, host: SshHost) -> Iterator[Harness]:
    yield RemoteHarness(tmp_path, gpubox, host)
    shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)
