"""Every command of the main screen and the screens above it, by its key and from the palette."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input

from tests.ui.command_driver import CommandDriver, proves
from tests.ui.commands.main_commands import active_pane, back, hides, on, shows
from tests.ui.main.test_main import NARROW, opened, screen_of, seen
from tests.ui.runs.past import past_run
from tests.ui.textual_internals import strips_of
from tests.ui.waiting import until
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.commands.jump import JumpScreen
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.dialogs.help import HelpScreen
from tui_workbench.ui.dialogs.palette import PaletteScreen
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen
from tui_workbench.ui.machines.prepare_machine import PrepareMachineScreen
from tui_workbench.ui.runs.ports_screen import PortsScreen
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.trace.trace import TraceScreen
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import SearchField
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow


@proves(
    "pane.files pane.targets pane.editor pane.log pane.jobs pane.run_bar run.arguments run_bar.leave "
    "pane.next pane.previous view.zoom"
)
async def test_pane_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        for name in ("targets", "editor", "log", "jobs", "files"):
            await driver.becomes(f"pane.{name}", lambda: active_pane(pilot), name)
        await driver.does("pane.run_bar", lambda: isinstance(screen.focused, ChoiceField))
        await driver.does("run_bar.leave", lambda: screen.area.files.has_focus_within)
        await driver.does("run.arguments", lambda: isinstance(screen.focused, Input))
        await pilot.press("escape")
        await driver.changes("pane.next", lambda: screen.focused)
        await driver.changes("pane.previous", lambda: screen.focused)
        await driver.does("view.zoom", hides(pilot, "5 Jobs"))


@proves("help.show view.history view.gpus view.trace view.ports view.theme view.jump changes.undo text.copy")
async def test_screen_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        for command, kind in (
            ("help.show", HelpScreen),
            ("view.history", DashboardScreen),
            ("view.gpus", MonitorScreen),
            ("view.trace", TraceScreen),
            ("view.ports", PortsScreen),
            ("view.jump", JumpScreen),
        ):
            await driver.does(command, on(pilot, kind))
            await back(pilot)
        await pilot.press("ctrl+p", *"view.theme", "enter")
        await until(lambda: "Paper" in seen(pilot) or "paper" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen)
        CommandDriver.pressed.add("view.theme")
        await driver.does("text.copy", shows(pilot, "ctrl+q quits the workbench"))
        await pilot.press("5", "slash", *"nothing", "escape")
        await driver.does("changes.undo", shows(pilot, "/nothing"))


@proves("palette.open palette.choose palette.close search_field.up search_field.down")
async def test_palette_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver = CommandDriver(pilot)
        await driver.does("palette.open", on(pilot, PaletteScreen))
        rows = pilot.app.screen.query(RowList).first()
        await until(lambda: rows.current)
        first = rows.current
        await driver.changes("search_field.down", lambda: rows.current)
        await driver.becomes("search_field.up", lambda: rows.current, first)
        await driver.does("palette.close", lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("ctrl+p", *"help")
        await driver.does("palette.choose", on(pilot, HelpScreen))


@proves("help.close help.up help.down help.page_up help.page_down help.first help.last")
async def test_help_commands(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        await pilot.press("question_mark")
        await until(on(pilot, HelpScreen))
        help_screen = pilot.app.screen
        assert isinstance(help_screen, HelpScreen)
        text = help_screen.query_one(TextView)
        await until(lambda: text.max_scroll_y)
        driver = CommandDriver(pilot)

        def top() -> int:
            return text.scroll_offset.y

        await driver.becomes("help.down", top, 1)
        await driver.becomes("help.up", top, 0)
        await driver.does("help.page_down", lambda: top() > 5)
        await driver.becomes("help.page_up", top, 0)
        await driver.becomes("help.last", top, text.max_scroll_y)
        await driver.becomes("help.first", top, 0)
        await driver.does("help.close", lambda: pilot.app.screen is screen_of(pilot))


@proves("jump.leave")
async def test_jump_mode_command(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+g")
        await until(on(pilot, JumpScreen))
        await CommandDriver(pilot).does("jump.leave", lambda: pilot.app.screen is screen_of(pilot))


@proves("quit")
async def test_quit_command(project: Project) -> None:
    async with opened(project) as pilot:
        await CommandDriver(pilot).does("quit", lambda: pilot.app.return_code is not None)


@proves("quit.anywhere")
async def test_quit_command_in_a_text(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        await screen_of(pilot).panes.editor.open_file(str(project_root / "hello.py"))
        await until(lambda: isinstance(screen_of(pilot).focused, TextEditor))
        await CommandDriver(pilot).does("quit.anywhere", lambda: pilot.app.return_code is not None)


@proves(
    "files.open files.expand files.collapse files.search files.refresh files.run files.clear "
    "search_field.take search_field.leave"
)
async def test_files_commands(project: Project, project_root: Path) -> None:
    (project_root / "other.py").write_text("print('other')\n")
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        rows = screen.area.files.query_one(RowList)
        await until(lambda: len(rows.rows) == 5)
        await driver.becomes("files.collapse", lambda: len(rows.rows), 3)
        await driver.becomes("files.expand", lambda: len(rows.rows), 5)
        assert screen.coordinator.context.watcher is not None
        screen.coordinator.context.watcher.stop()  # it would read the folder without the command
        (project_root / "third.py").write_text("")
        await driver.becomes("files.refresh", lambda: len(rows.rows), 6)
        rows.move_to(4)
        await driver.becomes("files.run", lambda: screen.panes.run_bar.script, "other.py")
        await driver.does("files.open", lambda: screen.panes.editor.active.endswith("other.py"))
        await pilot.press("escape")
        await until(lambda: screen.area.files.has_focus_within)
        await driver.does("files.search", lambda: screen.area.files.query(SearchField))
        await pilot.press(*"hello")
        await until(lambda: len(rows.rows) == 1)
        await driver.does("search_field.take", lambda: screen.panes.editor.active.endswith("hello.py"))
        await pilot.press("escape")
        await until(lambda: screen.area.files.has_focus_within)
        await pilot.press("slash", "o")
        await until(lambda: screen.area.files.query(SearchField))
        screen.set_focus(rows)
        await driver.does("files.clear", lambda: not screen.area.files.query(SearchField))
        await pilot.press("slash")
        await until(lambda: screen.area.files.query(SearchField))
        await driver.does("search_field.leave", lambda: not screen.area.files.query(SearchField))


BOX = "type: remotedocker\naddress: 127.0.0.1:1\nbaseDockerImage: microsoft/mmlspark:plus-0.9.9\n"


@proves(
    "targets.open targets.use targets.attach targets.detach targets.check targets.prepare "
    "changes.gpu_ready changes.new_target changes.new_configuration changes.duplicate changes.rename changes.delete"
)
async def test_targets_commands(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text(BOX)
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\n")
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await pilot.press("2", "home")
        await until(lambda: screen.panes.targets.changeable_file().endswith("box.compute"))
        await driver.becomes("targets.use", lambda: screen.panes.run_bar.environment, "box")
        for command, words in (
            ("changes.gpu_ready", "nvidiaDocker: true"),
            ("changes.new_target", "New compute target"),
            ("changes.new_configuration", "New run configuration"),
            ("changes.duplicate", "Duplicate"),
            ("changes.rename", "Rename"),
            ("changes.delete", "Delete"),
            ("targets.detach", "Detach"),
        ):
            await driver.does(command, lambda words=words: on(pilot, ChangeScreen)() and words in seen(pilot))  # type: ignore[misc]
            await back(pilot)
        await driver.does("targets.attach", on(pilot, AttachScreen))
        await back(pilot)
        await driver.does("targets.check", on(pilot, CheckScreen))
        await back(pilot)
        await driver.does("targets.prepare", on(pilot, PrepareMachineScreen))
        await back(pilot)
        await driver.does("targets.open", lambda: screen.panes.editor.active.endswith("box.compute"))


def selected_lines(pilot: Pilot[list[Run]]) -> list[int]:
    """Return the lines of the screen that are drawn as selected."""
    selected = palette_of(pilot.app.screen).selected
    return [
        y
        for y, strip in enumerate(strips_of(pilot.app.screen))
        if any(part.style and part.style.bgcolor and part.style.bgcolor.name == selected for part in strip)
    ]


@proves("change.apply change.leave change.up change.down change.tick change.next change.previous")
async def test_change_commands(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text(BOX)
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\n")
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)
        await pilot.press("2", "home", "m")
        await until(shows(pilot, "[✓] nvidiaDocker"))
        change = pilot.app.screen
        assert isinstance(change, ChangeScreen)
        await until(lambda: change.query("ChangeView").first().has_focus)
        view = change.query("ChangeView").first()
        await until(lambda: view.plan is not None)  # type: ignore[attr-defined]
        while view.why_not("tick"):  # type: ignore[attr-defined]
            await pilot.press("down")
        await driver.does("change.tick", shows(pilot, "[ ] "))
        await driver.changes("change.down", lambda: (selected_lines(pilot), view.scroll_offset.y))
        await driver.changes("change.up", lambda: (selected_lines(pilot), view.scroll_offset.y))
        await driver.does("change.leave", lambda: pilot.app.screen is screen)
        await pilot.press("n")
        await until(on(pilot, ChangeScreen))
        await until(shows(pilot, "‹"))
        for _ in range(6):
            if "change.next" in {active.binding.id for active in pilot.app.screen.active_bindings.values()}:
                break
            await pilot.press("down")
        before = seen(pilot)
        await driver.does("change.next", lambda: seen(pilot) != before)
        await driver.does("change.previous", lambda: seen(pilot) == before)
        await back(pilot)
        await pilot.press("d")
        await until(lambda: on(pilot, ChangeScreen)() and "Delete" in seen(pilot))
        await until(lambda: "change.apply" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await driver.does("change.apply", lambda: not (project_root / "aml_config" / "box.compute").exists())


@proves("view.border_left view.border_right view.border_up view.border_down view.borders_back")
async def test_border_commands(project: Project) -> None:
    async with opened(project) as pilot:
        driver, screen = CommandDriver(pilot), screen_of(pilot)

        def sizes() -> tuple[int, int]:
            return screen.area.files.region.width, screen.area.files.region.height

        usual = sizes()
        await driver.does("view.border_left", lambda: sizes()[0] < usual[0])
        await driver.does("view.border_right", lambda: sizes()[0] == usual[0])
        await driver.does("view.border_up", lambda: sizes()[1] < usual[1])
        await driver.does("view.border_down", lambda: sizes()[1] == usual[1])
        await pilot.press("less_than_sign", "less_than_sign")
        await until(lambda: sizes() != usual)
        await driver.does("view.borders_back", lambda: sizes() == usual)


@proves("recent.open")
async def test_recent_runs_commands(project: Project) -> None:
    past_run(project, 1)
    async with opened(project, (200, 60)) as pilot:
        table = screen_of(pilot).query("RecentPane RunTable").first()
        table.focus()
        await until(lambda: table.has_focus and table.current)  # type: ignore[attr-defined]
        await CommandDriver(pilot).does("recent.open", on(pilot, RunDetailsScreen))
