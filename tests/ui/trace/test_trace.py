"""The screen of calls, driven by keys on a real project."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.core import trace
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.trace.trace import TraceScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


def called(*words: str, code: int = 0, said: bytes = b"", kind: str = trace.GIT) -> None:
    trace.Call(kind, words).end(code, said)


@asynccontextmanager
async def calls(project: Project, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Workbench]:
    """Open the screen from the main screen."""
    called("git", "first")
    called("git", "second", code=128, said=b"fatal: it is broken\n")
    trace.Call(trace.SSH, ("sh", "-c", "echo 1\necho 2"), login="-p 22 me@there").end(0)
    async with opened(project, size) as pilot:
        await pilot.press("8")
        await until(lambda: isinstance(pilot.app.screen, TraceScreen) and "me@there" in seen(pilot))
        yield pilot


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["small", "large"])
async def test_calls_are_listed_with_results(project: Project, size: tuple[int, int]) -> None:
    async with calls(project, size) as pilot:
        text = seen(pilot)
        assert "git first" in text
        assert "exit 128" in text
        assert "1 failed" in text


async def test_calls_are_filtered_and_copied_as_shell_commands(project: Project) -> None:
    async with calls(project) as pilot:
        await pilot.press("g", "slash", *"broken")
        await until(lambda: "fatal: it is broken" in seen(pilot))
        assert "git first" not in seen(pilot)
        await pilot.press("escape")
        await until(lambda: "git first" in seen(pilot))
        await pilot.press("f")
        await until(lambda: "git first" not in seen(pilot))
        assert "git second" in seen(pilot)
        await pilot.press("escape")
        await until(lambda: "git first" in seen(pilot))
        await pilot.press("slash", *"me@there", "enter", "y")
        await until(lambda: "copied" in seen(pilot))
        assert pilot.app.clipboard == "ssh -p 22 me@there 'sh -c '\"'\"'echo 1\necho 2'\"'\"''\n"


async def test_cursor_follows_the_newest_call_or_stays(project: Project) -> None:
    async with calls(project) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, TraceScreen)
        await pilot.press("G")
        called("git", "third")
        await until(lambda: "git third" in "".join(row.name.text for row in screen.calls.rows))
        await until(lambda: screen.calls.current == screen.calls.rows[-1].key)
        await pilot.press("g")
        first = screen.calls.current
        called("git", "fourth")
        await until(lambda: "git fourth" in seen(pilot))
        assert screen.calls.current == first


@pytest.mark.slow
async def test_running_call_is_updated_at_its_end(project: Project) -> None:
    async with calls(project) as pilot:
        running = trace.Call(trace.DOCKER, ("docker", "pull", "image"), log_start=True)
        await until(lambda: "running" in seen(pilot))
        running.end(1, b"no route")
        await until(lambda: "running" not in seen(pilot) and "no route" in seen(pilot))


@pytest.mark.slow
async def test_a_switches_between_calls_of_the_run_and_all(project: Project) -> None:
    past_run(project, 1)
    (run,) = Runs(project).list()
    with trace.for_run(run.directory):
        called("git", "for-the-run")
    called("git", "for-something-else")
    async with opened(project, (120, 36)) as pilot:
        await pilot.app.push_screen(RunDetailsScreen(project, run))
        await pilot.press("8")
        await until(lambda: "git for-the-run" in seen(pilot))
        assert "for-something-else" not in seen(pilot)
        await pilot.press("a")
        await until(lambda: "for-something-else" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))


async def test_control_sequences_in_calls_are_shown_not_executed(project: Project) -> None:
    called("git", "[bold]x[/]\x1b[31m", code=1, said=b"\x1b]0;title\x07[red]no")
    async with calls(project) as pilot:
        await pilot.press("slash", *"title")
        await until(lambda: "[red]no" in seen(pilot))
        assert "[bold]x[/]␛[31m" in seen(pilot)
