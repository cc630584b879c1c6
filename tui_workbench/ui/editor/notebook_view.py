"""An open notebook, shown as read-only cells with outputs, or as text.

Everything in a notebook is untrusted: nothing is executed, and long outputs are shortened.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.notebooks import (
    CODE,
    ERROR,
    LARGEST,
    MARKDOWN,
    MEDIA,
    Cell,
    CellOutput,
    parse_notebook,
    too_large,
)
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.core.text_files import TextFile, read_text_file
from tui_workbench.ui.blocking import OneAtATime
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.editor_commands import NOTEBOOK
from tui_workbench.ui.editor.editor_status import Note
from tui_workbench.ui.editor.file_view import FileView, TextPresenter
from tui_workbench.ui.editor.text_editor import ROLES
from tui_workbench.ui.files.readme import WIDEST, rendered
from tui_workbench.ui.terminal.code_document import SourceDocument
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import MIN_WIDTH, Line, TextView

FIRST_LINES, LAST_LINES = 200, 100
"""Numbers of lines that are shown at the beginning and at the end of a longer output."""

MOST_LINES = 2_000
"""Maximum number of source lines that are shown for a cell."""

LONGEST_LINE = 2_000  # characters
INDENT = "  "

_SGR = re.compile(r"\x1b\[[0-9;:]*m")


class NotebookView(ExplainsUnavailable, Widget, TextPresenter):
    """A view of an open notebook."""

    DEFAULT_CSS = "NotebookView { layout: vertical; height: 1fr; }"

    BINDINGS = NOTEBOOK.bindings

    def __init__(self, file: TextFile) -> None:
        super().__init__()
        self.as_cells = True
        self.cells = TextView(wraps=True)
        self.view = FileView(file, self)
        self._count = 0
        self._draws = OneAtATime(self, self._draw)

    def compose(self) -> ComposeResult:
        yield self.view

    # --- Presenter of the file

    @property
    def root(self) -> Widget:
        return self

    @property
    def body(self) -> Widget:
        return self.cells if self.as_cells else self.view.editor

    def parts(self) -> Iterator[Widget]:
        yield self.cells

    def begin(self) -> None:
        self.show(shown=True)
        self._draws.start()

    def show(self, *, shown: bool) -> None:
        self.cells.display = shown and self.as_cells
        self.view.editor.display = shown and not self.as_cells

    def show_text(self) -> None:
        if self.as_cells:
            self.action_change_view()

    def go_to(self, line: int, column: int) -> None:
        self.show_text()

    @property
    def subtitle(self) -> Content:
        looks = ("bold", "dim") if self.as_cells else ("dim", "bold")
        return Content.assemble(("Cells", looks[0]), "  ", ("Text", looks[1]))

    def subtitle_clicked(self) -> None:
        self.action_change_view()

    def text_changed(self) -> None:
        if self.as_cells:
            self._draws.start()

    def on_resize(self) -> None:
        self.text_changed()

    def action_change_view(self) -> None:
        had_focus = self.has_focus_within
        self.as_cells = not self.as_cells
        self.show(shown=True)
        if had_focus:
            self.screen.set_focus(self.body)
        self.text_changed()
        self.view.draw()

    def why_not(self, action: str) -> str:
        return "The text is already shown." if action == "edit" and not self.as_cells else ""

    def action_edit(self) -> None:
        self.show_text()

    def note(self, note: Note) -> Note:
        if self.as_cells and (self.view.file.read_only or not note.text) and note.role == "muted":
            return Note(f"The cells are read-only. {shown_key('notebook.view', 'ctrl+t')} shows the text.")
        if not self.as_cells and not note.text:
            return Note(f"{shown_key('notebook.view', 'ctrl+t')} shows the cells.")
        return note

    def facts(self, facts: list[str]) -> list[str]:
        return [counted(self._count, "cell")] if self.as_cells else facts

    # --- Cells

    async def _draw(self) -> None:
        """Show the cells of the current text. If the text is not a notebook, show the text with an error."""
        width = max(self.size.width - 3, MIN_WIDTH)
        try:
            cells, lines = await asyncio.to_thread(_read, self.view.file, self.view.editor.source, width)
        except WorkbenchError as error:
            self.show_text()
            self.view.show_error(f"{error.message}. {error.remedy}")
            return
        self._count = len(cells)
        self.cells.show(lines, keep_place=True)
        self.view.draw_status()


def _read(file: TextFile, text: str, width: int) -> tuple[list[Cell], list[Line]]:
    """Return the cells and their lines. The text of a large file is incomplete, so the file is read again.

    Raises UsageError if the text is not a notebook or the file is too large, and StorageError if the file cannot be
    read.
    """
    if file.too_large:
        file = read_text_file(file.path, largest=LARGEST)
        text = file.text
    if file.too_large:
        raise too_large()
    cells = parse_notebook(text)
    return cells, notebook_lines(cells, width)


def notebook_lines(cells: list[Cell], width: int) -> list[Line]:
    """Return the lines that show the cells. Markdown is wrapped to `width` cells."""
    lines: list[Line] = []
    for cell in cells:
        if lines and lines[-1]:
            lines.append(())
        source, omitted = _shortened(cell.source)
        if cell.kind == MARKDOWN:
            lines += [*rendered(source, min(width, WIDEST)), *omitted]
        elif cell.kind == CODE:
            lines.append((Piece("[ ]" if cell.number is None else f"[{cell.number}]", "accent", bold=True),))
            lines += [*_code_lines(source), *omitted]
            for output in cell.outputs:
                lines += _output_lines(output)
        else:
            lines += _text_lines(source, "muted")
    return lines or [(Piece("This notebook has no cells.", "muted"),)]


def _shortened(source: str) -> tuple[str, list[Line]]:
    """Return the part of a cell's source that is shown, and a line with the number of omitted lines, if any."""
    lines = source.rstrip().split("\n")
    omitted = len(lines) - MOST_LINES
    shown = "\n".join(line[:LONGEST_LINE] for line in lines[:MOST_LINES])
    return shown, [_omission(omitted)] if omitted > 0 else []


def _omission(count: int) -> Line:
    return (Piece(f"{INDENT}… {counted(count, 'line')} not shown", "muted"),)


def _code_lines(source: str) -> Iterator[Line]:
    """Yield the highlighted lines of a code cell."""
    document = SourceDocument("\n".join(line.expandtabs(4) for line in source.split("\n")), "python")
    roles = [["text"] * (len(line.encode()) + 1) for line in document.lines]
    for name, nodes in document.highlights(0, document.line_count).items():
        role = ROLES.get(name, "error")
        # Commands of IPython, such as `%time` and `!ls`, are errors for the grammar of Python.
        for node in nodes if role != "error" else ():
            _color(roles, node.start_point, node.end_point, role)
    for line, colors in zip(document.lines, roles, strict=True):
        yield (Piece("│ ", "faint"), *_colored(line, colors))


def _color(roles: list[list[str]], start: tuple[int, int], end: tuple[int, int], role: str) -> None:
    """Set the role of the bytes from `start` to `end`, given as row and column."""
    for row in range(start[0], min(end[0] + 1, len(roles))):
        first = start[1] if row == start[0] else 0
        last = end[1] if row == end[0] else len(roles[row])
        roles[row][first:last] = [role] * (last - first)


def _colored(line: str, roles: list[str]) -> Iterator[Piece]:
    text, role, offset = "", "text", 0
    for character in line:
        if roles[offset] != role and text:
            yield Piece(safe_text(text), role)
            text = ""
        role = roles[offset]
        text += character
        offset += len(character.encode("utf-8", "surrogatepass"))
    if text:
        yield Piece(safe_text(text), role)


def _output_lines(output: CellOutput) -> Iterator[Line]:
    if output.kind == MEDIA:
        text = f"{output.media_type or 'no content'}, {size_text(output.size)}"
        yield (Piece(INDENT + safe_text(text), "accent"), Piece(f"  {safe_text(output.text[:LONGEST_LINE])}", "muted"))
    else:
        yield from _text_lines(output.text, "error" if output.kind == ERROR else "text")


def _text_lines(text: str, role: str) -> Iterator[Line]:
    """Yield the first and last lines of a text, without colors. Text that a carriage return replaced is omitted."""
    lines = _SGR.sub("", text).rstrip("\n").split("\n")
    omitted = len(lines) - FIRST_LINES - LAST_LINES
    for number, line in enumerate(lines):
        if omitted > 0 and number == FIRST_LINES:
            yield _omission(omitted)
        if omitted <= 0 or not FIRST_LINES <= number < FIRST_LINES + omitted:
            last = line.rstrip("\r").rpartition("\r")[2]
            yield (Piece(INDENT + safe_text(last[:LONGEST_LINE]), role),)
