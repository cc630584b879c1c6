"""The conformance harness of targets of type slurm, on a real cluster."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.machines import USERS
from tests.targets.docker_fixtures import Follower, files_of
from tests.targets.harness import PYTHON, Harness, Script
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, HostProcess, LocalHost, LocalProcess
from tui_workbench.targets.slurm.slurm_target import SlurmTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.base.protocol import Target
    from tui_workbench.targets.ssh.ssh_host import SshHost

PYTHON_THERE = "/usr/bin/python3"


class SlurmHarness(Harness):
    """Jobs of a cluster, submitted over SSH."""

    inherits_environment = False

    def __init__(self, folder: Path, cluster: SlurmCluster, host: SshHost | None = None) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.host = host
        self._followers: dict[str, Follower] = {}

    def target(self) -> Target:
        return SlurmTarget(self.compute_target(), self.host)

    def compute_target(self) -> ComputeTarget:
        return ComputeTarget(
            name="cluster",
            path=str(self.folder / "project" / "aml_config" / "cluster.compute"),
            type="slurm",
            address=self.cluster.login.address,
            username="research",
            python_location=PYTHON_THERE,
            run_root=str(self.cluster.run_root),
            slurm={"partition": "gpu"},
        )

    def write(self, path: Path, script: Script) -> None:
        path.write_text(PYTHON.format(script=tuple(script)))

    def start(self, spec: RunSpec) -> None:
        target = self.target()
        plan = target.plan(spec)
        target.prepare(spec, plan, lambda: files_of(Path(spec.working_directory)))
        target.start(spec, plan, {})

    def directory(self, spec: RunSpec) -> Path:
        """Return the run's directory on the cluster, which this machine shares."""
        return self.cluster.run_root / "runs" / spec.run_id

    def lose(self, spec: RunSpec) -> None:
        """Kill the batch script before it writes the exit code."""
        until(lambda: (self.directory(spec) / "pid").exists(), "the start of the job")
        for node in self.cluster.nodes.values():
            for pid in node.processes("slurm_script"):
                os.kill(pid, signal.SIGKILL)

    def until_written(self, spec: RunSpec, text: str) -> None:
        """Wait for the text while the run is followed as by its controller."""
        if spec.run_id not in self._followers:
            self._followers[spec.run_id] = Follower(self.target(), spec)
        super().until_written(spec, text)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        super().close()


class LoginNode(LocalHost):
    """The login node, seen by a workbench that runs on it as the user research."""

    def __init__(self, cluster: SlurmCluster) -> None:
        self._enter = ["nsenter", "-t", str(cluster.login.pid), "--net", "--mount", "--uts", "--pid", "--", "setpriv"]
        self._enter += [f"--reuid={USERS['research']}", f"--regid={USERS['research']}", "--init-groups"]
        self._enter += ["env", "HOME=/home/research"]

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return LocalProcess([*self._enter, *argv])


class LocalSlurmHarness(SlurmHarness):
    """Jobs of a cluster whose sbatch is on the machine of the workbench."""

    def target(self) -> Target:
        return SlurmTarget(self.compute_target(), LoginNode(self.cluster))

    def compute_target(self) -> ComputeTarget:
        return super().compute_target()._replace(address="", username="")


@pytest.fixture
def localslurm_harness(tmp_path: Path, slurm: SlurmCluster) -> Harness:
    return LocalSlurmHarness(tmp_path, slurm)


@pytest.fixture
def slurm_harness(tmp_path: Path, slurm: SlurmCluster, slurm_host: SshHost) -> Harness:
    return SlurmHarness(tmp_path, slurm, slurm_host)
