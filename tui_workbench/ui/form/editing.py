"""The value of a form that is being edited, and the options for it."""

from __future__ import annotations

from collections.abc import Sequence

from tui_workbench.config.checks.suggestions import Suggestion
from tui_workbench.config.document import Document
from tui_workbench.config.schema import field_types
from tui_workbench.ui.form import form_drawing, form_edits
from tui_workbench.ui.form.form_rows import FormRow
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.text_field import matches

MOST_SUGGESTIONS = 8  # number of options that are shown at a time
WHILE_EDITING = frozenset({"accept", "cancel", "complete"})  # the actions that are available only while editing


class Editing:
    """The edit of a form value or, if `renaming`, of the name of an entry."""

    def __init__(self, row: FormRow, text: str, *, renaming: bool = False) -> None:
        self.row = row
        self.renaming = renaming
        self.buffer = LineBuffer(text)
        self.folder = ""
        self.options: Sequence[Suggestion] = ()
        self.chosen = -1
        self.error = ""
        self.error_lines: list[str] = []  # the error, wrapped by the last call to `lines_below`
        self.listed: list[Suggestion] = []  # the options returned by the last call to `lines_below`
        if self.must_match:
            self.options = [Suggestion(choice) for choice in row.field.offered]
            self.chosen = row.field.offered.index(row.text) if row.text in row.field.offered else -1

    @property
    def must_match(self) -> bool:
        return self.row.field.type == field_types.CHOICE and not self.renaming

    @property
    def has_suggestions(self) -> bool:
        return bool(self.row.field.completion) and not self.renaming and not self.must_match

    @property
    def shown(self) -> list[Suggestion]:
        typed = "" if self.buffer.is_fresh else self.buffer.text
        by_value = {option.value: option for option in self.options}
        options = [by_value[value] for value in matches(typed, by_value)]
        # A suggestion that equals the typed text is useless.
        return options if self.must_match or [option.value for option in options] != [typed] else []

    def follow_folder(self) -> bool:
        """Update `folder` from the typed path; return True if it has changed."""
        text = "" if self.buffer.is_fresh else self.buffer.text
        folder = text[: text.rfind("/") + 1]
        changed, self.folder = folder != self.folder, folder
        return changed

    @property
    def result(self) -> str:
        """The value or name that `accept` sets."""
        shown = self.shown
        if 0 <= self.chosen < len(shown):
            return shown[self.chosen].value
        if self.must_match and not self.buffer.is_fresh and shown:
            return shown[0].value
        return self.buffer.text

    def press(self, key: str, character: str | None) -> bool:
        """Handle a typed key; return False if the key does not edit the text."""
        if not self.buffer.press(key, character):
            return False
        self.chosen, self.error = -1, ""
        return True

    def step(self, by: int) -> bool:
        """Choose another option. Return False without options."""
        if shown := self.shown:
            self.chosen = max(-1, min(self.chosen + by, len(shown) - 1))
        return bool(shown)

    def complete(self) -> bool:
        """Fill in the chosen option, or the first. Return False without options."""
        if shown := self.shown:
            self.buffer.replace(shown[max(self.chosen, 0)].value)
            self.chosen = -1
        return bool(shown)

    def accept(self, document: Document) -> None:
        """Put the result into the document. Raises WorkbenchError when the result is invalid."""
        text = self.result
        if not self.renaming:
            form_edits.accept(document, self.row, text)
        elif text != self.row.label:
            document.rename_key(self.row.path, text)

    def lines_below(self, width: int, label_width: int) -> list[tuple[str, int]]:
        """Return the kind (`error` or `option`) of each line below the row, and its index in that kind."""
        self.error_lines = form_drawing.error_lines(self.error, width, label_width)
        self.listed = self.shown
        first = max(0, self.chosen - MOST_SUGGESTIONS + 1)
        count = min(len(self.listed), MOST_SUGGESTIONS)
        lines = [("error", index) for index in range(len(self.error_lines))]
        return lines + [("option", index) for index in range(first, first + count)]
