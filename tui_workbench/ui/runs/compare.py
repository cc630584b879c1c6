"""Compare any number of runs: a chart of one metric of all runs, and a table of their differences.

Rows with different values come first, by section. Rows with equal values follow and are collapsed. The title of a
run's column begins with the mark of the run's curve in the chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from textual import on

from tui_workbench.core.files import open_regular
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.comparing import ComparedRow, Comparison, compare
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots.snapshot_view import snapshot_diff
from tui_workbench.runs.store.rundir import DIFF
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.charts.chart_data import read_metrics, run_curves
from tui_workbench.ui.charts.chart_drawing import Look, look_of
from tui_workbench.ui.charts.chart_scale import number, span_label
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import COMPARE, HISTORY
from tui_workbench.ui.formatting import RUN_STATES, run_title, verdict_look
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.messages import MonitorRequested
from tui_workbench.ui.runs.run_table import RunTable, TableColumn, TableRow
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import FilterRow
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

LEAST_ROWS, AROUND_ROWS = 6, 2  # minimum number of rows in the table, and lines for its border and titles
SAME = "same"  # key of the heading of the equal rows
LONGEST = 300

SECTION_NAMES = {
    "run": "run", "metrics": "metrics", "arguments": "arguments", "configuration": "configuration", "code": "code",
    "git": "git", "packages": "packages", "python": "interpreter", "image": "image", "gpu": "GPU",
    "host": "machine",
}  # fmt: skip

NO_MATCH = (f"No matching row. {shown_key('history.leave', 'esc')} clears the filter.",)
NO_DIFFERENCE = "No difference between these two runs. In the comparison, select another run with ← and →."


class CompareScreen(HistoryScreen, inherit_bindings=False):
    """The comparison of runs in a chart and a table."""

    BINDINGS = COMPARE.bindings + HISTORY.bindings
    DECLARED_COMMANDS = (*COMPARE, *HISTORY)
    AUTO_FOCUS = "RunTable"
    heading = "Comparison"
    about = "Differences come first. Values equal to those of the base run are dimmed."
    DEFAULT_CSS = """
    CompareScreen > Chart { height: 1fr; min-height: 7; }
    CompareScreen > RunTable { height: 60%; border-top: solid $border-blurred; }
    CompareScreen > RunTable:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project, runs: Sequence[Run]) -> None:
        super().__init__(project)
        self.runs = tuple(runs)
        self.chart = Chart()
        self.table = RunTable()
        self.filter_row: FilterRow = FilterRow("/", "filter rows: learning_rate, metrics, 0.01", self.table)
        self.content = (self.chart, self.filter_row, self.table)
        self._comparison: Comparison | None = None
        self._metrics: list[str] = []  # metrics with curves, those with different values first
        self._base = 0
        self._shows_same = False
        self._metric = 0

    @property
    def subject(self) -> str:
        return f"of {', '.join(run_title(run) for run in self.runs)}"

    def on_mount(self) -> None:
        self.table.set_rows(0, 0, (), empty=("Comparing...",))
        self.table.show_columns(columns_of(self.runs, self._base), "", descending=False)
        self.chart.show_message("Reading...")
        self.ask("comparison", partial(read_comparison, self.project, self.runs), self._show)

    def _show(self, result: tuple[Comparison, list[str]]) -> None:
        self._comparison, self._metrics = result
        self._show_rows()
        self.table.move_to(1)  # the cursor starts below the first heading
        self._show_metric()

    @on(FilterRow.Changed)
    def _show_rows(self) -> None:
        if self._comparison is None:
            return
        self.table.show_columns(columns_of(self.runs, self._base), "", descending=False)
        words = self.filter_row.text.strip()
        rows = rows_of(self._comparison, self._base, show_same=self._shows_same, words=words)
        self.table.set_rows(len(rows), 0, rows, replace=True, empty=NO_MATCH)
        self._fit()
        self.refresh_bindings()

    def _fit(self) -> None:
        """Give the chart all lines that the rows do not need."""
        self.table.styles.height = min(max(self.table.total, LEAST_ROWS) + AROUND_ROWS, self.size.height * 6 // 10)

    def on_resize(self) -> None:
        self._fit()

    def _show_metric(self) -> None:
        if not self._metrics:
            self.chart.show_message("These runs logged no metric with a curve.")
            return
        name = self._metrics[self._metric % len(self._metrics)]
        runs = [(run, index) for index, run in enumerate(self.runs)]
        show = partial(self.chart.show, look=Look(safe_text(name[:60])))
        self.ask("curves", partial(run_curves, runs, name), show)

    def action_metric(self, by: int) -> None:
        self._metric += by
        self.chart.reset()
        self._show_metric()

    @property
    def _row(self) -> ComparedRow | None:
        return self.table.current_value if isinstance(self.table.current_value, ComparedRow) else None

    def action_gpu_monitor(self) -> None:
        self.post_message(MonitorRequested(self.project, ""))

    def why_not(self, action: str) -> str:
        if action == "open" and self._row is None and self.table.current != SAME:
            return "No row selected."
        if action == "metric" and len(self._metrics) < 2:
            return "No other metric with a curve."
        if action == "filter" and self.focused is self.filter_row.field:
            return "The filter already has the focus."
        if action == "base" and self._column < 0:
            left, right = shown_key("table.left", "←"), shown_key("table.right", "→")
            return f"Select the column of a run with {left} and {right}."
        return super().why_not(action)

    @property
    def _column(self) -> int:
        """The index of the run whose column is selected; -1 for the column of names."""
        keys = [run.run_id for run in self.runs]
        column = self.table.column
        return keys.index(column.key) if column is not None and column.key in keys else -1

    @on(RunTable.Chosen)
    def action_open(self) -> None:
        row = self._row
        if self.table.current == SAME:
            self.action_toggle_same()
        elif row is not None and self._comparison is not None:
            other = self._column
            if other in (-1, self._base):
                other = next(
                    (index for index, value in enumerate(row.values) if value != row.values[self._base]),
                    (self._base + 1) % len(self.runs),
                )
            call = partial(read_difference, self.project, self._comparison, row, self._base, other)
            titles = [safe_text(run_title(self.runs[index])) for index in (self._base, other)]
            self.app.push_screen(
                DifferenceScreen(self.project, f"{safe_text(row.name)}: {titles[0]} → {titles[1]}", call)
            )

    def action_toggle_same(self) -> None:
        self._shows_same = not self._shows_same
        self._show_rows()

    def action_base(self) -> None:
        if self._column >= 0:
            self._base = self._column
            self._show_rows()


class DifferenceScreen(HistoryScreen):
    """The screen with the full text of a difference."""

    AUTO_FOCUS = "TextView"
    heading = "Difference"
    about = "The full text of a difference."

    def __init__(self, project: Project, title: str, call: partial[list[Line]]) -> None:
        """Show the lines that `call` reads. `title` must be safe text."""
        super().__init__(project)
        self.view = TextView()
        self.content = (self.view,)
        self._title = title
        self._call = call

    @property
    def subject(self) -> str:
        return self._title

    def on_mount(self) -> None:
        self.ask("difference", self._call, self.view.show)


# --- The rows


def read_comparison(project: Project, runs: Sequence[Run]) -> tuple[Comparison, list[str]]:
    """Return the comparison, and the names of metrics with curves, with those that differ first.

    Blocks; raises WorkbenchError.
    """
    comparison = compare(Runs(project), [run.run_id for run in runs])
    counts: dict[str, int] = {}
    for run in runs:
        for name, summary in read_metrics(run).summary().items():
            if summary.kind == "scalar" and summary.count > 1:
                counts[name] = counts.get(name, 0) + 1
    differing = {row.name for row in comparison.rows if row.section == "metrics" and row.differs}
    return comparison, sorted(counts, key=lambda name: (name not in differing, -counts[name]))


def columns_of(runs: Sequence[Run], base: int) -> list[TableColumn]:
    """Return a column of names, and a column for each run with the mark of its curve in the title."""
    columns = [TableColumn("name", "", 26)]
    for index, run in enumerate(runs):
        mark = look_of(index)[1]
        # The number is at the end, because the middle of a long title is cut.
        title = f"{mark} {'(base) ' if index == base else ''}{safe_text(run_title(run)[-60:])}"
        columns.append(TableColumn(run.run_id, title, 20, least=14, stretches=True))
    return columns


def rows_of(comparison: Comparison, base: int, *, show_same: bool, words: str = "") -> list[TableRow]:
    """Return the rows of the table that contain all of the words, with headings. `show_same` includes equal rows."""
    rows: list[TableRow] = []
    section = ""
    for row in comparison.differences:
        if not _matches(row, words):
            continue
        if row.section != section:
            section = row.section
            rows.append(_heading(section, SECTION_NAMES.get(section, section)))
        rows.append(_row(row, base))
    if not comparison.differences:
        rows.append(_heading("none", "no differences"))
    same = [row for row in comparison.rows if not row.differs and _matches(row, words)]
    if same:
        rows.append(_heading(SAME, f"{'▾' if show_same else '▸'} {counted(len(same), 'equal row')}"))
    if show_same:
        rows += [_row(row, base) for row in same]
    rows += [
        TableRow(f"note {index}", ((Piece(f"▲ {safe_text(note)}", "warning"),),), is_heading=True)
        for index, note in enumerate(comparison.notes)
    ]
    return rows


def _matches(row: ComparedRow, words: str) -> bool:
    """Return True if the section, name or values of the row contain all of the words."""
    section = SECTION_NAMES.get(row.section, row.section)
    text = " ".join([section, row.name, *(str(value) for value in row.values)]).casefold()
    return all(word in text for word in words.casefold().split())


def _heading(key: str, title: str) -> TableRow:
    return TableRow(key, ((Piece(title, "accent", bold=True),),), is_heading=True)


def _row(row: ComparedRow, base: int) -> TableRow:
    cells = [(Piece(f"  {safe_text(row.name[:LONGEST])}", "muted"),)]
    for index, value in enumerate(row.values):
        like_base = index != base and value == row.values[base]
        role = "muted" if not row.differs else "comment" if like_base else "text"
        cells.append((_value(row, value, role),))
    return TableRow(f"{row.section}\n{row.name}", tuple(cells), value=row)


def _value(row: ComparedRow, value: str | float | None, role: str) -> Piece:
    if value is None:
        return Piece("—", "faint")
    if row.section == "run" and row.name == "state" and value in RUN_STATES:
        look = RUN_STATES[str(value)]
        return Piece(f"{look.glyph} {look.word}", look.role)
    if row.section == "gpu" and row.name == "verdict":
        word = str(value)
        return Piece(f"{verdict_look(word).glyph} {safe_text(word[:LONGEST])}", verdict_look(word).role)
    if row.section == "run" and row.name == "duration" and not isinstance(value, str):
        return Piece(span_label(value), role)
    shown = safe_text(value[:LONGEST]) if isinstance(value, str) else number(value)
    return Piece(shown, role)


# --- One difference, line by line


def read_difference(project: Project, comparison: Comparison, row: ComparedRow, base: int, other: int) -> list[Line]:
    """Return the values of a row, a diff of the code, or the uncommitted changes. Blocks; raises StorageError."""
    if row.section == "code":
        paths = () if row.name in ("commit", "unchanged files") else (row.name,)
        commits = comparison.runs[base].commit_id, comparison.runs[other].commit_id
        if not all(commits):
            return [(Piece("Cannot compare the code: at least one run has no snapshot.", "warning"),)]
        lines = diff_lines(snapshot_diff(project.state_directory, *commits, paths))
        return lines or [(Piece(NO_DIFFERENCE, "muted"),)]
    if row.section == "git":
        return _git_lines(comparison.runs[base], comparison.runs[other])
    lines = []
    for index, (run, value) in enumerate(zip(comparison.runs, row.values, strict=True)):
        role, mark = look_of(index)
        lines.append((Piece(f"{mark} ", role), Piece(safe_text(run_title(run)), bold=True)))
        whole = "not set" if value is None else str(value)
        lines += [
            (Piece(f"    {safe_text(part)}", "muted" if value is None else "text"),) for part in whole.split("\n")
        ]
    return lines


def _git_lines(base: Run, other: Run) -> list[Line]:
    """Return the uncommitted changes in the user's git repository at the time of each run."""
    lines: list[Line] = []
    for run in (base, other):
        lines.append((Piece(f"Uncommitted changes of {safe_text(run_title(run))}", "accent", bold=True),))
        try:
            with open_regular(f"{run.directory}/{DIFF}") as file:
                lines += diff_lines(file.read(1 << 20).decode("utf-8", "replace"))
        except OSError:
            lines.append((Piece("No changes were recorded.", "muted"),))
        lines.append(())
    return lines


_ROLES: Mapping[str, str] = {"+": "success", "-": "error", "@": "accent", "d": "text", "i": "muted"}


def diff_lines(text: str) -> list[Line]:
    """Return the lines of a unified diff with colors."""
    lines: list[Line] = []
    for line in text.splitlines():
        head = line.startswith(("+++", "---", "diff ", "index "))
        role = "muted" if head else _ROLES.get(line[:1], "muted")
        lines.append((Piece(safe_text(line[:2000]), role, bold=line.startswith("diff ")),))
    return lines
