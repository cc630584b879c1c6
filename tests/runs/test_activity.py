"""What an active run does at the moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.runs.activity import current_step, try_now
from tui_workbench.runs.rundir import ControllerLock, RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(str(tmp_path))


def test_the_step_at_work_is_the_one_that_was_begun_last_and_is_not_done(directory: RunDirectory) -> None:
    assert current_step(directory) == ""
    directory.append_event("step", step="prepare", status="begun")
    directory.append_event("step", step="sync", status="begun")
    assert current_step(directory) == "sync"
    directory.append_event("step", step="sync", status="done")
    assert current_step(directory) == "prepare"
    directory.append_event("step", step="build", status="begun")
    directory.append_event("step", step="build", status="failed")
    directory.append_event("step", step="prepare", status="done")
    assert current_step(directory) == ""


def test_a_run_without_a_controller_needs_nobody_to_be_woken(directory: RunDirectory) -> None:
    lock = ControllerLock.acquire(directory)
    assert lock is not None
    lock.release()
    try_now(directory)
