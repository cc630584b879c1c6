"""A small table of the runs in the right column of the main screen, newest first.

The table reads rows from the index only in and near its visible part, in threads, and only while it is visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.message import Message

from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import RunQuery, RunRow
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.main_commands import RECENT
from tui_workbench.ui.dashboard.dashboard_columns import METRIC, RowMaker, column_of
from tui_workbench.ui.dashboard.dashboard_data import Page, read_page
from tui_workbench.ui.runs.run_table import RunTable, TableColumn
from tui_workbench.ui.widgets.pane import Pane

COLUMNS = ("number", "script", "state", "duration")
METRICS = 2  # number of columns for metrics, which show the most common metrics
SCRIPT_CELLS = 10


class RecentPane(Pane):
    """The pane of the newest runs. Posts `Chosen` when the user opens a run."""

    number = 6
    title = "All runs"
    about = "The runs of the project, newest first after the pinned runs. Archived runs are hidden."
    BINDINGS = RECENT.bindings

    @dataclass(eq=False)
    class Chosen(Message):
        """Posted when the user opens a run."""

        run: Run

    def __init__(self, project: Project, *, id: str) -> None:
        super().__init__(id=id)
        self._project = project
        self._table = RunTable()
        self._columns: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield self._table

    def take_focus(self) -> None:
        self.screen.set_focus(self._table)

    def on_show(self) -> None:
        self.reload()

    def reload(self) -> None:
        """Read the rows again, if the pane is visible."""
        if self.is_mounted and self.region.size:
            self._ask(*self._table.window())

    @on(RunTable.RowsWanted)
    def _rows_wanted(self, event: RunTable.RowsWanted) -> None:
        self._ask(event.first, event.number)

    def _ask(self, first: int, number: int) -> None:
        ask(self, "rows", partial(_read, self._project, first, number), self._show_rows)

    def _show_rows(self, read: tuple[Page, tuple[str, ...]]) -> None:
        page, keys = read
        if keys != self._columns:
            self._columns = keys
            columns = [column_of(key, runs=page.runs) for key in keys]
            self._table.show_columns(
                [_narrowed(column) for column in columns if column is not None], "number", descending=True
            )
        rows = list(map(RowMaker(keys, {}).row, page.lines))
        self._table.set_rows(page.total, page.first, rows, empty=("No runs yet.",), replace=True)
        self.set_title(f"{page.total:,}" if page.total else "")
        self.refresh_bindings()

    def why_not(self, action: str) -> str:
        return "No run selected." if action == "open" and self._table.current_value is None else ""

    @on(RunTable.Chosen)
    def action_open(self) -> None:
        row = self._table.current_value
        if isinstance(row, RunRow):
            self.post_message(self.Chosen(row.run))


def _read(project: Project, first: int, number: int) -> tuple[Page, tuple[str, ...]]:
    """Return the rows from `first` on, and the keys of the columns. Blocks; raises WorkbenchError."""
    with RunIndex(project) as index:
        metrics = index.metric_names()[:METRICS]
    page = read_page(project, RunQuery(), frozenset(), first, number)
    return page, (*COLUMNS, *(METRIC + name for name, _ in metrics))


def _narrowed(column: TableColumn) -> TableColumn:
    """Return the column with its minimum width. The column of scripts also takes the remaining room."""
    if column.key == "script":
        return column._replace(width=SCRIPT_CELLS, stretches=True)
    return column._replace(width=column.least) if column.least else column
