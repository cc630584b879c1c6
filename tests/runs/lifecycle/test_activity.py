"""The current step of an active run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tui_workbench.core.model import Run
from tui_workbench.core.progress import Progress
from tui_workbench.runs.lifecycle.starting import wake
from tui_workbench.runs.lifecycle.step_progress import Progress as RunReport
from tui_workbench.runs.lifecycle.step_progress import current_step, steps_of
from tui_workbench.runs.store.rundir import CONTROLLER_LOCK, RunDirectory
from tui_workbench.ui.formatting import step_words


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(str(tmp_path))


def test_current_step_is_the_last_started_and_not_done(directory: RunDirectory) -> None:
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


def test_run_without_a_controller_has_nothing_to_wake(directory: RunDirectory) -> None:
    Path(directory.file(CONTROLLER_LOCK)).write_text(f"{os.getpid()}\n")
    wake(directory)


def test_step_includes_known_progress(directory: RunDirectory) -> None:
    facts: dict[str, Any] = {"run_id": "p_1", "state": "preparing", "directory": directory.path}
    run = Run(**{**dict.fromkeys(Run._fields, ""), **facts})
    directory.append_event("step", step="sync", status="begun")
    assert steps_of([run]) == {"p_1": "sync"}
    RunReport(directory, -1).show(Progress("sending", 5.0, 8.0, "files", 1.0))
    assert steps_of([run]) == {"p_1": "sync 62 %"}
    assert step_words("sync 62 %") == "sending 62 %"
    assert steps_of([run._replace(state="completed", end=2.0)]) == {}
