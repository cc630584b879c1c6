"""Sweeps on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import WAITS, until
from tests.targets.slurm.project import SlurmProject
from tests.targets.slurm.test_slurm_faults import AFTER, held, kill_links

REFUSES_ARRAYS = """\
case $* in
    *--array*) echo 'sbatch: error: Batch job submission failed: Invalid job array specification' >&2; exit 1 ;;
esac
exec "$ORIGINAL" "$@"
"""


def jobs(project: SlurmProject, form: str = "%j") -> list[str]:
    """Return the active jobs by name, or in another format."""
    return sorted(project.cluster.output(["squeue", "-h", "-o", form]).split())


def sweep(project: SlurmProject, then: str = "print(sys.argv[2:])") -> list[str]:
    """Start three runs that wait for the gate, of which two may be active, and return their IDs in order."""
    project.write(f"{WAITS}{then}")
    words = ("--param", "lr=1,2,3", "--max-parallel", "2", "--detach", "train.py", str(project.gate))
    assert project.run("experiment", "sweep", "-c", "cluster", *words).code == 0
    runs = until(lambda: len(found := project.history()) == 3 and found)
    return sorted(run["run_id"] for run in runs)


def until_began(project: SlurmProject, ids: list[str]) -> None:
    until(lambda: all("began" in project.log(run_id) for run_id in ids), f"the start of {ids}")


def arrays(project: SlurmProject) -> list[Path]:
    """Return the folders of arrays on the cluster."""
    return list((project.cluster.run_root / "arrays").iterdir())


def test_sweep_is_one_array(project: SlurmProject) -> None:
    ids = sweep(project)
    names = [f"wb-{run_id}" for run_id in ids]
    until(lambda: jobs(project) == names, "three jobs")
    assert len(set(jobs(project, "%F"))) == 1
    until_began(project, ids[:2])
    assert jobs(project, "%j|%T")[2] == f"{names[2]}|PENDING"
    assert project.status(ids[2]) == "Queued"
    # One task is canceled alone, and Slurm starts the next one by itself.
    assert project.run("experiment", "cancel", "--run", ids[0]).code == 0
    until_began(project, ids[2:])
    project.gate.touch()
    for run_id in ids[1:]:
        project.until_status(run_id, "Completed")
    assert project.status(ids[0]) == "Canceled"
    assert [project.log(run_id) for run_id in ids[1:]] == [f"began\n['--lr', '{value}']\n" for value in (2, 3)]
    until(lambda: arrays(project) == [], "the end of the array")


def test_cancel_spares_the_other_tasks_of_an_array(each_project: SlurmProject) -> None:
    ids = sweep(each_project)
    until(lambda: jobs(each_project) == [f"wb-{run_id}" for run_id in ids], "three jobs")
    by_job = dict(job.split("|wb-") for job in jobs(each_project, "%A|%j"))
    (array,) = set(jobs(each_project, "%F"))
    canceled = by_job.pop(array)  # the last task has the job ID of the array
    assert each_project.run("experiment", "cancel", "--run", canceled).code == 0
    assert each_project.status(canceled) == "Canceled"
    each_project.gate.touch()
    for run_id in by_job.values():
        each_project.until_status(run_id, "Completed")


def test_runs_of_an_array_have_separate_ends_and_files(project: SlurmProject) -> None:
    ids = sweep(project, "open('outputs/lr', 'w').write(sys.argv[3]); sys.exit(int(sys.argv[3]) - 1)")
    project.gate.touch()
    until(lambda: all(project.status(run_id) in ("Completed", "Failed") for run_id in ids), "the ends")
    records: list[dict[str, Any]] = [project.info(run_id) for run_id in ids]
    assert [record["exit_code"] for record in records] == [0, 1, 2]
    outputs = (project.folder / ".workbench" / "runs" / run_id / "outputs" / "lr" for run_id in ids)
    assert [path.read_text() for path in outputs] == ["1", "2", "3"]


def test_array_is_submitted_once(project: SlurmProject, connections: Path) -> None:
    with held(project, "/usr/bin/sbatch", AFTER) as release:
        ids = sweep(project)
        until((project.cluster.scratch / "held").exists, "sbatch")
        kill_links(project, connections)
        release()
        until(lambda: sum("began" in project.log(run_id) for run_id in ids) == 2, "the start of two runs")
    assert (project.cluster.scratch / "held").read_text() == "\n"
    assert len(set(jobs(project, "%F"))) == 1
    project.gate.touch()
    for run_id in ids:
        project.until_status(run_id, "Completed")


def test_runs_are_single_jobs_if_the_cluster_refuses_arrays(project: SlurmProject) -> None:
    with project.cluster.login.replaced("/usr/bin/sbatch", REFUSES_ARRAYS):
        ids = sweep(project)
        until_began(project, ids[:2])
        assert jobs(project) == [f"wb-{run_id}" for run_id in ids[:2]]
        assert "of its sweep" in project.info(ids[2])["reason"]
        project.gate.touch()
        for run_id in ids:
            project.until_status(run_id, "Completed")
    assert arrays(project) == []


def test_held_runs_are_single_jobs(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    ids = sweep(project)
    until(lambda: jobs(project, "%j|%r") == [f"wb-{run_id}|JobHeldUser" for run_id in ids[:2]], "two jobs")


DIGITS = 'echo \'100000 SUs left in project ml-lab\'; exec "$ORIGINAL" "$@"'
BANNER_AND_NAME = 'echo \'site policy: job renamed\'; "$ORIGINAL" "$@" --job-name=eng_$$ >/dev/null'
"""Wrappers of sbatch, as some sites have them."""


@pytest.mark.parametrize("wrapper", [DIGITS, BANNER_AND_NAME])
def test_jobs_of_a_site_with_its_own_sbatch_are_found(project: SlurmProject, wrapper: str) -> None:
    with project.cluster.login.replaced("/usr/bin/sbatch", wrapper):
        ids = sweep(project)
        until_began(project, ids[:2])
        run_id = project.begin()
        assert len(jobs(project, "%A")) == 4
        assert project.run("experiment", "cancel", "--run", ids[2]).code == 0
        assert len(jobs(project, "%A")) == 3
        project.gate.touch()
        for each in (run_id, *ids[:2]):
            project.until_status(each, "Completed")
    until(lambda: not jobs(project), "an empty queue")
    until(lambda: arrays(project) == [], "the end of the array")
