"""A text editor for one file: Textual's text area, made safe for any text, quick, and fit for code.

The invariants: `source` is exactly the text that was loaded plus the edits made since; every change, also one made by a
form or by a reload, is one edit that undo takes back; nothing in the file can reach the terminal as a control sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.document._document_navigator import DocumentNavigator
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, Selection

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.editor_commands import TEXT_EDITOR
from tui_workbench.ui.key_order import obey
from tui_workbench.ui.themes import palette_of
from tui_workbench.ui.widgets.editor_colors import editor_theme
from tui_workbench.ui.widgets.source_document import (
    LANGUAGE_NAMES,
    MOST_PARSED_LINES,
    SourceDocument,
    name_of,
    to_document,
    to_screen,
    to_source,
)
from tui_workbench.ui.widgets.unwrapped_document import UnwrappedDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.text import Text
    from textual import events
    from textual.binding import BindingType
    from textual.document._document import Location
    from textual.geometry import Region

MOST_UNDO_STEPS = 2_000
"""Undo steps kept: a day's editing, at some hundred bytes each."""

WIDTH_STEP = 64
"""Cells by which the scrolled width grows."""

_COMMENT_MARKS = {"python": "# ", "yaml": "# ", "toml": "# ", "bash": "# "}
_INDENTS = {"python": 4, "toml": 4}
_SMALL_INDENT = 2
"""Spaces a level in YAML, JSON, shell and the like."""


class Mark(NamedTuple):
    """A stretch of one line that something is wrong with; `line` and `column` count from 1, `length` may be 0."""

    line: int
    column: int
    length: int
    severity: str  # error, warning or info


class TextEditor(TextArea, inherit_bindings=False):
    """One file's text with highlighting, undo, search marks and problem marks."""

    DEFAULT_CSS = """
    TextEditor, TextEditor:focus {
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(TEXT_EDITOR)

    class Left(Message):
        """The focus should go back to where it was before it came into the text."""

    document: SourceDocument

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        self._source_language = ""
        self._marks: Mapping[int, Mark] = {}
        self._matches: Mapping[int, Sequence[tuple[int, int]]] = {}
        self._highlighted_rows = range(0)
        self._is_placed = True
        super().__init__(
            id=id,
            classes=classes,
            soft_wrap=False,
            tab_behavior="indent",
            show_line_numbers=True,
            max_checkpoints=MOST_UNDO_STEPS,
        )
        self.cursor_blink = False

    def action_leave(self) -> None:
        """Escape."""
        self.post_message(self.Left())

    # --- The text

    @property
    def source(self) -> str:
        """The text as it would be saved, with line feeds."""
        return to_source(self.document.text)

    def load_source(self, source: str, language: str = "") -> None:
        """Show another text and forget the history of the old one. It is indented as the text or its language is."""
        self._source_language = language
        self.indent_type, self.indent_width = _indentation_of(source, language)
        self._marks, self._matches = {}, {}
        self.load_text(to_document(source))

    def replace_source(self, source: str) -> None:
        """Turn the text into `source` by one edit of only what differs: cursor and scroll position stay, undo works."""
        old, new = self.document.text, to_document(source)
        if old == new:
            return
        start, old_end, new_end = _difference(old, new)
        edit = Edit(
            new[start:new_end],
            self._location_at(old, start),
            self._location_at(old, old_end),
            maintain_selection_offset=True,
        )
        cursor = self.cursor_location
        self.history.checkpoint()
        self.edit(edit)
        self.history.checkpoint()
        if edit.top <= cursor <= edit.bottom:
            self.move_cursor(self.clamp_visitable(cursor))

    @property
    def language_note(self) -> str:
        """The language that the text is highlighted as, or why it is not; "" when it is plain text."""
        name = LANGUAGE_NAMES.get(self._source_language, "")
        if name and self.document.line_count > MOST_PARSED_LINES and self.document.query is None:
            return f"{name}, not highlighted: over {MOST_PARSED_LINES:,} lines"
        return name

    @property
    def cursor_character(self) -> str:
        """The name of the invisible character under the cursor (`U+202E`), or ""."""
        row, column = self.cursor_location
        return name_of(self.document[row][column : column + 1])

    @property
    def selected_text(self) -> str:
        """The selected text as it stands in the file."""
        return to_source(super().selected_text)

    def go_to(self, line: int, column: int = 1) -> None:
        """Put the cursor there (both count from 1) and show the line in the middle."""
        self.move_cursor(self.clamp_visitable((max(line, 1) - 1, max(column, 1) - 1)), center=True)
        self._is_placed = bool(self.size)

    def on_resize(self) -> None:
        """Show the place that was gone to when there was no room to show it in."""
        if self.size and not self._is_placed:
            self._is_placed = True
            self.scroll_to(x=0, animate=False, immediate=True)
            self.scroll_cursor_visible(center=True)

    @staticmethod
    def _location_at(text: str, offset: int) -> Location:
        return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)

    # --- Marks

    def mark_problems(self, marks: Sequence[Mark]) -> None:
        """Mark what is wrong; of several marks in a line the last one is shown."""
        before, self._marks = self._marks, {mark.line - 1: mark for mark in marks}
        for row in before.keys() | self._marks.keys():
            if before.get(row) != self._marks.get(row):
                self.refresh_line(row)

    def mark_matches(self, matches: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Mark what a search found: start and end columns by row, all counted from 0."""
        if matches or self._matches:
            self._matches = matches
            self.refresh()

    # --- Drawing

    def _set_document(self, text: str, language: str | None) -> None:
        # Textual's own builds its slow document and compiles the query anew for every editor.
        document = SourceDocument(text, self._source_language)
        self.document = document
        self.wrapped_document = UnwrappedDocument(document, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        self._build_highlight_map()
        self.move_cursor((0, 0))
        self._rewrap_and_refresh_virtual_size()

    def _build_highlight_map(self) -> None:
        # Called after every edit: what the visible rows mean is asked when they are drawn, once a frame.
        self._line_cache.clear()
        self._highlights.clear()
        self._highlighted_rows = range(0)

    def _highlight_rows(self, rows: range) -> None:
        if rows.start in self._highlighted_rows and rows.stop - 1 in self._highlighted_rows:
            return
        self._highlights.clear()
        self._highlighted_rows = rows
        for name, nodes in self.document.highlights(rows.start, rows.stop - 1).items():
            for node in nodes:
                (start_row, start_byte), (end_row, end_byte) = node.start_point, node.end_point
                for row in range(max(start_row, rows.start), min(end_row + 1, rows.stop)):
                    span = (start_byte if row == start_row else 0, end_byte if row == end_row else None, name)
                    self._highlights[row].append(span)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines; highlights them first."""
        top = self.scroll_offset.y
        self._highlight_rows(range(top, top + max(self.size.height, 1)))
        return super().render_lines(crop)

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn, underlined when it has a problem."""
        line = super().get_line(line_index)
        if mark := self._marks.get(line_index):
            start = min(max(mark.column, 1) - 1, len(line.plain))
            end = start + mark.length if mark.length else len(line.plain)
            line.stylize(Style(underline=True, color=self._severity_color(mark.severity)), start, end)
        return line

    def render_line(self, y: int) -> Strip:
        """One line; those with marks are drawn anew each time, because the key of Textual's cache leaves marks out."""
        row = self.scroll_offset.y + y
        return self._render_line(y) if row in self._marks or row in self._matches else super().render_line(y)

    def _refresh_size(self) -> None:
        # A width that changes lays out the whole screen anew: grow by more than the letter that was typed.
        width, height = self.document.get_size(self.indent_width)
        needed = width + self.gutter_width + 1
        self.virtual_size = Size(-(-needed // WIDTH_STEP) * WIDTH_STEP, height)
        self._refresh_scrollbars()

    def _render_line(self, y: int) -> Strip:
        strip = super()._render_line(y)
        row = self.scroll_offset.y + y
        for start, end in self._matches.get(row, ()):
            strip = self._mark_match(strip, row, start, end)
        mark = self._marks.get(row)
        segments = list(strip)
        if mark and segments:
            number, style = segments[0].text, segments[0].style or Style()
            segments[0] = Segment(number[:-2] + "▲ ", style + Style(color=self._severity_color(mark.severity)))
        elif strip.text.isascii():
            return strip
        return Strip([Segment(to_screen(text), style, control) for text, style, control in segments], strip.cell_length)

    def _mark_match(self, strip: Strip, row: int, start: int, end: int) -> Strip:
        # Laid over the finished line: Textual's own layers would let the cursor line and the syntax colours win.
        palette = palette_of(self)
        is_current = self.selection == Selection((row, start), (row, end))
        style = (
            Style(color=palette.background, bgcolor=palette.warning) if is_current else Style(bgcolor=palette.selection)
        )
        edge = self.gutter_width
        left, right = (self.get_column_width(row, column) + edge - self.scroll_offset.x for column in (start, end))
        first, last = max(left, edge), min(right, strip.cell_length)
        if first >= last:
            return strip
        before, match, after = strip.divide([first, last, strip.cell_length])
        laid = Strip([Segment(text, (old or Style()) + style) for text, old, _ in match], match.cell_length)
        return Strip.join([before, laid, after])

    def _severity_color(self, severity: str) -> str:
        palette = palette_of(self)
        return {"error": palette.error, "warning": palette.warning}.get(severity, palette.muted)

    def _app_theme_changed(self) -> None:
        self.register_theme(editor_theme(palette_of(self)))
        self._set_theme("workbench")
        self._line_cache.clear()

    def on_mount(self) -> None:
        """Take the colours of the app's theme."""
        self.register_theme(editor_theme(palette_of(self)))
        self.theme = "workbench"

    # --- Keys

    async def _on_key(self, event: events.Key) -> None:
        if not await self._obey(event):
            return
        event.stop()
        event.prevent_default()

    async def _obey(self, event: events.Key) -> bool:
        """Do what a key says that inserts no text; False when it is left to the text area."""
        if not self.read_only and event.key == "enter":
            self._replace_via_keyboard("\n" + self._indent_of_new_line(), *self.selection)
            return True
        if not self.read_only and event.key == "tab" and self.selection.start[0] != self.selection.end[0]:
            self._change_lines(lambda line: self._one_indent + line if line else line)
            return True
        return await obey(self, event.key)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if not self.read_only:
            self._insert_foreign(event.text)

    def action_paste(self) -> None:
        """Insert what was copied in this program."""
        if not self.read_only:
            self._insert_foreign(self.app.clipboard)

    def action_cut(self) -> None:
        """Cut the selection, or the line."""
        super().action_cut()
        if not self.read_only:
            self.app.copy_to_clipboard(to_source(self.app.clipboard))

    def action_dedent(self) -> None:
        """Take one level of indentation from the selected lines."""
        width = len(self._one_indent)

        def dedented(line: str) -> str:
            if line.startswith("\t"):
                return line[1:]
            return line[min(width, len(line) - len(line.lstrip(" "))) :]

        self._change_lines(dedented)

    def action_toggle_comment(self) -> None:
        """Make the selected lines comments, or text again when all of them are."""
        mark = _COMMENT_MARKS.get(self._source_language)
        if mark is None:
            return
        rows = [line for line in self.document.lines[self._selected_rows] if line.strip()]
        bare = mark.rstrip()
        if rows and all(line.lstrip().startswith(bare) for line in rows):
            self._change_lines(lambda line: _without(line, mark))
        else:
            column = min((len(line) - len(line.lstrip()) for line in rows), default=0)
            self._change_lines(lambda line: line[:column] + mark + line[column:] if line.strip() else line)

    def action_cursor_document_start(self) -> None:
        """Go to the first character of the file."""
        self.move_cursor((0, 0))

    def action_cursor_document_end(self) -> None:
        """Go behind the last character of the file."""
        self.move_cursor(self.document.end)

    @property
    def _one_indent(self) -> str:
        return "\t" if self.indent_type == "tabs" else " " * self.indent_width

    @property
    def _selected_rows(self) -> slice:
        (first, _), (last, column) = sorted(self.selection)
        return slice(first, last if column == 0 and last > first else last + 1)

    def _indent_of_new_line(self) -> str:
        row, column = min(self.selection)
        before = self.document[row][:column]
        indent = before[: len(before) - len(before.lstrip())]
        opens = before.rstrip().endswith(":") and self._source_language in ("python", "yaml")
        return indent + self._one_indent if opens else indent

    def _insert_foreign(self, text: str) -> None:
        text = to_document(text.replace("\r\n", "\n").replace("\r", "\n"))
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    def _change_lines(self, change: Callable[[str], str]) -> None:
        """Apply `change` to each selected line as one edit; the lines stay selected."""
        if self.read_only:
            return
        rows = self._selected_rows
        old = self.document.lines[rows]
        new = [change(line) for line in old]
        if new == old:
            return
        start, end = self.selection
        last = rows.stop - 1
        self.history.checkpoint()
        self.replace("\n".join(new), (rows.start, 0), (last, len(old[-1])))
        self.history.checkpoint()

        def moved(location: Location) -> Location:
            row, column = location
            if not rows.start <= row <= last:
                return location
            return row, max(0, column + len(new[row - rows.start]) - len(old[row - rows.start]))

        self.selection = Selection(moved(start), moved(end))


def _indentation_of(source: str, language: str) -> tuple[Literal["tabs", "spaces"], int]:
    if source.startswith("\t") or "\n\t" in source:
        return "tabs", 8 if language != "bash" else 4
    return "spaces", _INDENTS.get(language, _SMALL_INDENT)


def _without(line: str, mark: str) -> str:
    indent = len(line) - len(line.lstrip())
    rest = line[indent:]
    return line[:indent] + (rest.removeprefix(mark) if rest.startswith(mark) else rest.removeprefix(mark.rstrip()))


def _difference(old: str, new: str) -> tuple[int, int, int]:
    """Where two texts differ: the common start, and where the differing stretch ends in the old and in the new."""
    start = _common_prefix(old, new)
    rest = min(len(old), len(new)) - start
    end = _common_prefix(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return start, len(old) - end, len(new) - end


def _common_prefix(first: str, second: str) -> int:
    # Halving and comparing slices stays in C: a loop over the characters of a megabyte takes 100 ms.
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
