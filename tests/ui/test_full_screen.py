"""Messages of the screens over the main screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.dashboard.conftest import dashboard
from tests.ui.dashboard.conftest import past as past
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.full_screen import HistoryScreen

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


@pytest.mark.slow
async def test_error_shows_paths_unchanged(past: Project) -> None:
    async with dashboard(past) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, HistoryScreen)
        screen.show_error(WorkbenchError("cannot read ../data: busy.", remedy="Close it.", file="../x"))
        assert screen.notice.text == "cannot read ../data: busy (../x). Close it."
