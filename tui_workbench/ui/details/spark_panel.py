"""The tab for the Spark applications of a run: their user interface, stages and failed tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.logs.spark_events import FailedTask, SparkApplication, SparkEvents, SparkStage
from tui_workbench.runs.logs.spark_ui import SparkAddress, address_of, with_application_of_yarn
from tui_workbench.ui.blocking import OneAtATime, in_thread
from tui_workbench.ui.charts.chart_scale import span_label
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.pieces import Piece, hanging, width_of
from tui_workbench.ui.widgets.text_view import MIN_WIDTH, Line, TextView

WAITING = ("No Spark session yet. Stages appear here when the script starts a session.",)
NO_EVENTS = (
    "No Spark session was recorded.",
    "Perhaps the script started no session, or the Spark dependencies of the run set spark.eventLog.enabled or "
    "spark.eventLog.dir. To see stages here, remove these properties.",
)
IN_CLUSTER = (
    "The driver runs in the cluster. The stages are shown only in the Spark UI. The outputs/ folder of the run is not "
    "fetched: write results to a file system that you can read."
)
_SHORTEST_NAME = 12


class Shown(NamedTuple):
    """The applications of a run, and the address of the user interface of each running application."""

    is_active: bool
    applications: tuple[SparkApplication, ...]
    addresses: tuple[SparkAddress | None, ...]


class SparkPanel(TextView):
    """The Spark applications of a run."""

    about = "The stages and failed tasks of the run, from Spark's event log."

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._run: Run | None = None
        self._events: SparkEvents | None = None
        self._spark: Shown | None = None
        self._reading = OneAtATime(self, self._read)

    def show_run(self, run: Run) -> None:
        self._run = run
        self._reading.start()

    async def _read(self) -> None:
        if self._run is not None:
            self._spark = await in_thread(partial(self._read_in_thread, self._run))
            self._fit()

    def _read_in_thread(self, run: Run) -> Shown:
        if self._events is None:
            self._events = SparkEvents(run.directory)
        self._events.refresh()
        applications = tuple(with_application_of_yarn(run, self._events.applications))
        return Shown(run.is_active, applications, tuple(address_of(run, application) for application in applications))

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        if self._spark is not None:
            self.show(spark_lines(self._spark, max(MIN_WIDTH, self.size.width - 3), time.time()), keep_place=True)


def spark_lines(shown: Shown, width: int, now: float) -> list[Line]:
    """Describe the Spark applications of a run in lines of this width."""
    lines: list[Line] = []
    for application, address in zip(shown.applications, shown.addresses, strict=True):
        lines += [()] if lines else []
        lines += _head(application, address, width, now if shown.is_active else 0.0)
        if application.stages:
            lines += [(), *_stage_lines(application, width, now if shown.is_active else 0.0)]
        if application.failed_tasks:
            lines += [(), (Piece("Failed tasks", "accent", bold=True),)]
            for task in application.failed_tasks:
                lines += _failed_lines(task, width)
        if application.more_failed:
            lines.append((Piece(f"  and {application.more_failed:,} more", "muted"),))
    if not lines:
        texts = WAITING if shown.is_active else NO_EVENTS
        return [line for text in texts for line in hanging((), text, width, "muted")]
    return lines


def _head(application: SparkApplication, address: SparkAddress | None, width: int, now: float) -> Iterator[Line]:
    facts = [f"Spark {application.version}" if application.version else "", application.master]
    if application.executors:
        facts.append(f"{counted(application.executors, 'executor')}, {counted(application.cores, 'core')}")
    facts.append(_took(application.start, application.end or now))
    title = Piece(f"{safe_text(application.name) or safe_text(application.identifier)}  ", "accent", bold=True)
    yield from hanging((title,), ", ".join(filter(None, facts)), width, "muted")
    if address is not None:
        yield (Piece("Spark UI  ", "muted"), Piece(safe_text(address.url), "string"))
        if address.forward:
            # The command is on one line, so that it can be copied.
            yield (Piece("          run this first  ", "muted"), Piece(safe_text(address.forward), "string"))
    if not application.has_events:
        yield from hanging((), IN_CLUSTER, width, "muted")
    if application.is_cut:
        yield (Piece("▲ Only the beginning of the event log was read.", "warning"),)


def _stage_lines(application: SparkApplication, width: int, now: float) -> Iterator[Line]:
    stages = application.stages
    cells = [_cells(stage, now) for stage in stages]
    heads = ("tasks", "failed", "time")
    widths = [max(len(head), *(len(row[column]) for row in cells)) for column, head in enumerate(heads)]
    number = max(len("stage"), *(len(_number(stage)) for stage in stages))
    room = max(_SHORTEST_NAME, width - 2 - number - 2 - sum(cells_width + 2 for cells_width in widths))
    names = [truncate_middle(safe_text(stage.name), room) for stage in stages]
    room = min(room, max(map(width_of, ((Piece(name),) for name in names))))
    columns = "".join(f"  {head:>{cell}}" for head, cell in zip(heads, widths, strict=True))
    yield (Piece(f"  {'stage':<{number}}  {'':<{room}}{columns}", "muted"),)
    for stage, name, row in zip(stages, names, cells, strict=True):
        glyph, role = _look(stage, now)
        blank = " " * (room - width_of((Piece(name),)))
        tasks, failed, took = (f"  {text:>{cell}}" for text, cell in zip(row, widths, strict=True))
        yield (
            Piece(f"{glyph} ", role),
            Piece(f"{_number(stage):<{number}}  ", "muted"),
            Piece(f"{name}{blank}{tasks}"),
            Piece(failed, "error" if stage.failed else "muted"),
            Piece(took, "muted"),
        )
        if stage.failure:
            yield from hanging((Piece(" " * (number + 4)),), stage.failure, width, "error")
    if application.more_stages:
        yield (Piece(f"  and {counted(application.more_stages, 'later stage')}", "muted"),)


def _number(stage: SparkStage) -> str:
    return f"{stage.number}.{stage.attempt}" if stage.attempt else str(stage.number)


def _cells(stage: SparkStage, now: float) -> Sequence[str]:
    return (
        f"{stage.done:,}/{stage.tasks:,}",
        f"{stage.failed:,}" if stage.failed else "–",
        _took(stage.start, stage.end or now),
    )


def _took(start: float, end: float) -> str:
    return span_label(round(end - start, 1)) if 0 < start <= end else ""


def _look(stage: SparkStage, now: float) -> tuple[str, str]:
    if stage.failure:
        return "✗", "error"
    if stage.end:
        return "✓", "success"
    if not now:
        return "⊘", "muted"
    return ("●", "running") if stage.start else ("·", "muted")


def _failed_lines(task: FailedTask, width: int) -> Iterator[Line]:
    attempt = f", attempt {task.attempt + 1}" if task.attempt else ""
    where = f" on {safe_text(task.host)}" if task.host else ""
    executor = f", executor {safe_text(task.executor)}" if task.executor not in ("", "driver") else ""
    yield (
        Piece("✗ ", "error"),
        Piece(f"stage {task.stage}, task {task.task}{attempt}"),
        Piece(f"{where}{executor}", "muted"),
    )
    if task.reason:
        yield from hanging((Piece("    "),), task.reason, width)
