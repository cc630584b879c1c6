"""Every command for runs on the main screen, by its key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import active_pane, back, hides, on, shows
from tests.ui.main.test_main import SLOW, opened, screen_of
from tests.ui.runs.past import past_run
from tests.ui.seen import content_of, lines_of
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.logs.log_search_row import LogSearchRow
from tui_workbench.ui.logs.stacks_panel import StacksPanel
from tui_workbench.ui.runs.preparation import PlanScreen, PrepareScreen
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow


@proves("run.start jobs.log jobs.cancel jobs.again jobs.details question.leave")
async def test_jobs_commands(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text(SLOW)
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await driver.does("run.start", shows(pilot, "1 running"))
        await pilot.press("5")
        await driver.does("jobs.log", lambda: active_pane(pilot) == "log")
        await pilot.press("5")
        await driver.does("jobs.again", lambda: isinstance(screen.focused, Input))
        await pilot.press("escape", "5")
        await driver.does("jobs.details", on(pilot, RunDetailsScreen))
        await back(pilot)
        await pilot.press("5")
        await driver.does("jobs.cancel", shows(pilot, "Cancel hello.py [1]?"))
        await driver.does("question.leave", hides(pilot, "Cancel hello.py [1]?"))
        assert Runs(project).list()[0].is_active
        await pilot.press("x", "y")
        await until(shows(pilot, "canceled"))
        assert not Runs(project).list()[0].is_active


@proves("jobs.stacks log.stacks stacks.again stacks.close")
async def test_stacks_commands(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    async with opened(project) as pilot:
        driver, pane = CommandDriver(pilot), screen_of(pilot).panes.log
        panel = pane.query_one(StacksPanel)
        await pilot.press("ctrl+r")
        await until(lambda: "began" in content_of(pane.view))

        def kept() -> int:
            return len(list(project_root.glob(".workbench/runs/*/stacks/*.json")))

        await pilot.press("5")
        await driver.does("jobs.stacks", lambda: "<module> (hello.py:3)" in content_of(panel))
        await driver.does("stacks.close", lambda: not panel.display and pane.view.has_focus)
        await driver.does("log.stacks", lambda: kept() == 2)
        await driver.does("stacks.again", lambda: kept() == 3)


@proves("run.plan")
async def test_plan_command(project: Project) -> None:
    async with opened(project) as pilot:
        await CommandDriver(pilot).does("run.plan", on(pilot, PlanScreen))


@proves("plan.copy plan.leave plan.run")
async def test_plan_screen_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await pilot.press("p")
        await until(on(pilot, PlanScreen))
        await until(lambda: "plan.copy" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await driver.does("plan.copy", lambda: "hello.py" in pilot.app.clipboard)
        await driver.does("plan.leave", lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("p")
        await until(lambda: "plan.run" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await driver.does("plan.run", lambda: Runs(project).list())
        await until(shows(pilot, "completed"))


@proves("field.open choices.choose choices.leave arguments.older arguments.newer run_button.press")
async def test_run_bar_commands(project: Project, project_root: Path) -> None:
    (project_root / "other.py").write_text("print('other')\n")
    past_run(project, 1, script="hello.py", arguments=("--lr", "1"))
    past_run(project, 2, script="hello.py", arguments=("--lr", "2"))
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        bar = screen.panes.run_bar
        script = bar.query_one("#script", ChoiceField)
        screen.set_focus(script)
        await driver.does("field.open", lambda: script.is_open)
        screen.set_focus(script.query_one(RowList))
        await driver.does("choices.leave", lambda: not script.is_open)
        await pilot.press("enter", *"other")
        await until(lambda: script.query_one(RowList).current == "other.py")
        screen.set_focus(script.query_one(RowList))
        await driver.becomes("choices.choose", lambda: bar.script, "other.py")
        bar.choose_script("hello.py")
        await pilot.press("minus")
        arguments = bar.query_one("#arguments", Input)
        await pilot.press("ctrl+a", "ctrl+k")
        await driver.does("arguments.older", lambda: arguments.value)
        await driver.changes("arguments.newer", lambda: arguments.value)
        screen.set_focus(bar.query("RunButton").first())
        await driver.does("run_button.press", lambda: len(Runs(project).list()) == 3)
        await until(lambda: not Runs(project).list()[0].is_active)


LINES = "".join(f"line {number} {'x' * 200}\n" for number in range(300)).encode()


@proves(
    "log.up log.down log.page_up log.page_down log.half_up log.half_down log.left log.right log.start log.follow "
    "log.wrap log.numbers log.copy log.search log.next log.previous log.clear log.traceback"
)
async def test_log_commands(project: Project) -> None:
    traceback = b'Traceback (most recent call last):\n  File "train.py", line 3, in f\n    g()\nValueError: no\n'
    past_run(project, 1, script="hello.py", output=LINES + traceback + LINES, exit_code=1, state="failed")
    async with opened(project) as pilot:
        driver, view = CommandDriver(pilot), screen_of(pilot).panes.log.view
        await pilot.press("4")
        await until(lambda: view.state.line_count == 604)

        def top() -> int:
            return -1 if view.state.top_number is None else view.state.top_number

        await driver.becomes("log.start", top, 0)
        await driver.becomes("log.down", top, 1)
        await driver.becomes("log.up", top, 0)
        await driver.does("log.half_down", lambda: top() > 1)
        await driver.becomes("log.half_up", top, 0)
        await driver.does("log.page_down", lambda: top() > 1)
        await driver.becomes("log.page_up", top, 0)

        def rows() -> list[str]:
            return lines_of(view)

        before = rows()
        await driver.does("log.right", lambda: rows() != before)
        await driver.does("log.left", lambda: rows() == before)
        await driver.does("log.wrap", lambda: rows() != before)
        await pilot.press("w")
        await until(lambda: rows() == before)
        await driver.does("log.numbers", lambda: rows() != before)
        await driver.does("log.copy", lambda: pilot.app.clipboard.startswith("line "))
        await driver.does("log.traceback", lambda: 250 < top() < 305)
        await driver.does("log.follow", lambda: view.state.pinned)
        await driver.does("log.search", lambda: screen_of(pilot).panes.log.query(LogSearchRow))
        await pilot.press(*"line 7", "enter")
        await until(lambda: view.state.search is not None and view.state.search.counted and view.state.search.ordinal)

        def ordinal() -> int | None:
            return view.state.search.ordinal if view.state.search is not None else None

        await until(lambda: view.has_focus)
        first = ordinal()
        await driver.does("log.next", lambda: ordinal() not in (None, first))
        await driver.does("log.previous", lambda: ordinal() == first)
        await driver.does("log.clear", lambda: view.state.search is None)


@proves("log_search.keep log_search.next log_search.previous log_search.mode log_search.cancel")
async def test_log_search_commands(project: Project) -> None:
    past_run(project, 1, script="hello.py", output=LINES, exit_code=0)
    async with opened(project) as pilot:
        driver, log = CommandDriver(pilot), screen_of(pilot).panes.log
        await pilot.press("4")
        await until(lambda: log.view.state.line_count == 300)
        await pilot.press("slash", *"line 7")

        def ordinal() -> int | None:
            search = log.view.state.search
            return search.ordinal if search is not None and search.pattern.text == "line 7" else None

        await until(ordinal)
        first = ordinal()
        await driver.does("log_search.next", lambda: ordinal() not in (None, first))
        await driver.does("log_search.previous", lambda: ordinal() == first)
        row = log.query_one(LogSearchRow)
        await driver.does("log_search.mode", lambda: "regex" in "".join(content_of(row)))
        await driver.does("log_search.keep", lambda: log.view.has_focus)
        await pilot.press("slash")
        await until(lambda: log.query(LogSearchRow) and log.query_one(LogSearchRow).has_focus_within)
        await driver.does("log_search.cancel", lambda: not log.query(LogSearchRow))


@proves("run.prepare")
async def test_prepare_command(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text("type: localdocker\nbaseDockerImage: ubuntu\n")
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\nFramework: Python\n")
    async with opened(project) as pilot:
        await until(lambda: screen_of(pilot).panes.run_bar.choose_target("box"))
        await CommandDriver(pilot).does("run.prepare", on(pilot, PrepareScreen))
