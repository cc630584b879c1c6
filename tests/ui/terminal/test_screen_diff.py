"""The screen buffer writes little, and the terminal shows what was drawn."""

from __future__ import annotations

from typing import NamedTuple

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui_workbench.ui.terminal.screen_diff import BLANKS, CellStyle, ScreenBuffer, cell_style, transition

WIDTH, HEIGHT = 40, 4

CODES = ("", "1", "2;31", "3;38;5;196", "4;38;5;20;48;5;100", "48;5;100", "38;2;1;2;3;48;2;9;8;7", "7;32", "9;97;41")
LETTERS = "ab  \u2500\u25cf\u2713\u00e9"
WIDE = "\u4e2d\uac00\U0001f44d"


class Painting(NamedTuple):
    """A painted range: its start, and its texts with their codes."""

    x: int
    y: int
    pieces: list[tuple[str, str]]


def paintings(alphabet: str) -> st.SearchStrategy[Painting]:
    text = st.text(alphabet, max_size=12) | st.integers(0, WIDTH).map(lambda length: " " * length)
    pieces = st.lists(st.tuples(text, st.sampled_from(CODES)), max_size=5)
    return st.builds(Painting, st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1), pieces).map(fitting)


def fitting(painting: Painting) -> Painting:
    """Return the part inside the screen, because Textual crops before it writes."""
    room, kept = WIDTH - painting.x, []
    for text, codes in painting.pieces:
        while cell_len(text) > room:
            text = text[:-1]
        kept.append((text, codes))
        room -= cell_len(text)
    return painting._replace(pieces=kept)


def put(frame: ScreenBuffer, painting: Painting) -> None:
    frame.put(painting.x, painting.y, [(text, cell_style(codes)) for text, codes in painting.pieces])


def plainly(painting: Painting) -> str:
    """Return the painting as Textual writes it."""
    words = [f"\x1b[{codes}m{text}\x1b[0m" if codes else text for text, codes in painting.pieces]
    return f"\x1b[{painting.y + 1};{painting.x + 1}H" + "".join(words)


class Screen:
    """An emulated terminal."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._screen.reset_mode(pyte.modes.DECAWM)
        self._stream = pyte.Stream(self._screen)

    def read(self, text: str) -> None:
        self._stream.feed(text)

    @property
    def cursor(self) -> tuple[int, int]:
        return self._screen.cursor.x, self._screen.cursor.y

    @property
    def seen(self) -> list[list[object]]:
        return [[seen_of(self._screen.buffer[y][x]) for x in range(WIDTH)] for y in range(HEIGHT)]


def seen_of(cell: pyte.screens.Char) -> object:
    """Return the visible style of a cell; a blank without lines and reversed colors has only a background."""
    if cell.data == " " and not (cell.underscore or cell.strikethrough or cell.reverse or cell.blink):
        return cell.bg
    return cell


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(paintings(LETTERS), max_size=4), max_size=6), st.booleans())
def test_terminal_shows_the_same_as_with_full_output(frames: list[list[Painting]], erases: bool) -> None:
    frame = ScreenBuffer(erases=erases)
    frame.resize(WIDTH, HEIGHT)
    lean, plain = Screen(), Screen()
    for paintings_of_frame in frames:
        for painting in paintings_of_frame:
            put(frame, painting)
            plain.read(plainly(painting))
        lean.read(frame.take((3, 2)))
        assert lean.seen == plain.seen
        assert lean.cursor == (3, 2)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(paintings(LETTERS + WIDE), max_size=4), max_size=5))
def test_wide_characters_replace_old_cells(frames: list[list[Painting]]) -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    lean = Screen()
    for paintings_of_frame in frames:
        for painting in paintings_of_frame:
            put(frame, painting)
        lean.read(frame.take((0, 0)))
    frame.forget()
    anew = Screen()
    anew.read(frame.take((0, 0)))
    assert lean.seen == anew.seen


@pytest.fixture
def frame() -> ScreenBuffer:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    for row in range(HEIGHT):
        put(frame, Painting(0, row, [("name      value", "38;5;7;48;5;235"), (" " * 25, "48;5;235")]))
    frame.take((0, 0))
    return frame


def test_unchanged_cells_are_not_written(frame: ScreenBuffer) -> None:
    put(frame, Painting(0, 1, [("name      value", "38;5;7;48;5;235"), (" " * 25, "48;5;235")]))
    assert frame.take((0, 0)) == ""


def test_only_the_changed_word_is_written(frame: ScreenBuffer) -> None:
    put(frame, Painting(0, 1, [("name      valid", "38;5;7;48;5;235")]))
    sent = frame.take((0, 0))
    assert "valid" in sent
    assert "name" not in sent


def test_foreground_of_blanks_is_ignored(frame: ScreenBuffer) -> None:
    put(frame, Painting(15, 1, [(" " * 25, "1;38;5;196;48;5;235")]))
    assert frame.take((0, 0)) == ""


def test_trailing_blanks_are_erased(frame: ScreenBuffer) -> None:
    put(frame, Painting(0, 1, [(" " * WIDTH, "48;5;100")]))
    sent = frame.take((0, 0))
    assert sent.endswith("\x1b[K\x1b[1H")
    assert " " * BLANKS not in sent


def test_blanks_are_written_to_a_terminal_that_cannot_erase() -> None:
    frame = ScreenBuffer(erases=False)
    frame.resize(WIDTH, HEIGHT)
    put(frame, Painting(0, 1, [(" " * WIDTH, "48;5;100")]))
    assert " " * WIDTH in frame.take((0, 0))


def test_forget_writes_everything_again(frame: ScreenBuffer) -> None:
    frame.forget()
    assert frame.take((0, 0)).count("value") == HEIGHT


def test_cells_never_drawn_are_not_written() -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    put(frame, Painting(5, 2, [("x", "")]))
    assert frame.take((0, 0)) == "\x1b[3;6H\x1b[mx\x1b[1H"


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "a\tb", "\x9b1m", "a\x07", "\x7f"], ids=ascii)
def test_control_characters_are_not_written(text: str) -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    put(frame, Painting(0, 0, [(text, "")]))
    sent = frame.take((0, 1)).replace("\x1b[1H", "").replace("\x1b[m", "").replace("\x1b[2H", "")
    assert sent.isprintable()


def test_emoji_are_written_between_cursor_moves() -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    put(frame, Painting(0, 0, [("a\U0001f44d\U0001f3fdb", "")]))
    assert "a  \x1b[1;2H\U0001f44d\U0001f3fd\x1b[1;4Hb" in frame.take((0, 0))


def test_link_is_opened_and_closed() -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    frame.put(0, 0, [("see", cell_style("4", "https://example.org")), (" it", cell_style(""))])
    sent = frame.take((0, 0))
    assert sent.index("\x1b]8;;https://example.org\x1b\\") < sent.index("see") < sent.index("\x1b]8;;\x1b\\")


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("1;38;5;2;48;5;3", "1;38;5;4;48;5;3", "\x1b[38;5;4m"),
        ("1;38;5;2;48;5;3", "38;5;2;48;5;3", "\x1b[22m"),
        ("1;2;31", "2;31", "\x1b[22;2m"),
        ("38;5;2;48;5;3", "38;5;2", "\x1b[49m"),
        ("53;31", "31", "\x1b[0;31m"),
        ("4;38;2;1;2;3", "", "\x1b[m"),
        ("31", "31", ""),
    ],
)
def test_transition_is_short(old: str, new: str, change: str) -> None:
    assert transition(CellStyle(old), CellStyle(new)) == change


def test_text_for_a_wider_screen_is_left_out() -> None:
    frame = ScreenBuffer()
    frame.resize(WIDTH, HEIGHT)
    frame.put(WIDTH + 20, 0, [("late", cell_style(""))])
    frame.put(WIDTH - 2, 0, [("end", cell_style(""))])
    assert "".join(frame.rows[0].texts) == "en".rjust(WIDTH)
