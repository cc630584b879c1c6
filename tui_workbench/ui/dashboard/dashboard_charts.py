"""The charts above the table of runs: values by run or curves of the chosen metrics, durations, and states.

As many charts are shown as fit, the chosen metrics first. Values by run, durations and states are those of the runs
that match the table's filter. Curves are those of the marked runs and families. Without marks, they are those of the
selected run and of active runs, or of the selected family and of other families in the table. A family has a curve of
the means, with a band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from textual.containers import Horizontal
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.core.model import Run, RunState
from tui_workbench.core.progress import bar
from tui_workbench.projects.project import Project
from tui_workbench.runs.families import Family
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import RunQuery, RunRow
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.charts.chart_data import Curve, family_curve, run_curves
from tui_workbench.ui.charts.chart_drawing import Look
from tui_workbench.ui.formatting import RUN_STATES
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pieces import Piece, draw_line

BY_RUN, CURVES, NONE = "by run", "curves", "none"
MODES = (BY_RUN, CURVES, NONE)
MOST_RUNS = 1_000  # maximum number of runs in a chart by run; older runs are left out
LEAST_WIDTH = 38
MOST_CHARTS = 5
HEIGHT, AROUND = 11, 7  # minimum height of the charts, and lines of the screen outside charts and rows
LEAST_SCREEN = 32  # minimum height of the screen at which charts are shown by default

ORDER = (
    RunState.RUNNING,
    RunState.FINALIZING,
    RunState.PREPARING,
    RunState.QUEUED,
    RunState.COMPLETED,
    RunState.FAILED,
    RunState.CANCELED,
    RunState.UNKNOWN,
)
LABEL_CELLS = 21


class ChartRequest(NamedTuple):
    """The requested content of the charts."""

    mode: str
    query: RunQuery
    metrics: tuple[str, ...]
    runs: tuple[tuple[Run, int], ...]  # the runs with curves, each with the index of its color and mark
    families: tuple[tuple[Family, int], ...] = ()  # the families with a mean and a band, each with its index


Drawn = tuple[Sequence[Curve], Look]  # the curves of a chart, and how they are drawn


class StateBars(Widget, inherit_bindings=False):
    """The number of runs in each state as bars."""

    DEFAULT_CSS = "StateBars { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._counts: dict[str, int] = {}

    def show(self, counts: Mapping[str, int]) -> None:
        nonzero = {state: counts[state] for state in ORDER if counts.get(state)}
        if nonzero != self._counts:
            self._counts = nonzero
            self.refresh()

    def render_line(self, y: int) -> Strip:
        palette, width = palette_of(self), self.size.width
        line: tuple[Piece, ...] = ()
        if y == 0:
            line = (Piece(" state", bold=True),)
        elif y <= len(self._counts):
            state, number = list(self._counts.items())[y - 1]
            look, share = RUN_STATES[state], number / max(self._counts.values())
            filled = bar(share, max(0, width - LABEL_CELLS - 2), empty="")
            line = (
                Piece(f" {look.glyph} {look.word:<11}", look.role),
                Piece(f"{number:>7,} "),
                Piece(filled, look.role),
            )
        return draw_line(line, width, palette, palette.background)


class DashboardCharts(Horizontal):
    """The row of charts above the table."""

    DEFAULT_CSS = """
    DashboardCharts { height: 11; display: none; }
    DashboardCharts > Chart { width: 1fr; }
    """

    def __init__(self, project: Project) -> None:
        self._charts = [Chart() for _ in range(MOST_CHARTS - 1)]
        self.states = StateBars()
        super().__init__(*self._charts, self.states)  # a chart is hidden if it does not fit
        self._project = project
        self._mode: str | None = None  # the user's choice, or None
        self._chart_request: ChartRequest | None = None
        self._current: int | None = None

    @property
    def mode(self) -> str:
        """The user's choice from MODES, or a default that depends on the height of the screen."""
        return self._mode or (BY_RUN if self.app.size.height >= LEAST_SCREEN else NONE)

    def next_mode(self) -> None:
        """Change to the next of MODES. On a low screen, their order is reversed, so that curves are always first."""
        by = 1 if self.app.size.height >= LEAST_SCREEN else -1
        self._mode = MODES[(MODES.index(self.mode) + by) % len(MODES)]

    def fit(self, screen_height: int, rows: int) -> None:
        """Set the height to the lines that the table does not need: at most half the screen, but at least `HEIGHT`."""
        self.styles.height = max(HEIGHT, min(screen_height // 2, screen_height - rows - AROUND))

    def show(self, request: ChartRequest) -> None:
        self.display = request.mode != NONE
        self._chart_request = request
        self._read()

    def point_at(self, row: RunRow | None) -> None:
        """Move the cursor to the run of this row in the charts by run; without a row, remove the cursor."""
        self._current = run = row.run.run_number if row is not None else None
        if self._chart_request is not None and self._chart_request.mode == BY_RUN:
            for chart in self._charts:
                chart.point_at(run)

    def on_resize(self) -> None:
        self._read()

    def _read(self) -> None:
        if self._chart_request is None or self._chart_request.mode == NONE or not self.size.width:
            return
        fitting = max(1, min(MOST_CHARTS, self.size.width // LEAST_WIDTH))
        call = partial(read_charts, self._project, self._chart_request, fitting)
        ask(self, "charts", call, partial(self._draw, fitting))

    def _draw(self, fitting: int, drawn: list[Drawn]) -> None:
        with self.app.batch_update():
            for chart in self._charts[len(drawn) :]:
                chart.display = False
            for chart, (curves, look) in zip(self._charts, drawn, strict=False):
                chart.display = True
                if chart.look.x_name != look.x_name:
                    chart.reset()
                chart.point_at(self._current if look.x_name else chart.cursor)
                chart.show(curves, look)
            self.states.display = fitting > len(drawn)


def read_charts(project: Project, request: ChartRequest, fitting: int) -> list[Drawn]:
    """Read the content of the charts; `fitting` is the number of charts that fit. Blocks; raises WorkbenchError."""
    if request.mode == CURVES:
        # If three or more charts fit, one shows the states. In charts by run, if two or more fit, one shows durations.
        drawn: list[Drawn] = []
        for name in request.metrics[: max(1, fitting - (fitting > 2))]:
            means = [family_curve(family, name, index) for family, index in request.families]
            curves = [curve for curve in means if curve.values] + run_curves(request.runs, name)
            drawn.append((curves, Look(safe_text(name))))
        return drawn or [((), Look("no metric selected"))]
    metrics = request.metrics[: max(1, fitting - (2 if fitting > 2 else 1))]
    looks = {name: Look(safe_text(name), joined=False, x_name="run") for name in metrics}
    if fitting > 1 or not metrics:
        looks["duration"] = Look("duration", joined=False, durations=True, x_name="run")
    return [_values(project, request.query, name, look) for name, look in looks.items()]


def _values(project: Project, query: RunQuery, name: str, look: Look) -> Drawn:
    with RunIndex(project) as index:
        rows = index.column(query, name, MOST_RUNS)
    # Text values have no place on the y axis.
    points = [(float(number), float(value)) for _, number, value in rows if isinstance(value, int | float)]
    numbers = [number for number, _ in points]
    return ([Curve(look.title, numbers, [value for _, value in points], numbers)] if points else [], look)
