"""The frame of the main screen before its parts are there."""

from __future__ import annotations

from textual.app import App, ComposeResult

from tests.ui.seen import screen_lines
from tui_workbench.ui.main.main_area import Slot


async def test_a_part_that_is_not_there_yet_is_shown_as_empty_space() -> None:
    class Frame(App[None]):
        def compose(self) -> ComposeResult:
            yield Slot(id="editor", classes="pane")

    async with Frame().run_test() as pilot:
        assert not any(screen_lines(pilot.app))
