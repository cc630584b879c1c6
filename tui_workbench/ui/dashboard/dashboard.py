"""The dashboard: a table of all runs with charts above, and keys for filter, order, groups and columns.

The table reads pages of the index in threads. If two requests overlap, only the answer to the later request is shown.
Once a second, the modification times of a few files are compared. The runs are read again only if one of these files
has changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from textual import on, work

from tui_workbench.core.model import Run, RunRequest
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.families import Family
from tui_workbench.runs.index.table import LONGEST_FILTER, RunQuery, RunRow
from tui_workbench.runs.metrics.metric_words import goal_of
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import DASHBOARD
from tui_workbench.ui.dashboard.dashboard_charts import CURVES, NONE, ChartRequest, DashboardCharts
from tui_workbench.ui.dashboard.dashboard_columns import (
    METRIC,
    SPARK_CELLS,
    WITH_SPARKS,
    ColumnsScreen,
    Heading,
    RowMaker,
    column_of,
    default_columns,
    save_columns,
    sort_name,
)
from tui_workbench.ui.dashboard.dashboard_data import (
    GROUPS,
    FileTimes,
    Overview,
    Page,
    Sparklines,
    read_file_times,
    read_overview,
    read_page,
)
from tui_workbench.ui.dashboard.marks import Marks, families_near, markable, to_compare, why_not_compare
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.files.readme_view import ReadmeScreen
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.run_messages import RunBarRequested, RunRequested
from tui_workbench.ui.runs.compare import CompareScreen
from tui_workbench.ui.runs.compare_families import FamiliesScreen
from tui_workbench.ui.runs.run_commands import RunCommands, RunContainer
from tui_workbench.ui.runs.run_table import RunTable, TableRow
from tui_workbench.ui.starting.run_bar import RequestLine
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.field_row import FilterRow
from tui_workbench.ui.widgets.line import TitleLine
from tui_workbench.ui.widgets.pieces import Piece

POLL_SECONDS = 1.0
MOST_CURVES = 8  # maximum number of curves if no run is marked: those of the selected run and of active runs

EMPTY = ("No runs yet.", "", f"{shown_key('dashboard.run', 'ctrl+r')} runs the script in the run bar.")
NOTHING_FOUND = (
    "No run matches the filter.",
    "",
    f"Press {shown_key('list.clear_filter', 'esc')} to clear the filter, or {shown_key('dashboard.filter', '/')} to "
    "change it.",
    "Examples: train.py, loss<0.1, --lr=0.1, state:failed, gpu:proven, is:pinned.",
)


class RunsView(RunContainer, inherit_bindings=False):
    """The table and charts of a project's runs. Posts `RunRequested` and `RunBarRequested` for the main screen."""

    BINDINGS = DASHBOARD.bindings
    DEFAULT_CSS = "RunsView { height: 1fr; }"
    heading = "All runs"
    about = (
        "The runs of this project on all targets. Archived runs are hidden at first. `Mark` selects several runs, or "
        "the runs of a family, to compare them or to tag, pin, cancel or delete them together."
    )

    def __init__(self, project: Project, request: RunRequest | None, query: RunQuery) -> None:
        """Show the runs that match `query`, and above them `request`, the content of the run bar."""
        self.head = TitleLine("All runs", f"of {project.name}")
        self.request_line = RequestLine(request)
        self.table = RunTable()
        placeholder = "words and conditions: loss<0.1 state:failed gpu:proven gpu_seconds>60 is:pinned has:accuracy"
        self.filter_row = FilterRow("/", placeholder, self.table)
        self.filter_row.field.max_length = LONGEST_FILTER
        self.charts = DashboardCharts(project)
        super().__init__(project, self.head, self.request_line, self.filter_row, self.charts, self.table)
        self.query_shown = query
        self._folded: frozenset[str] = frozenset()
        self._chosen = default_columns(())
        self._metrics: tuple[str, ...] = ()  # metrics with a column
        self._marks = Marks()
        self._sparks = Sparklines(SPARK_CELLS)
        self._overview = Overview()
        self._runs = -1  # the number of runs that match the query; -1 while it is not known
        self._best: tuple[str, float | None] = ("", None)  # a metric and its best value
        self._most_lines = 0
        self._seen: FileTimes | None = None

    def on_mount(self) -> None:
        self.filter_row.display = bool(self.query_shown.filter)
        self.filter_row.field.value = self.query_shown.filter
        self._show_columns()
        self.set_interval(POLL_SECONDS, self._poll)  # the screen calls `reload` when it is shown

    # --- Rows

    @on(RunTable.RowsWanted)
    def _rows_wanted(self) -> None:
        self._ask_rows()

    def _ask_rows(self, *, replace: bool = False, to_top: bool = False) -> None:
        if to_top:
            self.table.reset()
        shown = self.query_shown, self._folded, *self.table.window(), self._metrics
        run_ids = [run.run_id for run, _ in self._marks.runs]
        families = [family.name for family, _ in self._marks.families]
        call = partial(read_page, self.project, *shown, run_ids, families)
        ask(self, "rows", call, partial(self._show_rows, replace=replace))

    def _show_rows(self, page: Page, *, replace: bool) -> None:
        before, self._runs = self._runs, page.runs
        self._best = page.best
        if len(str(page.runs)) != len(str(before)):
            self._show_columns()
        unknown = [f"No column, metric or argument is named {safe_text(name[:60])}." for name in page.unknown[:3]]
        empty = (*unknown, *NOTHING_FOUND) if self.query_shown.filter else EMPTY
        self.table.set_rows(page.total, page.first, self._table_rows(page.lines), empty=empty, replace=replace)
        # The charts do not grow while a filter reduces the rows, because that would be distracting.
        self._most_lines = max(self._most_lines, page.total)
        self.charts.fit(self.app.size.height, self._most_lines)
        if self._marks.update(page.marked):
            self._show_marks()
        self._show_head()
        self._read_sparks()
        if replace and self.charts.mode == CURVES:
            self._show_charts()
        if self._seen is None:
            self._poll()

    def _table_rows(self, lines: Iterable[object]) -> list[TableRow]:
        maker = RowMaker(self._chosen, self._sparks.texts, self.query_shown.group, self._best)
        return [maker.row(line) for line in lines if isinstance(line, RunRow | Heading)]

    def _redraw_rows(self, numbers: Iterable[int]) -> None:
        rows = self.table.loaded
        for number in [number for number in numbers if number in rows]:
            self.table.set_rows(self.table.total, number, self._table_rows([rows[number].value]))

    def _read_sparks(self) -> None:
        missing = self._sparks.missing(_runs_among(self.table, self.table.numbers_shown), self._metrics)
        if missing:
            ask(self, "sparks", partial(self._sparks.read, missing), self._show_sparks)

    def _show_sparks(self, sparks: dict[tuple[str, str], str]) -> None:
        if any(self._sparks.texts.get(key) != spark for key, spark in sparks.items()):
            self._sparks.texts.update(sparks)
            self._redraw_rows(self.table.loaded)

    # --- Title, notice and charts

    def _ask_overview(self) -> None:
        ask(self, "overview", partial(read_overview, self.project, self.query_shown), self._show_overview)

    def _show_overview(self, overview: Overview) -> None:
        # The file may be older than a choice that is still being saved.
        self._overview = overview = overview._replace(chosen=self._overview.chosen or overview.chosen)
        differing = [name for name, _, differs in overview.arguments if differs]
        metrics = [name for name, _ in overview.metrics]
        default = default_columns(metrics, differing, seeds=overview.seeds, has_gpus=overview.has_gpus)
        if self._chosen != (columns := list(overview.chosen) or default):
            self._set_columns(columns)
        self.charts.states.show(overview.states)
        self._show_charts()

    def _show_head(self) -> None:
        marked, longest = len(self._marks.all_runs), max(8, self.size.width // 3)
        self.head.show(f"of {self.project.name}", *_head_texts(self.query_shown, self._runs, marked, longest))

    def _show_charts(self) -> None:
        mode, runs, families = self.charts.mode, self._marks.runs, self._marks.families
        selected = self.table.current_value
        if mode == CURVES and not self._marks and isinstance(selected, Heading) and selected.family is not None:
            families = families_near(selected, (row.value for row in self.table.loaded.values()))
        elif mode == CURVES and not self._marks:
            # The selected run comes first, then the active runs.
            current, rows = self.current_run(), _runs_among(self.table, self.table.loaded)
            shown = [current.run] if current is not None else []
            shown += [row.run for row in rows if row.run.is_active and row != current]
            runs = tuple((run, index) for index, run in enumerate(shown[:MOST_CURVES]))
        self.charts.show(ChartRequest(mode, self.query_shown, self._metrics, runs, families))
        self.charts.point_at(self.current_run())

    def on_resize(self) -> None:
        # Charts and sparklines are shown only if there is room for them.
        self.call_after_refresh(self._show_columns)
        self.call_after_refresh(self._read_sparks)
        self.charts.fit(self.app.size.height, self._most_lines)
        if self.charts.display != (self.charts.mode != NONE):
            self._show_charts()

    def action_charts(self) -> None:
        self.charts.next_mode()
        self._show_charts()

    # --- Changes

    def _poll(self) -> None:
        if not self.screen.is_current:
            return  # `on_screen_resume` reloads everything
        active = tuple(row.run.directory for row in _runs_among(self.table, self.table.loaded) if row.run.is_active)
        ask(self, "changes", partial(read_file_times, self.project, active), self._polled)

    def _polled(self, times: FileTimes) -> None:
        before, self._seen = self._seen, times
        if before is not None and before != times:
            self.reload()
        elif times.active:
            self._redraw_rows(self.table.numbers_shown)  # the durations of active runs have changed

    def reload(self) -> None:
        self._ask_rows(replace=True)
        self._ask_overview()

    # --- The cursor and marks

    def current_run(self) -> RunRow | None:
        return self.table.current_value if isinstance(self.table.current_value, RunRow) else None

    def marked_runs(self) -> list[Run]:
        return self._marks.all_runs

    def runs_deleted(self, run_ids: Iterable[str]) -> None:
        self._marks.update(dict.fromkeys(run_ids))
        self._show_marks()

    @on(RunTable.CursorMoved)
    def _cursor_moved(self) -> None:
        self.charts.point_at(self.current_run())
        self._read_sparks()
        if self.charts.mode == CURVES and not self._marks:
            self._show_charts()

    def why_not(self, action: str) -> str:
        selected = self.table.current_value
        if (action == "mark" and markable(selected) is None) or (action == "open" and selected is None):
            return "No run selected."
        if action == "compare":
            return why_not_compare(self._to_compare())
        if action == "unmark" and not self._marks:
            return "No run is marked."
        if action == "sort" and (self.table.column is None or not sort_name(self.table.column.key)):
            left, right = shown_key("table.left", "←"), shown_key("table.right", "→")
            return f"Cannot sort by this column. Choose another column with {left} and {right}."
        return ""

    @on(RunTable.Chosen)
    def action_open(self) -> None:
        value = self.table.current_value
        if isinstance(value, Heading):
            self._folded ^= {value.group.value}
            self._ask_rows(replace=True)
        elif isinstance(value, RunRow):
            self.app.push_screen(RunDetailsScreen(self.project, value.run))

    def action_mark(self) -> None:
        if (value := markable(self.table.current_value)) is not None:
            self._marks.toggle(value)
            self._show_marks()
            self.table.step(1)

    def action_unmark(self) -> None:
        self._marks.clear()
        self._show_marks()

    def _show_marks(self) -> None:
        self.table.show_marks(self._marks.looks)
        self._show_head()
        self.refresh_bindings()
        if self.charts.mode == CURVES:
            self._show_charts()

    def _to_compare(self) -> list[Run | Family]:
        rows, cursor = self.table.loaded, self.table.cursor
        below = [rows[number].value for number in sorted(rows) if number > cursor]
        return to_compare(self._marks, self.table.current_value, below)

    def action_compare(self) -> None:
        values = self._to_compare()
        families = [value.name for value in values if isinstance(value, Family)]
        runs = [value for value in values if isinstance(value, Run)]
        self.app.push_screen(FamiliesScreen(self.project, families) if families else CompareScreen(self.project, runs))

    # --- Filter, order and groups

    def _change_query(self, **changes: Any) -> None:
        self.query_shown = self.query_shown._replace(**changes)
        self._show_columns()
        self._ask_rows(replace=True, to_top=True)
        self._ask_overview()
        self._show_head()

    def action_filter(self) -> None:
        self.filter_row.open()

    @on(FilterRow.Changed)
    def _filter_changed(self, event: FilterRow.Changed) -> None:
        if event.text != self.query_shown.filter:
            self._change_query(filter=event.text)

    def action_sort(self) -> None:
        column = self.table.column
        if column is None or self.why_not("sort"):
            return
        name = sort_name(column.key)
        # At first, the best value of a metric is on top, numbers are in descending order, and texts in ascending order.
        first = column.right or (column.key.startswith(METRIC) and goal_of(name) == "max")
        descending = not self.query_shown.descending if name == self.query_shown.sort else first
        self._change_query(sort=name, descending=descending)

    def action_group(self) -> None:
        self._folded = frozenset()
        self._change_query(group=GROUPS[(GROUPS.index(self.query_shown.group) + 1) % len(GROUPS)])

    def action_archived(self) -> None:
        self._change_query(archived=not self.query_shown.archived)

    # --- Columns

    @work(group="columns", exclusive=True)
    async def action_columns(self) -> None:
        chosen = await self.app.push_screen_wait(
            ColumnsScreen(self._chosen, self._overview.metrics, self._overview.arguments)
        )
        if chosen and chosen != self._chosen:
            self._set_columns(chosen)
            self._overview = self._overview._replace(chosen=tuple(chosen))
            self._show_charts()
            ask(self, "save", partial(save_columns, self.project, chosen), lambda _: None)

    def _set_columns(self, keys: list[str]) -> None:
        self._chosen = keys
        before, self._metrics = self._metrics, tuple(key[len(METRIC) :] for key in keys if key.startswith(METRIC))
        self._show_columns()
        self._redraw_rows(self.table.loaded)
        if before[:1] != self._metrics[:1]:
            self._ask_rows(replace=True)  # the best value of another metric is marked
        self._read_sparks()

    def _show_columns(self) -> None:
        width, runs = self.table.size.width, max(0, self._runs)
        if self.query_shown.group == "family":
            width = max(width, WITH_SPARKS)  # the deviations need the room of the sparklines
        columns = [column for key in self._chosen if (column := column_of(key, width=width, runs=runs)) is not None]
        names = {sort_name(column.key): column.key for column in columns}
        self.table.show_columns(columns, names.get(self.query_shown.sort, ""), descending=self.query_shown.descending)

    # --- Other screens

    def action_readme(self) -> None:
        self.app.push_screen(ReadmeScreen(self.project))

    def action_run(self) -> None:
        self.post_message(RunRequested())

    def action_run_bar(self) -> None:
        self.post_message(RunBarRequested())


def _head_texts(query: RunQuery, runs: int, marked: int, longest: int) -> tuple[list[Piece], list[Piece]]:
    """Return the texts in the title: the number of runs and the filter; and what is marked, grouped and archived.

    `runs` is -1 while the number is not known. `longest` is the maximum width of the filter.
    """
    after = [Piece(f"  {counted(runs, 'run')}", "muted")] if runs >= 0 else []
    if query.filter:
        after.append(Piece(f" with {truncate_middle(safe_text(query.filter), longest)}", "accent"))
    right = [Piece(f"   {marked} marked", "accent")] if marked else []
    right += [Piece(f"   by {query.group}", "muted")] if query.group else []
    right += [Piece("   ⊟ archived shown", "muted")] if query.archived else []
    return after, right


def _runs_among(table: RunTable, numbers: Iterable[int]) -> list[RunRow]:
    rows = (table.loaded[number].value for number in numbers if number in table.loaded)
    return [row for row in rows if isinstance(row, RunRow)]


class DashboardScreen(HistoryScreen):
    """The screen of all runs of a project."""

    AUTO_FOCUS = "RunTable"

    def __init__(self, project: Project, request: RunRequest | None = None, query: RunQuery | None = None) -> None:
        super().__init__(project)
        self.view = RunsView(project, request, query or RunQuery())
        self.content = (RunCommands(self, self.view),)
        self.filter_row = self.view.filter_row

    @property
    def runs_query(self) -> RunQuery:
        return self.view.query_shown

    def on_screen_resume(self) -> None:
        self.view.reload()

    @on(RunRequested)
    @on(RunBarRequested)
    def _post_to_main(self, event: RunRequested | RunBarRequested) -> None:
        event.stop()
        self.post_to_main(type(event)())
