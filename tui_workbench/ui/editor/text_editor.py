"""A text editor for a file: Textual's text area with indentation and comments, fast and safe for any text.

The invariants: `source` is exactly the loaded text plus the edits; every change, including one by a form or a
reload, is a single edit that undo reverts; no text of the file can reach the terminal as a control sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widgets.text_area import Edit, Location, Selection, TextAreaTheme

from tui_workbench.ui.commands.editor_commands import TEXT_EDITOR
from tui_workbench.ui.editor import languages
from tui_workbench.ui.terminal.code_area import CodeArea
from tui_workbench.ui.terminal.code_document import MAX_PARSED_LINES
from tui_workbench.ui.terminal.key_queue import run_binding
from tui_workbench.ui.terminal.stand_ins import name_of, to_document, to_screen, to_source
from tui_workbench.ui.themes.themes import Palette, palette_of

MOST_UNDO_STEPS = 2_000  # a step takes a few hundred bytes

# Names in the highlight queries, by field of the palette. Text with any other name has no color.
_KINDS = {
    "comment": "comment",
    "keyword": "keyword keyword.function keyword.return keyword.operator conditional repeat exception include preproc "
    "tag attribute attribute.builtin punctuation.special",
    "string": "string string.documentation string.escape text.literal inline_code",
    "number": "number float boolean constant.builtin json.null toml.datetime",
    "function": "function function.call method method.call yaml.field json.label property heading link.label link.uri",
    "type": "type type.class type.definition type.builtin class constructor toml.type function.builtin",
    "muted": "punctuation.delimiter punctuation.bracket heading.marker list.marker",
    "error": "error toml.error json.error",
}
ROLES = {name: role for role, names in _KINDS.items() for name in names.split()}
"""The field of the palette for each name in the highlight queries."""


class Mark(NamedTuple):
    """A problem in a line; `line` and `column` count from 1. A `length` of 0 marks the rest of the line."""

    line: int
    column: int
    length: int
    severity: str  # error, warning or info


class TextEditor(CodeArea, inherit_bindings=False):
    """A text area with highlighting, undo, search marks and problem marks."""

    heading = "In the text"
    DEFAULT_CSS = """
    TextEditor, TextEditor:focus {
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
    }
    """

    BINDINGS = TEXT_EDITOR.bindings

    class Left(Message):
        """Posted when the user leaves the text. The focus should return to the previous pane."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        self._marks: Mapping[int, Mark] = {}
        self._matches: Mapping[int, Sequence[tuple[int, int]]] = {}
        super().__init__(id=id, classes=classes, max_checkpoints=MOST_UNDO_STEPS)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    # --- The text

    @property
    def source(self) -> str:
        return to_source(self.document.text)

    def load_source(self, source: str, language: str = "") -> None:
        """Show another text and clear the undo history."""
        self.source_language = language
        self.indent_type, self.indent_width = languages.indentation_of(source, language)
        self._marks, self._matches = {}, {}
        self.load_text(to_document(source))

    def replace_source(self, source: str) -> None:
        """Replace the part of the text that differs, as one edit. Keep cursor, scroll position and undo steps."""
        old, new = self.document.text, to_document(source)
        if old == new:
            return
        start, old_end, new_end = languages.difference(old, new)
        top, bottom = languages.location_at(old, start), languages.location_at(old, old_end)
        edit = Edit(new[start:new_end], top, bottom, maintain_selection_offset=True)
        cursor = self.cursor_location
        self.edit_at_once(edit)
        if edit.top <= cursor <= edit.bottom:
            self.move_cursor(self.clamp_visitable(cursor))

    @property
    def language_note(self) -> str:
        """The name of the language, with the reason if it is not highlighted; "" for plain text."""
        name = languages.LANGUAGE_NAMES.get(self.source_language, self.source_language.capitalize())
        if name and self.document.line_count > MAX_PARSED_LINES and self.document.query is None:
            return f"{name}, not highlighted: over {MAX_PARSED_LINES:,} lines"
        return name

    @property
    def cursor_character(self) -> str:
        """The name of the invisible character under the cursor (`U+202E`), or ""."""
        row, column = self.cursor_location
        return name_of(self.document[row][column : column + 1])

    @property
    def selected_text(self) -> str:
        return to_source(super().selected_text)

    def go_to(self, line: int, column: int = 1) -> None:
        """Move the cursor (line and column count from 1) and center the line."""
        self.move_cursor(self.clamp_visitable((max(line, 1) - 1, max(column, 1) - 1)), center=True)

    # --- Marks

    def mark_problems(self, marks: Sequence[Mark]) -> None:
        """Mark problems. Only the last problem of a line is marked."""
        before, self._marks = self._marks, {mark.line - 1: mark for mark in marks}
        for row in before.keys() | self._marks.keys():
            if before.get(row) != self._marks.get(row):
                self.refresh_line(row)

    def mark_matches(self, matches: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        """Mark the matches of a search, given as start and end columns by row. Rows and columns count from 0."""
        if matches or self._matches:
            self._matches = matches
            self.refresh()

    # --- Drawing

    @property
    def uncached_rows(self) -> Collection[int]:
        return {*self._marks, *self._matches}

    def show_colors(self) -> None:
        self.register_theme(editor_theme(palette_of(self)))

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        if mark := self._marks.get(line_index):
            start = min(max(mark.column, 1) - 1, len(line.plain))
            end = start + mark.length if mark.length else len(line.plain)
            line.stylize(Style(underline=True, color=self._severity_color(mark.severity)), start, end)
        return line

    def finish_line(self, strip: Strip, row: int) -> Strip:
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
        # Marks are drawn over the finished line, because Textual gives the cursor line and syntax colors priority.
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
        marked = Strip([Segment(text, (old or Style()) + style) for text, old, _ in match], match.cell_length)
        return Strip.join([before, marked, after])

    def _severity_color(self, severity: str) -> str:
        palette = palette_of(self)
        return {"error": palette.error, "warning": palette.warning}.get(severity, palette.muted)

    # --- Keys

    async def on_key(self, event: events.Key) -> None:
        if await self._handle_key(event):
            event.stop()
            event.prevent_default()

    async def _handle_key(self, event: events.Key) -> bool:
        """Handle a key; return False to leave it to the text area."""
        if not self.read_only and event.key == "enter":
            row, column = min(self.selection)
            indent = languages.next_indent(self.document[row][:column], self.source_language, self._one_indent)
            self.insert_typed("\n" + indent, *self.selection)
            return True
        if not self.read_only and event.key == "tab" and self.selection.start[0] != self.selection.end[0]:
            self._change_lines(lambda lines: [self._one_indent + line if line else line for line in lines])
            return True
        return await run_binding(self, event.key)

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        if not self.read_only:
            self._insert_foreign(event.text)

    def action_paste(self) -> None:
        if not self.read_only:
            self._insert_foreign(self.app.clipboard)

    def action_cut(self) -> None:
        super().action_cut()
        if not self.read_only:
            self.app.copy_to_clipboard(to_source(self.app.clipboard))

    def action_dedent(self) -> None:
        width = len(self._one_indent)
        self._change_lines(lambda lines: [languages.dedented(line, width) for line in lines])

    def action_toggle_comment(self) -> None:
        if mark := languages.COMMENT_MARKS.get(self.source_language):
            self._change_lines(lambda lines: languages.with_comments_toggled(lines, mark))

    def action_cursor_document_start(self) -> None:
        self.move_cursor((0, 0))

    def action_cursor_document_end(self) -> None:
        self.move_cursor(self.document.end)

    @property
    def _one_indent(self) -> str:
        return "\t" if self.indent_type == "tabs" else " " * self.indent_width

    def _insert_foreign(self, text: str) -> None:
        text = to_document(text.replace("\r\n", "\n").replace("\r", "\n"))
        if result := self.insert_typed(text, *self.selection):
            self.move_cursor(result.end_location)

    def _change_lines(self, change: Callable[[list[str]], list[str]]) -> None:
        """Apply `change` to the selected lines as one edit, and keep the selection."""
        if self.read_only:
            return
        (first, _), (last, column) = sorted(self.selection)
        rows = slice(first, last if column == 0 and last > first else last + 1)
        old = self.document.lines[rows]
        new = change(old)
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


@lru_cache(8)
def editor_theme(palette: Palette) -> TextAreaTheme:
    """Return the theme of text areas for a palette."""
    styles = {name: Style(color=getattr(palette, role)) for name, role in ROLES.items()}
    styles["comment"] += Style(italic=True)
    styles["heading"] += Style(bold=True)
    styles["link.uri"] += Style(underline=True)
    return TextAreaTheme(
        "workbench",
        gutter_style=Style(color=palette.faint),
        cursor_line_gutter_style=Style(color=palette.muted, bgcolor=palette.marked),
        cursor_line_style=Style(bgcolor=palette.marked),
        selection_style=Style(bgcolor=palette.selection),
        cursor_style=Style(color=palette.background, bgcolor=palette.accent),
        bracket_matching_style=Style(bgcolor=palette.faint, bold=True),
        syntax_styles=styles,
    )
