"""A list of rows that can be filtered: targets, runs, files of a run, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui_workbench.ui.commands import LIST, LIST_FILTER, bindings
from tui_workbench.ui.widgets.filterable import NOTHING, Filterable
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from tui_workbench.ui.widgets.pieces import Row


class FilterList(RowList, Filterable, can_focus=True, inherit_bindings=False):
    """Shows the rows that hold the words of the filter; `rows` are those, `all_rows` all that were handed down."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(LIST_FILTER, LIST)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.all_rows: Sequence[Row] = ()
        self._empty_words: tuple[str, ...] = ()

    def show_rows(self, rows: Sequence[Row], *, empty: tuple[str, ...] = (), current: str | None = None) -> None:
        """Show those of these rows that the filter lets through, or the lines of `empty` when there are none at all."""
        self.all_rows, self._empty_words = rows, empty
        self._show_passing(current)

    def _show_passing(self, current: str | None = None) -> None:
        passing = [row for row in self.all_rows if self.admits(row.text)] if self.filter_text else self.all_rows
        super().show_rows(passing, empty=NOTHING if self.filter_text else self._empty_words, current=current)

    def filter_changed(self) -> None:
        """Other words are asked for."""
        self._show_passing()
        self.fit()

    @property
    def footing(self) -> int:
        """The filter's line, while there is one."""
        return self.filter_lines

    def counts(self) -> tuple[int, int]:
        """Rows that are shown, and all."""
        return len(self.rows), len(self.all_rows)

    def on_click(self, event: events.Click) -> None:
        """A click on the filter goes into it."""
        if self.footing and event.y == self.size.height - 1:
            event.prevent_default()
            self.action_filter()

    def render_line(self, y: int) -> Strip:
        """One line of the list, or the filter's."""
        if self.footing and y == self.scrollable_content_region.height - 1:
            return self.filter_strip(self.scrollable_content_region.width)
        return super().render_line(y)
