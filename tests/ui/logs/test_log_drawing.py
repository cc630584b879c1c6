"""Drawing rows of a log: widths, colors, matches, the marked line and the selection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset
from textual.selection import Selection

from tests.ui.test_safetext import lines
from tui_workbench.runs.logs.log_search import Pattern
from tui_workbench.ui.logs.log_drawing import CONTINUES, Picture, look_of
from tui_workbench.ui.logs.log_viewport import Row, ShownLine
from tui_workbench.ui.terminal.safetext import safe_line
from tui_workbench.ui.themes.themes import DEFAULT_THEME, load_theme

LOOK = look_of(load_theme(DEFAULT_THEME).palette)


def row_of(data: bytes, start: int = 0) -> Row:
    line = ShownLine(start, start + len(data), safe_line(data))
    return Row(line, 0, len(line.text.plain))


def text_of(segments: list[Segment]) -> str:
    return "".join(segment.text for segment in segments)


@given(data=lines, width=st.integers(1, 30), left=st.integers(0, 40), query=st.sampled_from(["", "a", "1"]))
def test_row_fills_exactly_its_width(data: bytes, width: int, left: int, query: str) -> None:
    picture = Picture(
        (row_of(data),),
        width,
        height=1,
        left=left,
        pattern=Pattern(query) if query else None,
        chosen=0,
        selection=Selection(Offset(1, 0), None),
        selection_style=Style(reverse=True),
    )
    segments = picture.segments(0, LOOK)
    assert sum(cell_len(segment.text) for segment in segments) == width


@pytest.mark.parametrize(
    ("text", "left", "shown"),
    [
        ("abcdefgh", 0, "abcde›"),
        ("abcdefgh", 2, "cdefgh"),
        ("abcdefgh", 4, "efgh  "),
        ("abc", 9, "      "),
        ("漢字漢字", 0, "漢字 ›"),
        ("漢字漢字", 1, " 字漢›"),
        ("漢字漢字", 2, "字漢字"),
        ("e\u0301abc", 1, "abc   "),
    ],
)
def test_cut_row_ends_with_a_continuation_sign(text: str, left: int, shown: str) -> None:
    segments = Picture((row_of(text.encode()),), width=6, height=1, left=left).segments(0, LOOK)
    assert text_of(segments) == shown
    assert CONTINUES == "›"


def test_match_covers_the_colors_of_the_log() -> None:
    row = row_of(b"\x1b[31mred loss red\x1b[0m")
    segments = Picture((row,), width=12, height=1, pattern=Pattern("loss")).segments(0, LOOK)
    assert [segment.text for segment in segments] == ["red ", "loss", " red"]
    colors = [segment.style.color.name for segment in segments if segment.style and segment.style.color]
    assert colors[0] == colors[2] != colors[1]


def test_marked_line_is_highlighted_over_the_whole_width() -> None:
    (segment,) = Picture((row_of(b"abc", start=7),), width=6, height=1, chosen=7).segments(0, LOOK)
    assert segment == Segment("abc   ", LOOK.chosen)


def test_wrapped_rows_have_no_line_number() -> None:
    line = ShownLine(0, 9, safe_line(b"abcdefgh"))
    rows = (Row(line, 0, 4), Row(line, 4, 8), row_of(b"next", 9))
    picture = Picture(rows, width=12, height=4, gutter=7, top_number=41)
    assert [text_of(picture.segments(y, LOOK)) for y in range(4)] == [
        "    42 abcd ",
        "       efgh ",
        "    43 next ",
        "            ",
    ]
    assert text_of(picture._replace(top_number=None).segments(0, LOOK)) == "       abcd "


def test_note_is_beside_the_line_that_has_its_byte() -> None:
    line = ShownLine(0, 9, safe_line(b"abcdefgh"))
    rows = (Row(line, 0, 4), Row(line, 4, 8), row_of(b"next", 9))
    picture = Picture(rows, width=24, height=3, notes={8: "again", 99: "later"})
    assert [text_of(picture.segments(y, LOOK)) for y in range(3)] == [
        "abcd             ◂ again",
        "efgh                    ",
        "next                    ",
    ]


def test_long_note_takes_half_of_the_width() -> None:
    picture = Picture((row_of(b"0123456789"),), width=12, height=1, notes={0: "attempt 2: preempted"})
    assert text_of(picture.segments(0, LOOK)).startswith("01234› ◂")


def test_empty_log_shows_its_placeholder_in_the_middle() -> None:
    picture = Picture((), width=12, height=5, placeholder=("No runs yet.", "ctrl+r runs it"))
    assert [text_of(picture.segments(y, LOOK)) for y in range(4)] == [
        "            ",
        "No runs yet.",
        "ctrl+r…ns it",
        "            ",
    ]


def test_segments_know_their_position_in_the_file() -> None:
    picture = Picture((row_of(b"\x1b[31mab\x1b[0mcd", start=90),), width=12, height=1, gutter=7, left=1)
    strip = picture.strip_with_places(0, LOOK)
    places = {segment.text: segment.style.meta.get("offset") for segment in strip if segment.style}
    assert (places["b"], places["cd"]) == ((1, 90), (2, 90))
