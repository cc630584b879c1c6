"""The charts above the table of runs: values of the chosen metrics run by run, or their curves; duration; states.

The invariant: as many charts as can be read at a width, the chosen metrics first; they show the runs that the table's
filter leaves, and never more points than a person can tell apart.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.containers import Horizontal

from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.dashboard_runs import by_run
from tui_workbench.ui.widgets.chart import Chart
from tui_workbench.ui.widgets.chart_data import Curve
from tui_workbench.ui.widgets.chart_drawing import Look
from tui_workbench.ui.widgets.state_bars import StateBars
from tui_workbench.ui.words import run_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual import events
    from textual.app import ComposeResult

    from tui_workbench.model import Run
    from tui_workbench.project import Project
    from tui_workbench.runs.table import RunQuery

BY_RUN, CURVES, NONE = "by run", "curves", "none"
MODES = (BY_RUN, CURVES, NONE)

MOST_RUNS = 1_000
"""The newest runs, whose values are shown run by run."""

LEAST_WIDTH = 38
MOST_CHARTS = 5
HEIGHT = 11

LEAST_SCREEN = 32
"""Lines of the screen from which on charts are shown without being asked for."""


class Wanted(NamedTuple):
    """What the charts are to show."""

    mode: str = BY_RUN
    query: RunQuery | None = None
    metrics: tuple[str, ...] = ()
    runs: tuple[tuple[Run, int], ...] = ()  # whose curves, each with its look; for CURVES


class Drawn(NamedTuple):
    """What was read for it: a title, curves, how their axes read."""

    curves: tuple[Curve, ...]
    look: Look


class DashboardCharts(Horizontal):
    """A row of charts."""

    DEFAULT_CSS = """
    DashboardCharts { height: 11; display: none; }
    DashboardCharts > Chart { width: 1fr; }
    """

    def __init__(self, project: Project) -> None:
        super().__init__()
        self._project = project
        self._wanted = Wanted()
        self._number = 0
        self._charts = [Chart() for _ in range(MOST_CHARTS - 1)]
        self._states = StateBars()
        self._current: int | None = None

    def compose(self) -> ComposeResult:
        """All there may be; those without room are not displayed."""
        yield from self._charts
        yield self._states

    @property
    def fitting(self) -> int:
        """How many charts can be read side by side now."""
        return max(1, min(MOST_CHARTS, self.size.width // LEAST_WIDTH))

    def show(self, wanted: Wanted) -> None:
        """Show this; what is shown stays until it has been read."""
        self.display = wanted.mode != NONE
        self._wanted = wanted
        self._read()

    def show_states(self, counts: Mapping[str, int]) -> None:
        """Show how many runs are in each state."""
        self._states.show(counts)

    def point_at(self, run: int | None) -> None:
        """Read out the run with this number, where the charts go by runs."""
        self._current = run
        if self._wanted.mode == BY_RUN:
            for chart in self._charts:
                chart.point_at(run)

    def on_resize(self, event: events.Resize) -> None:
        """Other charts fit."""
        self._read()

    def _read(self) -> None:
        if self._wanted.mode == NONE or self._wanted.query is None or not self.size.width:
            return
        self._number += 1
        self.run_worker(
            Unbegun(self._read_and_show, self._wanted, self.fitting, self._number), group="charts", exclusive=True
        )

    async def _read_and_show(self, wanted: Wanted, fitting: int, number: int) -> None:
        drawn = await in_thread(partial(read_charts, self._project, wanted, fitting))
        if number != self._number:
            return
        with self.app.batch_update():
            for chart, found in zip(self._charts, [*drawn, *[None] * len(self._charts)], strict=False):
                chart.display = found is not None
                if found is not None:
                    if chart.look.x_name != found.look.x_name:
                        chart.reset()
                    chart.point_at(self._current if found.look.x_name else chart.cursor)
                    chart.show(found.curves, found.look)
            self._states.display = fitting > len(drawn)


def read_charts(project: Project, wanted: Wanted, fitting: int) -> list[Drawn]:
    """Read what the charts show. Blocks; what cannot be read is not there."""
    assert wanted.query is not None
    # The states take a place where three fit, the durations where two do.
    metrics = wanted.metrics[: max(1, fitting - (2 if fitting > 2 else 1))]
    if wanted.mode == CURVES:
        drawn = [_curves(wanted.runs, name) for name in wanted.metrics[: max(1, fitting - (fitting > 2))]]
        return drawn or [Drawn((), Look("no metric is chosen"))]
    drawn = [
        _values(project, wanted.query, name, Look(safe_text(name), joined=False, x_name="run")) for name in metrics
    ]
    if fitting > 1 or not metrics:
        look = Look("duration", joined=False, durations=True, x_name="run")
        drawn.append(_values(project, wanted.query, "duration", look))
    return drawn


def _values(project: Project, query: RunQuery, name: str, look: Look) -> Drawn:
    found = by_run(project, query, name, MOST_RUNS)
    numbers = [float(number) for _, number, _ in found]
    return Drawn((Curve(look.title, numbers, [value for *_, value in found], numbers),) if found else (), look)


def _curves(runs: Sequence[tuple[Run, int]], name: str) -> Drawn:
    from tui_workbench.runs.metrics import RunMetrics

    curves = []
    for run, look in runs:
        metrics = RunMetrics(run.directory)
        metrics.refresh()
        series = metrics.series(name)
        if series.values:
            label = safe_text(run_title(run))
            curves.append(Curve(label, series.steps, series.values, series.times, run.run_id, look))
    return Drawn(tuple(curves), Look(safe_text(name)))
