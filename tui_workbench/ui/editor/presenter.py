"""What an open file needs from the view that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from textual.content import Content
from textual.widget import Widget

from tui_workbench.ui.editor.editor_status import Note


class Presenter(Protocol):
    """A view that shows a file as text, as a form, or as the cells of a notebook."""

    @property
    def root(self) -> Widget:
        """The widget that contains all widgets of the view."""

    @property
    def body(self) -> Widget:
        """The widget that has the focus while the file is edited."""

    @property
    def subtitle(self) -> Content:
        """The title in the lower border."""

    @property
    def is_editing(self) -> bool:
        """True if a value of a form is being edited."""

    @property
    def is_typing(self) -> bool:
        """True if a value of a form is being edited and the user has changed it."""

    @property
    def line(self) -> int:
        """The line of the cursor in a form, from 1; 0 if the cursor of the text applies."""

    def parts(self) -> Iterable[Widget]:
        """Return the widgets above the text."""

    def show(self, *, shown: bool) -> None:
        """Show or hide the body."""

    def begin(self) -> None:
        """Show the file for the first time."""

    def show_text(self) -> None:
        """Show the text instead of the form or the cells."""

    def go_to(self, line: int, column: int) -> None:
        """Go to a line and column of the text, which count from 1."""

    def subtitle_clicked(self) -> None:
        """Switch between the two views of the file."""

    def text_changed(self) -> None:
        """Show the changed text."""

    def others_changed(self) -> None:
        """Check the file again, because other files of the project have changed."""

    async def flush_input(self) -> None:
        """Apply the value that is being typed."""

    def note(self, note: Note) -> Note:
        """Return the note to show in place of `note`."""

    def facts(self, facts: list[str]) -> list[str]:
        """Return the properties of the text to show in place of `facts`."""
