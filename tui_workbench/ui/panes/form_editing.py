"""What can be done in a form, and a value of it while it is being typed.

The invariant: nothing here knows how it is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.config import schema
from tui_workbench.ui.widgets.line_buffer import LineBuffer
from tui_workbench.ui.widgets.text_field import matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.config.suggestions import Suggestion
    from tui_workbench.ui.panes.form_rows import FormRow

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

    @property
    def must_match(self) -> bool:
        """True when only one of the options can be taken."""
        return self.row.field.type == schema.CHOICE and not self.renaming

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
