"""A project on a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.targets.slurm.project import SlurmProject
from tests.targets.slurm_fixtures import login_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost


@pytest.fixture
def project(tmp_path: Path, slurm: SlurmCluster, slurm_host: SshHost) -> Iterator[SlurmProject]:
    workbench = SlurmProject(tmp_path / "project", slurm)
    yield workbench
    workbench.cancel_active()


@pytest.fixture
def each_project(
    tmp_path: Path, each_slurm: SlurmCluster, home: Path, connections: Path, key: Path
) -> Iterator[SlurmProject]:
    """A project on a cluster of each version of Slurm."""
    login_of(each_slurm, home, key)
    workbench = SlurmProject(tmp_path / "project", each_slurm)
    yield workbench
    workbench.cancel_active()
