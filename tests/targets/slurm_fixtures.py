"""Slurm clusters for the tests of targets."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.slurm_cluster import MEMORY_CGROUPS, SlurmCluster, newer_debian, slurm_cluster
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def session_slurm(key: Path) -> Iterator[SlurmCluster]:
    """One cluster without accounting for all tests of a session."""
    with slurm_cluster(key) as cluster:
        yield cluster


@pytest.fixture
def slurm(session_slurm: SlurmCluster) -> Iterator[SlurmCluster]:
    """Return the session's cluster, without jobs and with all nodes when the test begins and ends."""
    yield session_slurm
    session_slurm.clear()


@pytest.fixture(scope="session")
def session_slurm_accounting(key: Path) -> Iterator[SlurmCluster]:
    """One cluster with slurmdbd, and memory limits where the kernel has them, for all tests of a session."""
    with slurm_cluster(key, accounting=True, memory_limits=MEMORY_CGROUPS.is_dir()) as cluster:
        yield cluster


@pytest.fixture
def slurm_accounting(session_slurm_accounting: SlurmCluster) -> Iterator[SlurmCluster]:
    """Return the session's cluster with slurmdbd, without jobs and with all nodes when the test begins and ends."""
    yield session_slurm_accounting
    session_slurm_accounting.clear()


@pytest.fixture(scope="session")
def session_slurm_newer(key: Path) -> Iterator[SlurmCluster]:
    """One cluster of another Debian's Slurm, with slurmdbd, for all tests of a session."""
    with slurm_cluster(key, accounting=True, usr=newer_debian()) as cluster:
        yield cluster


@pytest.fixture
def slurm_newer(session_slurm_newer: SlurmCluster) -> Iterator[SlurmCluster]:
    """Return the session's cluster of a newer Slurm, without jobs and with all nodes when the test begins and ends."""
    yield session_slurm_newer
    session_slurm_newer.clear()


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slurm) for name in ("slurm", "slurm_newer")])
def each_slurm(request: pytest.FixtureRequest) -> SlurmCluster:
    """Each version: `slurm` (Debian 12: 22.05, without accounting) and `slurm_newer` (Debian 13: 24.11, with it)."""
    cluster: SlurmCluster = request.getfixturevalue(request.param)
    return cluster


@pytest.fixture
def slurm_host(slurm: SlurmCluster, home: Path, connections: Path, key: Path) -> SshHost:
    """Return the account of the user research on the login node of `slurm`, whose host key is known."""
    return login_of(slurm, home, key)


@pytest.fixture
def slurm_accounting_host(slurm_accounting: SlurmCluster, home: Path, connections: Path, key: Path) -> SshHost:
    """Return the account of the user research on the login node of `slurm_accounting`, whose host key is known."""
    return login_of(slurm_accounting, home, key)


def login_of(cluster: SlurmCluster, home: Path, key: Path) -> SshHost:
    """Put the key and the cluster's host key into `~/.ssh` and return the account of the user research."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(key, folder / "id_ed25519")
    shutil.copy(key.with_suffix(".pub"), folder / "id_ed25519.pub")
    with (folder / "known_hosts").open("a") as file:
        file.write(cluster.login.known_hosts_line)
    return SshHost(wire.Login("cluster", cluster.login.address, "research"))
