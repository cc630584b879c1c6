"""Choosing the columns of the dashboard: those that are shown, in their order, then all others, metrics among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import COLUMN_CHOICE
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.dashboard_columns import METRIC, PLAIN
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import NarrowField, SearchField, matches
from tui_workbench.ui.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

MOST_LISTED = 500
"""Metrics that are listed at a time: nobody reads more, and typing finds the others."""


class ColumnsScreen(ModalScreen["list[str]"], inherit_bindings=False):
    """Its result is the keys of the columns to show, in order."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(COLUMN_CHOICE)
    OFFERED = COLUMN_CHOICE
    DEFAULT_CSS = """
    ColumnsScreen { align: center top; background: $background 60%; }
    ColumnsScreen > Vertical {
        width: 72; max-width: 96%; height: auto; max-height: 90%; margin-top: 2;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    ColumnsScreen RowList { height: auto; }
    """

    def __init__(self, chosen: Sequence[str], metrics: Sequence[tuple[str, int]]) -> None:
        """`metrics` are the names of all there are, and how many runs have each."""
        super().__init__()
        self._chosen = list(chosen)
        self._had = {METRIC + name: runs for name, runs in metrics}
        self._search = NarrowField(placeholder="type to find a metric or column")
        self._list = RowList()
        self._list.can_focus = False

    def compose(self) -> ComposeResult:
        """What is typed, and what matches it."""
        box = Vertical()
        box.border_title = Content("Columns")
        with box:
            yield self._search
            yield self._list
            yield KeyFooter()

    def on_mount(self) -> None:
        """Type at once."""
        self._show()
        self.set_focus(self._search)

    def _show(self, current: str | None = None) -> None:
        others = [key for key in (*PLAIN, *self._had) if key not in self._chosen]
        names = {_name(key): key for key in (*self._chosen, *others)}
        keys = [names[name] for name in matches(self._search.value, names)][:MOST_LISTED]
        rows = [self._row(key) for key in keys]
        self._list.show_rows(rows, empty=("No column is called so.",), current=current)
        self._list.styles.height = max(1, min(len(rows), self.app.size.height * 9 // 10 - 6))

    def _row(self, key: str) -> Row:
        shown = key in self._chosen
        place = f"{self._chosen.index(key) + 1:>3}" if shown else "   "
        runs = (Piece(count(self._had[key], "run"), "muted"),) if key in self._had else ()
        before = (Piece("☑" if shown else "☐", "accent" if shown else "muted"), Piece(f"{place}  ", "muted"))
        return Row(key, Piece(_name(key), "text" if shown else "muted"), before=before, right=runs)

    def action_tick(self) -> None:
        """Show the column, as the last one, or not."""
        key = self._list.current
        if not key:
            return
        if key not in self._chosen:
            self._chosen.append(key)
        elif len(self._chosen) > 1:
            self._chosen.remove(key)
        self._show(key)

    def action_shift(self, by: int) -> None:
        """Move the column among those that are shown."""
        key = self._list.current
        if key in self._chosen:
            place = self._chosen.index(key)
            self._chosen.insert(max(0, min(place + by, len(self._chosen) - 1)), self._chosen.pop(place))
            self._show(key)

    def action_done(self) -> None:
        """Show these."""
        self.dismiss(self._chosen)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()
        self._list.move_to(0)

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._list.step(event.rows)

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        self.action_tick()


def _name(key: str) -> str:
    return safe_text(key.removeprefix(METRIC)[:200]) if key.startswith(METRIC) else PLAIN[key].title
