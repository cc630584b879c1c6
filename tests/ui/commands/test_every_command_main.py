"""Each command of the main screen and what stands over it does what it says, by its key and from the palette."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from textual.widgets import Input

from tests.ui.hand import Hand, proves
from tests.ui.main.test_main import NARROW, SLOW, opened, screen_of, seen
from tests.ui.runs.past import past_run
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.changes.change import ChangeScreen
from tui_workbench.ui.commands.help import HelpScreen
from tui_workbench.ui.commands.jump import JumpScreen
from tui_workbench.ui.commands.palette import PaletteScreen
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.form.form_view import FormView
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen
from tui_workbench.ui.runs.preparing import PlanScreen, PrepareScreen
from tui_workbench.ui.trace.trace import TraceScreen
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


def on(pilot: Workbench, kind: type) -> Callable[[], bool]:
    """Whether a screen of this kind is on top."""
    return lambda: isinstance(pilot.app.screen, kind)


async def back(pilot: Workbench, key: str = "escape") -> None:
    """Back to the main screen."""
    await pilot.press(key)
    await until(lambda: pilot.app.screen is screen_of(pilot))


def shows(pilot: Workbench, text: str) -> Callable[[], bool]:
    return lambda: text in seen(pilot)


def hides(pilot: Workbench, text: str) -> Callable[[], bool]:
    return lambda: text not in seen(pilot)


def active_pane(pilot: Workbench) -> str:
    return screen_of(pilot).desk.view.active


@proves(
    "pane.files pane.targets pane.editor pane.log pane.jobs pane.run_bar run.arguments run_bar.leave "
    "pane.next pane.previous view.zoom"
)
async def test_places(project: Project) -> None:
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        for name in ("targets", "editor", "log", "jobs", "files"):
            await hand.becomes(f"pane.{name}", lambda: active_pane(pilot), name)
        await hand.does("pane.run_bar", lambda: isinstance(screen.focused, ChoiceField))
        await hand.does("run_bar.leave", lambda: screen.desk.files.has_focus_within)
        await hand.does("run.arguments", lambda: isinstance(screen.focused, Input))
        await pilot.press("escape")
        await hand.changes("pane.next", lambda: screen.focused)
        await hand.changes("pane.previous", lambda: screen.focused)
        await hand.does("view.zoom", hides(pilot, "5 Jobs"))


@proves("help.show view.history view.gpus view.trace view.theme view.jump changes.undo text.copy")
async def test_what_opens_over_everything(project: Project) -> None:
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        for command, kind in (
            ("help.show", HelpScreen),
            ("view.history", DashboardScreen),
            ("view.gpus", MonitorScreen),
            ("view.trace", TraceScreen),
            ("view.jump", JumpScreen),
        ):
            await hand.does(command, on(pilot, kind))
            await back(pilot)
        await pilot.press("ctrl+p", *"view.theme", "enter")
        await until(lambda: "Paper" in seen(pilot) or "paper" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen)
        Hand.pressed.add("view.theme")
        await hand.does("text.copy", shows(pilot, "ctrl+q leaves the workbench"))
        await pilot.press("5", "slash", *"nothing", "escape")
        await hand.does("changes.undo", shows(pilot, "/nothing"))


@proves("palette.open palette.close search_field.up search_field.down")
async def test_the_palette(project: Project) -> None:
    async with opened(project) as pilot:
        hand = Hand(pilot)
        await hand.does("palette.open", on(pilot, PaletteScreen))
        rows = pilot.app.screen.query("RowList").first()
        await hand.changes("search_field.down", lambda: rows._cursor)  # type: ignore[attr-defined]
        await hand.becomes("search_field.up", lambda: rows._cursor, 0)  # type: ignore[attr-defined]
        pilot.app.screen.set_focus(None)
        await hand.does("palette.close", lambda: pilot.app.screen is screen_of(pilot))


@proves("help.close help.up help.down help.page_up help.page_down help.first help.last")
async def test_help(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        await pilot.press("question_mark")
        await until(on(pilot, HelpScreen))
        help_screen = pilot.app.screen
        assert isinstance(help_screen, HelpScreen)
        text = help_screen.query_one(TextView)
        await until(lambda: text.max_scroll_y)
        hand = Hand(pilot)

        def top() -> int:
            return text.scroll_offset.y

        await hand.becomes("help.down", top, 1)
        await hand.becomes("help.up", top, 0)
        await hand.does("help.page_down", lambda: top() > 5)
        await hand.becomes("help.page_up", top, 0)
        await hand.becomes("help.last", top, text.max_scroll_y)
        await hand.becomes("help.first", top, 0)
        await hand.does("help.close", lambda: pilot.app.screen is screen_of(pilot))


@proves("jump.leave")
async def test_jump_mode_is_left(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+g")
        await until(on(pilot, JumpScreen))
        await Hand(pilot).does("jump.leave", lambda: pilot.app.screen is screen_of(pilot))


@proves("quit")
async def test_leaving(project: Project) -> None:
    async with opened(project) as pilot:
        await Hand(pilot).does("quit", lambda: pilot.app._exit)


@proves("quit.anywhere")
async def test_leaving_from_a_text(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        await screen_of(pilot).panes.editor.open_file(str(project_root / "hello.py"))
        await until(lambda: isinstance(screen_of(pilot).focused, TextEditor))
        await Hand(pilot).does("quit.anywhere", lambda: pilot.app._exit)


@proves(
    "files.open files.expand files.collapse files.search files.refresh files.run files.clear "
    "search_field.take search_field.leave"
)
async def test_files(project: Project, project_root: Path) -> None:
    (project_root / "other.py").write_text("print('other')\n")
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        rows = screen.desk.files._list
        await until(lambda: len(rows.rows) == 5)
        await hand.becomes("files.collapse", lambda: len(rows.rows), 3)
        await hand.becomes("files.expand", lambda: len(rows.rows), 5)
        assert screen.workplace.stage.watcher is not None
        screen.workplace.stage.watcher.stop()  # it looks by itself, too
        (project_root / "third.py").write_text("")
        await hand.becomes("files.refresh", lambda: len(rows.rows), 6)
        rows.move_to(4)
        await hand.becomes("files.run", lambda: screen.panes.run_bar.script, "other.py")
        await hand.does("files.open", lambda: screen.panes.editor.active.endswith("other.py"))
        await pilot.press("escape")
        await until(lambda: screen.desk.files.has_focus_within)
        await hand.does("files.search", lambda: screen.desk.files._search is not None)
        await pilot.press(*"hello")
        await until(lambda: len(rows.rows) == 1)
        await hand.does("search_field.take", lambda: screen.panes.editor.active.endswith("hello.py"))
        await pilot.press("escape")
        await until(lambda: screen.desk.files.has_focus_within)
        await pilot.press("slash", "o")
        await until(lambda: screen.desk.files._search is not None)
        screen.set_focus(rows)
        await hand.does("files.clear", lambda: screen.desk.files._search is None)
        await pilot.press("slash")
        await until(lambda: screen.desk.files._search is not None)
        await hand.does("search_field.leave", lambda: screen.desk.files._search is None)


BOX = "type: remotedocker\naddress: 127.0.0.1:1\nbaseDockerImage: microsoft/mmlspark:plus-0.9.9\n"


@proves(
    "targets.open targets.use targets.attach targets.detach targets.check changes.gpu_ready changes.new_target "
    "changes.new_configuration changes.duplicate changes.rename changes.delete"
)
async def test_targets_and_their_files(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text(BOX)
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\n")
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await pilot.press("2", "home")
        await until(lambda: screen.panes.targets.changeable_file().endswith("box.compute"))
        await hand.becomes("targets.use", lambda: screen.panes.run_bar.environment, "box")
        for command, words in (
            ("changes.gpu_ready", "nvidiaDocker: true"),
            ("changes.new_target", "New compute target"),
            ("changes.new_configuration", "New run configuration"),
            ("changes.duplicate", "Duplicate"),
            ("changes.rename", "Rename"),
            ("changes.delete", "Delete"),
            ("targets.detach", "Detach"),
        ):
            await hand.does(command, lambda words=words: on(pilot, ChangeScreen)() and words in seen(pilot))  # type: ignore[misc]
            await back(pilot)
        await hand.does("targets.attach", on(pilot, AttachScreen))
        await back(pilot)
        await hand.does("targets.check", on(pilot, CheckScreen))
        await back(pilot)
        await hand.does("targets.open", lambda: screen.panes.editor.active.endswith("box.compute"))


@proves("change.apply change.leave change.up change.down change.tick change.next change.previous")
async def test_a_change_of_files(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text(BOX)
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\n")
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await pilot.press("2", "home", "m")
        await until(shows(pilot, "[✓] nvidiaDocker"))
        change = pilot.app.screen
        assert isinstance(change, ChangeScreen)
        await until(lambda: change.query("ChangeView").first().has_focus)
        view = change.query("ChangeView").first()
        await until(lambda: view.plan is not None)  # type: ignore[attr-defined]
        while view.why_not("tick"):  # type: ignore[attr-defined]
            await pilot.press("down")
        await hand.does("change.tick", shows(pilot, "[ ] "))
        await hand.changes("change.down", lambda: (view._cursor, view.scroll_offset.y))  # type: ignore[attr-defined]
        await hand.changes("change.up", lambda: (view._cursor, view.scroll_offset.y))  # type: ignore[attr-defined]
        await hand.does("change.leave", lambda: pilot.app.screen is screen)
        await pilot.press("n")
        await until(on(pilot, ChangeScreen))
        await until(shows(pilot, "‹"))
        for _ in range(6):
            if "change.next" in {active.binding.id for active in pilot.app.screen.active_bindings.values()}:
                break
            await pilot.press("down")
        before = seen(pilot)
        await hand.does("change.next", lambda: seen(pilot) != before)
        await hand.does("change.previous", lambda: seen(pilot) == before)
        await back(pilot)
        await pilot.press("d")
        await until(lambda: on(pilot, ChangeScreen)() and "Delete" in seen(pilot))
        await until(lambda: "change.apply" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await hand.does("change.apply", lambda: not (project_root / "aml_config" / "box.compute").exists())


@proves("run.start jobs.log jobs.cancel jobs.again jobs.details question.leave")
async def test_runs(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text(SLOW)
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await hand.does("run.start", shows(pilot, "1 running"))
        await pilot.press("5")
        await hand.does("jobs.log", lambda: active_pane(pilot) == "log")
        await pilot.press("5")
        await hand.does("jobs.again", lambda: isinstance(screen.focused, Input))
        await pilot.press("escape", "5")
        await hand.does("jobs.details", on(pilot, RunDetailsScreen))
        await back(pilot)
        await pilot.press("5")
        await hand.does("jobs.cancel", shows(pilot, "Cancel hello.py [1]?"))
        await hand.does("question.leave", hides(pilot, "Cancel hello.py [1]?"))
        assert Runs(project).list()[0].is_active


@proves("run.plan")
async def test_the_plan_is_shown(project: Project) -> None:
    async with opened(project) as pilot:
        await Hand(pilot).does("run.plan", on(pilot, PlanScreen))


@proves("plan.copy plan.leave plan.run")
async def test_a_plan(project: Project) -> None:
    async with opened(project) as pilot:
        hand = Hand(pilot)
        await pilot.press("p")
        await until(on(pilot, PlanScreen))
        await until(lambda: "plan.copy" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await hand.does("plan.copy", lambda: "hello.py" in pilot.app.clipboard)
        await hand.does("plan.leave", lambda: pilot.app.screen is screen_of(pilot))
        await pilot.press("p")
        await until(lambda: "plan.run" in {each.binding.id for each in pilot.app.screen.active_bindings.values()})
        await hand.does("plan.run", lambda: Runs(project).list())
        await until(shows(pilot, "completed"))


@proves("field.open choices.choose choices.leave arguments.older arguments.newer run_button.press")
async def test_the_run_bar(project: Project, project_root: Path) -> None:
    (project_root / "other.py").write_text("print('other')\n")
    past_run(project, 1, script="hello.py", arguments=("--lr", "1"))
    past_run(project, 2, script="hello.py", arguments=("--lr", "2"))
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        bar = screen.panes.run_bar
        script = bar.query_one("#script", ChoiceField)
        screen.set_focus(script)
        await hand.does("field.open", lambda: script.is_open)
        assert script._list is not None
        screen.set_focus(script._list.list)
        await hand.does("choices.leave", lambda: not script.is_open)
        await pilot.press("enter", *"other")
        await until(lambda: script._list is not None and script._list.current == "other.py")
        screen.set_focus(script._list.list)
        await hand.becomes("choices.choose", lambda: bar.script, "other.py")
        bar.choose_script("hello.py")
        await pilot.press("minus")
        arguments = bar.query_one("#arguments", Input)
        await pilot.press("ctrl+a", "ctrl+k")
        await hand.does("arguments.older", lambda: arguments.value)
        await hand.changes("arguments.newer", lambda: arguments.value)
        screen.set_focus(bar.query("RunButton").first())
        await hand.does("run_button.press", lambda: len(Runs(project).list()) == 3)
        await until(lambda: not Runs(project).list()[0].is_active)


LINES = "".join(f"line {number} {'x' * 200}\n" for number in range(300)).encode()


@proves(
    "log.up log.down log.page_up log.page_down log.half_up log.half_down log.left log.right log.start log.follow "
    "log.wrap log.numbers log.copy log.search log.next log.previous log.clear log.traceback"
)
async def test_the_log(project: Project) -> None:
    traceback = b'Traceback (most recent call last):\n  File "train.py", line 3, in f\n    g()\nValueError: no\n'
    past_run(project, 1, script="hello.py", output=LINES + traceback + LINES, exit_code=1, state="failed")
    async with opened(project) as pilot:
        hand, view = Hand(pilot), screen_of(pilot).panes.log.view
        await pilot.press("4")
        await until(lambda: view.state.line_count == 604)

        def top() -> int:
            return -1 if view.state.top_number is None else view.state.top_number

        await hand.becomes("log.start", top, 0)
        await hand.becomes("log.down", top, 1)
        await hand.becomes("log.up", top, 0)
        await hand.does("log.half_down", lambda: top() > 1)
        await hand.becomes("log.half_up", top, 0)
        await hand.does("log.page_down", lambda: top() > 1)
        await hand.becomes("log.page_up", top, 0)

        def rows() -> list[str]:
            return lines_of(view)

        before = rows()
        await hand.does("log.right", lambda: rows() != before)
        await hand.does("log.left", lambda: rows() == before)
        await hand.does("log.wrap", lambda: rows() != before)
        await pilot.press("w")
        await until(lambda: rows() == before)
        await hand.does("log.numbers", lambda: rows() != before)
        await hand.does("log.copy", lambda: pilot.app.clipboard.startswith("line "))
        await hand.does("log.traceback", lambda: 250 < top() < 305)
        await hand.does("log.follow", lambda: view.state.pinned)
        await hand.does("log.search", lambda: screen_of(pilot).panes.log._search_row is not None)
        await pilot.press(*"line 7", "enter")
        await until(lambda: view.state.search is not None and view.state.search.counted and view.state.search.ordinal)

        def ordinal() -> int | None:
            return view.state.search.ordinal if view.state.search is not None else None

        await until(lambda: view.has_focus)
        first = ordinal()
        await hand.does("log.next", lambda: ordinal() not in (None, first))
        await hand.does("log.previous", lambda: ordinal() == first)
        await hand.does("log.clear", lambda: view.state.search is None)


@proves("log_search.keep log_search.next log_search.previous log_search.mode log_search.cancel")
async def test_searching_in_a_log(project: Project) -> None:
    past_run(project, 1, script="hello.py", output=LINES, exit_code=0)
    async with opened(project) as pilot:
        hand, log = Hand(pilot), screen_of(pilot).panes.log
        await pilot.press("4")
        await until(lambda: log.view.state.line_count == 300)
        await pilot.press("slash", *"line 7")

        def ordinal() -> int | None:
            return log.view.state.search.ordinal if log.view.state.search is not None else None

        await until(ordinal)
        first = ordinal()
        await hand.does("log_search.next", lambda: ordinal() not in (None, first))
        await hand.does("log_search.previous", lambda: ordinal() == first)
        assert log._search_row is not None
        row = log._search_row
        await hand.becomes("log_search.mode", lambda: row._expression, True)
        await hand.does("log_search.keep", lambda: log.view.has_focus)
        await pilot.press("slash")
        await until(lambda: log._search_row is not None and log._search_row.has_focus_within)
        await hand.does("log_search.cancel", lambda: log._search_row is None)


@proves("editor.close editor.next editor.back editor.leave")
async def test_tabs_of_the_editor(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        editor = screen.panes.editor
        for name in ("hello.py", "aml_config/local.compute"):
            await editor.open_file(str(project_root / name))

        def active() -> str:
            return os.path.basename(editor.active)

        await until(lambda: active() == "local.compute")
        await hand.becomes("editor.next", active, "hello.py")
        await hand.becomes("editor.back", active, "local.compute")
        await hand.does("editor.leave", lambda: screen.desk.files.has_focus_within)
        await pilot.press("3")
        await hand.becomes("editor.close", active, "hello.py")


@proves("file.save file.find file.answer")
async def test_an_open_file(project: Project, project_root: Path) -> None:
    path = project_root / "hello.py"
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(path))
        await until(lambda: isinstance(screen.focused, TextEditor))
        await pilot.press("x")
        await hand.does("file.save", lambda: path.read_text().startswith("x"))
        await hand.does("file.find", shows(pilot, "text, or :12 for a line"))
        await pilot.press("escape", "y")
        path.write_text("somebody else\n")
        await until(shows(pilot, "ctrl+o answers"))
        await hand.does("file.answer", lambda: "QuestionRow" in type(screen.focused).__name__)


@proves("config.view config.problem config.gpu_ready config.fix")
async def test_an_open_configuration(project: Project, project_root: Path) -> None:
    path = project_root / "aml_config" / "box.compute"
    path.write_text("# one\ntype: remotedocker\naddress: box\nbaseDockerImage: ubuntu\nnvidiaDocker: yes\n")
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(path))
        form = screen.query_one(FormView)
        await until(lambda: form.rows_with_findings if hasattr(form, "rows_with_findings") else True)
        await pilot.app.workers.wait_for_complete()
        await pilot.press("end")
        await hand.changes("config.problem", lambda: form.current)
        await hand.changes("config.fix", lambda: seen(pilot))
        await hand.does("config.view", lambda: isinstance(screen.focused, TextEditor))
        await hand.does("config.gpu_ready", on(pilot, ChangeScreen))


RUNCONFIG = """Target: "local"
ArgumentVector:
  - "$file"
  - "--lr"
EnvironmentVariables:
  ONE: "1"
Framework: "Python"
TrackedRun: false
"""


def text_of(pilot: Workbench) -> str:
    return screen_of(pilot).query_one(TextEditor).source


@proves(
    "form.up form.down form.page_up form.page_down form.first form.last form.edit form.toggle form.add form.clear "
    "form.move_up form.move_down form.rename form.undo form.redo form.accept form.cancel form.complete form.fix"
)
async def test_the_form(project: Project, project_root: Path) -> None:
    path = project_root / "aml_config" / "local.runconfig"
    path.write_text(RUNCONFIG)
    async with opened(project, (120, 24)) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)
        await screen.panes.editor.open_file(str(path))
        form = screen.query_one(FormView)
        await until(lambda: form.has_focus and form.current)
        await pilot.app.workers.wait_for_complete()

        def at() -> str:
            row = form.current
            return f"{row.kind} {row.field.key} {row.line}" if row is not None else ""

        async def go_to(line: int) -> None:
            assert form.go_to_line(line)
            await pilot.pause()

        first = at()
        await hand.changes("form.down", at)
        await hand.becomes("form.up", at, first)
        await hand.changes("form.page_down", at)
        await hand.becomes("form.page_up", at, first)
        await hand.changes("form.last", at)
        await hand.becomes("form.first", at, first)
        await go_to(8)
        await hand.does("form.toggle", lambda: "TrackedRun: true" in text_of(pilot))
        await hand.does("form.undo", lambda: "TrackedRun: false" in text_of(pilot))
        await hand.does("form.redo", lambda: "TrackedRun: true" in text_of(pilot))
        await go_to(4)
        await hand.does("form.edit", lambda: form.is_editing)
        await pilot.press("end", *"2")
        await hand.does("form.accept", lambda: '"--lr2"' in text_of(pilot))
        await go_to(4)
        await hand.does("form.move_up", lambda: text_of(pilot).index("--lr2") < text_of(pilot).index("$file"))
        await hand.does("form.move_down", lambda: text_of(pilot).index("--lr2") > text_of(pilot).index("$file"))
        await pilot.press("enter", *"zzz")
        await hand.does("form.cancel", lambda: not form.is_editing)
        assert "zzz" not in text_of(pilot)
        await go_to(6)
        await hand.does("form.rename", lambda: form.is_editing)
        await pilot.press(*"TWO", "enter")
        await until(lambda: "TWO:" in text_of(pilot))
        await hand.does("form.clear", lambda: "TWO:" not in text_of(pilot))
        await go_to(3)
        await hand.does("form.add", lambda: form.is_editing)
        await pilot.press("escape")
        await go_to(1)
        await pilot.press("enter", *"loc")
        await until(lambda: form.is_editing and form._editing is not None and form._editing.options)
        await hand.does("form.complete", lambda: form._editing is not None and form._editing.buffer.text == "local")
        await pilot.press("escape")
        await pilot.press("ctrl+t")
        editor = screen.query_one(TextEditor)
        editor.replace_source("Target: local\nTrackedRun: yes\n")
        await pilot.press("ctrl+t")
        await until(lambda: form.current is not None and len(text_of(pilot)) < 40)
        await pilot.app.workers.wait_for_complete()
        await pilot.press("f8")
        await pilot.pause()
        await hand.changes("form.fix", lambda: text_of(pilot))


@proves("run.prepare")
async def test_preparing(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text("type: localdocker\nbaseDockerImage: ubuntu\n")
    (project_root / "aml_config" / "box.runconfig").write_text("Target: box\nFramework: Python\n")
    async with opened(project) as pilot:
        await until(lambda: screen_of(pilot).panes.run_bar.choose_target("box"))
        await Hand(pilot).does("run.prepare", on(pilot, PrepareScreen))


@proves("view.border_left view.border_right view.border_up view.border_down view.borders_back")
async def test_borders(project: Project) -> None:
    async with opened(project) as pilot:
        hand, screen = Hand(pilot), screen_of(pilot)

        def sizes() -> tuple[int, int]:
            return screen.desk.files.region.width, screen.desk.files.region.height

        usual = sizes()
        await hand.does("view.border_left", lambda: sizes()[0] < usual[0])
        await hand.does("view.border_right", lambda: sizes()[0] == usual[0])
        await hand.does("view.border_up", lambda: sizes()[1] < usual[1])
        await hand.does("view.border_down", lambda: sizes()[1] == usual[1])
        await pilot.press("less_than_sign", "less_than_sign")
        await until(lambda: sizes() != usual)
        await hand.does("view.borders_back", lambda: sizes() == usual)


@proves("recent.open")
async def test_the_runs_at_the_side_of_a_wide_screen(project: Project) -> None:
    past_run(project, 1)
    async with opened(project, (200, 60)) as pilot:
        table = screen_of(pilot).query("RecentPane RunTable").first()
        table.focus()
        await until(lambda: table.has_focus and table.current)  # type: ignore[attr-defined]
        await Hand(pilot).does("recent.open", on(pilot, RunDetailsScreen))
