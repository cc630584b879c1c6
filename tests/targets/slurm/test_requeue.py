"""Jobs that Slurm starts again, on a real cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import WAITS, kill_controller, until
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.targets.slurm.project import SlurmProject


def later_attempts(directory: RunDirectory) -> list[tuple[int, int, str]]:
    return [(each.number, each.start, each.reason) for each in directory.attempts()]


def requeue(project: SlurmProject) -> str:
    project.cluster.manage("requeue", project.job)
    return "the job was requeued"


def until_waiting(project: SlurmProject, run_id: str) -> None:
    """Requeue the job and wait until its run waits again, which would otherwise end after ten seconds."""
    job = project.job
    requeue(project)
    project.cluster.manage("update", f"job={job}", "StartTime=now+1hour")
    until(lambda: "put back in the queue" in (project.info(run_id)["reason"] or ""), "the run to wait again")


def preempt(project: SlurmProject) -> str:
    urgent = project.cluster.submit("sleep 600", "--partition=urgent", "--exclusive", "--nodes=2")
    project.cluster.until_state(urgent, "RUNNING")
    project.cluster.output(["scancel", urgent])
    return "a job with a higher priority took its nodes"


def lose_node(project: SlurmProject) -> str:
    node = project.node
    project.cluster.lose(node)
    project.cluster.mark_down(node)
    return f"node {node} failed"


@pytest.mark.parametrize("interrupt", [requeue, preempt, lose_node])
def test_interrupted_job_continues_in_the_same_log(
    project: SlurmProject, interrupt: Callable[[SlurmProject], str]
) -> None:
    project.configure({"slurm": {"partition": "scavenge", "requeue": True}})
    run_id = project.begin("print('went on')")
    cause = interrupt(project)
    directory = RunDirectory(str(project.run_directory(run_id)))
    until(directory.attempts, "the second attempt")
    assert later_attempts(directory) == [(2, len("began\n"), cause)]
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\nbegan\nwent on\n"
    project.until_status(run_id, "Completed")
    assert (project.there(run_id) / "attempts" / "2" / "exit").read_text() == "0\n"
    assert later_attempts(directory) == [(2, len("began\n"), cause)]
    first, second = project.info(run_id)["attempts"]
    assert (first["status"], first["reason"], second["status"], second["exit_code"]) == (
        "Failed",
        cause,
        "Completed",
        0,
    )
    assert (first["log_end"], second["log_start"]) == (len("began\n"), len("began\n"))
    assert first["start_time_utc"] <= first["end_time_utc"] <= second["start_time_utc"] <= second["end_time_utc"]
    assert (project.run_directory(run_id) / "attempts" / "2" / "attempt.json").exists()


def test_attempts_without_a_follower_are_found_later(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}})
    run_id = project.begin("print('went on')")
    directory = RunDirectory(str(project.run_directory(run_id)))
    job = project.job
    kill_controller(Path(directory.path))
    cause = requeue(project)
    project.cluster.until_state(job, "PENDING")
    project.gate.touch()
    project.cluster.until_state(job, "COMPLETED")
    assert directory.attempts() == []
    assert project.run("logs", "-f", run_id).out == "began\nbegan\nwent on\n"
    project.until_status(run_id, "Completed")
    assert later_attempts(directory) == [(2, len("began\n"), cause)]


def test_end_of_a_requeued_attempt_does_not_end_the_run(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}})
    project.write(f"import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n{WAITS}")
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    until_waiting(project, run_id)
    assert project.status(run_id) == "Queued"
    project.cluster.output(["scancel", project.job])
    project.until_status(run_id, "Failed")
    assert "it was canceled in Slurm (CANCELLED)" in (project.info(run_id)["reason"] or "")


def test_cancel_between_two_attempts_cancels_the_run(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}})
    run_id = project.begin()
    until_waiting(project, run_id)
    assert project.run("experiment", "cancel", "--run", run_id).code == 0
    assert project.status(run_id) == "Canceled"
    assert not project.job


def test_run_that_is_not_requeued_shows_why_it_waits(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--begin=now+1hour"]}})
    project.write("print('never')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: "BeginTime" in (project.info(run_id)["reason"] or ""), "the reason")
    project.cluster.manage("hold", project.job)
    until(
        lambda: "an administrator holds it (JobHeldAdmin)" in (project.info(run_id)["reason"] or ""), "the new reason"
    )


def test_requeue_is_refused_without_the_option(project: SlurmProject) -> None:
    run_id = project.begin("print('went on')")
    done = project.cluster.command("root", ["scontrol", "requeue", project.job])
    assert done.returncode == 1
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\nwent on\n"


def test_job_requeued_after_its_run_does_nothing(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}})
    project.write("print('ran')")
    assert project.submit("train.py", configuration="cluster").code == 0
    run_id = project.history()[0]["run_id"]
    (job,) = (project.there(run_id) / "pid").read_text().split()
    project.cluster.manage("requeue", job)
    project.cluster.until_state(job, "PENDING")
    project.cluster.until_state(job, "COMPLETED")
    assert project.log(run_id) == "ran\n"
    assert not (project.there(run_id) / "attempts" / "2").exists()
