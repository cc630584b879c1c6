"""The form: the rows of a configuration file with a cursor, edited in place.

The invariants: it draws and edits in one widget, so keys that were typed ahead always mean what they meant when they
were pressed; it changes nothing itself, but hands each change to its owner and shows the rows it gets back.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.segment import Segment
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
from tui_workbench.ui.commands.editor_commands import FORM, FORM_VALUE
from tui_workbench.ui.editor.editor_status import sentence, severity_rank
from tui_workbench.ui.form import form_drawing, form_edits
from tui_workbench.ui.form.form_edits import WHILE_EDITING, Editing
from tui_workbench.ui.form.form_rows import COLLECTIONS, FormRow
from tui_workbench.ui.terminal.key_order import obey
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes.themes import palette_of, style

MOST_SUGGESTIONS = 8
"""Suggestions that are shown at a time."""

if TYPE_CHECKING:
    from tui_workbench.ui.editor.config_view import ConfigView


class FormView(ScrollView, can_focus=True, inherit_bindings=False):
    """The form of one file. `owner` makes the changes; after each it shows the rows anew."""

    DEFAULT_CSS = "FormView { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS = FORM.bindings + FORM_VALUE.bindings

    def __init__(self, owner: ConfigView) -> None:
        super().__init__()
        self._owner = owner
        self._empty = ""
        self._rows: list[FormRow] = []
        self._findings: Mapping[str, Finding] = {}
        self._cursor = 0
        self._editing: Editing | None = None
        self._lines: list[tuple[str, int]] = []
        self._complaints: list[str] = []  # as wide as the form was when its lines were made
        self._shown: list[Suggestion] = []
        self._told: tuple[str, bool] = ("", False)

    # --- What others ask of it

    @property
    def current(self) -> FormRow | None:
        """The row under the cursor; None in a form without rows."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def finding(self) -> Finding | None:
        """What is wrong in the current row."""
        return self._findings.get(self.current.key) if self.current else None

    @property
    def is_editing(self) -> bool:
        """True while a value is being typed."""
        return self._editing is not None

    @property
    def is_typing(self) -> bool:
        """True when what is being edited is not what it was."""
        return self._editing is not None and self._editing.result != self._editing.row.text

    def show(self, rows: list[FormRow], findings: Sequence[Finding], *, empty: str = "") -> None:
        """Show these rows, or the sentence `empty`; the cursor stays on its row, or at its place when that has gone."""
        self._empty = empty
        key = self.current.key if self.current else ""
        self._rows = rows
        self._findings = _by_row(rows, findings)
        at = next((index for index, row in enumerate(rows) if row.key == key), self._cursor)
        self._cursor = max(0, min(at, len(rows) - 1))
        if self._editing is not None and all(row.key != self._editing.row.key for row in rows):
            self._editing = None
        self._redraw()

    def go_to_line(self, line: int) -> bool:
        """Put the cursor on the row whose value stands in this line of the text, or before it; False without one."""
        at = [index for index, row in enumerate(self._rows) if 0 < row.line <= line]
        if at:
            self._go_to(max(at, key=lambda index: (self._rows[index].line, self._rows[index].depth)))
        return bool(at)

    def go_to_finding(self) -> bool:
        """Put the cursor on the next row that something is wrong with, around the end; False without one."""
        count = len(self._rows)
        behind = [(self._cursor + step) % count for step in range(1, count + 1)]
        target = next((index for index in behind if self._rows[index].key in self._findings), None)
        if target is not None:
            self._go_to(target)
        return target is not None

    def finish(self) -> bool:
        """Take what is being typed; False when it cannot be taken."""
        if self._editing is not None:
            self.action_accept()
        return self._editing is None

    # --- Keys

    async def _on_key(self, event: events.Key) -> None:
        if self._editing is not None:
            handled = await self._type(self._editing, event)
        else:
            handled = await obey(self, event.key)
        if handled:
            event.stop()
            event.prevent_default()

    async def _type(self, editing: Editing, event: events.Key) -> bool:
        if event.key in ("enter", "escape", "tab"):
            return await obey(self, event.key)
        if event.key in ("up", "down"):
            self._step_in_options(editing, 1 if event.key == "down" else -1)
        elif editing.buffer.press(event.key, event.character):
            editing.chosen, editing.complaint = -1, ""
            if editing.follow_folder():
                self._look_for_options(editing)
            self._redraw()
        else:
            return False
        return True

    def _on_paste(self, event: events.Paste) -> None:
        if self._editing is not None:
            event.stop()
            self._editing.buffer.insert(event.text)
            self._redraw()

    def _step_in_options(self, editing: Editing, by: int) -> None:
        shown = editing.shown
        if shown:
            editing.chosen = max(-1, min(editing.chosen + by, len(shown) - 1))
            self._redraw()
        elif self.finish():
            self.action_step(by)

    # --- Commands

    def why_not(self, action: str) -> str:
        if action in WHILE_EDITING:
            return "" if self._editing else "Nothing is being edited."
        if self._editing is not None:
            return "A value is being edited."
        row = self.current
        if row is None:
            return "There is nothing here."
        if action == "switch" and row.field.type not in (field_types.BOOLEAN, field_types.CHOICE):
            return "This is no switch."
        if action == "add" and form_edits.place_to_add(self._rows, row) is None:
            return "This is no list."
        if action == "clear" and (row.kind == "add" or not row.is_set):
            return "There is nothing to remove."
        if action == "fix" and (self.finding is None or self.finding.fix is None):
            return "There is nothing to fix in this row."
        if action == "move" and not (row.kind == "item" and isinstance(row.path[-1], int)):
            return "This is no entry of a list."
        if action == "rename" and not (row.kind == "item" and row.field.type == field_types.MAPPING):
            return "Only entries of a map have names."
        return ""

    @property
    def _row(self) -> FormRow:
        """The row under the cursor, for commands that `why_not` offers only where there is one."""
        return self._rows[self._cursor]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.why_not(action)

    def action_step(self, by: int) -> None:
        self._go_to(self._cursor + by)

    def action_page(self, by: int) -> None:
        self._go_to(self._cursor + by * max(1, self.size.height - 1))

    def action_go_to_end(self, by: int) -> None:
        self._go_to(by * len(self._rows))

    def action_edit(self) -> None:
        row = self._row
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
        row = self._row
        if row.kind == "field":
            turn = form_edits.toggle if row.field.type == field_types.BOOLEAN else form_edits.next_choice
            self._try(lambda document: turn(document, row))

    def action_add(self) -> None:
        if (place := form_edits.place_to_add(self._rows, self._row)) is not None:
            self._go_to(self._rows.index(place))
            self._begin(Editing(place, ""))

    def action_clear(self) -> None:
        self._try(partial(form_edits.clear, row=self._row))

    def action_fix(self) -> None:
        self._owner.action_fix()

    def action_move(self, by: int) -> None:
        """Move an entry in its list; the cursor goes with it."""
        row = self._row
        moved: list[Path] = []
        if self._try(lambda document: moved.append(form_edits.move(document, row, by))):
            self._go_to(next((index for index, one in enumerate(self._rows) if one.path == moved[0]), self._cursor))

    def action_rename(self) -> None:
        self._begin(Editing(self._row, self._row.label, renaming=True))

    def action_accept(self) -> None:
        editing = self._editing
        if editing is None:
            return
        row, text = editing.row, editing.result
        try:
            if editing.renaming:
                self._owner.change(lambda document: document.rename_key(row.path, text) if text != row.label else None)
            else:
                self._owner.change(lambda document: form_edits.accept(document, row, text))
        except WorkbenchError as error:
            editing.complaint = f"{sentence(error.message)} {error.remedy}"
            self._redraw()
            return
        self._editing = None
        if row.kind == "field" and row.field.type in COLLECTIONS and self.current is not None:
            place = form_edits.place_to_add(self._rows, self.current)
            self._cursor = self._rows.index(place) if place is not None else self._cursor
        self._redraw()

    def action_cancel(self) -> None:
        self._editing = None
        self._redraw()

    def action_undo(self) -> None:
        self._owner.undo()

    def action_redo(self) -> None:
        self._owner.redo()

    def action_complete(self) -> None:
        editing = self._editing
        if editing is not None and (shown := editing.shown):
            editing.buffer.replace(shown[max(editing.chosen, 0)].value)
            editing.chosen = -1
            if editing.follow_folder():
                self._look_for_options(editing)
            self._redraw()

    def _begin(self, editing: Editing) -> None:
        self._editing = editing
        if editing.must_match:
            choices = editing.row.field.offered
            editing.options = [Suggestion(choice) for choice in choices]
            editing.chosen = choices.index(editing.row.text) if editing.row.text in choices else -1
        else:
            self._look_for_options(editing)
        self._redraw()

    def _look_for_options(self, editing: Editing) -> None:
        if editing.row.field.completion and not editing.renaming and not editing.must_match:
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
        """A click goes to the row, a second one edits it; on a suggestion it takes it."""
        line = event.y + self.scroll_offset.y
        if not 0 <= line < len(self._lines):
            return
        kind, index = self._lines[line]
        if kind == "option" and self._editing is not None:
            self._editing.chosen = index
            self.action_accept()
        elif kind == "row" and index == self._cursor and self._editing is not None:
            look = self._look("background")
            self._editing.buffer.go_to_cell(event.x - look.label_width - 1, look.width - look.label_width - 1)
            self._redraw()
        elif kind == "row" and self.finish():
            self._go_to(index)
            if event.chain > 1:
                self.action_edit()

    # --- Drawing

    def _go_to(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if index != self._cursor:
            self._cursor = index
            self._redraw()

    def _all_lines(self) -> list[tuple[str, int]]:
        """What each line shows: a row, an option of the row above, or a complaint about it."""
        lines = [("row", index) for index in range(len(self._rows))]
        if self._editing is not None:
            look = self._look("background")
            self._complaints = form_drawing.complaint_lines(self._editing.complaint, look.width, look.label_width)
            below = [("complaint", index) for index in range(len(self._complaints))]
            self._shown = self._editing.shown
            first = max(0, self._editing.chosen - MOST_SUGGESTIONS + 1)
            count = min(len(self._shown), MOST_SUGGESTIONS)
            below += [("option", index) for index in range(first, first + count)]
            lines[self._cursor + 1 : self._cursor + 1] = below
        return lines

    def _redraw(self) -> None:
        self._lines = lines = self._all_lines()
        self.virtual_size = Size(0, len(lines))
        height = len(lines) - len(self._rows) + 1
        if self.is_mounted:
            self.scroll_to_region(Region(0, self._cursor, 1, min(height, max(self.size.height, 1))), animate=False)
        self.refresh()
        state = (self.current.key if self.current else "", self.is_editing)
        if state != self._told:
            self._told = state
            self.refresh_bindings()
        self._owner.cursor_moved()

    def on_resize(self) -> None:
        self._redraw()

    def _look(self, ground: str) -> form_drawing.Look:
        width = self.scrollable_content_region.width
        palette = palette_of(self)
        return form_drawing.Look(palette, getattr(palette, ground), form_drawing.label_width(self._rows, width), width)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        if line >= len(self._lines):
            palette = palette_of(self)
            empty = textwrap.wrap(safe_text(self._empty), max(self.size.width - 2, 20)) if not self._rows else []
            if 1 <= y <= len(empty):
                text = Segment(f" {empty[y - 1]}", style(palette.muted, palette.background))
                return Strip([text]).adjust_cell_length(self.size.width, style(palette.text, palette.background))
            return Strip.blank(self.scrollable_content_region.width, style(palette.text, palette.background))
        kind, index = self._lines[line]
        editing = self._editing
        if editing is not None and kind == "option":
            look, option = self._look("raised"), self._shown[index]
            return form_drawing.draw_suggestion(
                option, look, chosen=index == editing.chosen, is_set=option.value == editing.row.text
            )
        if editing is not None and kind == "complaint":
            return form_drawing.draw_complaint(self._complaints[index], self._look("background"))
        is_current = index == self._cursor
        look = self._look(("selected" if self.has_focus else "marked") if is_current else "background")
        row = self._rows[index]
        if is_current and editing is not None:
            return form_drawing.draw_edited(row, look, editing.buffer)
        return form_drawing.draw_row(row, look, self._findings.get(row.key))


def _by_row(rows: Sequence[FormRow], findings: Sequence[Finding]) -> dict[str, Finding]:
    """The worst finding of each row: of the entry in its line, else of its field."""
    found: dict[str, Finding] = {}
    for finding in sorted(findings, key=severity_rank):
        here = [row for row in rows if row.line == finding.line and row.line and row.kind != "add"]
        field = [row for row in rows if row.kind == "field" and row.field.key == finding.key]
        is_inside = any(row in field or (row.kind == "item" and row.field.key == finding.key) for row in here)
        if finding.key and field and not is_inside:
            here = field
        for row in (here or field)[-1:]:
            found[row.key] = finding
    return found
