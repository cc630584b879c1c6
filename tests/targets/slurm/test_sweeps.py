"""Sweeps on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.support import WAITS, until

if TYPE_CHECKING:
    from tests.targets.slurm.project import SlurmProject


def jobs(project: SlurmProject) -> list[str]:
    return sorted(project.cluster.output(["squeue", "-h", "-o", "%j"]).split())


def test_a_sweep_has_as_many_jobs_at_a_time_as_it_may(project: SlurmProject) -> None:
    project.write(f"{WAITS}print(sys.argv[2:])")
    words = ("--param", "lr=1,2,3", "--max-parallel", "2", "--detach", "train.py", str(project.gate))
    assert project.run("experiment", "sweep", "-c", "cluster", *words).code == 0
    first, second, third = sorted(
        until(lambda: len(runs := project.history()) == 3 and runs), key=lambda run: run["run_id"]
    )
    ids = [run["run_id"] for run in (first, second, third)]
    until(lambda: jobs(project) == [f"wb-{run_id}" for run_id in ids[:2]], "two jobs")
    until(lambda: all("began" in project.log(run_id) for run_id in ids[:2]))
    assert project.status(ids[2]) == "Queued"
    assert project.run("experiment", "cancel", "--run", ids[0]).code == 0
    until(lambda: jobs(project) == [f"wb-{run_id}" for run_id in ids[1:]], "the next job")
    project.gate.touch()
    for run_id in ids[1:]:
        project.until_status(run_id, "Completed")
    assert project.status(ids[0]) == "Canceled"
    assert [project.log(run_id) for run_id in ids[1:]] == [f"began\n['--lr', '{value}']\n" for value in (2, 3)]
