"""The comparison of two families."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ui.dashboard.conftest import dashboard, dashboard_of, rows
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.runs.compare_families import FamiliesScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]

pytestmark = pytest.mark.slow


@pytest.fixture
def swept(project: Project) -> Project:
    """Return a project with a family for each of three learning rates, and a run without a family."""
    past_run(project, 1, exit_code=0)
    for family in range(3):
        for seed in range(3):
            past_run(
                project,
                2 + 3 * family + seed,
                arguments=("--lr", f"0.{family + 1}", "--seed", str(seed)),
                state="failed" if family == seed == 2 else "completed",
                curves={"loss": [3.0, 1 - family / 4 + seed / 100], "accuracy": [0.1, 0.5 + seed / 100]},
                family=f"sweep-1.{family + 1}",
            )
    return project


async def group_by_family(pilot: Workbench) -> None:
    """Group the runs by family, and go to the newest family."""
    await until(lambda: "loss" in seen(pilot))
    while "by family" not in seen(pilot):
        await pilot.press("b")
        await pilot.pause()
    await until(lambda: len(rows(pilot)) == 5)
    dashboard_of(pilot).table.move_to(0)
    while not rows(pilot)[dashboard_of(pilot).table.cursor].strip().startswith("×"):
        await pilot.press("down")


def families_screen(pilot: Workbench) -> FamiliesScreen:
    found = pilot.app.screen
    assert isinstance(found, FamiliesScreen)
    return found


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_two_marked_families_are_compared(swept: Project, size: tuple[int, int]) -> None:
    async with dashboard(swept, size) as pilot:
        await group_by_family(pilot)
        await pilot.press("space", "space")
        await until(lambda: "6 marked" in seen(pilot))
        await pilot.press("c")
        await until(lambda: isinstance(pilot.app.screen, FamiliesScreen))
        screen = families_screen(pilot)
        await until(lambda: [curve.key for curve in screen.chart.curves] == ["sweep-1.3", "sweep-1.2"])
        assert all(curve.band is not None for curve in screen.chart.curves)
        text = seen(pilot)
        assert "● sweep-1.3  --lr 0.3" in text
        assert "loss: sweep-1.3 is better by 0.255 ± 0.025, n = 2 and 3, lower loss is better" in text
        assert "0.5050 ± 0.0071 n = 2" in text
        assert "0.760 ± 0.010 n = 3" in text
        assert "-0.255 ± 0.025" in text
        assert "▲ sweep-1.3: left out run 10: failed" in text
        await pilot.press("down")
        await until(lambda: "accuracy: not distinguishable yet: the difference is -0.005 ± 0.025" in seen(pilot))
        await until(lambda: screen.chart.look.title == "accuracy")
        await pilot.press("escape")
        await until(lambda: "6 marked" in seen(pilot))


async def test_only_two_families_can_be_compared(swept: Project) -> None:
    async with dashboard(swept) as pilot:
        await group_by_family(pilot)
        view = dashboard_of(pilot)
        assert view.why_not("compare") == ""  # with the family below
        await pilot.press("space", "space", "space")
        assert "3 families are marked, but only two can be compared." in view.why_not("compare")
        await pilot.press("U", "end", "up", "up", "up", "space")
        view.table.move_to(0)
        while view.current_run() is None:
            await pilot.press("down")
        assert "A family cannot be compared with a run." in view.why_not("compare")


async def test_actions_and_charts_apply_to_marked_families(swept: Project) -> None:
    async with dashboard(swept, (160, 48)) as pilot:
        await group_by_family(pilot)
        await pilot.press("m", "space", "space")
        view = dashboard_of(pilot)

        def shown() -> set[str]:
            return {curve.key for chart in view.charts.query(Chart) if chart.display for curve in chart.curves}

        await until(lambda: shown() == {"sweep-1.3", "sweep-1.2"})
        await pilot.press("D")
        await until(lambda: "Move 6 marked runs (" in seen(pilot))
        await pilot.press("y")
        await until(lambda: "Moved 6 runs to the trash." in seen(pilot))
        await until(lambda: not view.marked_runs())
        assert [run.run_number for run in Runs(swept).list()] == [4, 3, 2, 1]
