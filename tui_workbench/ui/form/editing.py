"""A value of the form while it is being typed, with the options for it."""

from __future__ import annotations

from collections.abc import Sequence

from tui_workbench.config.checks.suggestions import Suggestion
from tui_workbench.config.document import Document
from tui_workbench.config.schema import field_types
from tui_workbench.ui.form import form_drawing, form_edits
from tui_workbench.ui.form.form_rows import FormRow
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.text_field import matches

MOST_SUGGESTIONS = 8
"""Suggestions that are shown at a time."""

WHILE_EDITING = frozenset({"accept", "cancel", "complete"})
"""The actions that are there only while a value is being typed; the others are there only while none is."""


class Editing:
    """The value that is being typed."""

    def __init__(self, row: FormRow, text: str, *, renaming: bool = False) -> None:
        self.row = row
        self.renaming = renaming
        self.buffer = LineBuffer(text)
        self.folder = ""
        self.options: Sequence[Suggestion] = ()
        self.chosen = -1
        self.complaint = ""
        self.complaint_lines: list[str] = []
        """The complaint, as wide as the form was when its lines were made."""
        self.listed: list[Suggestion] = []
        """The options that were shown then."""
        if self.must_match:
            self.options = [Suggestion(choice) for choice in row.field.offered]
            self.chosen = row.field.offered.index(row.text) if row.text in row.field.offered else -1

    @property
    def must_match(self) -> bool:
        """True when only one of the options can be taken."""
        return self.row.field.type == field_types.CHOICE and not self.renaming

    @property
    def has_suggestions(self) -> bool:
        """True when there are suggestions for what is typed."""
        return bool(self.row.field.completion) and not self.renaming and not self.must_match

    @property
    def shown(self) -> list[Suggestion]:
        """The options that match what was typed."""
        typed = "" if self.buffer.is_fresh else self.buffer.text
        by_value = {option.value: option for option in self.options}
        found = [by_value[value] for value in matches(typed, by_value)]
        # What is typed already in full needs no suggestion, unless it is one of a few words.
        return found if self.must_match or [one.value for one in found] != [typed] else []

    def follow_folder(self) -> bool:
        """Note which folder a path that is being typed leads into; True when it is another one than before."""
        text = "" if self.buffer.is_fresh else self.buffer.text
        folder = text[: text.rfind("/") + 1]
        changed, self.folder = folder != self.folder, folder
        return changed

    @property
    def result(self) -> str:
        """What would be taken now."""
        shown = self.shown
        if 0 <= self.chosen < len(shown):
            return shown[self.chosen].value
        if self.must_match and not self.buffer.is_fresh and shown:
            return shown[0].value
        return self.buffer.text

    # --- Keys

    def press(self, key: str, character: str | None) -> bool:
        """Type a key; False when it types nothing."""
        if not self.buffer.press(key, character):
            return False
        self.chosen, self.complaint = -1, ""
        return True

    def step(self, by: int) -> bool:
        """Go to another option; False when there are none."""
        if shown := self.shown:
            self.chosen = max(-1, min(self.chosen + by, len(shown) - 1))
        return bool(shown)

    def complete(self) -> bool:
        """Fill in the chosen option, or the first; False when there are none."""
        if shown := self.shown:
            self.buffer.replace(shown[max(self.chosen, 0)].value)
            self.chosen = -1
        return bool(shown)

    def accept(self, document: Document) -> None:
        """Put the value into the document. Raises WorkbenchError when it cannot be taken."""
        text = self.result
        if not self.renaming:
            form_edits.accept(document, self.row, text)
        elif text != self.row.label:
            document.rename_key(self.row.path, text)

    # --- Drawing

    def lines_below(self, width: int, label_width: int) -> list[tuple[str, int]]:
        """What the lines below the row show: a complaint about it, or an option, by its index."""
        self.complaint_lines = form_drawing.complaint_lines(self.complaint, width, label_width)
        self.listed = self.shown
        first = max(0, self.chosen - MOST_SUGGESTIONS + 1)
        count = min(len(self.listed), MOST_SUGGESTIONS)
        lines = [("complaint", index) for index in range(len(self.complaint_lines))]
        return lines + [("option", index) for index in range(first, first + count)]
