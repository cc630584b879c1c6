"""The log view: following, keys, mouse and selection."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Offset, Region
from textual.screen import Screen

from tests.ui.seen import lines_of
from tests.ui.textual_internals import has_running_timer
from tests.ui.waiting import until
from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.logs.log_view import LogView
from tui_workbench.ui.terminal.textual_internals import install_compositor
from tui_workbench.ui.themes import themes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.segment import Segment
    from textual.pilot import Pilot

LINES = b"".join(b"line %03d\n" % number for number in range(200))
WIDTH, HEIGHT = 40, 10


class LogApp(App[None]):
    """An app with a log view that records its messages."""

    CSS = "LogView { width: 40; height: 10; }"

    def __init__(self, path: Path, active: bool = False) -> None:
        super().__init__()
        self.view = LogView()
        self.path = path
        self.active = active
        self.copied: list[int] = []

    def get_default_screen(self) -> Screen[None]:
        screen: Screen[None] = Screen()
        install_compositor(screen)  # the same as in the workbench
        return screen

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.screen.set_focus(self.view)
        self.view.set_log(str(self.path), self.active)

    def on_log_view_copied(self, event: LogView.Copied) -> None:
        self.copied.append(event.lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "output.log"
    path.write_bytes(LINES)
    return path


def put(log: Path, data: bytes) -> None:
    """Append to the log, as a run does."""
    with log.open("ab") as file:
        file.write(data)


def shown(view: LogView) -> list[str]:
    """Return the lines on the screen, without the scroll bar."""
    return [line[: WIDTH - 1].rstrip() for line in lines_of(view)]


async def shows(app: LogApp, *, first: str = "", last: str = "") -> None:
    """Wait until the first or the last row on the screen has this text."""

    def stands() -> bool:
        lines = [line for line in shown(app.view) if line]
        return bool(lines) and (not first or lines[0] == first) and (not last or lines[-1] == last)

    await until(stands)


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)


async def test_log_is_shown_at_its_end(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)):
        await shows(app, first="line 190", last="line 199")


async def test_active_log_is_followed(log: Path) -> None:
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)):
        await shows(app, last="line 199")
        put(log, b"new\npart of a li")
        await shows(app, last="part of a li")
        put(log, b"ne")
        await shows(app, last="part of a line")
        assert app.view.state.line_count == 202


async def test_last_line_of_an_ended_log_is_shown(log: Path) -> None:
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)):
        await shows(app, last="line 199")
        put(log, b"last words\n")
        app.view.set_active(False)
        await shows(app, last="last words")


async def test_log_that_appears_later_is_shown(tmp_path: Path) -> None:
    app = LogApp(tmp_path / "later", active=True)
    async with app.run_test(size=(60, 20)):
        await until(lambda: app.view.state.revision > 0)
        put(tmp_path / "later", b"here\n")
        await shows(app, first="here")


async def test_scrolling_up_pauses_following_until_the_end_is_reached(log: Path) -> None:
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, "k")
        await shows(app, last="line 198")
        put(log, b"new 1\nnew 2\n")
        await until(lambda: app.view.state.new_lines == 2)
        assert shown(app.view)[-1] == "line 198"
        await press(pilot, "G")
        await shows(app, last="new 2")
        assert app.view.state.pinned


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["g"], "line 000"),
        (["home", "j", "down"], "line 002"),
        (["home", "pagedown"], "line 009"),
        (["home", "space", "ctrl+f", "b"], "line 009"),
        (["home", "ctrl+d"], "line 005"),
        (["up", "k"], "line 188"),
        (["pageup"], "line 181"),
        (["ctrl+u"], "line 185"),
        (["g", "end"], "line 190"),
        (["j", "pagedown"], "line 190"),
    ],
)
async def test_keys_scroll(log: Path, keys: list[str], first: str) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, *keys)
        await shows(app, first=first)


async def test_long_lines_can_be_panned_or_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    put(path, b"".join(b"%d" % (n % 10) for n in range(100)) + b"\nshort\n")
    app = LogApp(path)
    async with app.run_test(size=(60, 20)) as pilot:
        await until(lambda: shown(app.view)[0] == "01234567890123456789012345678901234567›")
        await press(pilot, "l")
        await until(lambda: shown(app.view)[0] == "89012345678901234567890123456789012345›")
        await press(pilot, *["right"] * 20)
        await until(lambda: shown(app.view)[0].endswith("789"))
        await press(pilot, *["h"] * 20)
        await press(pilot, "w")
        await until(lambda: shown(app.view)[2] == "8901234567890123456789")
        assert shown(app.view)[3] == "short"
        await press(pilot, "w")
        await until(lambda: shown(app.view)[1] == "short")


async def test_line_numbers_are_shown(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, "number_sign")
        await shows(app, first="   191 line 190")


async def test_wheel_and_scroll_bar_scroll(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        app.post_message(events.MouseScrollUp(None, 3, 3, 0, -1, 0, False, False, False))
        await shows(app, first="line 187")
        bar = app.view.vertical_scrollbar
        await until(lambda: round(bar.position) == 187)
        assert (bar.window_virtual_size, bar.window_size) == (200, HEIGHT)
        await pilot.mouse_down(bar, offset=(0, 9))
        await pilot.hover(bar, offset=(0, 4))
        await pilot.mouse_up(bar, offset=(0, 4))
        await until(lambda: shown(app.view)[0] < "line 120")


async def test_search_marks_its_match(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)):
        await shows(app, last="line 199")
        app.view.post(lambda session: session.search(Pattern("line 05")))
        await until(lambda: app.view.state.mark != -1)
        await until(lambda: "line 059" in shown(app.view))
        app.view.post(lambda session: session.step(-1))
        await until(lambda: app.view.state.search is not None and app.view.state.search.ordinal == 9)
        row = next(row for row in app.view.state.rows if row.line.start == app.view.state.mark)
        assert row.line.plain == "line 058"


async def test_selection_out_of_view_is_copied(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await pilot.mouse_down(app.view, offset=(5, 8))
        await pilot.hover(app.view, offset=(2, 9))
        await pilot.mouse_up(app.view, offset=(6, 9))
        await until(lambda: app.view.text_selection is not None)
        await press(pilot, "g")
        await shows(app, first="line 000")
        await press(pilot, "y")
        await until(lambda: app.copied)
        assert app.clipboard == "198\nline 19"
        assert app.copied == [2]


async def test_y_copies_the_marked_line_or_the_last_line(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, "y")
        await until(lambda: app.clipboard == "line 199")
        await pilot.click(app.view, offset=(3, 4))
        await until(lambda: app.view.state.mark != -1)
        await press(pilot, "y")
        await until(lambda: app.clipboard == "line 194")


async def test_double_click_selects_the_line(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await pilot.click(app.view, offset=(3, 4), times=2)
        await until(lambda: app.screen.get_selected_text() == "line 194")


async def test_selection_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "log"
    put(path, b"x\n" * 100_000)
    app = LogApp(path)
    async with app.run_test(size=(60, 20)):
        await shows(app, last="x")
        app.view.text_select_all()
        text = app.screen.get_selected_text()
        assert text is not None
        assert text.count("\n") == 20_000 - 1


async def test_offsets_of_characters_follow_scrolling(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        _, offset = app.screen.get_widget_and_offset_at(5, 9)
        assert offset == Offset(5, 199 * 9)
        await press(pilot, "g")
        await shows(app, first="line 000")
        assert app.screen.get_widget_and_offset_at(5, 0)[1] == Offset(5, 0)


async def test_unchanged_rows_are_not_drawn_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[int] = set()
    draw_rows = LogView.draw_rows

    def recorded(view: LogView, rows: Sequence[int]) -> Iterable[list[Segment]]:
        drawn.update(rows)
        return draw_rows(view, rows)

    monkeypatch.setattr(LogView, "draw_rows", recorded)
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, "k")
        await shows(app, last="line 198")
        await pilot.pause()
        assert drawn == set(range(HEIGHT))
        drawn.clear()
        put(log, b"below what is seen\n")
        await until(lambda: app.view.state.new_lines == 1)
        await pilot.pause()
        assert shown(app.view)[-1] == "line 198"
        assert not drawn


async def test_idle_log_needs_no_thread_and_no_timer(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await until(lambda: app.view.reader.is_idle)
        await pilot.pause()
        assert app.view.reader.is_idle, "the reader's thread should sleep until the next command"
        assert not has_running_timer(app.view)


async def test_hidden_log_is_not_read(log: Path) -> None:
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        app.view.display = False
        await until(lambda: app.view.reader.is_idle)
        put(log, b"meanwhile\n")
        app.view.set_active(False)
        await pilot.pause()
        app.view.display = True
        await shows(app, last="meanwhile")


async def test_reader_ends_with_the_view(log: Path) -> None:
    app = LogApp(log)
    async with app.run_test(size=(60, 20)):
        await shows(app, last="line 199")
        thread = app.view.reader.thread
        assert thread in threading.enumerate()
    await until(lambda: not thread.is_alive())


async def test_control_characters_are_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    put(path, b"\x1b]0;title\x07\x1b[2J\x1bc\x9b31m\x1b[31mred\x1b[5mblink\n\xe2\x80\xae\n")
    app = LogApp(path)
    async with app.run_test(size=(60, 20)):
        await shows(app, first="␛]0;title␇␛[2J␛c<9B>31mredblink")
        strips = [app.view.render_line(y) for y in range(HEIGHT)]
        text = "".join(strip.text for strip in strips)
        assert "\x1b" not in text
        assert "<U+202E>" in text
        assert not any(segment.style and segment.style.blink for strip in strips for segment in strip)


async def test_truncated_log_is_shown_from_its_new_start(log: Path) -> None:
    app = LogApp(log, active=True)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(app, last="line 199")
        await press(pilot, "g")
        await shows(app, first="line 000")
        os.truncate(log, 0)
        put(log, b"from the start\n")
        await shows(app, first="from the start")
        assert app.view.state.pinned


async def test_theme_change_redraws_the_log(log: Path) -> None:
    app = LogApp(log)
    dark, light = (themes.load_theme(name) for name in ("slate", "paper"))
    async with app.run_test(size=(60, 20)) as pilot:
        for theme in (dark, light):
            app.register_theme(theme)
            app.theme = theme.name
            await shows(app, last="line 199")
            await pilot.pause()
            (strip, *_) = app.view.render_lines(Region(0, 0, WIDTH, 1))
            grounds = {segment.style.bgcolor.name for segment in strip if segment.style and segment.style.bgcolor}
            assert grounds == {theme.palette.background}
