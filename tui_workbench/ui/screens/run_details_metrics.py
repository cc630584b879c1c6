"""The metrics of a run: their names and last values at the left, the course of those that are chosen at the right.

The invariant: the run is read by one thread at a time, only what is new each time, and never on the loop that draws.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.containers import Horizontal
from textual.message import Message

from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import METRICS
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.run_details_read import logged_lines
from tui_workbench.ui.widgets.chart import Chart
from tui_workbench.ui.widgets.chart_data import Curve
from tui_workbench.ui.widgets.chart_drawing import Look, look_of
from tui_workbench.ui.widgets.chart_scale import number
from tui_workbench.ui.widgets.filter_list import FilterList
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.runs.metrics import LoggedItem, MetricSummary, RunMetrics, Series
    from tui_workbench.ui.widgets.text_view import Line

GLYPHS = {"scalar": "~", "text": "“", "list": "≡", "row": "▤", "table": "▤", "confusion": "▦", "image": "▧"}
"""What a metric is, in one cell."""

MOST_LISTED = 2_000
"""Metrics that are listed: a script that makes a name of each batch logs a million of them."""

EMPTY = ("Nothing logged.", "workbench.log('loss', loss), TensorBoard events and lines like loss: 0.31 are shown here.")


class Logged(NamedTuple):
    """What was read: every metric, and the contents of those that are shown."""

    summary: Mapping[str, MetricSummary]
    notes: tuple[str, ...]
    curves: Mapping[str, Series]
    items: tuple[LoggedItem, ...]


class MetricsPanel(Horizontal, inherit_bindings=False):
    """Shows what a run has logged."""

    DEFAULT_CSS = """
    MetricsPanel { height: 1fr; }
    MetricsPanel > RowList { width: 34; max-width: 40%; border-right: solid $border-blurred; }
    MetricsPanel > RowList:focus { border-right: solid $border; }
    MetricsPanel > TextView { display: none; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings(METRICS)
    about = "What the script has logged, by whatever means. space shows several curves in one chart."

    class Read(Message):
        """Something of the run was read; `metrics` is how many metrics it has."""

        def __init__(self, metrics: int) -> None:
            super().__init__()
            self.metrics = metrics

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.list = FilterList()
        self.chart = Chart()
        self.text = TextView()
        self._metrics: RunMetrics | None = None
        self._directory = ""
        self._reading = self._again = False
        self._chosen: list[str] = []
        self._logged: Logged | None = None

    def compose(self) -> ComposeResult:
        """The names, and what the chosen ones hold."""
        yield self.list
        yield self.chart
        yield self.text

    # --- Reading

    def show_run(self, directory: str) -> None:
        """Show the run at this directory, or what is new of it."""
        self._directory = directory
        if self._reading:
            self._again = True
        else:
            self._reading = True
            self.run_worker(self._read(), group="metrics")

    async def _read(self) -> None:
        while True:
            self._again = False
            wanted = self._wanted()
            self._logged = await in_thread(partial(self._read_in_thread, wanted))
            self._show()
            if not self._again and self._has_all():
                break
        self._reading = False

    def _has_all(self) -> bool:
        """Whether what is shown was read already."""
        logged = self._logged
        if logged is None:
            return False
        here = {*logged.curves, *(item.name for item in logged.items)}
        kinds = ((name, logged.summary[name].kind) for name in self._wanted() if name in logged.summary)
        return all(name in here or kind == "text" for name, kind in kinds)

    def _read_in_thread(self, wanted: tuple[str, ...]) -> Logged:
        from tui_workbench.runs.metrics import RunMetrics

        if self._metrics is None:
            self._metrics = RunMetrics(self._directory)
        self._metrics.refresh()
        summary = self._metrics.summary()
        names = [name for name in wanted if name in summary] or list(summary)[:1]  # the one that the cursor will be on
        curves = {name: self._metrics.series(name) for name in names if summary[name].kind == "scalar"}
        kinds = {summary[name].kind for name in names} - {"scalar", "text"}
        items = [item for kind in sorted(kinds) for item in self._metrics.items(kind) if item.name in names]
        return Logged(summary, tuple(self._metrics.notes()), curves, tuple(items))

    def _wanted(self) -> tuple[str, ...]:
        return tuple(self._chosen) or ((self.list.current,) if self.list.current else ())

    # --- Showing

    def _show(self) -> None:
        logged = self._logged
        if logged is None:
            return
        names = list(logged.summary)[:MOST_LISTED]
        rows = [self._row(logged.summary[name]) for name in names]
        empty = (*EMPTY, *(safe_text(note) for note in logged.notes))
        self.list.show_rows(rows, empty=empty)
        self._show_chosen(logged)
        self.post_message(self.Read(len(logged.summary)))

    def _row(self, summary: MetricSummary) -> Row:
        glyph, role = GLYPHS.get(summary.kind, "?"), "muted"
        if summary.name in self._chosen:
            role, glyph = look_of(self._chosen.index(summary.name))
        last = summary.last
        shown = safe_text(last[:20]) if isinstance(last, str) else number(last) if last is not None else ""
        if not shown and summary.count > 1:
            shown = f"{summary.count:,}"
        name = Piece(safe_text(summary.name[:200]))
        return Row(summary.name, name, before=(Piece(f"{glyph} ", role),), right=(Piece(shown),))

    def _show_chosen(self, logged: Logged) -> None:
        wanted = [name for name in self._wanted() if name in logged.summary]
        curves = [
            Curve(safe_text(name[:60]), *self._series(logged.curves[name]), key=name)
            for name in wanted
            if name in logged.curves
        ]
        is_text = bool(wanted) and not curves
        self.text.display, self.chart.display = is_text, not is_text
        if is_text:
            self.text.show(self._lines(logged, wanted), keep_place=True)
        elif curves:
            title = curves[0].label if len(curves) == 1 else ""
            self.chart.show(curves, Look(title))
        else:
            self.chart.show_message("")

    @staticmethod
    def _series(series: Series) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        return series.steps, series.values, series.times

    def _lines(self, logged: Logged, names: Sequence[str]) -> list[Line]:
        lines: list[Line] = []
        for name in names:
            found = logged.summary[name]
            lines.append((Piece(safe_text(name[:200]), "accent", bold=True), Piece(f"  {found.kind}", "muted")))
            if isinstance(found.last, str):
                lines.append((Piece(safe_text(found.last[:2000])),))
            lines += logged_lines([item for item in logged.items if item.name == name])
            lines.append(())
        return lines

    # --- What is chosen

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        if not self._chosen:
            self.chart.reset()
            self._show_or_read()

    def action_choose(self) -> None:
        """Show the metric together with the others that are chosen, or not any more."""
        name = self.list.current
        if not name:
            return
        if name in self._chosen:
            self._chosen.remove(name)
        else:
            self._chosen.append(name)
        self._show_or_read()

    def _show_or_read(self) -> None:
        """Show what is chosen now, from what was read if it was."""
        if self._has_all():
            self._show()
        elif self._reading:
            self._again = True
        else:
            self.show_run(self._directory)

    def take_focus(self) -> None:
        """To the names."""
        self.screen.set_focus(self.list)
