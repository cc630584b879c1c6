"""A text area that is fast for long texts. It highlights only visible rows, once per frame.

Subclasses draw over finished lines in `finish_line` and set the colors in `show_colors`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from textual.geometry import Offset, Region
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import DocumentNavigator, Edit, EditResult, Location

from tui_workbench.ui.terminal.code_document import SourceDocument, UnwrappedDocument


class CodeArea(TextArea, inherit_bindings=False):
    """A text area for code. `source_language` is the language of the next text that is loaded."""

    document: SourceDocument

    def __init__(self, *, id: str | None = None, classes: str | None = None, max_checkpoints: int) -> None:
        self.source_language = ""
        self._highlighted_rows = range(0)
        self._scroll_when_shown: Literal["", "visible", "center"] = ""
        super().__init__(
            id=id,
            classes=classes,
            soft_wrap=False,
            tab_behavior="indent",
            show_line_numbers=True,
            max_checkpoints=max_checkpoints,
        )
        self.cursor_blink = False

    # --- For subclasses

    @property
    def uncached_rows(self) -> Collection[int]:
        """The rows that are drawn again in each frame."""
        return ()

    def finish_line(self, strip: Strip, row: int) -> Strip:
        return strip

    def show_colors(self) -> None:
        """Register the theme `workbench` with the colors of the app's theme."""

    def insert_typed(self, text: str, start: Location, end: Location) -> EditResult | None:
        return self._replace_via_keyboard(text, start, end)

    # --- The text

    def _set_document(self, text: str, language: str | None) -> None:
        # Textual would create its slow document, and compile the query again for each editor.
        self.document = SourceDocument(text, self.source_language)
        self.wrapped_document = UnwrappedDocument(self.document, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        self._build_highlight_map()
        self.move_cursor((0, 0))
        self._rewrap_and_refresh_virtual_size()

    def edit_at_once(self, edit: Edit) -> None:
        """Make an edit as one undo step."""
        self.history.checkpoint()
        self.edit(edit)
        self.history.checkpoint()

    def _build_highlight_map(self) -> None:
        # Called after every edit. The visible rows are highlighted when they are drawn.
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

    # --- Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        top = self.scroll_offset.y
        self._highlight_rows(range(top, top + max(self.size.height, 1)))
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        # Textual's cache does not notice when the result of `finish_line` changes.
        uncached = self.scroll_offset.y + y in self.uncached_rows
        return self._render_line(y) if uncached else super().render_line(y)

    def _render_line(self, y: int) -> Strip:
        return self.finish_line(super()._render_line(y), self.scroll_offset.y + y)

    def _app_theme_changed(self) -> None:
        self.show_colors()
        self._set_theme("workbench")
        self._line_cache.clear()

    def on_mount(self) -> None:
        self.show_colors()
        self.theme = "workbench"

    # --- Scrolling

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        # A hidden text scrolls later, when it has a width.
        if self.size and self.is_on_screen:
            return super().scroll_cursor_visible(center, animate)
        self._scroll_when_shown = "center" if center else self._scroll_when_shown or "visible"
        return Offset()

    def on_resize(self) -> None:
        if self.size and self._scroll_when_shown:
            center, self._scroll_when_shown = self._scroll_when_shown == "center", ""
            self.scroll_cursor_visible(center)
