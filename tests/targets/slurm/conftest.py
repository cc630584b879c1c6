"""A project on a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.slurm.project import SlurmProject
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost


@pytest.fixture
def project(tmp_path: Path, slurm: SlurmCluster, slurm_host: SshHost) -> Iterator[SlurmProject]:
    workbench = SlurmProject(tmp_path / "project", slurm)
    yield workbench
    for run in Runs(Project.find(str(workbench.folder))).list():
        if run.is_active:
            workbench.run("experiment", "cancel", "--run", run.run_id)
