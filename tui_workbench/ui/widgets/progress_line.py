"""How far something is, in a line: what, a bar, how much of it is done, how fast, how long it may still take.

The invariants: every part keeps its place while the numbers change; what is over at once never shows a bar; a step that
follows at once takes the line over without its going away in between.
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

PATIENCE = 0.5
"""Seconds before a bar is shown."""

LINGERING = 1.0
"""Seconds that the line stays when nothing is told any more."""

LOOK_SECONDS = 0.25
LONGEST_BAR, SHORTEST_BAR = 40, 6
_LABEL = 11
WITH_STEPS = (RunState.PREPARING, RunState.FINALIZING)
"""States in which a run may tell how far it is."""


def progress_pieces(progress: Progress | None, width: int) -> tuple[list[Piece], list[Piece]]:
    """Left what and how far, right the numbers, in so many cells; time left and speed give way first."""
    if progress is None:
        return [], []
    what = f" {truncate_middle(safe_text(progress.label), _LABEL):<{_LABEL}}"
    left = [Piece(what, "running")]
    room = width - len(what) - 8
    right = [Piece(f" {progress.amount:<{AMOUNT}}")]
    room -= AMOUNT + 2
    for text, cells in ((progress.speed, RATE), (progress.time_left, LEFT)):
        if room - cells - 1 >= SHORTEST_BAR:
            right.append(Piece(f" {text:>{cells}}", "muted"))
            room -= cells + 1
    cells = min(room, LONGEST_BAR)
    if cells >= SHORTEST_BAR and progress.fraction is not None:
        left.append(Piece(bar(progress.fraction, cells), "running"))
    left.append(Piece(f" {progress.percent}"))
    return left, [*right, Piece(" ")]


class RunProgressLine(Line):
    """How far a run's preparation is, or bringing back what it made; there only while there is something to tell.

    `sending    ███████▌░░░░  63 %   1.2 of 1.9 GB    45 MB/s    15 s left`
    """

    DEFAULT_CSS = "RunProgressLine { display: none; }"

    @dataclass(eq=False)
    class Read(Message):
        """A thread brought how far a run is."""

        run_id: str
        progress: Progress | None

    progress: reactive[Progress | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self._run: Run | None = None
        self._timer: Timer | None = None
        self._last = 0.0

    def show_run(self, run: Run | None) -> None:
        """The run that is looked at."""
        if run is None or self._run is None or run.run_id != self._run.run_id:
            self.progress = None
        self._run = run
        wanted = run is not None and run.state in WITH_STEPS
        if wanted and self._timer is None:
            self._timer = self.set_interval(LOOK_SECONDS, self._look)
        elif not wanted and self._timer is not None:
            self._timer.stop()
            self._timer = None
            self.progress = None

    def _look(self) -> None:
        if self._run is not None:
            self._read(self._run)

    @work(thread=True, exclusive=True, group="progress")
    def _read(self, run: Run) -> None:
        self.post_message(self.Read(run.run_id, read_progress(RunDirectory(run.directory))))

    def on_run_progress_line_read(self, event: Read) -> None:
        event.stop()
        if self._run is None or event.run_id != self._run.run_id or self._timer is None:
            return
        if event.progress is not None and event.progress.seconds >= PATIENCE:
            self._last = time.monotonic()
            self.progress = event.progress
        elif time.monotonic() - self._last > LINGERING:
            self.progress = None

    def watch_progress(self, progress: Progress | None) -> None:
        self.display = progress is not None

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        return progress_pieces(self.progress, width)
