"""Every command of the screens about runs, by key and from the palette."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until as until_now
from tests.ui.dashboard.conftest import dashboard, dashboard_of
from tests.ui.dashboard.conftest import past as past
from tests.ui.details.test_run_details import details
from tests.ui.hand import Hand, proves
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.runs.test_compare import comparing
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.commands.help import HelpScreen
from tui_workbench.ui.commands.palette import PaletteScreen
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.dashboard.dashboard_columns import ColumnsScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.files.readme import ReadmeScreen
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.runs.compare import CompareScreen, DifferenceScreen
from tui_workbench.ui.runs.run_commands import RestoreScreen, RunEditScreen
from tui_workbench.ui.trace.trace import TraceScreen
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


def on(pilot: Workbench, kind: type) -> Callable[[], bool]:
    """Return a condition: a screen of this type is on top."""
    return lambda: isinstance(pilot.app.screen, kind)


async def back_to(pilot: Workbench, kind: type) -> None:
    await pilot.press("escape")
    await until(on(pilot, kind))
    await pilot.pause()


@proves(
    "dashboard.open dashboard.mark dashboard.unmark dashboard.compare dashboard.filter dashboard.sort "
    "dashboard.columns dashboard.group dashboard.charts dashboard.readme dashboard.archived dashboard.gpus "
    "history.help history.palette history.next history.previous history.copy history.leave"
)
async def test_dashboard_commands(past: Project) -> None:
    async with dashboard(past) as pilot:
        hand, screen = Hand(pilot), dashboard_of(pilot)
        table = screen.table
        table.focus()
        await pilot.pause()
        await hand.does("dashboard.open", on(pilot, RunDetailsScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("dashboard.mark", lambda: "1 marked" in seen(pilot))
        await hand.does("dashboard.unmark", lambda: "1 marked" not in seen(pilot))
        await hand.does("dashboard.compare", on(pilot, CompareScreen))
        await back_to(pilot, DashboardScreen)
        await hand.changes("dashboard.sort", lambda: content_of(table)[0])
        await hand.does("dashboard.columns", on(pilot, ColumnsScreen))
        await back_to(pilot, DashboardScreen)
        await hand.changes("dashboard.group", lambda: table.total)
        await hand.changes("dashboard.charts", lambda: seen(pilot))
        await hand.does("dashboard.readme", on(pilot, ReadmeScreen))
        await back_to(pilot, DashboardScreen)
        await hand.changes("dashboard.archived", lambda: seen(pilot))
        await hand.does("dashboard.gpus", on(pilot, MonitorScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("history.help", on(pilot, HelpScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("history.palette", on(pilot, PaletteScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("history.copy", lambda: "esc goes back" in seen(pilot))
        await hand.changes("history.next", lambda: pilot.app.focused)
        await hand.changes("history.previous", lambda: pilot.app.focused)
        await hand.changes("dashboard.filter", lambda: pilot.app.focused)
        await pilot.press("escape")
        await until(lambda: table.has_focus)
        await hand.does("history.leave", lambda: pilot.app.screen is screen_of(pilot))


@proves("dashboard.run_bar dashboard.run")
async def test_dashboard_starts_a_run(project: Project) -> None:
    async with dashboard(project) as pilot:
        hand = Hand(pilot)
        await hand.does("dashboard.run_bar", lambda: screen_of(pilot).panes.run_bar.has_focus_within)
        await pilot.press("escape", "6")
        await until(on(pilot, DashboardScreen))
        await hand.does("dashboard.run", lambda: Runs(project).list())
        await until(lambda: not Runs(project).list()[0].is_active)


@pytest.fixture
def tracked(project: Project, project_root: Path) -> Project:
    """A project that has changed since the snapshot of its run."""
    from tui_workbench.core.model import RunRequest

    configuration = project_root / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace("TrackedRun: false", "TrackedRun: true"))
    runs = Runs(project)
    run_id = runs.submit(RunRequest("local", "hello.py")).run_id
    until_now(lambda: not runs.get(run_id).is_active, "the end of the run")
    (project_root / "hello.py").write_text("print('changed')\n")
    return project


@proves("one_run.edit one_run.restore one_run.tag one_run.note one_run.pin one_run.archive one_run.again history.undo")
async def test_run_commands(tracked: Project) -> None:
    runs = Runs(tracked)
    run_id = runs.list()[0].run_id

    async with dashboard(tracked) as pilot:
        hand = Hand(pilot)
        dashboard_of(pilot).table.focus()
        await pilot.pause()
        await hand.does("one_run.edit", on(pilot, RunEditScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("one_run.restore", on(pilot, RestoreScreen))
        await back_to(pilot, DashboardScreen)
        await hand.does("one_run.tag", lambda: "Tags of hello.py [1]" in seen(pilot))
        await back_to(pilot, DashboardScreen)
        await hand.does("one_run.note", lambda: "Note of hello.py [1]" in seen(pilot))
        await back_to(pilot, DashboardScreen)
        await hand.does("one_run.pin", lambda: runs.facts(run_id).annotations.pinned)
        await until(lambda: "history.undo" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await hand.does("history.undo", lambda: not runs.facts(run_id).annotations.pinned)
        await hand.does("one_run.archive", lambda: runs.facts(run_id).annotations.archived)
        await until(lambda: "history.undo" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await pilot.press("ctrl+z")
        await until(lambda: not runs.facts(run_id).annotations.archived)
        await until(lambda: dashboard_of(pilot).current_run() is not None)
        await hand.does("one_run.again", lambda: len(runs.list()) == 2)
        await until(lambda: not runs.list()[0].is_active)


@proves("restore.go restore.undo")
async def test_restore_commands(tracked: Project, project_root: Path) -> None:
    async with dashboard(tracked) as pilot:
        await pilot.press("u")
        await until(on(pilot, RestoreScreen))
        hand, script = Hand(pilot), project_root / "hello.py"
        await hand.becomes("restore.go", script.read_text, 'print("hello")\n')
        await hand.becomes("restore.undo", script.read_text, "print('changed')\n")


@proves("run_edit.go run_edit.leave run_edit.next run_edit.previous")
async def test_edit_and_rerun_commands(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        hand = Hand(pilot)
        await pilot.press("e")
        await until(on(pilot, RunEditScreen))
        await hand.changes("run_edit.next", lambda: pilot.app.screen.focused)
        await hand.changes("run_edit.previous", lambda: pilot.app.screen.focused)
        await hand.does("run_edit.leave", on(pilot, DashboardScreen))
        await pilot.press("e")
        await until(on(pilot, RunEditScreen))
        await hand.does("run_edit.go", lambda: len(Runs(tracked).list()) == 2)
        await until(lambda: not Runs(tracked).list()[0].is_active)


@proves("columns.tick columns.up columns.down columns.done")
async def test_column_choice_commands(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("o")
        await until(on(pilot, ColumnsScreen))
        await pilot.pause()
        hand = Hand(pilot)
        await hand.changes("columns.tick", lambda: seen(pilot))
        await pilot.press("up", "up", "up", "up", "up", "up")
        await pilot.pause()
        before = seen(pilot)
        await hand.changes("columns.down", lambda: seen(pilot))
        await hand.does("columns.up", lambda: seen(pilot) == before)
        await hand.does("columns.done", on(pilot, DashboardScreen))


@proves(
    "details.metrics details.outputs details.log details.plan details.snapshot details.environment details.gpu "
    "details.next details.previous details.fetch details.promote details.bring details.calls details.gpus "
    "metrics.choose"
)
async def test_run_details_commands(past: Project) -> None:
    async with details(past, 5) as pilot:
        assert isinstance(pilot.app.screen, RunDetailsScreen)
        screen = pilot.app.screen.view
        hand = Hand(pilot)
        await until(lambda: "accuracy" in seen(pilot))
        await pilot.press("space")
        await until(lambda: "●" in seen(pilot))
        await pilot.press("down")
        await hand.does("metrics.choose", lambda: len(screen.metrics.chart.curves) == 2)
        for tab in ("outputs", "log", "plan", "snapshot", "environment", "gpu", "metrics"):
            await hand.becomes(f"details.{tab}", lambda: screen.shown_tab, tab)
        await hand.becomes("details.next", lambda: screen.shown_tab, "outputs")
        await hand.becomes("details.previous", lambda: screen.shown_tab, "metrics")
        await pilot.press("2")
        await until(lambda: screen.outputs.current)
        await hand.does("details.fetch", lambda: "Copy outputs/model.txt into" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: screen.outputs.has_focus_within)
        await hand.does("details.promote", lambda: "Promote outputs/model.txt as asset" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: screen.outputs.has_focus_within)
        made = os.path.join(past.root, "outputs/model.txt")
        await hand.does("details.bring", lambda: os.path.exists(made))
        await hand.does("details.calls", on(pilot, TraceScreen))
        await back_to(pilot, RunDetailsScreen)
        await pilot.press("ctrl+p", *"details.gpus", "enter")
        await until(on(pilot, MonitorScreen))
        Hand.pressed.add("details.gpus")


@proves("file_panel.open file_panel.back")
async def test_file_panel_commands(past: Project) -> None:
    async with details(past, 5) as pilot:
        assert isinstance(pilot.app.screen, RunDetailsScreen)
        screen = pilot.app.screen.view
        hand = Hand(pilot)
        await pilot.press("2")
        await until(lambda: screen.outputs.current and isinstance(pilot.app.focused, RowList))
        await hand.does("file_panel.open", lambda: pilot.app.focused is screen.outputs.view)
        await hand.does("file_panel.back", lambda: isinstance(pilot.app.focused, RowList))


@proves("compare.open compare.same compare.filter compare.metric compare.metric_back compare.gpus compare.base")
async def test_comparison_commands(past: Project) -> None:
    async with comparing(past, 1, 3) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        hand = Hand(pilot)
        await until(lambda: screen.chart.look.title == "loss")
        await hand.becomes("compare.metric", lambda: screen.chart.look.title, "accuracy")
        await hand.becomes("compare.metric_back", lambda: screen.chart.look.title, "loss")
        await hand.changes("compare.same", lambda: screen.table.total)
        await hand.does("compare.filter", lambda: screen.focused is screen.filter_row.field)
        total = screen.table.total
        await pilot.press(*"script")
        await until(lambda: 0 < screen.table.total < total)
        await pilot.press("escape")
        await until(lambda: screen.table.total == total and not screen.filter_row.display)
        await pilot.press("l", "l")
        await hand.changes("compare.base", lambda: content_of(screen.table)[0])
        await pilot.press("home", "down")
        await hand.does("compare.open", on(pilot, DifferenceScreen))
        await back_to(pilot, CompareScreen)
        await hand.does("compare.gpus", on(pilot, MonitorScreen))


@asynccontextmanager
async def trace(project: Project) -> AsyncIterator[Workbench]:
    """Open the trace after a run."""
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "completed" in seen(pilot))
        await pilot.press("8")
        await until(on(pilot, TraceScreen))
        yield pilot


@proves("trace.copy trace.filter trace.failed trace.whose trace.read")
async def test_trace_commands(project: Project) -> None:
    async with trace(project) as pilot:
        hand = Hand(pilot)
        await until(lambda: "trace.copy" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await hand.does("trace.copy", lambda: pilot.app.clipboard)
        await hand.changes("trace.read", lambda: pilot.app.screen.focused)
        await pilot.press("enter")
        await hand.changes("trace.whose", lambda: seen(pilot))
        await hand.changes("trace.failed", lambda: seen(pilot))
        await hand.changes("trace.filter", lambda: pilot.app.screen.focused)
