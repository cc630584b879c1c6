"""The tabs for metrics and GPUs of a run: values, the GPU verdict with its evidence, and curves.

Each tab reads the run in one thread at a time, and reads only new data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from textual import events, on
from textual.containers import Horizontal, Vertical

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.gpu.run_verdict import verdict_of
from tui_workbench.runs.gpu.usage import GpuCurves
from tui_workbench.runs.gpu.verdict import DeviceFigures, Verdict, gpus_text, number_on_node
from tui_workbench.runs.metrics import LoggedItem, MetricSummary, RunMetrics, Series
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.blocking import OneAtATime, in_thread
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.charts.chart_data import TIME, AttemptBegin, Curve, View, read_attempts
from tui_workbench.ui.charts.chart_drawing import Look, look_of
from tui_workbench.ui.charts.chart_scale import number
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.screen_commands import GPU_PANEL, METRICS
from tui_workbench.ui.details.run_details_read import error_lines, gpu_of, logged_lines
from tui_workbench.ui.formatting import duration, verdict_look
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.units import NOT_REPORTED, amount, size, watt_hours
from tui_workbench.ui.widgets.pieces import Piece, Row, hanging
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import Line, TextView

GLYPHS = {"scalar": "~", "text": "“", "list": "≡", "row": "▤", "table": "▤", "confusion": "▦", "image": "▧"}
"""Glyphs for the kinds of metrics."""

MOST_LISTED = 2_000  # maximum number of listed metrics; a script that logs a new name for each batch has many more
EMPTY = (
    "No metrics logged.",
    "This list shows values from workbench.log('loss', loss), TensorBoard events and output lines such as loss: 0.31.",
)


class Logged(NamedTuple):
    """The metrics of a run, and the values of those that are shown."""

    summary: Mapping[str, MetricSummary]
    notes: tuple[str, ...]
    curves: Mapping[str, Series]
    replaced: Mapping[str, list[Series]]  # points that later attempts have replaced
    attempts: Mapping[str, tuple[AttemptBegin, ...]]  # of each curve
    items: tuple[LoggedItem, ...]


class MetricsPanel(Horizontal, inherit_bindings=False):
    """The logged metrics of a run: a list, and a chart or text."""

    DEFAULT_CSS = """
    MetricsPanel { height: 1fr; }
    MetricsPanel > RowList { width: 34; max-width: 40%; border-right: solid $border-blurred; }
    MetricsPanel > RowList:focus { border-right: solid $border; }
    MetricsPanel > TextView { display: none; width: 1fr; }
    """
    BINDINGS = METRICS.bindings
    heading = "Metrics"
    about = "All metrics logged by the script."

    def __init__(self, *, id: str) -> None:
        self.list, self.chart, self.text = RowList(has_filter=True), Chart(), TextView()
        super().__init__(self.list, self.chart, self.text, id=id)
        self._metrics: RunMetrics | None = None
        self._directory = ""
        self._reading = OneAtATime(self, self._read)
        self._chosen: list[str] = []
        self._shown: tuple[str, ...] = ()  # the metrics in the chart or the text
        self._logged: Logged | None = None

    def on_unmount(self) -> None:
        self._metrics = self._logged = None  # see `Chart.on_unmount`

    def show_run(self, directory: str) -> None:
        self._directory = directory
        self._reading.start()

    async def _read(self) -> None:
        self._logged = await in_thread(partial(self._read_in_thread, self._selected()))
        self._show()
        if not self._has_all():
            self._reading.start()

    def _has_all(self) -> bool:
        """Return True if the values to show have been read."""
        logged = self._logged
        if logged is None:
            return False
        read_names = {*logged.curves, *(item.name for item in logged.items)}
        kinds = ((name, logged.summary[name].kind) for name in self._selected() if name in logged.summary)
        # A text is shown from the summary, which is always read.
        return all(name in read_names or kind == "text" for name, kind in kinds)

    def _read_in_thread(self, selected: tuple[str, ...]) -> Logged:
        if self._metrics is None:
            self._metrics = RunMetrics(self._directory)
        self._metrics.refresh()
        summary = self._metrics.summary()
        names = [name for name in selected if name in summary] or list(summary)[:1]  # or the first metric
        curves = {name: self._metrics.series(name) for name in names if summary[name].kind == "scalar"}
        kinds = {summary[name].kind for name in names} - {"scalar", "text"}
        items = [item for kind in sorted(kinds) for item in self._metrics.items(kind) if item.name in names]
        replaced = {name: self._metrics.replaced(name) for name in curves}
        stored_attempts = read_attempts(self._directory)
        steps = {name: self._metrics.attempt_steps(name) for name in curves} if stored_attempts else {}
        attempts = {
            name: tuple(attempt._replace(step=steps[name].get(attempt.number)) for attempt in stored_attempts)
            for name in steps
        }
        return Logged(summary, tuple(self._metrics.notes()), curves, replaced, attempts, tuple(items))

    def _selected(self) -> tuple[str, ...]:
        return tuple(self._chosen) or ((self.list.current,) if self.list.current else ())

    def _show(self) -> None:
        logged = self._logged
        if logged is None:
            return
        names = list(logged.summary)[:MOST_LISTED]
        rows = [self._row(logged.summary[name]) for name in names]
        empty = (*EMPTY, *(safe_text(note) for note in logged.notes))
        self.list.show_rows(rows, empty=empty)
        self._shown = self._selected() if self._has_all() else ()
        self._show_chosen(logged)

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
        names = [name for name in self._selected() if name in logged.summary]
        curves = [
            Curve(
                safe_text(name[:60]),
                *logged.curves[name],
                key=name,
                attempts=logged.attempts.get(name, ()),
                replaced=logged.replaced[name],
            )
            for name in names
            if name in logged.curves
        ]
        is_text = bool(names) and not curves
        self.text.display, self.chart.display = is_text, not is_text
        if is_text:
            self.text.show(self._lines(logged, names), keep_place=True)
        elif curves:
            title = curves[0].label if len(curves) == 1 else ""
            self.chart.show(curves, Look(title))
        else:
            self.chart.show_message("")

    def _lines(self, logged: Logged, names: Sequence[str]) -> list[Line]:
        lines: list[Line] = []
        for name in names:
            summary = logged.summary[name]
            lines.append((Piece(safe_text(name[:200]), "accent", bold=True), Piece(f"  {summary.kind}", "muted")))
            if isinstance(summary.last, str):
                lines.append((Piece(safe_text(summary.last[:2000])),))
            lines += logged_lines([item for item in logged.items if item.name == name])
            lines.append(())
        return lines

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        if not self._chosen and self._selected() != self._shown:  # showing the rows moves the cursor, too
            self.chart.reset()
            self._show_or_read()

    def action_choose(self) -> None:
        if name := self.list.current:
            self._chosen.remove(name) if name in self._chosen else self._chosen.append(name)
            self._show_or_read()

    def _show_or_read(self) -> None:
        """Show the selected metrics, after reading them if necessary."""
        if self._has_all():
            self._show()
        else:
            self._reading.start()


SIDE_BY_SIDE = 150  # minimum width at which all charts are side by side
MOST_TEXT = 0.6  # maximum fraction of the height for the text; the charts get the rest
READ_SECONDS = 3.0  # interval between reads of the samples and the log of an active run
LEAST_WIDTH = 30

MIB_IN_GIB = 1024.0
LONGEST = 1_000


Curves = tuple[Sequence[Curve], ...]  # the curves of the three charts


class GpuPanel(ExplainsUnavailable, Vertical, inherit_bindings=False):
    """The GPU use of a run: verdict, figures and charts."""

    BINDINGS = GPU_PANEL.bindings
    DEFAULT_CSS = """
    GpuPanel { height: 1fr; }
    GpuPanel > TextView { height: 1fr; }
    GpuPanel > Horizontal { height: 1fr; border-top: solid $border-blurred; display: none; }
    GpuPanel Chart { display: none; }
    GpuPanel Chart.-shown { display: block; }
    """
    about = "The GPU verdict of the run, its evidence, and figures of each device."

    def __init__(self, *, id: str) -> None:
        self.text = TextView()
        self.charts = [Chart(Look(title)) for title in ("utilization %", "memory GiB", "power W")]
        self._row = Horizontal(*self.charts)
        super().__init__(self.text, self._row, id=id)
        self._chosen = 0
        self._run: Run | None = None
        self._curves: GpuCurves | None = None
        self._make: Callable[[int], Sequence[Line]] = lambda width: ()  # returns the text for a width
        self._read_at = 0.0
        self._reading = OneAtATime(self, self._read)
        for chart in self.charts:
            chart.view = View(by=TIME, shown=(0.0, 100.0) if chart is self.charts[0] else (0.0,))

    def show_run(self, run: Run) -> None:
        is_new = self._run is None or self._run.is_active != run.is_active
        if not is_new and time.monotonic() - self._read_at < READ_SECONDS:
            return
        self._run = run
        self._reading.start()

    async def _read(self) -> None:
        if self._run is not None:
            self._read_at = time.monotonic()
            self._make, charts = await in_thread(partial(self._read_in_thread, self._run))
            self._show(charts)

    def _read_in_thread(self, run: Run) -> tuple[Callable[[int], Sequence[Line]], Curves]:
        try:
            verdict = verdict_of(RunDirectory(run.directory))
        except WorkbenchError as error:
            problem = error_lines(error)
            return lambda _: problem, ()
        if verdict is None:
            why = "No GPU samples yet." if run.is_active else "No GPU samples were recorded for this run."
            lines = [(Piece(why, "muted"),), (), *gpu_of(run)]
            return lambda _: lines, ()
        if self._curves is None:
            self._curves = GpuCurves(run.directory)
        self._curves.refresh()
        machine = machine_lines(self._curves)
        charts = curves_of(self._curves) if self._curves.points else ()
        return lambda width: [*verdict_lines(verdict, width), *machine], charts

    def _show(self, charts: Curves) -> None:
        self._row.display = bool(charts)
        for chart, curves in zip(self.charts, charts, strict=False):
            chart.show(curves) if curves else chart.show_message("Not reported by the driver.")
        self._fit()
        self.refresh_bindings()

    def on_unmount(self) -> None:
        self._curves, self._make = None, lambda width: ()  # see `Chart.on_unmount`

    def on_resize(self, event: events.Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        all_fit = self.size.width >= SIDE_BY_SIDE
        self.text.show(self._make(max(LEAST_WIDTH, self.size.width - 3)), keep_place=True)
        for index, chart in enumerate(self.charts):
            chart.set_class(all_fit or index == self._chosen, "-shown")
        if self._row.display and self.size.height:
            self.text.styles.height = min(len(self.text.lines), max(3, int(self.size.height * MOST_TEXT)))
        else:
            self.text.styles.height = "1fr"

    def why_not(self, action: str) -> str:
        if action == "next_chart" and not self._row.display:
            return "No charts: the run has no GPU samples."
        if action == "next_chart" and self.size.width >= SIDE_BY_SIDE:
            return "All charts are already shown."
        return ""

    def action_next_chart(self) -> None:
        had_focus = self.charts[self._chosen].has_focus
        self._chosen = (self._chosen + 1) % len(self.charts)
        self._fit()
        if had_focus:
            self.screen.set_focus(self.charts[self._chosen])


# --- Text


def verdict_lines(verdict: Verdict, width: int) -> list[Line]:
    """Describe a verdict: figures of each device, advice, evidence in the log, and gaps in the samples."""
    look = verdict_look(verdict.word)
    when = "" if verdict.final else "  so far"
    lines: list[Line] = [
        (Piece(f"{look.glyph} GPU {safe_text(verdict.word)}", look.role, bold=True), Piece(when, "muted")),
        *hanging((Piece("  "),), verdict.text[:LONGEST], width + 1),
    ]
    if verdict.cause and verdict.cause not in verdict.text:
        lines += hanging((Piece("  likely: ", "muted"),), verdict.cause[:LONGEST], width + 1)
    if verdict.devices:
        lines += [(), *device_lines(verdict.devices, width)]
    if verdict.advice:
        lines += [(), (Piece("Advice", "accent", bold=True),)]
        for text in verdict.advice:
            lines += hanging((Piece("▲ ", "warning"),), text[:LONGEST], width + 1)
    if verdict.evidence:
        lines += [(), (Piece("Evidence in the log", "accent", bold=True),)]
        for evidence in verdict.evidence:
            sign, role = ("✓", "success") if evidence.speaks == "gpu" else ("✗", "error")
            position = f"line {evidence.line:,}" if evidence.line else "near the end"
            lines.append((Piece(f"{sign} ", role), Piece(f"{safe_text(evidence.framework)}, {position}", "muted")))
            lines += [(Piece(f"    {safe_text(text)}", "string"),) for text in evidence.quote]
    if verdict.unseen:
        lines += [(), (Piece("Incomplete", "accent", bold=True),)]
        for text in verdict.unseen:
            lines += hanging((Piece("▲ ", "warning"),), text[:LONGEST], width + 1)
    return lines


_LESS_NEEDED = ("ECC", "throttled", "own", "held", "p95")  # columns that a narrow table drops, in this order


def device_lines(devices: Sequence[DeviceFigures], width: int) -> list[Line]:
    """Draw a table of the run's figures on each device."""
    names = [f"{number_on_node(device.number, device.name)} {safe_text(device.name[:40])}" for device in devices]
    rows = [_cells(device) for device in devices]
    if any(device.ranks for device in devices):
        ranks = [",".join(map(str, device.ranks)) or NOT_REPORTED for device in devices]
        idle = [amount(device.idle, "%") for device in devices]
        rows = [{"rank": rank, "idle": share} | row for rank, share, row in zip(ranks, idle, rows, strict=True)]
    widths = {title: max(len(title), *(len(row[title]) for row in rows)) for title in rows[0]}
    first = max(map(len, names))
    for title in _LESS_NEEDED:
        if first + 2 + sum(cells + 2 for cells in widths.values()) > width:
            del widths[title]
    head = "".join(f"  {title:>{cells}}" for title, cells in widths.items())
    lines: list[Line] = [(Piece(f"  {'GPU'.ljust(first)}{head}", "muted"),)]
    for index, (name, row) in enumerate(zip(names, rows, strict=True)):
        cells = "".join(f"  {row[title]:>{cells}}" for title, cells in widths.items())
        role, mark = look_of(index)
        lines.append((Piece(f"{mark} ", role), Piece(name.ljust(first), bold=True), Piece(cells)))
        if devices[index].others:
            shared = duration(devices[index].shared_seconds)
            text = f"    shared for {shared} with {', '.join(map(safe_text, devices[index].others))}"
            lines.append((Piece(text[:LONGEST], "warning"),))
    return lines


def _cells(device: DeviceFigures) -> dict[str, str]:
    return {
        "held": duration(device.seconds),
        "mean": amount(device.mean_utilization, "%"),
        "p95": amount(device.p95_utilization, "%"),
        "own": amount(device.own_utilization, "%"),
        "peak": size(device.peak_memory),
        "GPU time": duration(device.gpu_seconds),
        "energy": watt_hours(device.energy) if device.energy else NOT_REPORTED,
        "throttled": duration(device.throttled_seconds) if device.throttled_seconds else "no",
        "ECC": str(device.ecc_errors),
    }


def machine_lines(recorded: GpuCurves) -> list[Line]:
    """Describe the GPUs and drivers of the machine, and count the samples that are not drawn; empty without GPUs."""
    machine = recorded.machine
    if not machine.devices:
        return []
    facts = {"driver": machine.driver, "CUDA": machine.cuda, "source": machine.source}
    text = ", ".join(f"{name} {value}" for name, value in facts.items() if value)
    names = ", ".join(f"{number_on_node(device.number, device.name)} {device.name}" for device in machine.devices[:16])
    lines: list[Line] = [
        (),
        (Piece("Machine  ", "accent", bold=True), Piece(safe_text(f"{names}   {text}"[:LONGEST]), "muted")),
    ]
    if recorded.left_out:
        lines.append((Piece(f"▲ {counted(recorded.left_out, 'further sample')} not drawn", "warning"),))
    return lines


def curves_of(recorded: GpuCurves) -> Curves:
    """Return the curves of three charts: utilization, memory (of all processes and of the run), and power.

    Each chart has a curve for every device that the run used, or for all devices if the run used none.
    """
    held = [index for index, device in recorded.devices.items() if any(device.own_memory)]
    chosen = sorted(held or recorded.devices)
    names = {device.number: safe_text(device.name) for device in recorded.machine.devices}

    def curves(values: str, suffix: str = "", first_look: int = 0) -> Iterator[Curve]:
        for look, index in enumerate(chosen, first_look):
            curve, label = recorded.devices[index], f"{gpus_text([index], names)}{suffix}"
            ys = getattr(curve, values)
            if "memory" in values:
                ys = [round(mib / MIB_IN_GIB, 3) for mib in ys]
            yield Curve(label, range(len(ys)), ys, curve.times, key=label, look=look)

    own = curves("own_memory", ", this run", len(chosen)) if held else ()
    return tuple(curves("utilization")), (*curves("memory"), *own), tuple(curves("power"))
