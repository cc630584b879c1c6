"""What a run did on GPUs: the verdict with what it stands on and what was not seen, and the course of its devices.

The invariant: the run is read by one thread at a time, samples only from where the last reading stopped, and never on
the loop that draws.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.containers import Horizontal, Vertical

from tui_workbench.errors import WorkbenchError
from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.gpu_commands import GPU_PANEL
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.run_details_read import complaint, gpu_of
from tui_workbench.ui.verdicts import verdict_look
from tui_workbench.ui.widgets.chart import Chart
from tui_workbench.ui.widgets.chart_data import TIME, Curve, View
from tui_workbench.ui.widgets.chart_drawing import Look, look_of
from tui_workbench.ui.widgets.gpu_words import UNTOLD, percent, size
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import TextView
from tui_workbench.ui.words import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run
    from tui_workbench.runs.gpu.courses import DeviceCourse, GpuCourses
    from tui_workbench.runs.gpu.verdict import DeviceFigures, Verdict
    from tui_workbench.ui.widgets.text_view import Line

SIDE_BY_SIDE = 150
"""Cells from which on all charts are shown beside each other."""

MOST_TEXT = 0.6
"""Part of the height that the text takes at most; charts get the rest."""

READ_SECONDS = 3.0
"""How often the samples and the log of a run that goes on are read anew."""

LEAST_WIDTH = 30

MIB_IN_GIB = 1024.0
LONGEST = 1_000


class Seen(NamedTuple):
    """What was read: the text for a width, and for each chart its curves."""

    make: Callable[[int], list[Line]]
    charts: tuple[tuple[Curve, ...], ...]


class GpuPanel(Vertical, inherit_bindings=False):
    """Shows the GPUs of a run."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(GPU_PANEL)
    DEFAULT_CSS = """
    GpuPanel { height: 1fr; }
    GpuPanel > TextView { height: 1fr; }
    GpuPanel > Horizontal { height: 1fr; border-top: solid $border-blurred; display: none; }
    GpuPanel Chart { display: none; }
    GpuPanel Chart.-shown { display: block; }
    """
    about = "Whether the run used a GPU, what says so, and what its devices did. m shows the next chart."

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.text = TextView()
        self.charts = (
            Chart(Look("utilisation %"), id="utilization"),
            Chart(Look("memory GiB"), id="memory"),
            Chart(Look("power W"), id="power"),
        )
        self._row = Horizontal(*self.charts)
        self._chosen = 0
        self._run: Run | None = None
        self._courses: GpuCourses | None = None
        self._seen: Seen | None = None
        self._read_at = 0.0
        self._is_reading = self._is_asked_again = False
        for chart in self.charts:
            chart.view = View(by=TIME, shown=(0.0, 100.0) if chart is self.charts[0] else (0.0,))

    def compose(self) -> ComposeResult:
        """The verdict, and the charts."""
        yield self.text
        yield self._row

    # --- Reading

    def show_run(self, run: Run) -> None:
        """Show this run, or what is new of it."""
        is_new = self._run is None or self._run.is_active != run.is_active
        if not is_new and time.monotonic() - self._read_at < READ_SECONDS:
            return
        self._run = run
        self._is_asked_again = True
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(Unbegun(self._read), group="gpu")

    async def _read(self) -> None:
        while self._is_asked_again and self._run is not None:
            self._is_asked_again = False
            self._read_at = time.monotonic()
            self._show(await in_thread(partial(self._read_in_thread, self._run)))
        self._is_reading = False

    def _read_in_thread(self, run: Run) -> Seen:
        from tui_workbench.runs.gpu.courses import GpuCourses
        from tui_workbench.runs.gpu.reading import verdict_of
        from tui_workbench.runs.rundir import RunDirectory

        try:
            verdict = verdict_of(RunDirectory(run.directory))
        except WorkbenchError as error:
            said = complaint(error)
            return Seen(lambda _: said, ())
        if verdict is None:
            known = [*nothing_in_reach(run), *gpu_of(run)]
            return Seen(lambda _: known, ())
        if self._courses is None:
            self._courses = GpuCourses(run.directory)
        self._courses.refresh()
        machine = machine_lines(self._courses)
        charts = curves_of(self._courses) if self._courses.points else ()
        return Seen(lambda width: [*verdict_lines(verdict, width), *machine], charts)

    # --- Showing

    def _show(self, seen: Seen) -> None:
        self._seen = seen
        self._row.display = bool(seen.charts)
        for chart, curves in zip(self.charts, seen.charts, strict=False):
            chart.show(curves) if curves else chart.show_message("The driver does not tell it.")
        self._fit()
        self.refresh_bindings()

    def on_resize(self, event: events.Resize) -> None:
        """There is room for another number of charts, and of lines."""
        self._fit()

    def _fit(self) -> None:
        all_fit = self.size.width >= SIDE_BY_SIDE
        self.text.show(self._seen.make(max(LEAST_WIDTH, self.size.width - 3)) if self._seen else [], keep_place=True)
        for place, chart in enumerate(self.charts):
            chart.set_class(all_fit or place == self._chosen, "-shown")
        if self._row.display and self.size.height:
            self.text.styles.height = min(len(self.text.lines), max(3, int(self.size.height * MOST_TEXT)))
        else:
            self.text.styles.height = "1fr"

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if action == "next_chart" and not self._row.display:
            return "There is no chart: no sample was taken."
        if action == "next_chart" and self.size.width >= SIDE_BY_SIDE:
            return "All charts are shown."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)

    def action_next_chart(self) -> None:
        """Utilisation, memory, power."""
        had_focus = self.charts[self._chosen].has_focus
        self._chosen = (self._chosen + 1) % len(self.charts)
        self._fit()
        if had_focus:
            self.screen.set_focus(self.charts[self._chosen])


# --- What is said


def nothing_in_reach(run: Run) -> list[Line]:
    """Why there is no verdict."""
    text = (
        "No GPU has been looked at yet." if run.is_active else "No GPU was in reach of this run, so none was watched."
    )
    return [(Piece(text, "muted"),), ()]


def verdict_lines(verdict: Verdict, width: int) -> list[Line]:
    """The verdict, its figures for each device, what the log says, and what was not seen."""
    look = verdict_look(verdict.word)
    when = "" if verdict.final else "  so far"
    lines: list[Line] = [
        (Piece(f"{look.glyph} GPU {safe_text(verdict.word)}", look.role, bold=True), Piece(when, "muted")),
        *_wrapped("  ", verdict.text, width),
    ]
    if verdict.cause and verdict.cause not in verdict.text:
        lines += _wrapped("  likely: ", verdict.cause, width)
    if verdict.devices:
        lines += [(), *device_lines(verdict.devices, width)]
    if verdict.evidence:
        lines += [(), (Piece("What the log says", "accent", bold=True),)]
        for each in verdict.evidence:
            sign, role = ("✓", "success") if each.speaks == "gpu" else ("✗", "error")
            place = f"line {each.line:,}" if each.line else "near the end"
            lines.append((Piece(f"{sign} ", role), Piece(f"{safe_text(each.framework)}, {place}", "muted")))
            lines += [(Piece(f"    {safe_text(text)}", "string"),) for text in each.quote]
    if verdict.unseen:
        lines += [(), (Piece("What was not seen", "accent", bold=True),)]
        for text in verdict.unseen:
            lines += _wrapped("▲ ", text, width, "warning")
    return lines


def _wrapped(before: str, text: str, width: int, role: str = "muted") -> list[Line]:
    """A text in as many lines as it takes, below each other behind what stands before the first."""
    import textwrap

    parts = textwrap.wrap(safe_text(text[:LONGEST]), max(LEAST_WIDTH - len(before), width - len(before))) or [""]
    return [(Piece(before if place == 0 else " " * len(before), role), Piece(part)) for place, part in enumerate(parts)]


_COLUMNS = ("held", "mean", "p95", "own", "peak", "GPU time", "energy", "throttled", "ECC")
_LESS_NEEDED = ("ECC", "throttled", "own", "held", "p95")
"""Columns that are left out where there is no room, the first one first."""


def device_lines(devices: Sequence[DeviceFigures], width: int) -> list[Line]:
    """A table of what the run did on each device."""
    names = [f"{each.number} {safe_text(each.name[:40])}" for each in devices]
    rows = [dict(zip(_COLUMNS, _cells(each), strict=True)) for each in devices]
    widths = {title: max(len(title), *(len(row[title]) for row in rows)) for title in _COLUMNS}
    first = max(map(len, names))
    for title in _LESS_NEEDED:
        if first + 2 + sum(cells + 2 for cells in widths.values()) > width:
            del widths[title]
    head = "".join(f"  {title:>{cells}}" for title, cells in widths.items())
    lines: list[Line] = [(Piece(f"  {'GPU'.ljust(first)}{head}", "muted"),)]
    for place, (name, row) in enumerate(zip(names, rows, strict=True)):
        cells = "".join(f"  {row[title]:>{cells}}" for title, cells in widths.items())
        role, mark = look_of(place)
        lines.append((Piece(f"{mark} ", role), Piece(name.ljust(first), bold=True), Piece(cells)))
        if devices[place].others:
            shared = duration(devices[place].shared_seconds)
            text = f"    others for {shared}: {', '.join(map(safe_text, devices[place].others))}"
            lines.append((Piece(text[:LONGEST], "warning"),))
    return lines


def _cells(each: DeviceFigures) -> tuple[str, ...]:
    energy = f"{each.energy:.3g} Wh" if each.energy < 1000 else f"{each.energy / 1000:.3g} kWh"
    return (
        duration(each.seconds),
        percent(each.mean_utilization).strip(),
        percent(each.p95_utilization).strip(),
        percent(each.own_utilization).strip(),
        size(each.peak_memory),
        duration(each.gpu_seconds),
        energy if each.energy else UNTOLD,
        duration(each.throttled_seconds) if each.throttled_seconds else "no",
        str(each.ecc_errors),
    )


def machine_lines(courses: GpuCourses) -> list[Line]:
    """What the machine has, and how it was asked."""
    machine = courses.machine
    if not machine.devices:
        return []
    parts = [f"driver {machine.driver}" if machine.driver else "", f"CUDA {machine.cuda}" if machine.cuda else ""]
    parts += [f"asked by {machine.source}" if machine.source else ""]
    names = ", ".join(f"{each.number} {each.name}" for each in machine.devices[:16])
    text = ", ".join([part for part in parts if part])
    lines: list[Line] = [
        (),
        (Piece("Machine  ", "accent", bold=True), Piece(safe_text(f"{names}   {text}"[:LONGEST]), "muted")),
    ]
    if courses.left_out:
        lines.append((Piece(f"▲ {courses.left_out:,} further samples are not drawn", "warning"),))
    return lines


def curves_of(courses: GpuCourses) -> tuple[tuple[Curve, ...], ...]:
    """The curves of utilisation, memory and power, one for each device that the run was on, else for all that it had.

    Of memory the run's own part is a curve of its own.
    """
    held = [number for number, course in courses.devices.items() if any(course.own_memory)]
    chosen = sorted(held or courses.devices)
    utilization, memory, own, power = [], [], [], []
    for place, number in enumerate(chosen):
        name, course = f"GPU {number}", courses.devices[number]
        utilization.append(_curve(name, course, course.utilization, place))
        memory.append(_curve(name, course, _in_gib(course.memory), place))
        power.append(_curve(name, course, course.power, place))
        if held:
            own.append(_curve(f"{name}, this run", course, _in_gib(course.own_memory), len(chosen) + place))
    return tuple(utilization), (*memory, *own), tuple(power)


def _in_gib(values: Sequence[float]) -> Sequence[float]:
    return [round(mib / MIB_IN_GIB, 3) for mib in values]


def _curve(name: str, course: DeviceCourse, values: Sequence[float], place: int) -> Curve:
    return Curve(name, range(len(values)), values, course.times, key=name, look=place)
