"""Decide whether a run is stalled: it holds memory of a GPU, but none of its files has changed for a long time.

Only time with samples counts, so a suspended machine, a lost connection or a changed clock does not make a run stalled.
A silence is long if it is longer than the earlier pauses of the same run. Only pauses in which the run held memory of a
GPU count, unlike the pauses of a download before the training. If a run has had few changes, or changes only in its
first minutes, its mean interval is unknown, and only a silence of LONGEST_SILENCE is long.
"""

from __future__ import annotations

from typing import Any

SHORTEST_STALL = 900.0
"""Shortest silence of a stalled run, in seconds. Compilations and evaluations are often silent for some minutes."""

LONGEST_SILENCE = 6 * 3600.0
"""Silence in seconds after which a run whose mean interval is unknown counts as stalled."""

LEARN_CHANGES, LEARN_SECONDS = 5, SHORTEST_STALL
"""The mean interval is known after this number of changes, if their pauses add up to this number of seconds."""

ABSENT_SECONDS = 10.0
"""Seconds without memory of a GPU after which a run no longer counts as using it.

A driver may omit a process from a few samples.
"""

_OF_LONGEST, _OF_SECOND = 1.5, 3.0


class Progress:
    """The changes of a run's files. Only seconds in which the run held memory of a GPU are counted."""

    def __init__(self) -> None:
        self.quiet = 0.0  # since the last change
        self.changes = 0
        self.moving = 0.0  # the sum of all pauses between changes
        self.longest = 0.0  # the longest pause
        self.second = 0.0  # the second longest pause
        self.load: float | None = None  # % utilization of the busiest of its GPUs when it last held memory
        self.absent = 0.0  # seconds since the run last held memory of a GPU
        self.last: float | None = None  # `quiet` of the last sample; None if the next sample begins a new silence

    def add(self, quiet: float | None, passed: float, load: float | None, *, is_held: bool) -> None:
        """Add a sample, which represents `passed` seconds. `is_held` means that the run holds memory of a GPU.

        `quiet` is the number of seconds since the last change of the files. If it is None, the silence does not grow,
        and the next sample with a value begins a new silence.
        """
        self.absent = 0.0 if is_held else self.absent + passed
        if quiet is None or self.absent >= ABSENT_SECONDS:
            self.quiet = 0.0 if quiet is not None else self.quiet
            self.last = None
            return
        if self.last is None:
            self.quiet = 0.0
        elif quiet == 0 or quiet < self.last:
            self._change(self.quiet + passed)
        else:
            self.quiet += passed
        self.quiet, self.last = min(self.quiet, quiet), quiet
        self.load = load if is_held else self.load

    def begin_attempt(self) -> None:
        """Forget the silence before another attempt of the run."""
        self.quiet, self.absent, self.last = 0.0, 0.0, None

    def _change(self, pause: float) -> None:
        self.quiet = 0.0
        self.changes += 1
        self.moving += pause
        if pause > self.longest:
            self.longest, self.second = pause, self.longest
        else:
            self.second = max(self.second, pause)

    @property
    def has_rhythm(self) -> bool:
        return self.changes >= LEARN_CHANGES and self.moving >= LEARN_SECONDS

    @property
    def rhythm(self) -> float:
        """The mean interval between two changes in seconds; 0.0 without changes."""
        return self.moving / self.changes if self.changes else 0.0

    @property
    def limit(self) -> float:
        """Silence in seconds after which the run counts as stalled."""
        # A long pause may occur only once, such as a compilation. A pause that has occurred twice may occur again.
        shortest = SHORTEST_STALL if self.has_rhythm else LONGEST_SILENCE
        return max(shortest, _OF_LONGEST * self.longest, _OF_SECOND * self.second)

    def is_stalled(self, minutes: int = 0) -> bool:
        """Return True if the silence has reached `limit`, or the limit of `minutes`; 0 means no limit in minutes."""
        return self.quiet >= (min(self.limit, 60.0 * minutes) if minutes else self.limit)

    def to_json(self) -> dict[str, Any]:
        return {name: round(value, 2) if isinstance(value, float) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """Read the output of `to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        progress = cls()
        progress.quiet, progress.moving, progress.longest, progress.second, progress.absent = (
            float(values[name]) for name in ("quiet", "moving", "longest", "second", "absent")
        )
        progress.changes = int(values["changes"])
        progress.load, progress.last = (
            None if values[name] is None else float(values[name]) for name in ("load", "last")
        )
        return progress
