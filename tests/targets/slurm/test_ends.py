"""Runs that Slurm ends on a real cluster: the state of the job as a plain reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import WAITS, until
from tests.targets.slurm.project import SlurmProject
from tui_workbench.runs.store.cluster_job import read_job

if TYPE_CHECKING:
    from collections.abc import Callable
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
    assert ended(project, run_id) == "it used more memory than it requested: increase `slurm.mem` (OUT_OF_MEMORY)"
    assert project.log(run_id) == "began\n"


SAVES = "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit({code}))\n"
"""The beginning of a script that saves its state on SIGTERM and exits with its own code."""


def cancel(project: SlurmProject) -> None:
    project.cluster.output(["scancel", project.job])


def end_time(project: SlurmProject) -> None:
    project.cluster.end_time_limit(project.job)


CANCELED, TIME_IS_OVER = "it was canceled in Slurm (CANCELLED)", "it reached its time limit (TIMEOUT)"


@pytest.mark.parametrize("retry", [{}, {"Retry": {"on": ["lost"]}}], ids=["without Retry", "with Retry"])
@pytest.mark.parametrize(("end", "reason"), [(cancel, CANCELED), (end_time, TIME_IS_OVER)])
def test_reason_does_not_depend_on_the_exit_code_of_the_script(
    project: SlurmProject, end: Callable[[SlurmProject], None], reason: str, retry: dict[str, Any]
) -> None:
    project.configure(**retry)
    project.write(SAVES.format(code=3) + WAITS)
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    end(project)
    assert ended(project, run_id) == f"{reason}; exit code 3"


def test_script_that_saved_and_ended_with_0_names_the_cancellation(project: SlurmProject) -> None:
    project.write(SAVES.format(code=0) + WAITS)
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    cancel(project)
    project.until_status(run_id, "Completed")
    assert project.info(run_id)["reason"] == CANCELED


def test_early_signal_is_the_reason_for_any_exit_code(project: SlurmProject) -> None:
    project.write(
        f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('signaled', flush=True))\n{WAITS}os._exit(3)\n"
    )
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    project.cluster.manage("update", f"job={project.job}", "timelimit=2")
    until(lambda: "signaled" in project.log(run_id), "SIGTERM")
    directory = str(project.run_directory(run_id))
    until(lambda: 0 < read_job(directory).warning < time.time(), "an answer of squeue with the new limit")
    project.gate.touch()
    reason = ended(project, run_id)
    assert reason.startswith("Slurm sent SIGTERM because the job was close to its time limit")
    assert reason.endswith("exit code 3")


def test_setup_that_ends_the_shell_is_the_reason(project: SlurmProject) -> None:
    project.configure({"setup": ["export FOO=1; exit 0"]})
    project.write("print('never')")
    run_id = project.detach("train.py", configuration="cluster")
    assert ended(project, run_id) == "setup ended the job: export FOO=1; exit 0"
