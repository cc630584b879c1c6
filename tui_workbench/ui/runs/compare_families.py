"""Compare two families of runs: a chart and a sentence for the selected metric, and a table of all metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from textual import on

from tui_workbench.projects.project import Project
from tui_workbench.runs.estimates import Estimate, estimate_text, plus_minus
from tui_workbench.runs.families import ComparedMetric, Family, compare_families, left_out_notes
from tui_workbench.runs.history import History
from tui_workbench.runs.store.arguments import column_name, differing
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.charts.chart_data import Curve, family_curve
from tui_workbench.ui.charts.chart_drawing import Look, look_of
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.runs.run_table import RunTable, TableColumn, TableRow
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, wrap_pieces
from tui_workbench.ui.widgets.text_view import Line, TextView

LONGEST = 200  # maximum number of characters of a name or value
LEAST_ROWS, AROUND_ROWS = 4, 2  # minimum number of rows in the table, and lines for its border and titles


class FamilyComparison(NamedTuple):
    """Two families and their metrics."""

    families: Sequence[Family]
    metrics: Sequence[ComparedMetric]


class FamiliesScreen(HistoryScreen):
    """The comparison of two families in a chart and a table."""

    AUTO_FOCUS = "RunTable"
    heading = "Comparison"
    about = (
        "Two families of runs that differ only in the seed. The table shows the mean ± standard deviation of each "
        "metric and the difference of the means with its 95% confidence interval. The chart shows the selected metric."
    )
    DEFAULT_CSS = """
    FamiliesScreen > Chart { height: 1fr; min-height: 7; }
    FamiliesScreen > TextView { max-height: 7; overflow-y: hidden; scrollbar-gutter: auto; }
    FamiliesScreen > RunTable { border-top: solid $border-blurred; }
    FamiliesScreen > RunTable:focus { border-top: solid $border; }
    """

    def __init__(self, project: Project, names: Sequence[str]) -> None:
        super().__init__(project)
        self._names = names
        self.chart = Chart()
        self.conclusion = TextView(make=self._conclusion)
        self.conclusion.can_focus = False
        self.table = RunTable()
        self.content = (self.chart, self.conclusion, self.table)
        self._comparison: FamilyComparison | None = None

    @property
    def subject(self) -> str:
        return f"of {' and '.join(self._names)}"

    def on_mount(self) -> None:
        self.chart.show_message("Reading...")
        self.ask("comparison", partial(read_families, self.project, self._names), self._show)

    def _show(self, comparison: FamilyComparison) -> None:
        self._comparison = comparison
        self.table.show_columns(columns_of(self._names), "", descending=False)
        rows = list(rows_of(comparison))
        self.table.set_rows(len(rows), 0, rows, replace=True)
        self._fit()
        self._show_metric()

    def _fit(self) -> None:
        """Give the chart all lines that the rows do not need."""
        self.table.styles.height = min(max(self.table.total, LEAST_ROWS) + AROUND_ROWS, self.size.height * 4 // 10)

    def on_resize(self) -> None:
        self._fit()

    @property
    def _metric(self) -> ComparedMetric | None:
        value = self.table.current_value
        return value if isinstance(value, ComparedMetric) else None

    @on(RunTable.CursorMoved)
    def _show_metric(self) -> None:
        self.conclusion.rebuild()
        if self._comparison is None:
            return
        if self._metric is None:
            self.chart.show_message("No metric selected.")
            return
        name = self._metric.name
        show = partial(self.chart.show, look=Look(safe_text(name[:60])))
        self.ask("curves", partial(_curves, self._comparison.families, name), show)

    def _conclusion(self, width: int) -> list[Line]:
        """Return the arguments of each family, and the sentence about the selected metric."""
        if self._comparison is None:
            return []
        lines: list[Line] = []
        for index, (family, text) in enumerate(
            zip(self._comparison.families, differences(self._comparison), strict=True)
        ):
            role, mark = look_of(index)
            lines.append((Piece(f" {mark} {safe_text(family.name)}", role), Piece(f"  {safe_text(text)}", "muted")))
        if self._metric is not None:
            sentence = f" {self._metric.name[:LONGEST]}: {self._metric.verdict}"
            lines.append((Piece(safe_text(sentence), _role(self._metric), bold=True),))
        return [row for line in lines for row in wrap_pieces(line, width, 3)]


def read_families(project: Project, names: Sequence[str]) -> FamilyComparison:
    """Read and compare two families. Blocks; raises RunNotFound."""
    families = History(project).families(list(names))
    return FamilyComparison(families, compare_families(families))


def _curves(families: Sequence[Family], metric: str) -> list[Curve]:
    curves = (family_curve(family, metric, index) for index, family in enumerate(families))
    return [curve for curve in curves if curve.values]


def differences(comparison: FamilyComparison) -> list[str]:
    """Return a text for each family: the script if the scripts differ, and the arguments that differ."""
    scripts = [family.runs[0].script_name for family in comparison.families]
    names = differing([family.arguments for family in comparison.families])
    texts = []
    for family, script in zip(comparison.families, scripts, strict=True):
        parts = [script] if len(set(scripts)) > 1 else []
        parts += [f"{column_name(name)} {family.arguments[name]}" for name in names if name in family.arguments]
        texts.append("  ".join(part[:LONGEST] for part in parts))
    return texts


def columns_of(names: Sequence[str]) -> list[TableColumn]:
    """Return a column of metrics, a column for each family with the mark of its curve, and a column of differences."""
    families = (
        TableColumn(name, f"{look_of(index)[1]} {safe_text(name[:LONGEST])}", 24, least=21, stretches=True, drops=True)
        for index, name in enumerate(names)
    )
    return [
        TableColumn("metric", "metric", 14),
        *families,
        TableColumn("difference", "difference", 22, least=15),
    ]


def rows_of(comparison: FamilyComparison) -> Iterator[TableRow]:
    """Yield a row for each metric, then notes on runs that are left out and on the columns."""
    for metric in comparison.metrics:
        means = map(_mean, metric.estimates)
        text = plus_minus(metric.difference.value, metric.difference.margin) if metric.difference else "—"
        cells = ((Piece(safe_text(metric.name[:LONGEST])),), *means, (Piece(text, _role(metric)),))
        yield TableRow(f"metric {metric.name}", cells, value=metric)
    notes = [(f"▲ {note}", "warning") for family in comparison.families for note in left_out_notes(family)]
    notes.append(("mean ± standard deviation, difference with its 95% confidence interval", "comment"))
    for number, (text, role) in enumerate(notes):
        yield TableRow(f"note {number}", ((Piece(safe_text(text), role),),), is_heading=True)


def _mean(estimate: Estimate | None) -> tuple[Piece, ...]:
    if estimate is None:
        return (Piece("—", "faint"),)
    return (Piece(estimate_text(estimate)), Piece(f" n = {estimate.n}", "muted"))


def _role(compared: ComparedMetric) -> str:
    """Return the color of a difference."""
    return "success" if compared.difference and compared.difference.is_distinguishable else "muted"
