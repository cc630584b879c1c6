"""The project's readme as styled text. Links are not clickable: their addresses are shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial

from rich.cells import cell_len, set_cell_size

from tui_workbench.core.files import open_regular
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.screen_commands import HISTORY
from tui_workbench.ui.runs.history_screen import HistoryScreen
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.pieces import Piece, hanging
from tui_workbench.ui.widgets.text_view import Line, TextView

NAMES = ("README.md", "readme.md", "Readme.md", "README.rst", "README.txt", "README", "readme.txt")
MOST_BYTES = 1 << 20
WIDEST = 100  # longest line, in cells
COLUMN_GAP, LEAST_COLUMN = 2, 6  # cells between the columns of a table, and minimum width of a column

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])\s+(.*)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^)\s]*)[^)]*\)")
_RULE = re.compile(r":?-+:?")
_LOUD = re.compile(r"(\*\*|__|`)(.+?)\1")


class ReadmeScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the readme."""

    BINDINGS = HISTORY.bindings
    AUTO_FOCUS = "TextView"
    heading = "Readme"
    about = "The project's readme."

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.view = TextView()
        self.content = (self.view,)
        self._text = ""

    def on_mount(self) -> None:
        self.ask("readme", partial(read_readme, self.project.root), self._show)

    def _show(self, text: str) -> None:
        self._text = text
        self.view.show(rendered(text, min(WIDEST, max(20, self.size.width - 3))))

    def on_resize(self) -> None:
        if self._text:
            self._show(self._text)


def read_readme(root: str) -> str:
    """Return the first `MOST_BYTES` of the readme as text, or a sentence if it is missing or unreadable."""
    for name in NAMES:
        path = os.path.join(root, name)
        try:
            with open_regular(os.path.realpath(path)) as file:
                return file.read(MOST_BYTES).decode(errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"Cannot read {name}: {error.strerror}."
    return "# No readme\n\nAdd a `README.md` to the project to show it here."


def rendered(text: str, width: int) -> list[Line]:
    """Render a Markdown text as lines. Text is wrapped to `width` cells, tables are cut, and code keeps its width."""
    lines: list[Line] = []
    paragraph: list[str] = []
    table: list[list[str]] = []
    in_code = False
    for raw in [*text.splitlines(), ""]:
        if table and (in_code or not raw.lstrip().startswith("|")):
            lines += _table(table, width)
            table = []
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
        elif raw.lstrip().startswith("|"):
            lines += _flushed(paragraph, width)
            table.append([_plain(cell.strip()) for cell in raw.strip().strip("|").split("|")])
            continue
        elif raw.startswith(("    ", "\t")):
            lines += _flushed(paragraph, width)
            lines.append((Piece(safe_text(raw), "string"),))
        else:
            paragraph.append(raw.strip())
    return lines


def _table(rows: list[list[str]], width: int) -> Iterator[Line]:
    """Align the cells of a table, cutting wide cells; the row above `---` is the head."""
    ruled = len(rows) > 1 and all(_RULE.fullmatch(cell) for cell in rows[1])
    body = rows[:1] + rows[2:] if ruled else rows
    columns = max(len(row) for row in body)
    full = [row + [""] * (columns - len(row)) for row in body]
    widths = [max(cell_len(row[column]) for row in full) for column in range(columns)]
    while sum(widths) + COLUMN_GAP * (columns - 1) > width and max(widths) > LEAST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    for number, row in enumerate(full):
        is_head = ruled and number == 0
        cells = [set_cell_size(truncate_middle(cell, room), room) for cell, room in zip(row, widths, strict=True)]
        yield (Piece((" " * COLUMN_GAP).join(cells).rstrip(), "accent" if is_head else "text", bold=is_head),)
        if is_head:
            yield (Piece("─" * min(sum(widths) + COLUMN_GAP * (columns - 1), width), "faint"),)


def _flushed(paragraph: list[str], width: int) -> Iterator[Line]:
    text = " ".join(paragraph)
    paragraph.clear()
    if text:
        yield from _wrapped(text, width, "")


def _wrapped(text: str, width: int, mark: str) -> Iterator[Line]:
    yield from hanging([Piece(mark, "muted")], _plain(text), width + 1)


def _plain(text: str) -> str:
    """Remove the markup; a link becomes its text and address."""
    text = _LINK.sub(lambda match: f"{match[1]} ({match[2]})" if match[2] and match[2] != match[1] else match[1], text)
    return safe_text(_LOUD.sub(r"\2", text))
