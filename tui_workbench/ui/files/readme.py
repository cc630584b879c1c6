"""The project's readme as styled text. Links are not clickable: their addresses are shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len

from tui_workbench.core.files import open_regular
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, hanging, wrap_pieces
from tui_workbench.ui.widgets.text_view import Line

NAMES = ("README.md", "readme.md", "Readme.md", "README.rst", "README.txt", "README", "readme.txt")
MOST_BYTES = 1 << 18
CUT = "The rest of this file is not shown."
WIDEST = 100  # longest line, in cells
COLUMN_GAP, LEAST_COLUMN = 2, 6  # cells between the columns of a table, and minimum width of a column

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])\s+(.*)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]*)(?:\s[^()]*)?\)")  # no part can run into the next link
_RULE = re.compile(r":?-+:?")
_LOUD = re.compile(r"(\*\*|__|`)(.+?)\1")


class Readme(NamedTuple):
    """The beginning of a readme. If its name does not end in `.md`, the text is not Markdown."""

    name: str
    text: str


def read_readme(root: str) -> Readme | None:
    """Return the first `MOST_BYTES` of the readme of a project, or None without a readme. Blocks.

    If the readme cannot be read, its text is the error.
    """
    for name in NAMES:
        path = os.path.join(root, name)
        try:
            with open_regular(os.path.realpath(path)) as file:
                text = file.read(MOST_BYTES).decode(errors="replace")
                return Readme(name, f"{text}\n\n{CUT}" if file.read(1) else text)
        except FileNotFoundError:
            continue
        except OSError as error:
            return Readme(name, f"Cannot read {name}: {error.strerror}.")
    return None


def readme_lines(readme: Readme, width: int) -> list[Line]:
    """Render a readme as lines, wrapped to `width` cells. Takes a second for the longest readme."""
    if readme.name.lower().endswith(".md"):
        return rendered(readme.text, width)
    lines = ((Piece(safe_text(line)),) for line in readme.text.expandtabs().splitlines())
    return [row for line in lines for row in wrap_pieces(line, width, 0)]


def rendered(text: str, width: int) -> list[Line]:
    """Render a Markdown text as lines. Text and cells are wrapped to `width` cells, and code keeps its width."""
    lines: list[Line] = []
    paragraph = _Paragraph(width)
    table: list[list[str]] = []
    in_code = False
    for raw in [*text.splitlines(), ""]:
        if table and (in_code or not raw.lstrip().startswith("|")):
            lines += _table(table, width)
            table = []
        if raw.startswith("<!--") and raw.rstrip().endswith("-->") and not in_code:
            continue
        if raw.lstrip().startswith(("```", "~~~")):
            lines += paragraph.end()
            in_code = not in_code
        elif in_code:
            lines.append((Piece(f"  {safe_text(raw)}", "string"),))
        elif match := _HEADING.fullmatch(raw.strip()):
            lines += paragraph.end()
            lines.append((Piece(_plain(match[2]), "accent", bold=len(match[1]) < 3),))
        elif match := _ITEM.fullmatch(raw):
            lines += paragraph.end()
            paragraph.mark = f"{match[1]}{'•' if match[2] in '-*+' else match[2]} "
            paragraph.lines.append(match[3])
        elif not raw.strip():
            lines += paragraph.end()
            if lines and lines[-1]:
                lines.append(())
        elif raw.lstrip().startswith("|"):
            lines += paragraph.end()
            table.append([_plain(cell.strip()) for cell in raw.strip().strip("|").split("|")])
            continue
        elif raw.startswith(("    ", "\t")) and not paragraph.lines:
            lines.append((Piece(safe_text(raw), "string"),))
        else:
            paragraph.lines.append(raw.strip())
    return lines


def _table(rows: list[list[str]], width: int) -> Iterator[Line]:
    """Align the cells of a table, wrapping long cells. The row above `---` is the head."""
    ruled = len(rows) > 1 and all(_RULE.fullmatch(cell) for cell in rows[1])
    body = rows[:1] + rows[2:] if ruled else rows
    # Further columns would begin outside the line. Short rows are not padded, because a row can have 60,000 cells.
    columns = min(max(len(row) for row in body), width // COLUMN_GAP + 1)
    widths = [max(cell_len(row[column]) for row in body if column < len(row)) for column in range(columns)]
    gaps = COLUMN_GAP * (columns - 1)
    widest = width
    while widest > LEAST_COLUMN and sum(min(column_width, widest) for column_width in widths) + gaps > width:
        widest -= 1
    widths = [min(column_width, widest) for column_width in widths]
    rules = [*(rows[1] if ruled else ()), *[""] * columns]
    for number, row in enumerate(body):
        is_head = ruled and number == 0
        cells = [wrap_pieces((Piece(cell),), room, 0) for cell, room in zip(row, widths, strict=False)]
        for parts in zip_longest(*cells, fillvalue=()):
            placed = zip(parts, widths, rules, strict=False)
            text = (" " * COLUMN_GAP).join(_aligned(part, room, rule) for part, room, rule in placed).rstrip()
            yield (Piece(text, "accent" if is_head else "text", bold=is_head),)
        if is_head:
            yield (Piece("─" * min(sum(widths) + gaps, width), "faint"),)


def _aligned(line: Line, room: int, rule: str) -> str:
    """Pad a line of a cell to `room` cells. `rule` is the cell below the head of the column, such as `---:`."""
    text = "".join(piece.text for piece in line).strip()
    blank = max(0, room - cell_len(text))
    left = blank if rule.endswith(":") and not rule.startswith(":") else blank // 2 if rule.endswith(":") else 0
    return " " * left + text + " " * (blank - left)


class _Paragraph:
    """The lines of a paragraph or list item that has not ended yet."""

    def __init__(self, width: int) -> None:
        self._width = width
        self.mark = ""
        self.lines: list[str] = []

    def end(self) -> list[Line]:
        """Return the rendered text, and begin a new paragraph."""
        mark, text = Piece(self.mark, "muted"), " ".join(self.lines)
        self.mark, self.lines = "", []
        return hanging([mark], _plain(text), self._width + 1) if text else []


def _plain(text: str) -> str:
    """Remove the markup; a link becomes its text and address."""
    text = _LINK.sub(lambda match: f"{match[1]} ({match[2]})" if match[2] and match[2] != match[1] else match[1], text)
    return safe_text(_LOUD.sub(r"\2", text))
