"""Any number of runs side by side: a metric of all of them in one chart, and below it what differs.

The invariant: a run has the same mark and colour in the chart, in its legend and over its column.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widgets import Input

from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import COMPARE, HISTORY
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.compare_rows import (
    SAME,
    Found,
    columns_of,
    key_of,
    read_comparison,
    read_curves,
    read_difference,
    rows_of,
)
from tui_workbench.ui.screens.history_screen import HistoryScreen
from tui_workbench.ui.widgets.chart import Chart
from tui_workbench.ui.widgets.chart_data import Curve
from tui_workbench.ui.widgets.chart_drawing import Look
from tui_workbench.ui.widgets.field_row import FieldRow
from tui_workbench.ui.widgets.run_table import RunTable
from tui_workbench.ui.widgets.text_field import SearchField
from tui_workbench.ui.widgets.text_view import TextView
from tui_workbench.ui.words import run_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.runs.comparing import ComparedRow
    from tui_workbench.runs.metrics import Series
    from tui_workbench.ui.widgets.text_view import Line


class CompareScreen(HistoryScreen, inherit_bindings=False):
    """Compares runs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(COMPARE, HISTORY)
    OFFERED = (*COMPARE, *HISTORY)
    AUTO_FOCUS = "RunTable"
    heading = "Comparison"
    about = (
        "What differs between runs comes first. Values that are like the base's are faint; b makes the run of the "
        "column under the cursor the base. enter shows a difference whole, of a file line by line."
    )
    DEFAULT_CSS = """
    CompareScreen > Chart { height: 2fr; max-height: 20; min-height: 7; }
    CompareScreen > RunTable { height: 3fr; border-top: solid $border-blurred; }
    CompareScreen > RunTable:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project, runs: Sequence[Run]) -> None:
        super().__init__(project)
        self.runs = tuple(runs)
        self.chart = Chart()
        self.filter_row = FieldRow("/", "words that a row holds: learning_rate, metrics, 0.01")
        self.table = RunTable()
        self._found: Found | None = None
        self._base = 0
        self._same_too = False
        self._metric = 0

    def compose_content(self) -> ComposeResult:
        """The curves, the filter, and the rows."""
        yield self.chart
        yield self.filter_row
        yield self.table

    def on_mount(self) -> None:
        """Read everything."""
        self.table.supply(0, 0, (), empty=("Comparing…",))
        self.table.show_columns(columns_of(self.runs, self._base), "", descending=False)
        self.chart.show_message("Reading…")
        self.ask("comparison", partial(read_comparison, self.project, self.runs), self._show)

    def _show(self, found: Found) -> None:
        self._found = found
        self._show_rows()
        self.table.move_to(1)  # from the first heading to what it is about
        self._show_metric()

    def _show_rows(self) -> None:
        if self._found is None:
            return
        self.table.show_columns(columns_of(self.runs, self._base), "", descending=False)
        words = self.filter_row.field.value.strip()
        rows = rows_of(self._found.comparison, self._base, same_too=self._same_too, words=words)
        self.table.supply(len(rows), 0, rows, anew=True, empty=("Nothing holds that; esc shows all.",))
        self.refresh_bindings()

    # --- The filter

    def action_filter(self) -> None:
        """Type a filter."""
        self.filter_row.open()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_rows()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.filter_row.field.value.strip():
            self.filter_row.close()
        self.set_focus(self.table)

    @on(SearchField.Left)
    def _field_left(self, event: SearchField.Left) -> None:
        event.stop()
        self._end_filter()

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self.table.move_to(self.table.cursor + event.rows)

    def _end_filter(self) -> None:
        self.filter_row.field.value = ""
        self.filter_row.close()
        self.set_focus(self.table)

    def action_leave(self) -> None:
        """End the filter; without one go back."""
        if self.filter_row.display:
            self._end_filter()
        else:
            super().action_leave()

    # --- Curves

    def _show_metric(self) -> None:
        if self._found is None or not self._found.metrics:
            self.chart.show_message("No metric with a course was logged by these runs.")
            return
        name = self._found.metrics[self._metric % len(self._found.metrics)]
        self.ask("curves", partial(read_curves, self.runs, name), partial(self._show_curves, name))

    def _show_curves(self, name: str, found: list[Series]) -> None:
        curves = [
            Curve(safe_text(run_title(run)[:60]), *series, key=run.run_id, look=place)
            for place, (run, series) in enumerate(zip(self.runs, found, strict=True))
            if series.values
        ]
        self.chart.show(curves, Look(safe_text(name[:60])))

    def action_metric(self, by: int) -> None:
        """The next metric."""
        self._metric += by
        self.chart.reset()
        self._show_metric()

    # --- Rows

    @property
    def _row(self) -> ComparedRow | None:
        if self._found is None:
            return None
        return next((row for row in self._found.comparison.rows if key_of(row) == self.table.current), None)

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action == "open" and self._row is None and self.table.current != SAME:
            return "No difference is under the cursor."
        if action == "metric" and (self._found is None or len(self._found.metrics) < 2):
            return "There is no other metric with a course."
        if action == "filter" and self.focused is self.filter_row.field:
            return "The filter is being typed."
        if action == "base" and self._column < 0:
            return "← and → choose the column of a run."
        return super().why_not(action)

    @property
    def _column(self) -> int:
        """The number of the run in whose column the cursor is; -1 in the first column."""
        keys = [run.run_id for run in self.runs]
        column = self.table.column
        return keys.index(column.key) if column is not None and column.key in keys else -1

    @on(RunTable.CursorMoved)
    def _cursor_moved(self, event: RunTable.CursorMoved) -> None:
        event.stop()
        self.refresh_bindings()

    @on(RunTable.Chosen)
    def _row_chosen(self, event: RunTable.Chosen) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        """Show the difference whole, or what is the same."""
        row = self._row
        if self.table.current == SAME:
            self.action_toggle_same()
        elif row is not None and self._found is not None:
            other = self._column
            if other in (-1, self._base):
                other = next(
                    (place for place, value in enumerate(row.values) if value != row.values[self._base]),
                    (self._base + 1) % len(self.runs),
                )
            call = partial(read_difference, self.project, self._found.comparison, row, self._base, other)
            titles = [safe_text(run_title(self.runs[place])) for place in (self._base, other)]
            self.app.push_screen(
                DifferenceScreen(self.project, f"{safe_text(row.name)}: {titles[0]} → {titles[1]}", call)
            )

    def action_toggle_same(self) -> None:
        """Show what is the same, too, or not."""
        self._same_too = not self._same_too
        self._show_rows()

    def action_base(self) -> None:
        """Compare with the run of this column."""
        if self._column >= 0:
            self._base = self._column
            self._show_rows()


class DifferenceScreen(HistoryScreen, inherit_bindings=False):
    """Shows one difference."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HISTORY)
    AUTO_FOCUS = "TextView"
    about = "One difference, whole."
    DEFAULT_CSS = """
    DifferenceScreen > TextView {
        border: round $border-blurred; border-title-color: $text-muted;
    }
    DifferenceScreen > TextView:focus { border: round $border; border-title-color: $border; border-title-style: bold; }
    """

    def __init__(self, project: Project, title: str, call: partial[list[Line]]) -> None:
        """`title` must be safe text; `call` reads the lines."""
        super().__init__(project)
        self.view = TextView()
        self._title = title
        self._call = call

    def compose_content(self) -> ComposeResult:
        """The lines."""
        from textual.content import Content

        self.view.border_title = Content(self._title)
        yield self.view

    def on_mount(self) -> None:
        """Read them."""
        self.ask("difference", self._call, self.view.show)
