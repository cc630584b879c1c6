"""The rows of the dashboard: which runs a filter shows, and what their cells contain."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.ui.dashboard.conftest import dashboard, type_text
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.runs.index.history_record import Facts
from tui_workbench.runs.index.table import RunRow
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.dashboard.dashboard_columns import COLUMNS

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


@pytest.mark.slow
async def test_unknown_name_in_the_filter_is_named(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("slash")
        await type_text(pilot, "--rate>0.1")
        await until(lambda: "No column, metric or argument is named --rate." in seen(pilot))
        await pilot.press("escape", "slash")
        await type_text(pilot, "--lr=0.1")
        await until(lambda: "No column" not in seen(pilot) and "No run matches" not in seen(pilot))


def test_queued_run_has_no_start_and_no_duration(project: Project) -> None:
    run_id = past_run(project, 1)
    events = os.path.join(project.runs_directory, run_id, "events.jsonl")
    with open(events, encoding="utf-8") as file:
        lines = file.readlines()
    with open(events, "w", encoding="utf-8") as file:
        file.write(lines[0])
    run = RunDirectory(os.path.dirname(events)).run()._replace(state="queued", imported=False)  # it has no controller
    cells = {column.key: cell for column, cell in COLUMNS}
    row = RunRow(run, Facts())
    now = time.time()
    assert (run.is_active, run.start) == (True, 0)
    assert ["".join(piece.text for piece in cells[key](row, now)) for key in ("started", "duration")] == ["", ""]
