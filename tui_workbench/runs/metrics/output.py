"""Read the metrics in the output of a run. `progress` parses its lines. A project can add patterns (see `rules`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from tui_workbench.runs.metrics.progress import ProgressLines
from tui_workbench.runs.metrics.rules import Rules
from tui_workbench.runs.metrics.tail import Reader
from tui_workbench.runs.metrics.values import OUTPUT, LineMetric
from tui_workbench.runs.store.status import Attempt

MAYBE_METRIC = re.compile(
    rb"[:=]\s*[\"']?[-+.]?(?:\d|nan|inf)|[A-Za-z@\d]{2} +[-+.]?\d*\.\d|epoch|step|iter|loss|acc|score", re.IGNORECASE
)
"""A quick test. Output without metrics rarely matches."""

LIMIT = 8 << 20
"""Maximum number of new bytes that one refresh reads, which takes two seconds if each line contains a metric.

If there are more, half of this number is read from their start and half from their end. The bytes in between are
counted.
"""

REST = 1 << 20  # LIMIT for a reader that has followed the log, because the end of the run waits for its last read
PIECE = 128 << 10  # number of bytes that `follow` reads at once, which takes 30 ms

MOST_POINTS = 1_000_000
"""Maximum number of points of a log (24 MB). If there are more, the curves are reduced to their extremes."""


class Output(Reader):
    """The metrics in an output log."""

    source = OUTPUT

    def __init__(self, path: str, rules: Rules, *, at_most: int = 0) -> None:
        super().__init__(path, at_most=at_most or LIMIT)
        self._rules = rules
        self._progress = ProgressLines()
        self._attempts: Sequence[Attempt] = ()
        self._begun = 0  # number of attempts that have begun in the part of the log that was read

    def set_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Set the attempts after the first. Call this before reading, because each attempt is a session."""
        self._attempts = attempts
        if self._begun < len(attempts) and attempts[self._begun].start < self.tail.offset <= LIMIT:
            # The beginning of this attempt was read before its event was known, such as when Slurm requeues a job.
            self.tail.rewind()
            self.reset()

    @property
    def is_long(self) -> bool:
        """True if a new reader would skip a part of the log that this reader has read."""
        return self.tail.offset > LIMIT

    def refresh(self, *, ended: bool = False) -> bool:
        # The lines of a progress bar end with a carriage return.
        has_new_data = self.read(self.tail.blocks(ends=b"\r\n", ended=ended))
        if ended and self._rules.output:
            self._add(self._progress.end())
        return has_new_data

    def follow(self) -> bool:
        """Read the next piece of a growing log. Return False if less than a piece is unread."""
        self.tail.at_most = REST
        return self.tail.unread >= PIECE and self.read(self.tail.blocks(piece=PIECE, ends=b"\r\n"))

    def reset(self) -> None:
        super().reset()
        self._progress = ProgressLines()
        self._begun = 0

    def parse(self, block: bytes) -> None:
        end = self.tail.offset
        while self._begun < len(self._attempts) and self._attempts[self._begun].start < end:
            attempt = self._attempts[self._begun]
            length = max(0, attempt.start - (end - len(block)))  # of the output of the previous attempt
            self._parse(block[:length])
            block = block[length:]
            self._begun += 1
            if self._rules.output:
                self._add(self._progress.end())
            self.columns.begin_session(attempt=attempt.number)
            self._progress = self._progress.restarted()
        self._parse(block)

    def _parse(self, block: bytes) -> None:
        if self._rules.is_default and not MAYBE_METRIC.search(block):
            return
        for line in block.split(b"\n"):
            if _SPARK_LOG.match(line):
                continue
            states = [state for state in line.split(b"\r") if state]
            for state in states:
                self._line(state, refreshed=len(states) > 1)
        if self.columns.points > MOST_POINTS:
            self.columns.thin()

    def _line(self, line: bytes, *, refreshed: bool) -> None:
        if line.startswith(b"[rank"):
            # The ranks of a run with torchrun print the same metrics, so only rank 0 is read.
            rank, _, line = line.partition(b"]: ")
            if rank != b"[rank0":
                return
        by_rules = list(self._rules.metrics(line))
        by_default = self._progress.metrics(line, refreshed=refreshed) if self._rules.output else ()
        names = {metric.name for metric in by_rules}
        self._add((*by_rules, *(metric for metric in by_default if metric.name not in names)))

    def _add(self, metrics: Iterable[LineMetric]) -> None:
        for metric in metrics:
            self.columns.add(metric.name, metric.step, metric.value, math.nan, again=metric.refreshed)


_SPARK_LOG = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:TRACE|DEBUG|INFO|WARN|ERROR) ")
"""The beginning of a line of Spark's log, such as `26/01/31 12:00:00 INFO DAGScheduler: ...`."""
