"""Progress on stderr: a bar that redraws itself in a terminal, a line every ten seconds elsewhere.

The invariants: nothing is written to stdout; other output appears complete above the bar; the bar is erased at the end;
short tasks show no bar.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache

from tui_workbench.core.plaintext import columns_of, visible, write_controls
from tui_workbench.core.progress import AMOUNT, LEFT, RATE, Progress, bar

MINIMUM_SECONDS = 0.5
"""Minimum duration of a task that shows a bar, in seconds."""

DRAWING_SECONDS = 0.1
LINE_SECONDS = 10.0
"""Seconds between lines where stderr is not a terminal."""

LONGEST_BAR, SHORTEST_BAR = 30, 8
_LABEL = 12


class ProgressBar:
    """A progress bar. While it is visible, other output must be printed with `line`."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._drawn = ""
        self._next = 0.0

    def show(self, progress: Progress | None) -> None:
        """Show progress; None ends the bar."""
        now = time.monotonic()
        if progress is None:
            self.clear()
            self._next = 0.0
        elif self._is_terminal and progress.seconds >= MINIMUM_SECONDS and now >= self._next:
            self._next = now + DRAWING_SECONDS
            text = drawn(progress, columns_of(sys.stderr, 80) - 1)
            if text != self._drawn:
                self._drawn = text
                _write(f"\r{text}\x1b[K")
        elif not self._is_terminal and progress.seconds >= LINE_SECONDS and now >= self._next:
            self._next = now + LINE_SECONDS
            _write(f"{visible(progress.summary)}\n")

    def be_plain(self) -> None:
        """Print lines instead of a bar even in a terminal, for screen readers."""
        self.clear()
        self._is_terminal = False

    def line(self, text: str) -> None:
        """Print an untrusted line above the bar."""
        self.clear()
        _write(f"{visible(text)}\n")

    def clear(self) -> None:
        """Erase the bar."""
        if self._drawn:
            self._drawn = ""
            _write("\r\x1b[K")


@cache
def shared() -> ProgressBar:
    """Return the progress bar of this process."""
    return ProgressBar()


def drawn(progress: Progress, width: int) -> str:
    """Format progress in at most `width` columns, without the bar if there is not enough room."""
    label = f"{visible(progress.label):<{_LABEL}}"
    rest = f"{progress.percent}  {progress.columns()}".rstrip()
    room = width - _LABEL - 7 - AMOUNT - RATE - LEFT - 6
    if progress.fraction is None or room < SHORTEST_BAR:
        return f"{label} {rest}"[:width]
    is_plain = not (sys.stderr.encoding or "").lower().replace("-", "").startswith("utf8")
    cells = min(room, LONGEST_BAR)
    shape = bar(progress.fraction, cells, full="#", empty="-", parts="") if is_plain else bar(progress.fraction, cells)
    return f"{label} {shape} {rest}"[:width]


def _write(text: str) -> None:
    sys.stdout.flush()
    write_controls(sys.stderr, text)
    sys.stderr.flush()
