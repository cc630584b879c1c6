"""A progress line: the step, a bar, the amount, the speed and the time left.

Parts of the line stay in place while the numbers change. Short steps are not shown. The line stays visible between
steps.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from textual import work
from textual.message import Message
from textual.reactive import reactive
from textual.timer import Timer

from tui_workbench.core.model import Run, RunState
from tui_workbench.core.progress import AMOUNT, LEFT, RATE, Progress, bar
from tui_workbench.runs.lifecycle.step_progress import read_progress
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece

SHOW_AFTER_SECONDS = 0.5
HIDE_AFTER_SECONDS = 1.0
"""Seconds that the line stays without progress."""

POLL_SECONDS = 0.25
MAX_BAR, MIN_BAR = 40, 6
_LABEL = 11
WITH_STEPS = (RunState.PREPARING, RunState.FINALIZING)
"""States of a run that may have progress."""


def progress_pieces(progress: Progress | None, width: int) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces at the left and at the right. Time left and speed are omitted if the width is small."""
    if progress is None:
        return [], []
    label = f" {truncate_middle(safe_text(progress.label), _LABEL):<{_LABEL}}"
    left = [Piece(label, "running")]
    room = width - len(label) - 8
    right = [Piece(f" {progress.amount:<{AMOUNT}}")]
    room -= AMOUNT + 2
    for text, cells in ((progress.speed, RATE), (progress.time_left, LEFT)):
        if room - cells - 1 >= MIN_BAR:
            right.append(Piece(f" {text:>{cells}}", "muted"))
            room -= cells + 1
    cells = min(room, MAX_BAR)
    if cells >= MIN_BAR and progress.fraction is not None:
        left.append(Piece(bar(progress.fraction, cells), "running"))
    left.append(Piece(f" {progress.percent}"))
    return left, [*right, Piece(" ")]


class RunProgressLine(Line):
    """A line with the progress of preparing or finalizing a run, hidden without progress.

    `sending    ███████▌░░░░  63 %   1.2 of 1.9 GB    45 MB/s    15 s left`
    """

    DEFAULT_CSS = "RunProgressLine { display: none; }"

    @dataclass(eq=False)
    class Read(Message):
        """Posted when a thread has read the progress of a run."""

        run_id: str
        progress: Progress | None

    progress: reactive[Progress | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self._timer: Timer | None = None
        self._last = 0.0

    def show_run(self, run: Run | None) -> None:
        if run is None or self._run is None or run.run_id != self._run.run_id:
            self.progress = None
        self._run = run
        has_steps = run is not None and run.state in WITH_STEPS
        if has_steps and self._timer is None:
            self._timer = self.set_interval(POLL_SECONDS, self._poll)
        elif not has_steps and self._timer is not None:
            self._timer.stop()
            self._timer = None
            self.progress = None

    def _poll(self) -> None:
        if self._run is not None:
            self._read(self._run)

    @work(thread=True, exclusive=True, group="progress")
    def _read(self, run: Run) -> None:
        self.post_message(self.Read(run.run_id, read_progress(RunDirectory(run.directory))))

    def on_run_progress_line_read(self, event: Read) -> None:
        event.stop()
        if self._run is None or event.run_id != self._run.run_id or self._timer is None:
            return  # another run is shown, or the step ended while the thread read its progress
        if event.progress is not None and event.progress.seconds >= SHOW_AFTER_SECONDS:
            self._last = time.monotonic()
            self.progress = event.progress
        elif time.monotonic() - self._last > HIDE_AFTER_SECONDS:
            self.progress = None

    def watch_progress(self, progress: Progress | None) -> None:
        self.display = progress is not None

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        return progress_pieces(self.progress, width)
