"""The Log pane: title, status, search, setup log, and the reason of a failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import content_of, lines_of
from tests.ui.test_formatting import make_run
from tests.ui.waiting import until
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.logs.log import LogPane
from tui_workbench.ui.logs.log_search_row import LogSearchRow
from tui_workbench.ui.logs.reason_lines import TracebackLine
from tui_workbench.ui.messages import FileChosen

if TYPE_CHECKING:
    from textual.pilot import Pilot

LINES = b"".join(b"line %03d\n" % number for number in range(200))


class LogApp(App[None]):
    """An app with only the pane, with one run or none."""

    CSS = "LogPane { border: round gray; width: 70; height: 12; }"

    def __init__(self, run: Run | None) -> None:
        super().__init__()
        self.pane = LogPane(id="log")
        self.run_shown = run
        self.chosen: list[tuple[str, int]] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.show_run(self.run_shown)
        self.pane.take_focus()

    def on_file_chosen(self, event: FileChosen) -> None:
        self.chosen.append((event.path, event.line))

    def border_title(self) -> str:
        return str(self.pane.border_title)

    def status(self) -> str:
        return str(self.pane.border_subtitle or "")

    async def shows(self, text: str) -> None:
        await until(lambda: any(text in line for line in content_of(self.pane)))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / ".workbench" / "runs" / "p_1"
    path.mkdir(parents=True)
    return path


def a_run(directory: Path, log: bytes, state: str = RunState.COMPLETED, run_id: str = "p_1") -> Run:
    (directory / "output.log").write_bytes(log)
    return make_run(state)._replace(run_id=run_id, run_number=7, directory=str(directory), target="local")


def append(run: Run, data: bytes) -> None:
    with Path(run.log_path).open("ab") as file:
        file.write(data)


class TestWords:
    async def test_empty_pane_explains_how_to_start_a_run(self) -> None:
        async with LogApp(None).run_test(size=(80, 20)) as pilot:
            await pilot.pause()
            pane = pilot.app.query_one(LogPane)
            assert content_of(pane) == ["No runs yet.", "ctrl+r runs the script in the run bar."]
            pane.show_run(None, hint="ctrl+r runs train.py on local.")
            await pilot.pause()
            assert content_of(pane) == ["No runs yet.", "ctrl+r runs train.py on local."]

    async def test_border_shows_the_run_and_the_state_of_the_log(self, directory: Path) -> None:
        run = a_run(directory, LINES, RunState.RUNNING)
        app = LogApp(run)
        async with app.run_test(size=(80, 20)) as pilot:
            await until(lambda: app.status() == "following, 200 lines")
            assert app.border_title() == "4 Log  train.py [7] on local"
            append(run, b"one more\n")
            await until(lambda: app.status() == "following, 201 lines")
            await pilot.press("k")
            await until(lambda: app.status() == "paused, line 191 of 201")
            append(run, b"another\n")
            await until(lambda: app.status() == "paused, 1 new line")
            await pilot.press("G")
            await until(lambda: app.status() == "following, 202 lines")
            app.pane.show_run(run._replace(state=RunState.COMPLETED))
            await pilot.press("k")
            await until(lambda: app.status() == "line 192 of 202")

    async def test_new_attempt_has_a_note_beside_its_first_line(self, directory: Path) -> None:
        run = a_run(directory, b"began\nbegan\nwent on\n", RunState.RUNNING)
        app = LogApp(run)
        async with app.run_test(size=(80, 20)):
            await app.shows("went on")
            RunDirectory(run.directory).append_event("attempt", number=2, start=6, reason="[b]node1\x1b failed")
            app.pane.show_run(run._replace(reason="attempt 2: node1 failed"))
            await app.shows("◂ attempt 2: [b]node1␛ failed")
            shown = content_of(app.pane)
            assert [line.split()[:2] for line in shown[:3]] == [["began"], ["began", "◂"], ["went", "on"]]

    async def test_control_characters_in_the_title_are_shown(self, directory: Path) -> None:
        run = a_run(directory, LINES)._replace(script_name="[red]\x1b[31mx.py")
        app = LogApp(run)
        async with app.run_test(size=(80, 20)):
            await until(lambda: "[red]␛[31mx.py [7]" in lines_of(app.pane)[0])

    async def test_run_without_output_shows_a_message(self, directory: Path) -> None:
        run = a_run(directory, b"", RunState.RUNNING)
        app = LogApp(run)
        async with app.run_test(size=(80, 20)):
            await app.shows("No output yet.")
            app.pane.show_run(run._replace(state=RunState.FAILED, reason="no such file: x.py"))
            await app.shows("✗ No such file: x.py.")

    async def test_queued_run_shows_its_reason(self, directory: Path) -> None:
        run = make_run(RunState.QUEUED)._replace(directory=str(directory), reason="waits for a.py [6] on local")
        app = LogApp(run)
        async with app.run_test(size=(80, 20)):
            await app.shows("Waits for a.py [6] on local.")

    async def test_unreadable_log_shows_an_error(self, directory: Path) -> None:
        (directory / "output.log").mkdir()
        run = make_run(RunState.COMPLETED)._replace(directory=str(directory))
        app = LogApp(run)
        async with app.run_test(size=(80, 20)):
            await until(lambda: "cannot read" in app.status())

    async def test_another_run_replaces_the_log(self, directory: Path, tmp_path: Path) -> None:
        other = tmp_path / ".workbench" / "runs" / "p_2"
        other.mkdir()
        app = LogApp(a_run(directory, b"the first\n"))
        async with app.run_test(size=(80, 20)):
            await app.shows("the first")
            app.pane.show_run(a_run(other, b"the second\n", run_id="p_2"))
            await app.shows("the second")
            app.pane.show_run(None)
            await app.shows("No runs yet.")


class TestSearch:
    async def test_search_counts_matches_while_typing(self, directory: Path) -> None:
        app = LogApp(a_run(directory, LINES))
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "line 05")
            await app.shows("10 of 10")
            await app.shows("line 059")
            await pilot.press("8")
            await app.shows("1 of 1")
            assert app.pane.view.state.search is not None
            assert app.pane.view.state.search.matches == 1

    async def test_enter_keeps_the_match_and_n_shows_the_next(self, directory: Path) -> None:
        app = LogApp(a_run(directory, LINES))
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "line 05")
            await app.shows("10 of 10")
            await pilot.press("enter")
            assert app.focused is app.pane.view
            await pilot.press("N", "N", "n")
            await app.shows("9 of 10")
            await pilot.press("n", "n")
            await app.shows("1 of 10, wrapped")
            await pilot.press("escape")
            await until(lambda: not app.pane.query(LogSearchRow))
            await until(lambda: app.pane.view.state.search is None)
            assert not app.pane.view.state.pinned, "the log stays where it is"

    async def test_escape_cancels_the_search(self, directory: Path) -> None:
        app = LogApp(a_run(directory, LINES))
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "line 01")
            await app.shows("10 of 10")
            await pilot.press("escape")
            await until(lambda: app.status() == "200 lines")
            assert app.focused is app.pane.view
            assert app.pane.view.state.pinned

    async def test_search_accepts_regular_expressions_and_reports_errors(self, directory: Path) -> None:
        app = LogApp(a_run(directory, LINES))
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "05[78")
            await app.shows("no match")
            await pilot.press("alt+r")
            await app.shows("regex")
            await app.shows("missing ]")
            await pilot.press("right_square_bracket")
            await app.shows("2 of 2")

    async def test_search_finds_matches_in_new_lines(self, directory: Path) -> None:
        run = a_run(directory, LINES, RunState.RUNNING)
        app = LogApp(run)
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "needle")
            await app.shows("no match")
            append(run, b"needle\n")
            await app.shows("1 line")

    async def test_another_run_ends_the_search(self, directory: Path, tmp_path: Path) -> None:
        app = LogApp(a_run(directory, LINES))
        async with app.run_test(size=(80, 20)) as pilot:
            await search(pilot, "line")
            await app.shows("200 of 200")
            app.pane.show_run(None)
            await until(lambda: not app.pane.query(LogSearchRow))
            assert app.focused is app.pane.view


class TestFailure:
    @staticmethod
    def failed(directory: Path, file: str) -> Run:
        text = (
            f'Traceback (most recent call last):\n  File "{file}", line 41, in forward\n    x\nValueError: bad shapes\n'
        )
        return a_run(directory, LINES + text.encode() + LINES, RunState.FAILED)

    async def test_reason_is_shown_above_the_log(self, directory: Path) -> None:
        app = LogApp(self.failed(directory, f"{directory}/work/net/model.py"))
        async with app.run_test(size=(80, 20)) as pilot:
            await app.shows("✗ ValueError: bad shapes")
            assert content_of(app.pane)[0].endswith("net/model.py:41 in forward")
            await pilot.press("t")
            await app.shows("Traceback (most recent call last):")
            await until(lambda: app.pane.view.state.mark == len(LINES))

    async def test_click_on_the_error_location_opens_the_file(self, directory: Path, tmp_path: Path) -> None:
        (tmp_path / "train.py").touch()
        app = LogApp(self.failed(directory, f"{directory}/work/train.py"))
        async with app.run_test(size=(80, 20)) as pilot:
            await app.shows("train.py:41")
            await pilot.click(TracebackLine, offset=(60, 0))
            await until(lambda: app.chosen)
            assert app.chosen == [(str(tmp_path / "train.py"), 41)]

    async def test_traceback_of_a_completed_run_can_be_found(self, directory: Path) -> None:
        run = self.failed(directory, "train.py")._replace(state=RunState.COMPLETED)
        app = LogApp(run)
        async with app.run_test(size=(80, 20)) as pilot:
            await until(lambda: app.pane.view.state.traceback is not None)
            assert not app.pane.query_one(TracebackLine).display
            assert not app.pane.why_not("show_traceback")
            app.pane.show_run(run._replace(state=RunState.FAILED))
            await app.shows("✗ ValueError: bad shapes")
            app.pane.show_run(a_run(directory, LINES, run_id="p_3"))
            await pilot.pause()
            await until(lambda: not app.pane.query_one(TracebackLine).display)


class TestWhatIsOffered:
    async def test_only_effective_commands_are_available(self, directory: Path) -> None:
        app = LogApp(None)
        async with app.run_test(size=(80, 20)) as pilot:
            pane, view = app.pane, app.pane.view
            assert all(pane.why_not(it) for it in ("search", "step", "clear_search", "show_traceback"))
            assert view.why_not("follow")
            assert view.why_not("copy_line")
            pane.show_run(a_run(directory, LINES))
            await app.shows("line 199")
            assert not pane.why_not("search")
            assert pane.why_not("show_traceback")
            await pilot.press("k")
            await until(lambda: not view.why_not("follow"))
            await search(pilot, "line")
            await until(lambda: not pane.why_not("step"))


async def search(pilot: Pilot[None], text: str) -> None:
    """Open the search and type a text."""
    assert isinstance(pilot.app, LogApp)
    await pilot.app.shows("line 1")
    await pilot.press("slash")
    await until(lambda: pilot.app.query(LogSearchRow))
    await until(lambda: pilot.app.focused is not None and pilot.app.focused is not pilot.app.query_one("LogView"))
    names = {" ": "space", "[": "left_square_bracket", "]": "right_square_bracket"}
    await pilot.press(*[names.get(letter, letter) for letter in text])


class TestPreparation:
    """The preparation of a run has a separate log."""

    async def test_setup_log_is_shown_before_the_script_and_by_key(self, directory: Path) -> None:
        (directory / "preparation.log").write_bytes(b"fetching the image\n")
        started = a_run(directory, b"epoch 1\n", RunState.RUNNING)._replace(target_type="remotedocker", start=1.0)
        app = LogApp(started._replace(state=RunState.PREPARING, start=0.0))
        async with app.run_test(size=(80, 20)) as pilot:
            await app.shows("fetching the image")
            assert app.border_title() == "4 Log  train.py [7] on local: setup log"
            app.pane.show_run(started)
            await app.shows("epoch 1")
            assert app.border_title() == "4 Log  train.py [7] on local"
            await pilot.press("o")
            await app.shows("fetching the image")
            app.pane.show_run(started)
            await pilot.pause()
            assert "fetching the image" in content_of(app.pane)
            await pilot.press("o")
            await app.shows("epoch 1")

    async def test_failed_preparation_shows_its_reason(self, directory: Path) -> None:
        (directory / "preparation.log").write_bytes(b"step 1/1: install\n")
        reason = "the package nosuch\x1b[31m cannot be had. Correct line 7 of conda_dependencies.yml"
        failed = a_run(directory, b"", RunState.FAILED)._replace(target_type="remotedocker", reason=reason)
        app = LogApp(failed)
        async with app.run_test(size=(80, 20)):
            await app.shows("step 1/1: install")
            await app.shows("✗ The package nosuch␛[31m cannot be had.")
            await app.shows("conda_dependencies.yml.")
            await app.shows("step 1/1: install")  # the log is shown below the reason

    async def test_output_stays_visible_while_the_target_is_unreachable(self, directory: Path) -> None:
        queued = a_run(directory, b"", RunState.QUEUED)._replace(target_type="remotedocker")
        app = LogApp(queued)
        async with app.run_test(size=(80, 20)):
            app.pane.show_run(queued._replace(state=RunState.PREPARING))
            (directory / "preparation.log").write_bytes(b"preparing box\n")
            await app.shows("preparing box")
            reason = "unreachable since 14:03:12: box does not answer. " + "Look at it there with this and that. " * 5
            app.pane.show_run(queued._replace(state=RunState.UNKNOWN, reason=reason))
            await app.shows("? Unreachable since 14:03:12")
            await app.shows("press r in Jobs to retry now.")
            await app.shows("preparing box")

    async def test_local_run_has_no_setup_log(self, directory: Path) -> None:
        app = LogApp(a_run(directory, b"out\n"))
        async with app.run_test(size=(80, 20)):
            await app.shows("out")
            assert app.pane.why_not("change_log")
