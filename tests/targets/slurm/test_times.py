"""The times of jobs that start, end or are requeued while nothing follows them, on a real cluster."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.faults.support import kill_controller, until
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from tests.targets.slurm.project import SlurmProject

LATER = 4.0
"""Seconds for which an end is not noticed."""


def seconds(record: dict[str, Any], key: str) -> float:
    return datetime.fromisoformat(record[key]).timestamp()


def written(path: Path) -> float:
    """Wait until a file has a text, and return when it was written."""
    until(lambda: path.exists() and path.read_text().strip(), f"{path.name} to be written")
    return path.stat().st_mtime


def test_job_that_starts_and_ends_unnoticed_has_its_real_times(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--begin=now+1hour"]}})
    project.write("import time; time.sleep(1.5); print('ran')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: project.job, "the job")
    kill_controller(project.run_directory(run_id))
    project.cluster.manage("update", f"job={project.job}", "StartTime=now")
    there = project.there(run_id)
    ended = written(there / "exit")
    until(lambda: time.time() > ended + LATER, "more time")
    assert project.run("logs", "-f", run_id).out == "ran\n"
    project.until_status(run_id, "Completed")
    record = project.info(run_id)
    assert abs(seconds(record, "start_time_utc") - (there / "pid").stat().st_mtime) < 0.5
    assert abs(seconds(record, "end_time_utc") - ended) < 0.5


def test_requeued_attempt_ends_when_its_script_ends(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "requeue": True}})
    run_id = project.begin("print('went on')")
    kill_controller(project.run_directory(run_id))
    job = project.job
    project.cluster.manage("requeue", job)
    project.cluster.manage("update", f"job={job}", "StartTime=now+1hour")
    attempts = project.there(run_id) / "attempts"
    ended = written(attempts / "1" / "exit")
    until(lambda: time.time() > ended + LATER, "more time")
    project.cluster.manage("update", f"job={job}", "StartTime=now")
    began = written(attempts / "2" / "begin")
    assert project.run("experiment", "status", "-r", run_id).code == 0
    until(RunDirectory(str(project.run_directory(run_id))).attempts, "the second attempt")
    project.gate.touch()
    project.until_status(run_id, "Completed")
    first, second = project.info(run_id)["attempts"]
    assert abs(seconds(first, "end_time_utc") - ended) < 0.5
    assert abs(seconds(second, "start_time_utc") - began) < 0.5
    assert began - ended > LATER - 1.0
