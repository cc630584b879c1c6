"""How far something is, on stderr: a line that stays one line in a terminal, a line now and then anywhere else.

The invariants: stdout is not touched; what is printed meanwhile stands above the bar, whole; nothing of the bar is left
in the terminal when it ends; work that is over at once never shows one.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache

from tui_workbench.core.plaintext import columns_of, visible, write_controls
from tui_workbench.core.progress import AMOUNT, LEFT, RATE, Progress, bar

PATIENCE = 0.5
"""Seconds before anything is shown."""

DRAWING_SECONDS = 0.1
LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""

LONGEST_BAR, SHORTEST_BAR = 30, 8
_LABEL = 12


class ProgressBar:
    """Shows progress; what else is printed meanwhile goes through `line`."""

    def __init__(self) -> None:
        self._is_terminal = _is_terminal()
        self._drawn = ""
        self._next = 0.0

    def show(self, progress: Progress | None) -> None:
        """Show how far it is; None when it is over."""
        now = time.monotonic()
        if progress is None:
            self.clear()
            self._next = 0.0
        elif self._is_terminal and progress.seconds >= PATIENCE and now >= self._next:
            self._next = now + DRAWING_SECONDS
            text = drawn(progress, columns_of(sys.stderr, 80) - 1)
            if text != self._drawn:
                self._drawn = text
                _write(f"\r{text}\x1b[K")
        elif not self._is_terminal and progress.seconds >= LINE_SECONDS and now >= self._next:
            self._next = now + LINE_SECONDS
            _write(f"{visible(progress.summary)}\n")

    def be_plain(self) -> None:
        """Show lines now and then in a terminal, too: they are to be listened to."""
        self.clear()
        self._is_terminal = False

    def line(self, text: str) -> None:
        """Print a line of any origin above the bar."""
        self.clear()
        _write(f"{visible(text)}\n")

    def clear(self) -> None:
        """Take the bar away."""
        if self._drawn:
            self._drawn = ""
            _write("\r\x1b[K")


@cache
def shared() -> ProgressBar:
    """The bar of this process: there is one terminal."""
    return ProgressBar()


def drawn(progress: Progress, width: int) -> str:
    """The progress in at most `width` columns; what matters least gives way first."""
    what = f"{visible(progress.label):<{_LABEL}}"
    rest = f"{progress.percent}  {progress.columns()}".rstrip()
    room = width - _LABEL - 7 - AMOUNT - RATE - LEFT - 6
    if progress.fraction is None or room < SHORTEST_BAR:
        return f"{what} {rest}"[:width]
    is_plain = not (sys.stderr.encoding or "").lower().replace("-", "").startswith("utf8")
    cells = min(room, LONGEST_BAR)
    shape = bar(progress.fraction, cells, full="#", empty="-", parts="") if is_plain else bar(progress.fraction, cells)
    return f"{what} {shape} {rest}"[:width]


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _write(text: str) -> None:
    sys.stdout.flush()
    write_controls(sys.stderr, text)
    sys.stderr.flush()
