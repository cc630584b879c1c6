"""The main screen on a real project with real runs, driven by keys."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from textual import events

from tests.ui.seen import content_of, lines_of, screen_lines
from tests.ui.waiting import until
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.app import WorkbenchApp
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.line import TabRow
from tui_workbench.ui.widgets.pieces import width_of
from tui_workbench.ui.widgets.question_row import QuestionRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

WIDE, NARROW = (120, 36), (80, 24)
SLOW = "import time\nprint('going', flush=True)\ntime.sleep(600)\n"


def make_app(project: Project, saved: Values | None = None) -> WorkbenchApp:
    tree = FileTree(project.root)
    for folder in tree.to_read():
        tree.accept(folder, read_folder(project.root, folder))
    return WorkbenchApp(project, tree, load_theme("slate"), saved=saved)


@asynccontextmanager
async def opened(project: Project, size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[list[Run]]]:
    """Open the workbench on a project and wait until the project is read."""
    app = make_app(project)
    async with app.run_test(size=size) as pilot:
        await until(lambda: screen_of(pilot).is_complete)
        await until(lambda: "ready" in seen(pilot) or "✓" in seen(pilot))
        await until(lambda: screen_of(pilot).panes.run_bar.script)
        yield pilot
        for run in Runs(project).list():
            if run.is_active:
                Runs(project).cancel(run.run_id, grace=0)


def screen_of(pilot: Pilot[list[Run]]) -> MainScreen:
    screen = pilot.app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen


def seen(pilot: Pilot[list[Run]]) -> str:
    return "\n".join(screen_lines(pilot.app))


async def test_early_keys_wait_until_the_screen_is_complete(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = MainScreen.complete

    async def nothing(_screen: MainScreen) -> None: ...

    monkeypatch.setattr(MainScreen, "complete", nothing)
    async with make_app(project).run_test(size=NARROW) as pilot:
        for key in ("3", "4"):
            pilot.app.post_message(events.Key(key, key).set_sender(pilot.app))
        await pilot.pause()
        screen = screen_of(pilot)
        assert screen.focused is not None
        assert screen.focused in screen.area.files.walk_children()
        screen.call_later(complete, screen)
        await until(lambda: screen.is_complete and bool(lines_of(screen.panes.log)))
        assert "4 Log" in lines_of(screen.panes.log)[0]


async def test_first_frame_shows_files_and_all_panes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_screen: MainScreen) -> None: ...

    monkeypatch.setattr(MainScreen, "complete", nothing)  # the parts that are imported after the first frame
    app = make_app(project)
    async with app.run_test(size=WIDE):
        text = "\n".join(screen_lines(app))
        for expected in ("1 Files", "2 Compute targets", "3 Editor", "4 Log", "5 Jobs", "hello.py", "local.compute"):
            assert expected in text


@pytest.mark.slow
async def test_early_keys_do_no_harm(project: Project) -> None:
    app = make_app(project)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("slash", *"hello", "escape", "r", "s", "ctrl+r", "5", "z", "z", "ctrl+p", "escape")
        await until(lambda: screen_of(pilot).is_complete)
        await until(lambda: screen_of(pilot).panes.run_bar.script == "hello.py")


@pytest.mark.slow
async def test_ctrl_r_runs_the_script_and_shows_its_output(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "hello.py [1]" in seen(pilot) and "completed" in seen(pilot))
        await until(lambda: content_of(screen_of(pilot).panes.log)[:1] == ["hello"])
        (run,) = Runs(project).list()
        assert run.exit_code == 0


async def test_configuration_does_not_restore_removed_arguments(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text("import sys\nprint(sys.argv[1:])\n")
    configuration = project_root / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace('  - "$file"\n', '  - "$file"\n  - "--cuda"\n'))
    async with opened(project) as pilot:
        await pilot.press("minus", "ctrl+u", "ctrl+r")
        await until(lambda: content_of(screen_of(pilot).panes.log)[:1] == ["[]"])


@pytest.mark.slow
async def test_editing_works_during_several_runs(project: Project, project_root: Path) -> None:
    (project_root / "hello.py").write_text(SLOW)
    async with opened(project) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "1 running" in seen(pilot))
        await pilot.press("ctrl+r")
        await until(lambda: "2 running" in seen(pilot))
        await pilot.press("1", "G", "enter")
        await until(lambda: "3 hello.py" in seen(pilot))


@pytest.mark.slow
async def test_run_of_the_command_line_appears(project: Project) -> None:
    async with opened(project) as pilot:
        Runs(project).submit(RunRequest("local", "hello.py"))
        await until(lambda: "hello.py [1]" in seen(pilot))


@pytest.mark.slow
async def test_new_target_and_new_file_appear(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        (project_root / "aml_config" / "fresh.compute").write_text("type: localdocker\nbaseDockerImage: image:7\n")
        await until(lambda: "Docker image:7" in seen(pilot) and "fresh.compute" in seen(pilot))


@pytest.mark.slow
async def test_invalid_configuration_shows_an_error_in_the_run_bar(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        config = project_root / "aml_config"
        (config / "local.runconfig").write_text("Target: nowhere\nFramework: Python\nArgumentVector: [$file]\n")
        bar = screen_of(pilot).panes.run_bar
        await until(lambda: bar.notice.is_error and "aml_config/local.runconfig:1" in bar.notice.text)
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 1
        assert Runs(project).list() == []
        (config / "local.runconfig").write_text("Target: local\nFramework: Python\nArgumentVector: [$file]\n")
        await until(lambda: not bar.notice.is_error)


@pytest.mark.slow
async def test_enter_on_a_broken_target_opens_the_line_of_the_error(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        (project_root / "aml_config" / "local.compute").write_text("type: local\npythonLocation: [\n")
        await until(lambda: "problem" in seen(pilot) and "local.compute:" in seen(pilot))
        await pilot.press("2", "enter")
        await until(lambda: "3 local.compute" in seen(pilot))


@pytest.mark.slow
async def test_edited_files_are_saved_before_the_run(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "G", "enter")
        await until(lambda: "3 hello.py" in seen(pilot))
        await until(lambda: screen_of(pilot).panes.editor.has_focus_within)
        await pilot.press(*"print('new')", "enter")
        await until(lambda: screen_of(pilot).panes.editor.dirty_paths())
        await until(lambda: "● hello.py" in "\n".join(lines_of(screen_of(pilot).area.files)))
        await pilot.press("ctrl+r")
        await until(lambda: content_of(screen_of(pilot).panes.log)[:1] == ["new"])
        assert (project_root / "hello.py").read_text().startswith("print('new')")


@pytest.mark.slow
async def test_tab_moves_between_panes(project: Project) -> None:
    async with opened(project) as pilot:
        visited = []
        for _ in range(9):
            await pilot.press("tab")
            await pilot.pause()
            visited.append(focused_ids(pilot))
        for pane in ("targets", "editor", "log", "jobs", "files", "environment", "script", "arguments"):
            assert any(pane in ids for ids in visited), pane


def focused_ids(pilot: Pilot[list[Run]]) -> list[str]:
    focused = pilot.app.focused
    return [str(node.id) for node in focused.ancestors_with_self] if focused is not None else []


@pytest.mark.slow
async def test_zoom_toggles_the_size_of_a_pane(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("4", "z")
        await until(lambda: "4 Log" in seen(pilot) and "1 Files" not in seen(pilot))
        await pilot.press("5")
        await until(lambda: "5 Jobs" in seen(pilot) and "4 Log" not in seen(pilot))
        await pilot.press("z")
        await until(lambda: "1 Files" in seen(pilot) and "5 Jobs" in seen(pilot))


@pytest.mark.slow
async def test_escape_leaves_the_editor_to_the_previous_pane(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "G", "enter")
        await until(lambda: screen_of(pilot).panes.editor.has_focus_within)
        await pilot.press("escape")
        await until(lambda: "files" in focused_ids(pilot))
        await pilot.press("2", "enter")
        await until(lambda: screen_of(pilot).panes.editor.has_focus_within)
        await pilot.press("escape")
        await until(lambda: "targets" in focused_ids(pilot))


@pytest.mark.slow
async def test_letters_are_text_in_text_fields(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("minus", *"q z ? 1 x")
        await pilot.pause()
        assert screen_of(pilot).panes.run_bar.request().arguments == ("q", "z", "?", "1", "x")
        assert pilot.app.is_running


async def test_narrow_screen_shows_one_pane_under_tabs(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        await pilot.press("2")
        await until(lambda: "ready" in seen(pilot) and "hello.py ▾" in seen(pilot))
        assert "aml_config" not in seen(pilot)
        await pilot.press("ctrl+r")
        await until(lambda: any("hello.py [1]  hello" in line for line in screen_lines(pilot.app)))


@pytest.mark.slow
async def test_tab_can_be_clicked(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        row = next(y for y, line in enumerate(screen_lines(pilot.app)) if "2 Targets" in line)
        await pilot.click(offset=(12, row))
        await until(lambda: "ready" in seen(pilot))


async def test_footer_shows_only_available_keys(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("5")
        await until(lambda: "jobs" in focused_ids(pilot))
        footer = screen_lines(pilot.app)[-1]
        assert "Cancel" not in footer
        assert "ctrl+r Run" in footer
        assert "? Help" in footer
        await pilot.press("minus")
        await until(lambda: "? Help" not in screen_lines(pilot.app)[-1])
        assert "f1 Help" in screen_lines(pilot.app)[-1]
        assert "Quit" not in screen_lines(pilot.app)[-1]


async def test_footer_key_can_be_clicked(project: Project) -> None:
    async with opened(project) as pilot:
        column = screen_lines(pilot.app)[-1].index("z Zoom") + 2
        await pilot.click(offset=(column, WIDE[1] - 1))
        await until(lambda: "2 Compute targets" not in seen(pilot))


@pytest.mark.slow
async def test_leaving_with_unsaved_edits_asks_and_saves(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "G", "enter")
        await until(lambda: screen_of(pilot).panes.editor.has_focus_within)
        await pilot.press(*"# x", "enter")
        await until(lambda: screen_of(pilot).panes.editor.dirty_paths())
        await pilot.press("ctrl+q")
        await until(lambda: "Unsaved edits in 1 file." in seen(pilot))
        await pilot.press("escape")
        await until(lambda: not screen_of(pilot).query(QuestionRow))
        await pilot.press("ctrl+q")
        await until(lambda: "Unsaved edits in 1 file." in seen(pilot))
        await pilot.press("s")
        await until(lambda: pilot.app.return_value is not None)
    assert (project_root / "hello.py").read_text().startswith("# x")


async def test_narrow_screen_starts_with_the_saved_pane(project: Project) -> None:
    app = make_app(project, Values({"screen": {"active": "jobs"}}))
    async with app.run_test(size=NARROW) as pilot:
        await until(lambda: screen_of(pilot).is_complete)
        await until(lambda: app.focused is not None and "jobs" in [node.id for node in app.focused.ancestors])
        tabs = screen_of(pilot).query_one(TabRow)
        assert tabs.active == "jobs"
        await until(lambda: "No runs yet." in seen(pilot))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_escape_leaves_a_restored_editor(project: Project, project_root: Path, size: tuple[int, int]) -> None:
    tabs = [{"path": str(project_root / "hello.py"), "row": 0, "column": 0}]
    saved = Values({"screen": {"active": "editor"}, "editor": {"tabs": tabs, "active": tabs[0]["path"]}})
    app = make_app(project, saved)
    async with app.run_test(size=size) as pilot:
        await until(lambda: isinstance(app.focused, TextEditor))
        await pilot.press("escape", "2")
        await until(lambda: app.focused is not None and "targets" in [node.id for node in app.focused.ancestors])
    assert (project_root / "hello.py").read_text() == 'print("hello")\n'


# The status line.


@pytest.mark.slow
async def test_error_of_the_request_disappears_with_its_cause(project: Project, project_root: Path) -> None:
    script = project_root / "later.py"
    configuration = project_root / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace("$file", "later.py"))
    async with opened(project) as pilot:
        notice = screen_of(pilot).panes.run_bar.notice
        await until(lambda: notice.is_error and "later.py" in notice.text)
        script.write_text("print(1)\n")
        await until(lambda: not notice.is_error and "Python 3." in notice.text)


async def test_error_of_the_request_returns_after_a_message(project: Project, project_root: Path) -> None:
    configuration = project_root / "aml_config" / "local.runconfig"
    configuration.write_text(configuration.read_text().replace("$file", "missing.py"))
    async with opened(project) as pilot:
        screen = screen_of(pilot)
        await until(lambda: screen.panes.run_bar.notice.is_error)
        screen.coordinator.context.say("passing")
        assert not screen.panes.run_bar.notice.is_error
        screen.coordinator.context.say("")
        assert screen.panes.run_bar.notice.is_error


async def test_error_of_an_action_disappears_on_another_pane(project: Project) -> None:
    async with opened(project) as pilot:
        screen = screen_of(pilot)
        notice = screen.panes.run_bar.notice
        await until(lambda: "Python 3." in notice.text)
        await pilot.press("2")
        screen.coordinator.context.show_error(UsageError("it went wrong"))
        await pilot.press("down", "up")
        assert notice.is_error
        await pilot.press("1")
        await until(lambda: not notice.is_error and "Python 3." in notice.text)


async def test_read_error_disappears_after_a_successful_read(project: Project) -> None:
    async with opened(project) as pilot:
        screen = screen_of(pilot)
        notice = screen.panes.run_bar.notice
        await until(lambda: "Python 3." in notice.text)
        screen.coordinator.state.show_failure(UsageError("the runs cannot be read"))
        await until(lambda: notice.is_error)
        screen.coordinator.state.show_runs_read([], {})
        await until(lambda: not notice.is_error)


@pytest.mark.slow
async def test_runs_read_before_a_start_keep_the_started_run_selected(project: Project) -> None:
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    async with opened(project) as pilot:
        screen = screen_of(pilot)
        state = screen.coordinator.state
        await until(lambda: state.run(run.run_id) is not None)
        started = run._replace(run_id="started-here", run_number=2)
        state.show_started(started)
        state.show_runs_read([run], {})
        assert [each.run_id for each in state.runs] == ["started-here", run.run_id]
        await pilot.pause()
        assert state.selected == "started-here"


# The footer.


async def test_footer_shows_help_and_commands_at_every_width(project: Project) -> None:
    async with opened(project) as pilot:
        footer = screen_of(pilot).query_one("#footer", KeyFooter)
        for width in range(60, 200):
            left, right = footer.pieces(width)
            # `Line` omits the right part if it would touch the left part.
            assert width_of(left) + width_of(right) < width
            assert "Commands " in [piece.text for piece in right]
