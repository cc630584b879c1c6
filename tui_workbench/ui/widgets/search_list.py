"""A search field above a list of matching rows, for the palette, the choices of a field, and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from tui_workbench.ui.commands.command import bindings
from tui_workbench.ui.commands.editor_commands import SEARCH_STEPS, TEXT_KEYS
from tui_workbench.ui.widgets.pieces import Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import TextField, matches

MAX_SHOWN = 500
"""Maximum number of rows, because every row takes time at each key press."""


class NarrowField(TextField, inherit_bindings=False):
    """A search field without bindings for enter and escape. The owner of the list binds them."""

    BINDINGS = bindings((*TEXT_KEYS, *SEARCH_STEPS))


class SearchList(Vertical):
    """A list that filters its rows while the user types, and selects the best match.

    `choose` is called with the key of the chosen row, or with "" when the user leaves.
    """

    DEFAULT_CSS = """
    SearchList { height: auto; }
    SearchList > RowList { height: auto; }
    """

    def __init__(
        self,
        choose: Callable[[str], object],
        placeholder: str,
        *,
        empty: str = "No matches.",
        preview: Callable[[str], object] | None = None,
    ) -> None:
        """`preview` is called with the key of each row that the cursor moves to."""
        super().__init__()
        self._choose = choose
        self._empty = empty
        self._preview = preview
        self._rows: Mapping[str, Row] = {}
        self.last: frozenset[str] = frozenset()
        """Keys of rows that come after all others."""
        self._shown_for = ""
        self.search = NarrowField(placeholder=placeholder)
        self.list = RowList()

    def compose(self) -> ComposeResult:
        yield self.search
        yield self.list

    @property
    def typed(self) -> str:
        return self.search.value.strip()

    @property
    def current(self) -> str:
        return self.list.current

    @property
    def most_rows(self) -> int:
        return self.app.size.height * 8 // 10 - 5

    def take_focus(self) -> None:
        self.screen.set_focus(self.search)

    def show_choices(self, rows: Mapping[str, Row], current: str | None = None) -> None:
        """Show these rows, keyed by the text to search in, with the cursor on the key `current`."""
        self._rows = rows
        self._shown_for = self.typed
        self.list.show_rows(self.matching_rows(), empty=(self._empty,), current=current)
        self.list.styles.height = max(1, min(len(self.list.rows), self.most_rows))

    def matching_rows(self) -> list[Row]:
        rows = [self._rows[text] for text in matches(self.typed, self._rows)[:MAX_SHOWN]]
        return sorted(rows, key=lambda row: row.key in self.last)

    def _narrow(self) -> None:
        if self.typed != self._shown_for:
            self.show_choices(self._rows)
            self.list.move_to(0)

    def action_choose(self) -> None:
        self._narrow()  # the message about the last typed key may still be queued
        self._choose(self.current)

    def action_leave(self) -> None:
        self._choose("")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow()

    @on(TextField.Stepped)
    def _stepped(self, event: TextField.Stepped) -> None:
        event.stop()
        self.list.step(event.rows)

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        if self._preview is not None and event.key:
            self._preview(event.key)

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        self._choose(event.key)
