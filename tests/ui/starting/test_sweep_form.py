"""The form that starts a sweep of the request in the run bar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import on
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.starting.sweep_form import SweepScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


async def fill(pilot: Pilot[list[Run]], **texts: str) -> None:
    """Fill fields of the open form."""
    await until(on(pilot, SweepScreen))
    for name, text in texts.items():
        getattr(pilot.app.screen, name).value = text
    await pilot.pause()


@pytest.mark.slow
@proves("run.sweep")
async def test_sweep_with_seeds_is_started(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text("import sys\nprint(sys.argv[1:])\n")
    async with opened(project) as pilot:
        await CommandDriver(pilot).does("run.sweep", on(pilot, SweepScreen))
        await fill(pilot, values="lr=0.1,0.2", parallel="2")
        await pilot.press("down", "2")
        await until(lambda: "4 runs, such as: hello.py --lr 0.1 --seed 1" in seen(pilot))
        await pilot.press("ctrl+r")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        await until(lambda: len(Runs(project).list()) == 4)
        await until(lambda: all(not run.is_active for run in Runs(project).list()))
        runs = Runs(project).list()
        assert sorted((run.family, run.arguments[3]) for run in runs) == [
            (f"sweep-1.{family}", str(seed)) for family in (1, 2) for seed in (1, 2)
        ]


@pytest.mark.slow
async def test_values_that_cannot_be_parsed_are_refused(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("S")
        await fill(pilot)
        await pilot.press("ctrl+r")
        await until(lambda: "The sweep has no values" in seen(pilot))
        for name, text, problem in (
            ("seeds", "1", "Seeds: 1 does not repeat anything"),
            ("values", "lr=1,,2", "has an empty value"),
            ("values", "lr=gauss(1,2)", "unknown distribution 'gauss'"),
            ("seeds", "many", "Seeds: 'many' is not a number above 0"),
        ):
            await fill(pilot, **{"values": "lr=1", name: text})
            await pilot.press("ctrl+r")
            await until(lambda problem=problem: problem in " ".join(seen(pilot).split()))  # type: ignore[misc]
            assert isinstance(pilot.app.screen, SweepScreen)
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))
        assert Runs(project).list() == []
