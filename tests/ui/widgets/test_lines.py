"""The lines around the panes: header, tabs, notice, and the latest output of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import lines_of
from tests.ui.test_formatting import make_run
from tests.ui.waiting import until
from tui_workbench.core.model import Run, RunState
from tui_workbench.ui.formatting import BROKEN, READY
from tui_workbench.ui.logs import latest_line
from tui_workbench.ui.logs.latest_line import LatestLine, last_line
from tui_workbench.ui.main.main_area import Header
from tui_workbench.ui.widgets.line import TabRow
from tui_workbench.ui.widgets.notice import Notice

if TYPE_CHECKING:
    from pathlib import Path

    from textual.widget import Widget


class OneApp(App[None]):
    """An app with one widget."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.told: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_tab_row_chosen(self, event: TabRow.Chosen) -> None:
        self.told.append(event.name)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        self.told.append(event.notice.text)


async def test_header_shows_project_branch_runs_and_targets() -> None:
    header = Header("digits", id="header")
    async with OneApp(header).run_test(size=(80, 5)) as pilot:
        header.branch = "main"
        header.changes = 2
        header.states = [RunState.RUNNING, RunState.RUNNING, RunState.QUEUED]
        header.targets = (("local", READY), ("old-vm", BROKEN))
        await pilot.pause()
        (line,) = lines_of(header)
        runs = ["●", "2", "running", "○", "1", "queued"]
        assert line.split() == ["digits", "main", "±2", *runs, "local", "✓", "old-vm", "✗"]


async def test_narrow_header_omits_targets() -> None:
    header = Header("a-project-with-a-very-long-name", id="header")
    async with OneApp(header).run_test(size=(40, 5)) as pilot:
        header.targets = tuple((f"target-{number}", READY) for number in range(9))
        await pilot.pause()
        (line,) = lines_of(header)
        assert "…" in line
        assert "target-0 ✓" in line
        assert len(line) <= 40


async def test_control_sequences_in_the_header_are_shown() -> None:
    header = Header("a\x1b[2Jb[red]", id="header")
    async with OneApp(header).run_test(size=(80, 5)) as pilot:
        header.branch = "x\x1b]0;t\x07"
        await pilot.pause()
        assert "a␛[2Jb[red]  x␛]0;t␇" in lines_of(header)[0]


async def test_tabs_are_numbered_and_clickable() -> None:
    tabs = TabRow((("files", "Files"), ("log", "Log")), id="tabs")
    app = OneApp(tabs)
    async with app.run_test(size=(80, 5)) as pilot:
        assert lines_of(tabs)[0].split("  ") == [" 1 Files", "2 Log"]
        await pilot.click(TabRow, offset=(11, 0))
        await until(lambda: app.told == ["log"])


@pytest.mark.parametrize(("width", "lines"), [(200, 1), (60, 2), (30, 5)])
def test_error_is_shown_in_full(width: int, lines: int) -> None:
    notice = Notice(id="notice")
    notice.say("word " * 22, wrong=True)
    shown = notice.lines(width)
    assert len(shown) == lines
    assert " ".join(text.text for _, text in shown).split() == ["word"] * 22
    assert [mark.text.strip() for mark, _ in shown] == ["✗", *[""] * (lines - 1)]


async def test_message_takes_one_line() -> None:
    notice = Notice(id="notice")
    app = OneApp(notice)
    notice.styles.height = 4
    async with app.run_test(size=(40, 5)) as pilot:
        notice.say("long " * 40)
        await pilot.pause()
        assert len(notice.lines(40)) == 1
        assert not notice.is_important
        notice.say("short\x1b[2J")
        await pilot.pause()
        assert lines_of(notice)[0].strip() == "short␛[2J"


async def test_standing_text_stays_below_messages() -> None:
    notice = Notice(id="notice")
    notice.styles.height = 4
    async with OneApp(notice).run_test(size=(60, 5)) as pilot:
        notice.show_standing("the project cannot be written")
        notice.say("one")
        await pilot.pause()
        notice.say("two", wrong=True)
        await pilot.pause()
        assert notice.is_important
        assert [line.strip() for line in lines_of(notice)[:2]] == ["✗ two", "▲ the project cannot be written"]


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (b"", b""),
        (b"one\ntwo\n", b"two"),
        (b"one\ntwo", b"two"),
        (b"one\n\n  \n", b"one"),
        (b"x" * 10_000, b"x" * 4096),
    ],
)
def test_last_line_with_text(tmp_path: Path, data: bytes, last: bytes) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(data)
    assert last_line(str(path)) == last


def test_missing_log_has_no_last_line(tmp_path: Path) -> None:
    assert last_line(str(tmp_path / "none")) == b""


async def test_last_line_of_a_run_is_followed_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Run] = []
    read = latest_line.latest_text

    def recorded(run: Run) -> str:
        reads.append(run)
        return read(run)

    monkeypatch.setattr(latest_line, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(latest_line, "latest_text", recorded)
    line = LatestLine(id="latest")
    run = make_run(RunState.RUNNING)._replace(directory=str(tmp_path))
    log = tmp_path / os.path.basename(run.log_path)
    log.write_bytes(b"first\n")
    async with OneApp(line).run_test(size=(80, 5)) as pilot:
        line.show_run(run)
        await until(lambda: "● running train.py [7]  first" in lines_of(line)[0])
        log.write_bytes(b"first\n\x1b[31mloss 0.5\x1b[0m\x1b[2J\n")
        await until(lambda: "loss 0.5␛[2J" in lines_of(line)[0])
        line.show_run(run._replace(state=RunState.COMPLETED, end=1.0))
        await until(lambda: "✓ completed" in lines_of(line)[0])
        await until(lambda: reads[-1].state is RunState.COMPLETED)
        count = len(reads)
        await pilot.pause(0.2)
        assert len(reads) == count


async def test_hint_is_shown_without_a_run() -> None:
    line = LatestLine(id="latest")
    async with OneApp(line).run_test(size=(80, 5)) as pilot:
        line.show_run(None, hint="ctrl+r runs it.")
        await pilot.pause()
        assert lines_of(line)[0].strip() == "ctrl+r runs it."
