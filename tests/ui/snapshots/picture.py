"""Pictures of screens, drawn like the pictures of the documentation, and their comparison with stored files.

Each element of a picture is a line of its file, so a change of a row of the screen changes only the lines of this row.
Textual's own pictures are seven times as large, and a new style changes the names of the others.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import unescape

import pytest
from pyte.screens import Char
from textual.widgets import Input, TextArea

from docs.terminal_pictures import draw_rows, svg
from tests.ui.textual_internals import whole_strips
from tests.ui.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.color import Color
    from textual.pilot import Pilot
    from textual.strip import Strip

    from tui_workbench.core.model import Run

WRITES = "WRITE_SNAPSHOTS"
"""The variable that `make snapshots` sets. Tests then write the pictures instead of comparing them."""

PATIENCE, POLL = 15.0, 0.05  # seconds; only a failing test waits that long
HOME = "/home/researcher"  # of the same length as the home directory of the tests
UNCHANGED = 6  # polls without a change, after which a screen is complete

_TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)".*>(.*)</text>')


async def compare(pilot: Pilot[list[Run]], stored: Path, drawn: Path) -> None:
    """Wait until the screen looks like the file `stored`, or write this file (see `WRITES`).

    Fails after `PATIENCE` with the rows that differ, and writes the picture of the screen to `drawn`.
    """
    if os.environ.get(WRITES):
        _write(stored, await _complete_picture(pilot))
        return
    expected = _read(stored)
    await pilot.pause()  # until most of the screen is drawn, because a picture takes some time
    try:
        await until(lambda: _picture(pilot) == expected, PATIENCE, POLL)
    except AssertionError:
        picture = _picture(pilot)
        _write(drawn, picture)
        pytest.fail(f"{_difference(expected, picture)}\nThe screen now: {drawn}\nStored: {stored}", pytrace=False)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _write(path: Path, picture: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(picture, encoding="utf-8")


async def _complete_picture(pilot: Pilot[list[Run]]) -> str:
    """Return the picture of the screen when it has not changed for some time."""
    picture, same = "", 0
    while same < UNCHANGED:
        await asyncio.sleep(POLL)
        before, picture = picture, _picture(pilot)
        same = same + 1 if picture == before else 0
    return picture


def _picture(pilot: Pilot[list[Run]]) -> str:
    for widget in pilot.app.screen.query("*"):
        if isinstance(widget, Input | TextArea) and widget.cursor_blink:
            widget.cursor_blink = False
    return svg([draw_rows([_without_home(list(_cells(strip))) for strip in whole_strips(pilot.app)])])


def _without_home(cells: list[Char]) -> list[Char]:
    text = "".join(cell.data for cell in cells).replace(os.path.expanduser("~"), HOME)
    return [cell._replace(data=character) for cell, character in zip(cells, text, strict=True)]


def _cells(strip: Strip) -> Iterator[Char]:
    for text, style, _ in strip:
        if style is None:
            yield from map(Char, text)
            continue
        look = Char(
            " ",
            _digits(style.color),
            _digits(style.bgcolor),
            bool(style.bold),
            bool(style.italic),
            bool(style.underline),
            bool(style.strike),
            bool(style.reverse),
        )
        yield from (look._replace(data=character) for character in text)


def _digits(color: Color | None) -> str:
    """Return a color as six hexadecimal digits."""
    return "default" if color is None or color.is_default else color.get_truecolor().hex.removeprefix("#")


def _difference(expected: str, picture: str) -> str:
    """Describe the difference of two pictures: their rows with text, or the elements if only the look differs."""
    if not expected:
        return "No picture is stored. `make snapshots` writes it."
    lines = difflib.unified_diff(_rows(expected), _rows(picture), "stored", "screen", lineterm="", n=1)
    if not (text := "\n".join(lines)):
        text = "\n".join(difflib.unified_diff(expected.splitlines(), picture.splitlines(), lineterm="", n=0))
    return text


def _rows(picture: str) -> list[str]:
    """Return the texts of each row of a picture."""
    texts = [(match[2], unescape(match[3])) for match in _TEXT.finditer(picture)]
    return ["  ".join(text for _, text in row) for _, row in groupby(texts, key=lambda text: text[0])]
