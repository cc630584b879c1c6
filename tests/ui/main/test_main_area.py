from __future__ import annotations

from textual.app import App, ComposeResult

from tests.ui.seen import screen_lines
from tui_workbench.ui.main.main_area import Slot


async def test_slot_is_empty() -> None:
    class Frame(App[None]):
        def compose(self) -> ComposeResult:
            yield Slot(id="editor", classes="pane")

    async with Frame().run_test() as pilot:
        assert not any(screen_lines(pilot.app))
