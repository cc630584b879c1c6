"""Clock changes during runs affect neither durations nor order."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.gated_project import GatedProject
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.runs.store.run_ids import RUN_NUMBER_FILE
from tui_workbench.runs.store.rundir import RunDirectory

pytestmark = pytest.mark.processes

TEN_YEARS = 10 * 365 * 86400.0
SET = [TEN_YEARS, -TEN_YEARS, 3600.0]


def set_clock(directory: RunDirectory, seconds: float) -> None:
    """Simulate that the clock was changed by this number of seconds after the run's events."""
    path = Path(directory.file("events.jsonl"))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        event["time"] -= seconds
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))


def running(shop: GatedProject) -> Run:
    run = shop.submit()
    until(lambda: RunDirectory(run.directory).status().begin, "the start")
    return run


@pytest.mark.parametrize("seconds", SET)
def test_duration_ignores_clock_changes(shop: GatedProject, seconds: float) -> None:
    run = running(shop)
    set_clock(RunDirectory(run.directory), seconds)
    shop.open()
    ended = shop.ended(run)
    assert 0 < ended.duration < 600
    assert abs(ended.start - (time.time() - seconds)) < 600


@pytest.mark.parametrize("seconds", SET)
def test_duration_of_active_run_ignores_clock_changes(shop: GatedProject, seconds: float) -> None:
    run = running(shop)
    set_clock(RunDirectory(run.directory), seconds)
    assert abs(time.time() - RunDirectory(run.directory).run().start) < 600
    shop.open()
    shop.ended(run)


def test_list_order_ignores_clock_changes(shop: GatedProject) -> None:
    request = RunRequest("local", "gated.py", ("/dev/null", "0"))
    first = shop.runs.submit(request)
    # As after a submit while the clock was ten years ahead.
    numbers = Path(shop.project.state_directory, RUN_NUMBER_FILE)
    numbers.write_text(f"{1:<15d} {int((time.time() + TEN_YEARS) * 1000):<15d}\n")
    others = [shop.runs.submit(request), shop.runs.submit(request)]
    expected = [run.run_id for run in (*others[::-1], first)]
    until(lambda: not any(run.is_active for run in shop.runs.list()), "the end of all")
    assert [run.run_id for run in shop.runs.list()] == expected
    assert [run.run_number for run in shop.runs.list()] == [3, 2, 1]
