"""Runs on a real cluster that the workbench starts again: `Retry` and `experiment resume --run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.support import kill_controller, until
from tests.runs.lifecycle.test_retrying import CHECKPOINT
from tests.runs.lifecycle.test_starting_again import resume_until_completed
from tests.targets.slurm.test_requeue import later_attempts, preempt
from tests.targets.slurm.test_slurm_faults import AFTER, held
from tui_workbench.runs.store.rundir import LIMIT, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.targets.slurm.project import SlurmProject

WAITS_ONCE = """\
import os, time
attempt = os.environ["WORKBENCH_ATTEMPT"]
print("attempt", attempt, os.environ.get("WORKBENCH_RESUME"), flush=True)
while attempt == "1":
    time.sleep(0.05)
"""
FAILS_ONCE = """\
import os, sys, time
attempt = os.environ["WORKBENCH_ATTEMPT"]
print("attempt", attempt, os.environ.get("WORKBENCH_RESUME"), flush=True)
if attempt == "1":
    sys.exit(3)
"""
ONCE_MORE = "attempt 1 None\nattempt 2 1\n"


def jobs(project: SlurmProject, run_id: str) -> list[str]:
    """Return what follows the ID of the run in the names of its jobs."""
    found = project.cluster.output(["squeue", "-h", "-t", "all", "-o", "%j", "-S", "i"]).split()
    return [name.removeprefix(f"wb-{run_id}") for name in found if name.startswith(f"wb-{run_id}")]


def attempts(project: SlurmProject, run_id: str) -> list[tuple[int, int, str]]:
    return later_attempts(RunDirectory(str(project.run_directory(run_id))))


def begin(project: SlurmProject, then: str = "") -> str:
    """Start WAITS_ONCE, and return the ID of the run when its first attempt waits."""
    project.write(f"{WAITS_ONCE}{then}")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: "attempt 1" in project.log(run_id))
    return run_id


def test_failed_run_continues_from_its_checkpoint(project: SlurmProject) -> None:
    project.configure(Retry={"times": 2, "delay": 0})
    project.write(CHECKPOINT)
    result = project.submit("train.py", configuration="cluster")
    assert result.code == 0, result
    (record,) = project.history()
    run_id = record["run_id"]
    assert project.log(run_id) == "attempt 1 fresh\nattempt 2 1\nattempt 3 1\n"
    assert (project.run_directory(run_id) / "outputs" / "checkpoint").read_text() == "123"
    assert jobs(project, run_id) == ["", ".2", ".3"]
    listed = project.info(run_id)["attempts"]
    assert [(each["number"], each["status"], each["exit_code"]) for each in listed] == [
        (1, "Failed", 3),
        (2, "Failed", 3),
        (3, "Completed", 0),
    ]


def end_time_limit(project: SlurmProject) -> None:
    project.cluster.end_time_limit(project.job)


def mark_node_down(project: SlurmProject) -> None:
    """Let slurmctld consider the node failed, although the script still runs there."""
    project.cluster.mark_down(project.node)


@pytest.mark.parametrize(
    ("end", "cause", "words"),
    [
        (end_time_limit, "timeout", "(TIMEOUT)"),
        (mark_node_down, "lost", "(NODE_FAIL)"),
        (preempt, "preempted", "(PREEMPTED)"),
    ],
)
def test_job_that_slurm_ended_starts_again(
    project: SlurmProject, end: Callable[[SlurmProject], object], cause: str, words: str
) -> None:
    project.configure({"slurm": {"partition": "scavenge"}}, Retry={"on": [cause], "delay": 0})
    run_id = begin(project)
    end(project)
    project.until_status(run_id, "Completed")
    assert project.log(run_id) == ONCE_MORE
    ((number, _, reason),) = attempts(project, run_id)
    assert (number, words in reason) == (2, True)


def test_attempt_that_reached_its_longest_duration_starts_again(project: SlurmProject) -> None:
    """The event is written here, because the shortest limit is a minute. A new watcher finds it."""
    project.configure(Retry={"on": ["timeout"], "delay": 0})
    run_id = begin(project)
    directory = project.run_directory(run_id)
    kill_controller(directory)
    RunDirectory(str(directory)).append_event(LIMIT, reason="MaxDurationMinutes: ended after 1 min", reached=True)
    assert project.run("experiment", "resume").code == 0
    project.until_status(run_id, "Completed")
    assert project.log(run_id) == ONCE_MORE
    assert attempts(project, run_id) == [(2, len("attempt 1 None\n"), "MaxDurationMinutes: ended after 1 min")]


def test_job_canceled_in_slurm_does_not_start_again(project: SlurmProject) -> None:
    project.configure(Retry={"on": ["failed", "lost", "timeout", "oom", "preempted"], "delay": 0})
    run_id = begin(project)
    project.cluster.output(["scancel", "--user", "research"])
    project.until_status(run_id, "Failed")
    assert jobs(project, run_id) == [""]


def test_attempts_of_slurm_and_the_workbench_have_one_numbering(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}}, Retry={"times": 1, "delay": 0})
    run_id = begin(project, "raise SystemExit(3)")
    project.cluster.manage("requeue", project.job)
    project.until_status(run_id, "Failed")
    assert project.log(run_id) == "attempt 1 None\nattempt 2 1\nattempt 3 1\n"
    assert [number for number, *_ in attempts(project, run_id)] == [2, 3]
    assert project.info(run_id)["reason"] == "attempt 3: exit code 3"
    assert jobs(project, run_id) == ["", ".3"]


def test_ended_run_is_started_again_by_its_user(project: SlurmProject) -> None:
    """Its files were removed from the cluster after they were fetched, and are sent again."""
    run_id = resume_until_completed(project, "cluster")
    assert jobs(project, run_id) == ["", ".2", ".3"]


def test_next_job_is_submitted_once(project: SlurmProject) -> None:
    """The watcher is killed while it waits for the next attempt, and again while it submits the job."""
    project.configure(Retry={"delay": 5})
    project.write(FAILS_ONCE)
    run_id = project.detach("train.py", configuration="cluster")
    directory = project.run_directory(run_id)
    until(lambda: (project.info(run_id)["reason"] or "").startswith("attempt 2 at "), "the wait for the attempt")
    kill_controller(directory)
    with held(project, "/usr/bin/sbatch", AFTER) as release:
        assert project.run("experiment", "resume").code == 0
        until((project.cluster.scratch / "held").exists, "the submission")
        kill_controller(directory)
        assert project.run("experiment", "resume").code == 0
        release()
        project.until_status(run_id, "Completed")
    assert project.log(run_id) == ONCE_MORE
    assert jobs(project, run_id) == ["", ".2"]


@pytest.mark.parametrize(("delay", "state"), [(600, "Queued"), (0, "Running")])
def test_cancel_before_and_in_the_second_attempt(project: SlurmProject, delay: int, state: str) -> None:
    project.configure(Retry={"delay": delay})
    project.write(FAILS_ONCE + "time.sleep(600)")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: attempts(project, run_id), "the second attempt")
    project.until_status(run_id, state)
    later = project.detach("--after", f"{run_id}:failed", "train.py", configuration="cluster")
    assert project.run("experiment", "cancel", "--yes", "--run", run_id).code == 0
    assert project.status(run_id) == "Canceled"
    project.until_status(later, "Canceled")  # it would have started if the first attempt had counted as the end
    assert project.job == ""
    assert jobs(project, run_id) == ["", ".2"][: 1 if delay else 2]


def test_member_of_a_sweep_starts_again_as_a_single_job(project: SlurmProject) -> None:
    project.configure(Retry={"delay": 0})
    project.write(FAILS_ONCE.replace("attempt ==", "sys.argv[2] + attempt == '1' +"))
    words = ("--param", "lr=1,2", "--detach", "train.py")
    assert project.run("experiment", "sweep", "-c", "cluster", *words).code == 0
    runs = until(lambda: len(found := project.history()) == 2 and found)
    for run in runs:
        project.until_status(run["run_id"], "Completed")
    first, second = sorted(run["run_id"] for run in runs)
    assert (jobs(project, first), jobs(project, second)) == (["", ".2"], [""])
    until(lambda: list((project.cluster.run_root / "arrays").iterdir()) == [], "the end of the array")
