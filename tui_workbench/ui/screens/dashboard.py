"""The dashboard of a project: every run as a row, charts above, and one key for each thing one does with a run.

The invariants: the table shows what the index says, a part at a time, and what is asked for is never waited for on the
loop that draws; of two questions the later one's answer counts. Nothing is looked at again while nothing changes but
the time of change of a few files.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.widgets import Input

from tui_workbench.runs.table import RunQuery, RunRow
from tui_workbench.ui.blocking import Unbegun
from tui_workbench.ui.command import shown_key
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import DASHBOARD, HISTORY, ONE_RUN
from tui_workbench.ui.messages import RunBarWanted, RunRequested
from tui_workbench.ui.screens.dashboard_charts import BY_RUN, CURVES, LEAST_SCREEN, MODES, NONE, DashboardCharts, Wanted
from tui_workbench.ui.screens.dashboard_columns import (
    METRIC,
    SPARK_CELLS,
    RowMaker,
    column_of,
    heading,
    save_chosen,
    sort_name,
    usual,
)
from tui_workbench.ui.screens.dashboard_runs import Heading, Part, Sparks, part
from tui_workbench.ui.screens.dashboard_state import GROUPS, Look, Overview, look, overview
from tui_workbench.ui.screens.run_actions import RunActions
from tui_workbench.ui.widgets.chart_drawing import look_of
from tui_workbench.ui.widgets.dashboard_head import DashboardHead, Shown
from tui_workbench.ui.widgets.field_row import FieldRow
from tui_workbench.ui.widgets.request_line import RequestLine
from tui_workbench.ui.widgets.run_table import RunTable, TableRow
from tui_workbench.ui.widgets.text_field import SearchField

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run, RunRequest
    from tui_workbench.project import Project

LOOK_SECONDS = 1.0
MOST_CURVES = 8
"""Curves that are shown when nothing is marked: the run under the cursor and those that go on."""

EMPTY = (
    "No run yet.",
    "",
    f"{shown_key('dashboard.run', 'ctrl+r')} runs the script of the run bar; every run stays here.",
)
NOTHING_FOUND = (
    "No run matches the filter.",
    "",
    "esc ends it, / changes it. Words, loss<0.1, state:failed, gpu:proven, is:pinned.",
)


class DashboardScreen(RunActions, inherit_bindings=False):
    """The runs of a project. Its result is the id of a run to go to the log of, "" for none."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(DASHBOARD, ONE_RUN, HISTORY)
    OFFERED = (*DASHBOARD, *ONE_RUN, *HISTORY)
    AUTO_FOCUS = "RunTable"
    heading = "Runs"
    about = (
        "Every run of this project, from every target. Marks, tags, notes and pins are for you; what a run was and "
        "logged never changes."
    )

    def __init__(self, project: Project, request: RunRequest | None = None, query: RunQuery | None = None) -> None:
        """`request` is what the run bar holds, `query` which runs were shown last."""
        super().__init__(project)
        self.head = DashboardHead(project.name)
        self.request_line = RequestLine(request)
        self.filter_row = FieldRow(
            "/", "words, loss<0.1, state:failed, gpu:proven, gpu_seconds>60, is:pinned, has:accuracy"
        )
        self.charts = DashboardCharts(project)
        self.table = RunTable()
        self._query = query or RunQuery()
        self._folded: frozenset[str] = frozenset()
        self._chosen: list[str] = usual(())
        self._known: dict[int, RunRow | Heading] = {}
        self._marked: dict[str, tuple[Run, int]] = {}
        self._sparks = Sparks(SPARK_CELLS)
        self._overview = Overview()
        self._mode: str | None = None  # None until somebody has chosen one
        self._runs = -1
        self._seen: Look | None = None

    def compose_content(self) -> ComposeResult:
        """What there is, what would run, the filter, charts, the table, and the line for tags and notes."""
        yield self.head
        yield self.request_line
        yield self.filter_row
        yield self.charts
        yield self.table
        yield self.edit_row

    def on_mount(self) -> None:
        """Ask for everything at once; look for news from then on."""
        self.filter_row.display = bool(self._query.filter)
        self.filter_row.field.value = self._query.filter
        self._show_columns()
        self._ask_rows(anew=True)
        self._ask_overview()
        self.set_interval(LOOK_SECONDS, self._look)

    @property
    def runs_query(self) -> RunQuery:
        """Which runs are shown, and in which order."""
        return self._query

    def on_screen_resume(self) -> None:
        """Somebody comes back: runs may be others by now."""
        if self._seen is not None:
            self._reload()

    # --- Another run

    def action_run(self) -> None:
        """Run what the run bar holds."""
        self.leave_it_to_main(RunRequested())

    def action_run_bar(self) -> None:
        """Change what the run bar holds."""
        self.leave_it_to_main(RunBarWanted())

    @on(RunRequested)
    def _run_requested(self, event: RunRequested) -> None:
        event.stop()
        self.action_run()

    @on(RunBarWanted)
    def _run_bar_wanted(self, event: RunBarWanted) -> None:
        event.stop()
        self.action_run_bar()

    # --- Rows

    @property
    def rows_are_shown(self) -> bool:
        """True from the first answer of the index on."""
        return self._runs >= 0

    def _ask_rows(self, *, anew: bool = False, to_top: bool = False) -> None:
        if to_top:
            self.table.reset()
        first, number = self.table.window()
        call = partial(part, self.project, self._query, self._folded, first, number)
        self.ask("rows", call, partial(self._show_rows, anew=anew))

    @on(RunTable.RowsWanted)
    def _rows_wanted(self, event: RunTable.RowsWanted) -> None:
        event.stop()
        self._ask_rows()

    def _show_rows(self, found: Part, *, anew: bool) -> None:
        if anew or len(self._known) > 2_000:
            self._known = {}
        self._known.update(enumerate(found.lines, found.first))
        if len(str(found.runs)) != len(str(self._runs)):
            self._runs = found.runs
            self._show_columns()
        self._runs = found.runs
        self._supply(found.total, found.first, found.lines, anew=anew)
        self._show_head()
        self._read_sparks()
        if self._seen is None:
            self._look()

    def _supply(self, total: int, first: int, lines: list[RunRow | Heading], *, anew: bool) -> None:
        empty = NOTHING_FOUND if self._query.filter else EMPTY
        self.table.supply(total, first, self._made(lines), empty=empty, anew=anew)

    def _made(self, lines: list[RunRow | Heading]) -> list[TableRow]:
        maker = RowMaker(self._chosen, self._sparks.known, time.time())
        group = self._query.group
        return [
            maker.row(line)
            if isinstance(line, RunRow)
            else heading(line.group.value, line.group.total, line.group.active, group, folded=line.folded)
            for line in lines
        ]

    def _draw_again(self, numbers: Iterable[int] | None = None) -> None:
        """What is known, or the rows of these numbers, looks different now."""
        for number in list(self._known) if numbers is None else numbers:
            if number in self._known:
                self.table.supply(self.table.total, number, self._made([self._known[number]]))

    def _read_sparks(self) -> None:
        lines = (self._known.get(number) for number in self.table.numbers_shown)
        rows = [line for line in lines if isinstance(line, RunRow)]
        metrics = [key.removeprefix(METRIC) for key in self._chosen if key.startswith(METRIC)]
        missing = self._sparks.missing(rows, metrics)
        if missing:
            self.ask("sparks", partial(self._sparks.read, missing), self._show_sparks)

    def _show_sparks(self, found: dict[tuple[str, str], str]) -> None:
        if any(self._sparks.known.get(key) != spark for key, spark in found.items()):
            self._sparks.known.update(found)
            self._draw_again()

    # --- What is said above the table

    def _ask_overview(self) -> None:
        self.ask("overview", partial(overview, self.project, self._query), self._show_overview)

    def _show_overview(self, found: Overview) -> None:
        before = self._overview
        first = (bool(found.metrics), found.has_gpus) != (bool(before.metrics), before.has_gpus)
        self._overview = found
        if first and not found.chosen:
            self._choose(usual([name for name, _ in found.metrics], has_gpus=found.has_gpus))
        elif found.chosen and tuple(self._chosen) != found.chosen:
            self._choose(list(found.chosen))
        self.charts.show_states(found.states)
        self._show_charts()

    def _show_head(self) -> None:
        query = self._query
        self.head.show(Shown(self._runs, query.filter, query.group, query.archived, len(self._marked)))

    @property
    def mode(self) -> str:
        """What the charts show; until somebody chooses, nothing where the table needs the room."""
        return self._mode or (BY_RUN if self.size.height >= LEAST_SCREEN else NONE)

    def _show_charts(self) -> None:
        metrics = tuple(key.removeprefix(METRIC) for key in self._chosen if key.startswith(METRIC))
        self.charts.show(Wanted(self.mode, self._query, metrics, self._runs_with_curves()))
        self._point_charts()

    def _runs_with_curves(self) -> tuple[tuple[Run, int], ...]:
        if self._marked or self.mode != CURVES:
            return tuple(self._marked.values())
        rows = [line for line in self._known.values() if isinstance(line, RunRow)]
        current = self._current
        runs = [current.run] if current is not None else []
        runs += [row.run for row in rows if row.run.is_active and row not in (current,)]
        return tuple((run, place) for place, run in enumerate(runs[:MOST_CURVES]))

    def _point_charts(self) -> None:
        self.charts.point_at(self._current.run.run_number if self._current is not None else None)

    def on_resize(self) -> None:
        """There may be room for charts and sparks now, or none."""
        self.call_after_refresh(self._show_columns)
        if self.charts.display != (self.mode != NONE):
            self._show_charts()

    # --- News

    def _look(self) -> None:
        if not self.is_current:
            return  # whoever comes back here sees everything anew
        active = [line.run for line in self._known.values() if isinstance(line, RunRow) and line.run.is_active]
        self.ask("look", partial(look, self.project, tuple(run.directory for run in active)), self._looked)

    def _looked(self, found: Look) -> None:
        before, self._seen = self._seen, found
        if before is not None and before != found:
            self._reload()
        elif found.active:
            self._draw_again(self.table.numbers_shown)  # their durations go on

    def _reload(self) -> None:
        self._ask_rows(anew=True)
        self._ask_overview()

    # --- The cursor and marks

    @property
    def _current(self) -> RunRow | None:
        line = self._known.get(self.table.cursor)
        return line if isinstance(line, RunRow) else None

    def current_run(self) -> RunRow | None:
        """The run under the cursor."""
        return self._current

    def annotated(self) -> None:
        """Tags, note, pin or archive of a run are others now."""
        self._reload()

    @on(RunTable.CursorMoved)
    def _cursor_moved(self, event: RunTable.CursorMoved) -> None:
        event.stop()
        self._point_charts()
        self._read_sparks()
        if self.mode == CURVES and not self._marked:
            self._show_charts()
        self.refresh_bindings()

    @on(RunTable.Chosen)
    def _row_chosen(self, event: RunTable.Chosen) -> None:
        event.stop()
        self.action_open()

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action in ("mark",) and self._current is None:
            return "No run is under the cursor."
        if action == "open" and self.table.cursor not in self._known:
            return "No run is under the cursor."
        if action == "compare" and len(self._to_compare()) < 2:
            return "Two runs at least: space marks them."
        if action == "unmark" and not self._marked:
            return "Nothing is marked."
        if action == "sort" and (self.table.column is None or not sort_name(self.table.column.key)):
            return "This column cannot be sorted by: ← and → choose another."
        return super().why_not(action)

    def action_open(self) -> None:
        """Show the run; fold the group."""
        line = self._known.get(self.table.cursor)
        if isinstance(line, Heading):
            self._folded ^= {line.group.value}
            self._ask_rows(anew=True)
        elif line is not None:
            from tui_workbench.ui.screens.run_details import RunDetailsScreen

            self.app.push_screen(RunDetailsScreen(self.project, line.run))

    def action_mark(self) -> None:
        """Mark the run and go on to the next."""
        row = self._current
        if row is None:
            return
        if self._marked.pop(row.run.run_id, None) is None:
            taken = {place for _, place in self._marked.values()}
            self._marked[row.run.run_id] = (row.run, next(n for n in range(len(taken) + 1) if n not in taken))
        self._show_marks()
        self.table.action_cursor_down()

    def action_unmark(self) -> None:
        """Take all marks away."""
        self._marked = {}
        self._show_marks()

    def _show_marks(self) -> None:
        marks = {}
        for run_id, (_, place) in self._marked.items():
            role, glyph = look_of(place)
            marks[run_id] = (glyph, role)
        self.table.show_marks(marks)
        self._show_head()
        self.refresh_bindings()
        if self.mode == CURVES:
            self._show_charts()

    def _to_compare(self) -> list[Run]:
        if len(self._marked) >= 2:
            return [run for run, _ in sorted(self._marked.values(), key=lambda each: each[1])]
        below = self._known.get(self.table.cursor + 1)
        others = [run for run, _ in self._marked.values()] or ([below.run] if isinstance(below, RunRow) else [])
        current = self._current
        if current is None:
            return []
        return [current.run, *(run for run in others if run.run_id != current.run.run_id)]

    def action_compare(self) -> None:
        """Compare the marked runs."""
        from tui_workbench.ui.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(self.project, self._to_compare()))

    # --- Which rows, in which order

    def _change_query(self, query: RunQuery) -> None:
        self._query = query
        self._show_columns()
        self._ask_rows(anew=True, to_top=True)
        self._ask_overview()
        self._show_head()

    def action_filter(self) -> None:
        """Type a filter."""
        self.filter_row.open()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self.filter_row.field and event.value != self._query.filter:
            self._query = self._query._replace(filter=event.value)
            self._ask_rows(anew=True, to_top=True)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self.filter_row.field:
            self._end_typing()
        else:
            self.edited(event.value)

    @on(SearchField.Left)
    def _field_left(self, event: SearchField.Left) -> None:
        event.stop()
        if self.edit_row.display:
            self.end_edit()
        else:
            self.filter_row.field.value = ""
            self._change_query(self._query._replace(filter=""))
            self._end_typing()

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self.table.move_to(self.table.cursor + event.rows)

    def _end_typing(self) -> None:
        if not self._query.filter:
            self.filter_row.close()
        self.set_focus(self.table)
        self._ask_overview()

    def action_leave(self) -> None:
        """End the filter; without one go back."""
        if self._query.filter:
            self.filter_row.field.value = ""
            self.filter_row.close()
            self._change_query(self._query._replace(filter=""))
        else:
            super().action_leave()

    def action_sort(self) -> None:
        """Sort by the column under the cursor, or the other way around."""
        column = self.table.column
        if column is None or self.why_not("sort"):
            return
        name = sort_name(column.key)
        # What is big comes first for numbers people look for the best of; names are read from A on.
        descending = not self._query.descending if name == self._query.sort else column.right
        self._change_query(self._query._replace(sort=name, descending=descending))

    def action_group(self) -> None:
        """The next way to group."""
        self._folded = frozenset()
        place = GROUPS.index(self._query.group)
        self._change_query(self._query._replace(group=GROUPS[(place + 1) % len(GROUPS)]))

    def action_archived(self) -> None:
        """Show archived runs, too, or not."""
        self._change_query(self._query._replace(archived=not self._query.archived))

    # --- Columns, charts, the readme

    def action_columns(self) -> None:
        """Choose the columns."""
        self.run_worker(Unbegun(self._choose_columns), group="columns", exclusive=True)

    async def _choose_columns(self) -> None:
        from tui_workbench.ui.screens.dashboard_choice import ColumnsScreen

        chosen = await self.app.push_screen_wait(ColumnsScreen(self._chosen, self._overview.metrics))
        if chosen and chosen != self._chosen:
            self._choose(chosen)
            self._overview = self._overview._replace(chosen=tuple(chosen))
            self._show_charts()
            self.ask("save", partial(save_chosen, self.project, chosen), lambda _: None)

    def _choose(self, keys: list[str]) -> None:
        self._chosen = keys
        self._show_columns()
        self._draw_again()
        self._read_sparks()

    def _show_columns(self) -> None:
        width, runs = self.table.size.width, max(0, self._runs)
        found = (column_of(key, width=width, runs=runs) for key in self._chosen)
        columns = [column for column in found if column is not None]
        names = {sort_name(column.key): column.key for column in columns}
        self.table.show_columns(columns, names.get(self._query.sort, ""), descending=self._query.descending)

    def action_charts(self) -> None:
        """What the charts show."""
        self._mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        self._show_charts()

    def action_readme(self) -> None:
        """Show the readme."""
        from tui_workbench.ui.screens.readme import ReadmeScreen

        self.app.push_screen(ReadmeScreen(self.project))
