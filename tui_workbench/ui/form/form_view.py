"""The form of a configuration file: rows with a cursor, edited in place.

The invariants: one widget draws and edits the rows, so that keys that are typed ahead reach the intended row; the
owner makes all changes and then shows the new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui_workbench.config.checks.findings import Finding
from tui_workbench.config.checks.suggestions import Suggestion
from tui_workbench.config.document import Document
from tui_workbench.config.schema import field_types
from tui_workbench.config.yaml_edit.syntax import Path
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.editor_commands import FORM, FORM_VALUE
from tui_workbench.ui.form import form_drawing, form_edits
from tui_workbench.ui.form.editing import WHILE_EDITING, Editing
from tui_workbench.ui.form.form_content import FormContent
from tui_workbench.ui.form.form_rows import COLLECTIONS, FormRow
from tui_workbench.ui.formatting import sentence
from tui_workbench.ui.terminal.key_queue import run_binding
from tui_workbench.ui.themes.themes import palette_of


class FormOwner(Protocol):
    """The owner of a form, which changes the document and then shows the new rows."""

    def change(self, change: Callable[[Document], object]) -> None:
        """Change the document as one undo step. Raises WorkbenchError."""

    def undo(self) -> None: ...
    def redo(self) -> None: ...

    async def suggest(self, row: FormRow, folder: str) -> Sequence[Suggestion]:
        """Return suggested values for a row. The values for a path include the files in `folder`."""

    def refuse(self, error: WorkbenchError) -> None:
        """Show why a change was not made."""

    def cursor_moved(self) -> None:
        """Show the help and the problem of the row under the cursor."""

    def action_fix(self) -> None:
        """Apply the fix of the problem under the cursor."""

    def action_change_view(self) -> None:
        """Show the text instead of the form."""


class FormView(ExplainsUnavailable, ScrollView, can_focus=True, inherit_bindings=False):
    """The editable form of a configuration file."""

    DEFAULT_CSS = "FormView { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS = FORM.bindings + FORM_VALUE.bindings
    heading = "In the form"

    def __init__(self, owner: FormOwner) -> None:
        super().__init__()
        self._owner = owner
        self._empty = ""
        self._form = FormContent()
        self._editing: Editing | None = None
        self._lines: list[tuple[str, int]] = []
        self._bindings_state: tuple[str, bool] = ("", False)

    @property
    def current(self) -> FormRow | None:
        return self._form.current

    @property
    def finding(self) -> Finding | None:
        return self._form.finding

    @property
    def is_editing(self) -> bool:
        return self._editing is not None

    @property
    def is_typing(self) -> bool:
        """True if the value that is being edited has changed."""
        return self._editing is not None and self._editing.result != self._editing.row.text

    def show(self, rows: list[FormRow], findings: Sequence[Finding], *, empty: str = "") -> None:
        """Show these rows, or the text `empty` if there are no rows; the cursor stays on its row."""
        self._empty = empty
        self._form.show(rows, findings)
        if self._editing is not None and all(row.key != self._editing.row.key for row in rows):
            self._editing = None
        self._redraw()

    def go_to_line(self, line: int) -> bool:
        """Move the cursor to the last row that starts on or before this line; return False without such a row."""
        return self._go_to(self._form.at_line(line))

    def go_to_finding(self) -> bool:
        """Move the cursor to the next row with a problem; return False without such a row."""
        return self._go_to(self._form.next_finding())

    def finish(self) -> bool:
        """Accept the value that is being edited; return False if it is invalid."""
        if self._editing is not None:
            self.action_accept()
        return self._editing is None

    # --- Keys

    async def _on_key(self, event: events.Key) -> None:
        if self._editing is not None:
            handled = await self._type(self._editing, event)
        else:
            handled = await run_binding(self, event.key)
        if handled:
            event.stop()
            event.prevent_default()

    async def _type(self, editing: Editing, event: events.Key) -> bool:
        if event.key in ("enter", "escape", "tab"):
            return await run_binding(self, event.key)
        if event.key in ("up", "down"):
            by = 1 if event.key == "down" else -1
            if editing.step(by):
                self._redraw()
            elif self.finish():
                self.action_step(by)
        elif editing.press(event.key, event.character):
            self._follow_folder(editing)
        else:
            return False
        return True

    def _on_paste(self, event: events.Paste) -> None:
        if self._editing is not None:
            event.stop()
            self._editing.buffer.insert(event.text)
            self._redraw()

    # --- Commands

    def why_not(self, action: str) -> str:
        if action in WHILE_EDITING:
            return "" if self._editing else "No value is being edited."
        if self._editing is not None:
            return "A value is being edited."
        row = self.current
        if row is None:
            return "The form is empty."
        if action == "fix" and (self.finding is None or self.finding.fix is None):
            return "No fix available in this row."
        return form_edits.why_not(action, self._form.rows, row)

    def action_step(self, by: int) -> None:
        self._go_to(self._form.cursor + by)

    def action_page(self, by: int) -> None:
        self._go_to(self._form.cursor + by * max(1, self.size.height - 1))

    def action_go_to_end(self, by: int) -> None:
        self._go_to(by * len(self._form.rows))

    def action_edit(self) -> None:
        row = self._form.row
        if not row.is_editable:
            self._owner.action_change_view()
        elif row.kind == "field" and row.field.type == field_types.BOOLEAN:
            self.action_switch()
        elif row.kind == "field" and row.field.type in COLLECTIONS:
            self.action_add()
        elif row.kind == "field" and row.field.type == field_types.ANY:
            self._owner.action_change_view()
        else:
            self._begin(Editing(row, row.text))

    def action_switch(self) -> None:
        row = self._form.row
        if row.kind == "field":
            turn = form_edits.toggle if row.field.type == field_types.BOOLEAN else form_edits.next_choice
            self._try(lambda document: turn(document, row))

    def action_add(self) -> None:
        if (add_row := form_edits.place_to_add(self._form.rows, self._form.row)) is not None:
            self._go_to(self._form.rows.index(add_row))
            self._begin(Editing(add_row, ""))

    def action_clear(self) -> None:
        self._try(partial(form_edits.clear, row=self._form.row))

    def action_fix(self) -> None:
        self._owner.action_fix()

    def action_move(self, by: int) -> None:
        row = self._form.row
        moved: list[Path] = []
        if self._try(lambda document: moved.append(form_edits.move(document, row, by))):
            self._go_to(next((index for index, entry in enumerate(self._form.rows) if entry.path == moved[0]), None))

    def action_rename(self) -> None:
        self._begin(Editing(self._form.row, self._form.row.label, renaming=True))

    def action_accept(self) -> None:
        editing = self._editing
        if editing is None:
            return
        row = editing.row
        try:
            self._owner.change(editing.accept)
        except WorkbenchError as error:
            editing.error = f"{sentence(error.message)} {error.remedy}"
            self._redraw()
            return
        self._editing = None
        if row.kind == "field" and row.field.type in COLLECTIONS and self.current is not None:
            add_row = form_edits.place_to_add(self._form.rows, self.current)
            self._form.go_to(self._form.rows.index(add_row) if add_row is not None else self._form.cursor)
        self._redraw()

    def action_cancel(self) -> None:
        self._editing = None
        self._redraw()

    def action_undo(self) -> None:
        self._owner.undo()

    def action_redo(self) -> None:
        self._owner.redo()

    def action_complete(self) -> None:
        if self._editing is not None and self._editing.complete():
            self._follow_folder(self._editing)

    def _begin(self, editing: Editing) -> None:
        self._editing = editing
        self._look_for_options(editing)
        self._redraw()

    def _follow_folder(self, editing: Editing) -> None:
        if editing.follow_folder():
            self._look_for_options(editing)
        self._redraw()

    def _look_for_options(self, editing: Editing) -> None:
        if editing.has_suggestions:
            self.run_worker(self._fetch_options(editing, editing.folder), group="form-options", exclusive=True)

    async def _fetch_options(self, editing: Editing, folder: str) -> None:
        options = await self._owner.suggest(editing.row, folder)
        if editing is self._editing and folder == editing.folder:
            editing.options = options
            self._redraw()

    def _try(self, change: Callable[[Document], object]) -> bool:
        try:
            self._owner.change(change)
        except WorkbenchError as error:
            self._owner.refuse(error)
            return False
        return True

    # --- Mouse

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if not 0 <= line < len(self._lines):
            return
        kind, index = self._lines[line]
        if kind == "option" and self._editing is not None:
            self._editing.chosen = index
            self.action_accept()
        elif kind == "row" and index == self._form.cursor and self._editing is not None:
            look = self._look("background")
            self._editing.buffer.go_to_cell(event.x - look.label_width - 1, look.width - look.label_width - 1)
            self._redraw()
        elif kind == "row" and self.finish():
            self._go_to(index)
            if event.chain > 1:
                self.action_edit()

    # --- Drawing

    def _go_to(self, index: int | None) -> bool:
        """Move the cursor to the row with this index; return False if the index is None."""
        if index is not None and self._form.go_to(index):
            self._redraw()
        return index is not None

    def _redraw(self) -> None:
        # The kind of each line (`row`, or `option` or `error` below a row), and its index in that kind.
        self._lines = lines = [("row", index) for index in range(len(self._form.rows))]
        if self._editing is not None:
            look = self._look("background")
            below = self._form.cursor + 1
            lines[below:below] = self._editing.lines_below(look.width, look.label_width)
        self.virtual_size = Size(0, len(lines))
        height = len(lines) - len(self._form.rows) + 1
        if self.is_mounted:
            height = min(height, max(self.size.height, 1))
            self.scroll_to_region(Region(0, self._form.cursor, 1, height), animate=False)
        self.refresh()
        state = (self.current.key if self.current else "", self.is_editing)
        if state != self._bindings_state:
            self._bindings_state = state
            self.refresh_bindings()
        self._owner.cursor_moved()

    def on_resize(self) -> None:
        self._redraw()

    def _look(self, ground: str) -> form_drawing.Look:
        width = self.scrollable_content_region.width
        palette = palette_of(self)
        label_width = form_drawing.label_width(self._form.rows, width)
        return form_drawing.Look(palette, getattr(palette, ground), label_width, width)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        if line >= len(self._lines):
            return form_drawing.draw_blank("" if self._form.rows else self._empty, y, self._look("background"))
        kind, index = self._lines[line]
        editing = self._editing
        if editing is not None and kind == "option":
            look, option = self._look("raised"), editing.listed[index]
            return form_drawing.draw_suggestion(
                option, look, chosen=index == editing.chosen, is_set=option.value == editing.row.text
            )
        if editing is not None and kind == "error":
            return form_drawing.draw_error(editing.error_lines[index], self._look("background"))
        is_current = index == self._form.cursor
        look = self._look(("selected" if self.has_focus else "marked") if is_current else "background")
        row = self._form.rows[index]
        if is_current and editing is not None:
            return form_drawing.draw_edited(row, look, editing.buffer)
        return form_drawing.draw_row(row, look, self._form.findings.get(row.key))
