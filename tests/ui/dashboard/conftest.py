"""A project with ended runs, and its dashboard."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened
from tests.ui.runs.past import falling, past_run
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.core.model import RunState
from tui_workbench.ui.dashboard.dashboard import DashboardScreen, RunsView

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]
    Opened = Callable[..., AbstractAsyncContextManager[Workbench]]


@pytest.fixture
def past(project: Project) -> Project:
    """Return a project with six runs of two scripts on two targets; the last run failed without metrics."""
    for number in range(1, 6):
        past_run(
            project,
            number,
            script="train.py" if number % 2 else "eval.py",
            target="local" if number < 4 else "gpu-box",
            arguments=("--lr", str(number / 10)),
            exit_code=0,
            seconds=60.0 * number,
            curves={"loss": falling(float(number)), "accuracy": [0.5, 0.5 + number / 20]},
            output=b"epoch 1\n",
            files={"outputs/model.txt": b"weights\n", "outputs/plots/loss.png": b"\x89PNG\r\n\x1a\n\x00"},
        )
    past_run(project, 6, state=RunState.FAILED, exit_code=3, arguments=("--lr", "9"), seconds=3.0)
    return project


def dashboard_of(pilot: Workbench) -> RunsView:
    """Return the dashboard's view, even below another screen."""
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, DashboardScreen)).view


@asynccontextmanager
async def dashboard(project: Project, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Workbench]:
    """Open the dashboard and wait for its rows."""
    async with opened(project, size) as pilot:
        await pilot.press("6")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))
        await until(lambda: re.search(r"\d runs?\b", content_of(dashboard_of(pilot).head)[0]))
        await pilot.pause()
        yield pilot


def rows(pilot: Workbench) -> list[str]:
    """Return the lines of the table that are not empty, without the titles."""
    return content_of(dashboard_of(pilot).table)[1:]


def numbers(pilot: Workbench) -> list[str]:
    """Return the number of the run in each line."""
    return [next((word for word in line.split() if word.isdigit()), "") for line in rows(pilot)]


async def shows(pilot: Workbench, *expected: str) -> None:
    """Wait until the table shows exactly these runs in this order."""
    await until(lambda: numbers(pilot) == list(expected))


async def type_text(pilot: Workbench, text: str) -> None:
    await pilot.press(*("space" if character == " " else character for character in text))


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")
