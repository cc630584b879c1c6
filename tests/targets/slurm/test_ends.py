"""Runs that Slurm ends on a real cluster: the state of the job as a plain reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.support import WAITS, until
from tests.targets.slurm.project import SlurmProject

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost


def ended(project: SlurmProject, run_id: str) -> str:
    """Wait until the run has failed, and return the reason."""
    project.until_status(run_id, "Failed")
    return str(project.info(run_id)["reason"])


def test_preemption_is_the_reason(each_project: SlurmProject) -> None:
    each_project.configure({"slurm": {"partition": "scavenge"}})
    run_id = each_project.begin()
    each_project.cluster.submit("sleep 600", "--partition=urgent", "--exclusive", "--nodes=2")
    assert "a job with a higher priority took its nodes (PREEMPTED)" in ended(each_project, run_id)
    assert each_project.log(run_id) == "began\n"


def test_preemption_is_the_reason_if_the_script_exits_by_itself(project: SlurmProject) -> None:
    """As torchrun does after SIGTERM."""
    project.configure({"slurm": {"partition": "scavenge"}})
    project.write(f"import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(1))\n{WAITS}")
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    project.cluster.submit("sleep 600", "--partition=urgent", "--exclusive", "--nodes=2")
    assert ended(project, run_id) == "a job with a higher priority took its nodes (PREEMPTED); exit code 1"


def test_memory_limit_is_the_reason(
    tmp_path: Path, slurm_accounting: SlurmCluster, slurm_accounting_host: SshHost
) -> None:
    if not slurm_accounting.memory_limits:
        pytest.skip("the kernel has no memory cgroups of version 1")
    project = SlurmProject(tmp_path / "project", slurm_accounting)
    project.configure({"slurm": {"partition": "gpu", "mem": "50M"}})
    project.write("print('began', flush=True)\nbytearray(400_000_000)\n")
    run_id = project.detach("train.py", configuration="cluster")
    assert ended(project, run_id) == "it used more memory than it requested: increase `mem` (OUT_OF_MEMORY)"
    assert project.log(run_id) == "began\n"
