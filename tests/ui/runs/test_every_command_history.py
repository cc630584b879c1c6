"""Every command of the screens about runs, by key and from the palette."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until as until_now
from tests.notebooks import notebook
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import on
from tests.ui.dashboard.conftest import dashboard, dashboard_of, write
from tests.ui.dashboard.conftest import past as past
from tests.ui.details.test_run_details import details
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.runs.test_compare import comparing
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.dashboard.dashboard_columns import ColumnsScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.dialogs.help import HelpScreen
from tui_workbench.ui.dialogs.palette import PaletteScreen
from tui_workbench.ui.files.readme_view import ReadmeScreen
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.runs.compare import CompareScreen, DifferenceScreen
from tui_workbench.ui.runs.restore_screen import RestoreScreen
from tui_workbench.ui.runs.run_commands import RunEditScreen
from tui_workbench.ui.trace.trace import TraceScreen
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]

pytestmark = pytest.mark.slow


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
        driver, screen = CommandDriver(pilot), dashboard_of(pilot)
        table = screen.table
        table.focus()
        await pilot.pause()
        await driver.does("dashboard.open", on(pilot, RunDetailsScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("dashboard.mark", lambda: "1 marked" in seen(pilot))
        await driver.does("dashboard.unmark", lambda: "1 marked" not in seen(pilot))
        await driver.does("dashboard.compare", on(pilot, CompareScreen))
        await back_to(pilot, DashboardScreen)
        await driver.changes("dashboard.sort", lambda: content_of(table)[0])
        await driver.does("dashboard.columns", on(pilot, ColumnsScreen))
        await back_to(pilot, DashboardScreen)
        await driver.changes("dashboard.group", lambda: table.total)
        await driver.changes("dashboard.charts", lambda: seen(pilot))
        await driver.does("dashboard.readme", on(pilot, ReadmeScreen))
        await back_to(pilot, DashboardScreen)
        await driver.changes("dashboard.archived", lambda: seen(pilot))
        await driver.does("dashboard.gpus", on(pilot, MonitorScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("history.help", on(pilot, HelpScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("history.palette", on(pilot, PaletteScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("history.copy", lambda: "esc goes back" in seen(pilot))
        await driver.changes("history.next", lambda: pilot.app.focused)
        await driver.changes("history.previous", lambda: pilot.app.focused)
        await driver.changes("dashboard.filter", lambda: pilot.app.focused)
        await pilot.press("escape")
        await until(lambda: table.has_focus)
        await driver.does("history.leave", lambda: pilot.app.screen is screen_of(pilot))


@proves("dashboard.run_bar dashboard.run")
async def test_dashboard_starts_a_run(project: Project) -> None:
    async with dashboard(project) as pilot:
        driver = CommandDriver(pilot)
        await driver.does("dashboard.run_bar", lambda: screen_of(pilot).panes.run_bar.has_focus_within)
        await pilot.press("escape", "6")
        await until(on(pilot, DashboardScreen))
        await driver.does("dashboard.run", lambda: pilot.app.screen is screen_of(pilot))
        await until(lambda: "hello.py [1]" in seen(pilot))
        await until(lambda: [run.state for run in Runs(project).list()] == ["completed"])


@pytest.fixture
def tracked(project: Project, project_root: Path) -> Project:
    """Return a project that has changed since the snapshot of its run."""
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
        driver = CommandDriver(pilot)
        dashboard_of(pilot).table.focus()
        await pilot.pause()
        await driver.does("one_run.edit", on(pilot, RunEditScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("one_run.restore", on(pilot, RestoreScreen))
        await back_to(pilot, DashboardScreen)
        await driver.does("one_run.tag", lambda: "Tags of hello.py [1]" in seen(pilot))
        await back_to(pilot, DashboardScreen)
        await driver.does("one_run.note", lambda: "Note of hello.py [1]" in seen(pilot))
        await back_to(pilot, DashboardScreen)
        await driver.does("one_run.pin", lambda: runs.facts(run_id).annotations.pinned)
        await until(lambda: "history.undo" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await driver.does("history.undo", lambda: not runs.facts(run_id).annotations.pinned)
        await driver.does("one_run.archive", lambda: runs.facts(run_id).annotations.archived)
        await until(lambda: "history.undo" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await pilot.press("ctrl+z")
        await until(lambda: not runs.facts(run_id).annotations.archived)
        await until(lambda: dashboard_of(pilot).current_run() is not None)
        await driver.does("one_run.again", lambda: len(runs.list()) == 2)
        await until(lambda: not runs.list()[0].is_active)


@proves("one_run.start_again")
async def test_failed_run_is_started_again(project: Project, project_root: Path) -> None:
    from tui_workbench.core.model import RunRequest

    (project_root / "fails.py").write_text("raise SystemExit(3)\n")
    runs = Runs(project)
    run_id = runs.submit(RunRequest("local", "fails.py")).run_id
    until_now(lambda: not runs.get(run_id).is_active, "the end of the run")
    async with dashboard(project) as pilot:
        driver = CommandDriver(pilot)
        dashboard_of(pilot).table.focus()
        await pilot.pause()
        question = "Start fails.py [1] again with the current files of the project?"
        await driver.does("one_run.start_again", lambda: question in " ".join(seen(pilot).split()))
        await pilot.press("y")
        await until(lambda: "✗ attempt 2: exit code 3" in seen(pilot))


@proves("run_edit.go run_edit.leave run_edit.next run_edit.previous")
async def test_edit_and_rerun_commands(tracked: Project) -> None:
    async with dashboard(tracked) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("e")
        await until(on(pilot, RunEditScreen))
        await driver.changes("run_edit.next", lambda: pilot.app.screen.focused)
        await driver.changes("run_edit.previous", lambda: pilot.app.screen.focused)
        await driver.does("run_edit.leave", on(pilot, DashboardScreen))
        await pilot.press("e")
        await until(on(pilot, RunEditScreen))
        await driver.does("run_edit.go", lambda: len(Runs(tracked).list()) == 2)
        await until(lambda: not Runs(tracked).list()[0].is_active)


@proves("columns.tick columns.up columns.down columns.done")
async def test_column_choice_commands(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("o")
        await until(on(pilot, ColumnsScreen))
        await pilot.pause()
        driver = CommandDriver(pilot)
        await driver.changes("columns.tick", lambda: seen(pilot))
        await pilot.press("up", "up", "up", "up", "up", "up")
        await pilot.pause()
        before = seen(pilot)
        await driver.changes("columns.down", lambda: seen(pilot))
        await driver.does("columns.up", lambda: seen(pilot) == before)
        await driver.does("columns.done", on(pilot, DashboardScreen))


@proves(
    "details.metrics details.outputs details.log details.plan details.snapshot details.environment details.gpu "
    "details.next details.previous details.fetch details.promote details.bring details.calls details.gpus "
    "metrics.choose"
)
async def test_run_details_commands(past: Project) -> None:
    async with details(past, 5) as pilot:
        assert isinstance(pilot.app.screen, RunDetailsScreen)
        screen = pilot.app.screen.view
        driver = CommandDriver(pilot)
        await until(lambda: "accuracy" in seen(pilot))
        await pilot.press("space")
        await until(lambda: "●" in seen(pilot))
        await pilot.press("down")
        labels = ["loss", "accuracy"]
        await driver.does("metrics.choose", lambda: [curve.label for curve in screen.metrics.chart.curves] == labels)
        for tab in ("outputs", "log", "plan", "snapshot", "environment", "gpu", "metrics"):
            await driver.becomes(f"details.{tab}", lambda: screen.shown_tab, tab)
        await driver.becomes("details.next", lambda: screen.shown_tab, "outputs")
        await driver.becomes("details.previous", lambda: screen.shown_tab, "metrics")
        await pilot.press("2")
        await until(lambda: screen.outputs.current)
        await driver.does("details.fetch", lambda: "Copy outputs/model.txt into" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: screen.outputs.has_focus_within)
        await driver.does("details.promote", lambda: "Save outputs/model.txt as asset" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: screen.outputs.has_focus_within)
        made = os.path.join(past.root, "outputs/model.txt")
        await driver.does("details.bring", lambda: os.path.exists(made))
        await driver.does("details.calls", on(pilot, TraceScreen))
        await back_to(pilot, RunDetailsScreen)
        await pilot.press("ctrl+p", *"details.gpus", "enter")
        await until(on(pilot, MonitorScreen))
        CommandDriver.pressed.add("details.gpus")


@proves("file_panel.open file_panel.back file_panel.view")
async def test_file_panel_commands(past: Project) -> None:
    run = next(run for run in Runs(past).list() if run.run_number == 5)
    write(os.path.join(run.directory, "outputs", "a.ipynb"), notebook("print(1)"))
    async with details(past, 5) as pilot:
        assert isinstance(pilot.app.screen, RunDetailsScreen)
        screen = pilot.app.screen.view
        driver = CommandDriver(pilot)
        await pilot.press("2")
        await until(lambda: screen.outputs.current and isinstance(pilot.app.focused, RowList))
        await driver.does("file_panel.open", lambda: pilot.app.focused is screen.outputs.view)
        await until(lambda: "│ print(1)" in seen(pilot))
        await driver.does("file_panel.view", lambda: '{"cells"' in seen(pilot))
        await driver.does("file_panel.back", lambda: isinstance(pilot.app.focused, RowList))


@proves("compare.open compare.same compare.filter compare.metric compare.metric_back compare.gpus compare.base")
async def test_comparison_commands(past: Project) -> None:
    async with comparing(past, 1, 3) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        driver = CommandDriver(pilot)
        await until(lambda: screen.chart.look.title == "loss")
        await driver.becomes("compare.metric", lambda: screen.chart.look.title, "accuracy")
        await driver.becomes("compare.metric_back", lambda: screen.chart.look.title, "loss")
        await driver.changes("compare.same", lambda: screen.table.total)
        await driver.does("compare.filter", lambda: screen.focused is screen.filter_row.field)
        total = screen.table.total
        await pilot.press(*"script")
        await until(lambda: 0 < screen.table.total < total)
        await pilot.press("escape")
        await until(lambda: screen.table.total == total and not screen.filter_row.display)
        await pilot.press("l", "l")
        assert "(base) train.py [1]" in seen(pilot)
        await driver.does("compare.base", lambda: "(base) train.py [3]" in seen(pilot))
        await pilot.press("home", "down")
        await driver.does("compare.open", on(pilot, DifferenceScreen))
        await back_to(pilot, CompareScreen)
        await driver.does("compare.gpus", on(pilot, MonitorScreen))


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
        driver = CommandDriver(pilot)
        await until(lambda: "trace.copy" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await driver.does("trace.copy", lambda: pilot.app.clipboard)
        await driver.changes("trace.read", lambda: pilot.app.screen.focused)
        await pilot.press("enter")
        await driver.changes("trace.whose", lambda: seen(pilot))
        await driver.changes("trace.failed", lambda: seen(pilot))
        await driver.changes("trace.filter", lambda: pilot.app.screen.focused)
