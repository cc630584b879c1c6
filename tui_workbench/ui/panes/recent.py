"""All runs of the project at the side of the main screen, where there is room: newest first, with what came of them.

The dashboard's table in small: it asks the index for the rows in view and nothing else, in threads, and only while it
can be seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.message import Message

from tui_workbench.errors import WorkbenchError
from tui_workbench.runs.table import RunQuery, RunRow
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.messages import BackendFailed
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.screens.dashboard_columns import METRIC, RowMaker, column_of
from tui_workbench.ui.screens.dashboard_runs import Part, part
from tui_workbench.ui.view_commands import RECENT
from tui_workbench.ui.widgets.run_table import RunTable

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.ui.widgets.run_table import TableColumn

COLUMNS = ("number", "script", "state", "duration")
METRICS = 2
"""The most common metrics, which get a column each."""

SCRIPT_CELLS = 10

EMPTY = ("No run yet.",)


class RecentPane(Pane):
    """Posts `Chosen`."""

    number = 6
    title = "All runs"
    about = "Every run of the project, the newest first. 6 shows them with charts, filters and all that can be done."
    BINDINGS: ClassVar[list[BindingType]] = bindings(RECENT)

    class Chosen(Message):
        """A run is to be looked at."""

        def __init__(self, run: Run) -> None:
            super().__init__()
            self.run = run

    class _Found(Message):
        """A thread brought rows, and the metrics that most runs have."""

        def __init__(self, found: Part, metrics: tuple[str, ...]) -> None:
            super().__init__()
            self.found = found
            self.metrics = metrics

    def __init__(self, project: Project, *, id: str) -> None:
        super().__init__(id=id)
        self._project = project
        self._table = RunTable()
        self._rows: dict[str, RunRow] = {}
        self._columns: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """The table."""
        yield self._table

    def take_focus(self) -> None:
        """To the table."""
        self.screen.set_focus(self._table)

    def on_show(self) -> None:
        """It can be seen from now on."""
        self.look()

    def look(self) -> None:
        """Runs came or changed."""
        if self.is_mounted and self.region.size:
            self._ask(*self._table.window())

    @on(RunTable.RowsWanted)
    def _rows_wanted(self, event: RunTable.RowsWanted) -> None:
        event.stop()
        self._ask(event.first, event.number)

    @work(thread=True, exclusive=True, group="recent")
    def _ask(self, first: int, number: int) -> None:
        from tui_workbench.runs.index import RunIndex

        try:
            with RunIndex(self._project) as index:
                metrics = tuple(name for name, _ in index.metric_names()[:METRICS])
            self.post_message(self._Found(part(self._project, RunQuery(), frozenset(), first, number), metrics))
        except WorkbenchError as error:
            self.post_message(BackendFailed(error))

    @on(_Found)
    def _found(self, event: _Found) -> None:
        event.stop()
        found, keys = event.found, (*COLUMNS, *(METRIC + name for name in event.metrics))
        if keys != self._columns:
            self._columns = keys
            columns = [column_of(key, runs=found.runs) for key in keys]
            self._table.show_columns(
                [_narrowed(column) for column in columns if column is not None], "number", descending=True
            )
        rows = [line for line in found.lines if isinstance(line, RunRow)]
        self._rows.update((row.run.run_id, row) for row in rows)
        maker = RowMaker(keys, {}, time.time())
        self._table.supply(found.total, found.first, [maker.row(row) for row in rows], empty=EMPTY, anew=True)
        self.set_title(f"{found.total:,}" if found.total else "")
        self.refresh_bindings()

    @on(RunTable.CursorMoved)
    def _moved(self, event: RunTable.CursorMoved) -> None:
        event.stop()
        self.refresh_bindings()

    @on(RunTable.Chosen)
    def _chosen(self, event: RunTable.Chosen) -> None:
        event.stop()
        self.action_open()

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        return "No run is under the cursor." if action == "open" and self._table.current not in self._rows else ""

    def action_open(self) -> None:
        """Show the run."""
        row = self._rows.get(self._table.current)
        if row is not None:
            self.post_message(self.Chosen(row.run))


def _narrowed(column: TableColumn) -> TableColumn:
    """No cell more than what stands in it; the name of the script, the same in most rows, gets what others leave."""
    if column.key == "script":
        return column._replace(width=SCRIPT_CELLS, stretches=True)
    return column._replace(width=column.least) if column.least else column
