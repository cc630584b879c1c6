"""The times of runs are those of their scripts, even if they were seen late."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import kill_controller, until
from tui_workbench.core.causes import JOB_REQUEUED, Cause
from tui_workbench.core.model import RunState
from tui_workbench.runs.lifecycle.step_progress import Progress
from tui_workbench.runs.store.attempts import attempts_of
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.values import Times

if TYPE_CHECKING:
    from tests.runs.gated_project import GatedProject


@pytest.mark.processes
def test_local_end_without_a_controller_is_the_real_end(shop: GatedProject) -> None:
    run = shop.submit()
    until(lambda: RunDirectory(run.directory).status().begin, "the start")
    kill_controller(Path(run.directory))
    shop.open()
    exit_file = Path(run.directory, "exit")
    until(lambda: exit_file.read_text().strip(), "the end of the script")
    ended = exit_file.stat().st_mtime
    until(lambda: time.time() > ended + 2.0, "more time")
    shop.runs.resume()
    found = shop.ended(run)
    assert abs(found.end - ended) < 0.2
    assert abs(found.start - Path(run.directory, "pid").stat().st_mtime) < 0.2


class Recorded:
    """A run directory whose events are recorded at chosen times."""

    def __init__(self, folder: Path) -> None:
        self.directory = RunDirectory(str(folder))
        self.progress = Progress(self.directory, -1)
        self.created = time.time()
        self.directory.append_event("step", step="prepare", status="begun")


@pytest.mark.processes
def test_start_that_was_seen_late_is_corrected(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recorded = Recorded(tmp_path / "run")
    until(lambda: time.time() > recorded.created + 2.5, "more time")
    recorded.progress.ran(Times(recorded.created + 0.1))
    recorded.progress.running()
    status = recorded.directory.status()
    assert abs(status.start - recorded.created - 0.1) < 0.01
    assert status.begin is not None
    assert abs(status.begin.seconds_since - (time.time() - status.start)) < 0.1


def test_end_never_lies_before_the_start_or_after_now(tmp_path: Path) -> None:
    for number, times in enumerate([(500, 100), (-1e9, 1e9), (0, -5), (1e9, 0), (1e9, 1e9), (-1e9, -1e9)]):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        recorded = Recorded(folder)
        recorded.progress.running()
        recorded.progress.ran(Times(*(recorded.created + each for each in times)))
        status, now = recorded.directory.status(), time.time()
        end = recorded.directory.end_time()
        assert recorded.created - 0.1 <= status.start <= end <= now, times
        recorded.directory.append_event("state", state=RunState.COMPLETED, final=True, end=end)
        assert recorded.directory.status().end >= recorded.directory.status().start


def test_first_end_of_an_attempt_counts(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recorded = Recorded(tmp_path / "run")
    recorded.progress.running()
    first = time.time()
    recorded.progress.ran(Times(recorded.created, first))
    recorded.progress.ran(Times(recorded.created, first + 100))
    assert abs(recorded.directory.status().ended - first) < 0.01


@pytest.mark.processes
def test_time_in_the_queue_is_not_part_of_an_attempt(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recorded = Recorded(tmp_path / "run")
    progress, start = recorded.progress, recorded.created
    progress.running()
    progress.queued("put back in the queue")
    put_back = time.time()
    until(lambda: time.time() > put_back + 1.0, "more time")
    progress.running()
    progress.attempt(2, 6, Cause(JOB_REQUEUED))
    first, second = attempts_of(recorded.directory)
    assert start <= first.start <= first.end < put_back + 0.5
    assert second.start > put_back + 0.9


@pytest.mark.processes
def test_times_of_each_attempt_are_those_of_its_script(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recorded = Recorded(tmp_path / "run")
    progress, start = recorded.progress, recorded.created
    until(lambda: time.time() > start + 2.5, "more time")
    progress.ran(Times(start + 0.5))
    progress.running()
    progress.ran(Times(start + 0.5, start + 1.0))
    progress.attempt(2, 6, Cause(JOB_REQUEUED))
    progress.ran(Times(start + 1.5, start + 2.0))
    recorded.directory.append_event("state", state=RunState.COMPLETED, final=True, end=recorded.directory.end_time())
    first, second = attempts_of(recorded.directory)
    times = [first.start - start, first.end - start, second.start - start, second.end - start]
    assert [round(each, 2) for each in times] == [0.5, 1.0, 1.5, 2.0]
    status = recorded.directory.status()
    assert [round(status.start - start, 2), round(status.end - start, 2)] == [0.5, 2.0]


def test_run_without_recorded_times_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    recorded = Recorded(tmp_path / "run")
    recorded.progress.running()
    recorded.directory.append_event("ran", start="x", end=None)
    recorded.directory.append_event("ran", start=-5, end=1e99)
    recorded.directory.append_event("ran")
    status = recorded.directory.status()
    assert abs(status.start - recorded.created) < 0.5
    assert status.ended == 0.0
