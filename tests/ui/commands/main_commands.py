"""Helpers of the tests of commands on the main screen."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot

from tests.ui.main.test_main import screen_of, seen
from tests.ui.waiting import until
from tui_workbench.core.model import Run

Workbench = Pilot[list[Run]]


def on(pilot: Workbench, kind: type) -> Callable[[], bool]:
    """Return a condition: a screen of this type is on top."""
    return lambda: isinstance(pilot.app.screen, kind)


async def back(pilot: Workbench, key: str = "escape") -> None:
    """Press a key that returns to the main screen, and wait for it."""
    await pilot.press(key)
    await until(lambda: pilot.app.screen is screen_of(pilot))


def shows(pilot: Workbench, text: str) -> Callable[[], bool]:
    return lambda: text in seen(pilot)


def hides(pilot: Workbench, text: str) -> Callable[[], bool]:
    return lambda: text not in seen(pilot)


def active_pane(pilot: Workbench) -> str:
    return screen_of(pilot).area.view.active
