"""The project's readme, as text to read: headings, lists, code and links by their looks, nothing that does anything."""

from __future__ import annotations

import os
import re
import textwrap
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import HISTORY
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.project import Project

NAMES = ("README.md", "readme.md", "Readme.md", "README.rst", "README.txt", "README", "readme.txt")
MOST_BYTES = 1 << 20
WIDEST = 100
"""Cells of a line: longer ones are hard to read."""

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])\s+(.*)")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)")
_LOUD = re.compile(r"(\*\*|__|`)(.+?)\1")


class ReadmeScreen(HistoryScreen, inherit_bindings=False):
    """Shows the readme."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HISTORY)
    AUTO_FOCUS = "TextView"
    heading = "Readme"
    about = "The project's readme."

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.view = TextView()
        self._text = ""

    def compose_content(self) -> ComposeResult:
        """The text."""
        yield self.view

    def on_mount(self) -> None:
        """Read it."""
        self.ask("readme", partial(read_readme, self.project.root), self._show)

    def _show(self, text: str) -> None:
        self._text = text
        self.view.show(rendered(text, min(WIDEST, max(20, self.size.width - 3))))

    def on_resize(self) -> None:
        """Wrap anew."""
        if self._text:
            self._show(self._text)


def read_readme(root: str) -> str:
    """The readme's text; a sentence in its place when there is none or it cannot be read."""
    for name in NAMES:
        path = os.path.join(root, name)
        try:
            with open(path, "rb") as file:
                return file.read(MOST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return "# No readme\n\nA file `README.md` in the project's folder would be shown here."


def rendered(text: str, width: int) -> list[Line]:
    """The lines of a Markdown text for a width."""
    lines: list[Line] = []
    paragraph: list[str] = []
    in_code = False
    for raw in [*text.splitlines(), ""]:
        if raw.lstrip().startswith(("```", "~~~")):
            lines += _flushed(paragraph, width)
            in_code = not in_code
        elif in_code:
            lines.append((Piece(f"  {safe_text(raw)}", "string"),))
        elif match := _HEADING.fullmatch(raw.strip()):
            lines += _flushed(paragraph, width)
            lines.append((Piece(_plain(match[2]), "accent", bold=len(match[1]) < 3),))
        elif match := _ITEM.fullmatch(raw):
            lines += _flushed(paragraph, width)
            mark = "•" if match[2] in "-*+" else match[2]
            lines += _wrapped(match[3], width, f"{match[1]}{mark} ")
        elif not raw.strip():
            lines += _flushed(paragraph, width)
            if lines and lines[-1]:
                lines.append(())
        elif raw.startswith(("    ", "\t", "|")):
            lines += _flushed(paragraph, width)
            lines.append((Piece(safe_text(raw), "string"),))
        else:
            paragraph.append(raw.strip())
    return lines


def _flushed(paragraph: list[str], width: int) -> Iterator[Line]:
    text = " ".join(paragraph)
    paragraph.clear()
    if text:
        yield from _wrapped(text, width, "")


def _wrapped(text: str, width: int, mark: str) -> Iterator[Line]:
    parts = textwrap.wrap(_plain(text), max(20, width - len(mark)), break_on_hyphens=False) or [""]
    for place, part in enumerate(parts):
        yield (Piece(mark if place == 0 else " " * len(mark), "muted"), Piece(part))


def _plain(text: str) -> str:
    """Without marks; a link is its text and where it leads."""
    text = _LINK.sub(lambda match: f"{match[1]} ({match[2]})" if match[2] and match[2] != match[1] else match[1], text)
    return safe_text(_LOUD.sub(r"\2", text))
