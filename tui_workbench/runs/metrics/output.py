"""`output.log` of a run as a source of metrics."""

from __future__ import annotations

import math
import re

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.columns import Columns
from tui_workbench.runs.metrics.tail import Tail
from tui_workbench.runs.metrics.values import OUTPUT

if TYPE_CHECKING:
    from tui_workbench.runs.metrics.progress import Progress
    from tui_workbench.runs.metrics.rules import Rules

PROGRESS = re.compile(
    rb"[:=]\s*[\"']?[-+.]?(?:\d|nan|inf)|[A-Za-z@\d]{2} +[-+.]?\d*\.\d|epoch|step|iter|loss|acc|score", re.IGNORECASE
)
"""What output without a single metric seldom holds: most programs print no such thing."""

LIMIT = 8 << 20
"""Bytes of the log that are looked at, which delays the recorded end of a run by seconds at most."""


class Output:
    """The reader of one log."""

    source = OUTPUT
    unit = ""
    always_labeled = False

    def __init__(self, path: str, rules: Rules, *, at_most: int = 0) -> None:
        self.path = path
        self.columns = Columns()
        self.is_cut = False
        """Whether there is more of it than is looked at."""
        self._rules = rules
        self._tail = Tail(path, at_most=at_most)
        self._is_short = at_most > 0
        self._progress: Progress | None = None

    def refresh(self, *, ended: bool = False) -> bool:
        """Read what is new; True when there was something. Of an ended run the last line counts without its end."""
        something = False
        for chunk in self._tail.chunks():
            if self._tail.began_anew and not something:
                self.columns, self._progress = Columns(), None
            if self._tail.offset - len(chunk) >= LIMIT and not self._is_short:
                self.is_cut = True
                return something
            # A bar ends its lines with a carriage return for hours.
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if (ended and self._tail.at_end) or (not end and len(chunk) >= LIMIT):
                end = len(chunk)
            self._tail.offset -= len(chunk) - end
            something = something or end > 0
            start = 0
            if self._tail.in_part_of_line:
                start = chunk.find(b"\n") + 1
                self._tail.in_part_of_line = not start
            self._take(chunk[start if start or not self._tail.in_part_of_line else end : end])
        return something

    def _take(self, block: bytes) -> None:
        if self._rules.is_usual and not PROGRESS.search(block):
            return
        for line in block.split(b"\n"):
            if b"\r" not in line:
                self._line(line, refreshed=False)
                continue
            states = [state for state in line.split(b"\r") if state]
            for state in states:
                self._line(state, refreshed=len(states) > 1)

    def _line(self, line: bytes, *, refreshed: bool) -> None:
        if line.startswith(b"[rank"):
            # Of the ranks of a run under torchrun, which print the same, the first one counts.
            rank, _, line = line.partition(b"]: ")
            if rank != b"[rank0":
                return
        if self._rules.is_usual:
            for found in self._usual().metrics(line, refreshed=refreshed):
                self.columns.add(found.name, found.step, found.value, math.nan, again=found.refreshed)
            return
        taught = list(self._rules.metrics(line))
        usual = self._usual().metrics(line, refreshed=refreshed) if self._rules.output else ()
        names = {found.name for found in taught}
        for found in (*taught, *(found for found in usual if found.name not in names)):
            self.columns.add(found.name, found.step, found.value, math.nan, again=found.refreshed)

    def _usual(self) -> Progress:
        """What knows the usual lines; to load it takes longer than to read most logs."""
        if self._progress is None:
            from tui_workbench.runs.metrics.progress import Progress

            self._progress = Progress()
        return self._progress
