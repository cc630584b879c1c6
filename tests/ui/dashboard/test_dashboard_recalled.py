"""The dashboard restores filter, order and groups after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, screen_of
from tests.ui.waiting import until
from tui_workbench.runs.index.table import RunQuery
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.dashboard.dashboard_data import saved_query
from tui_workbench.ui.session_state import Values

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


@pytest.mark.slow
async def test_dashboard_opens_with_the_saved_filter(project: Project) -> None:
    async with opened(project) as pilot:
        saved = Values({"runs": RunQuery("state:failed", "loss", descending=False)._asdict()})
        screen_of(pilot).coordinator.restore_runs(saved)
        await pilot.press("6")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))
        dashboard = pilot.app.screen
        assert isinstance(dashboard, DashboardScreen)
        await until(lambda: dashboard.view.filter_row.field.value == "state:failed")
        assert dashboard.view.filter_row.display
        assert dashboard.runs_query == RunQuery("state:failed", "loss", descending=False)
        await pilot.press("escape", "escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        assert screen_of(pilot).coordinator.runs_query == RunQuery("", "loss", descending=False)


@pytest.mark.parametrize("saved", [{}, {"sort": 3}, {"sort": "loss", "group": "anything", "filter": None}], ids=str)
def test_invalid_saved_query_is_ignored(saved: dict[str, object]) -> None:
    assert saved_query(Values(saved)) in (None, RunQuery("", "loss", descending=False))
