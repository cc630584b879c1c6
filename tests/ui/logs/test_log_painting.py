"""Painting a log view whose width changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from tests.ui.painted import PaintedDisplay
from tests.ui.waiting import until
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.terminal.textual_internals import install_compositor

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

LONG = "0123456789" * 10


class LogScreen(Screen[None]):
    """A log beside a widget that determines the log's width."""

    def __init__(self) -> None:
        super().__init__()
        install_compositor(self)

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield LogView()
            yield Static("beside")


class PaintedLogApp(PaintedDisplay[None]):
    def get_default_screen(self) -> Screen[None]:
        return LogScreen()

    def seen(self, y: int) -> str:
        """Return a row of the terminal."""
        return "".join(self.painter.frame.rows[y].texts).rstrip()


async def test_wider_log_shows_more_of_long_lines(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text(f"{LONG}\n" * 5)
    app = PaintedLogApp()
    async with app.run_test(size=(80, 10)) as pilot:
        view, beside = app.screen.query_one(LogView), app.screen.query_one(Static)
        beside.styles.width = 40
        await until(lambda: view.size.width == 40)
        view.set_log(str(log), active=False)
        await until(lambda: app.seen(4)[:39] == f"{LONG[:38]}›")
        beside.styles.width = 20
        await until(lambda: view.size.width == 60)
        await pilot.pause()
        await until(lambda: app.is_painted)
        assert [app.seen(y)[:59] for y in range(5)] == [f"{LONG[:58]}›"] * 5
