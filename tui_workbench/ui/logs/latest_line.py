"""The last output line of the selected run, shown while the Log pane is hidden.

A thread reads the end of the file. The file is polled only while the run is active and the widget is visible.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from textual.timer import Timer

from tui_workbench.core.files import read_end
from tui_workbench.core.model import Run
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG, read_progress
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.formatting import is_before_script, run_state, run_title
from tui_workbench.ui.terminal.safetext import safe_line, safe_text, truncate_middle
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.pieces import Piece, width_of
from tui_workbench.ui.widgets.progress_line import SHOW_AFTER_SECONDS, WITH_STEPS

TAIL_BYTES = 4096
POLL_SECONDS = 0.5


class LatestLine(Line):
    """A line with the latest output of a run: `● train.py [7]  epoch 3/5 ...`."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._run: Run | None = None
        self._text = ""
        self._hint = ""
        self._timer: Timer | None = None

    def show_run(self, run: Run | None, *, hint: str = "") -> None:
        """Show the output of this run, or `hint` without a run."""
        if self._run is None or run is None or run.run_id != self._run.run_id:
            self._text = ""
        self._run, self._hint = run, hint
        self.refresh()
        self._watch()

    def on_show(self) -> None:
        self._watch()

    on_hide = on_show

    def _watch(self) -> None:
        seen = self.is_on_screen and self._run is not None
        if seen:
            self._read_tail()
        if seen and self._run is not None and self._run.is_active:
            self._timer = self._timer or self.set_interval(POLL_SECONDS, self._read_tail)
        elif self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _read_tail(self) -> None:
        if self._run is not None:
            ask(self, "latest line", partial(latest_text, self._run), partial(self._show, self._run.run_id))

    def _show(self, run_id: str, text: str) -> None:
        if self._run is not None and run_id == self._run.run_id and text != self._text:
            self._text = text
            self.refresh()

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        if self._run is None:
            return [Piece(f" {safe_text(self._hint)}", "muted")], ()
        look = run_state(self._run)
        title = truncate_middle(run_title(self._run), max(8, width // 3))
        left = [Piece(f" {look.glyph} {look.word} ", look.role), Piece(f"{title}  ", "muted")]
        return [*left, Piece(truncate_middle(self._text, width - width_of(left) - 1))], ()


def latest_text(run: Run) -> str:
    """Return the progress of a run, or the last line of its setup log or output, as safe text. Blocks."""
    progress = read_progress(RunDirectory(run.directory)) if run.state in WITH_STEPS else None
    if progress is not None and progress.seconds >= SHOW_AFTER_SECONDS:
        return safe_text(progress.summary)
    path = os.path.join(run.directory, PREPARATION_LOG) if is_before_script(run) else run.log_path
    return safe_line(last_line(path)).plain.strip()


def last_line(path: str) -> bytes:
    """Return the last nonblank line in the last 4 KiB of a file; b"" if all are blank or on an error. Blocks."""
    try:
        lines = read_end(path, TAIL_BYTES).split(b"\n")
    except OSError:
        return b""
    return next((line for line in reversed(lines) if line.strip()), b"")
