"""Read the events of a run.

`events.jsonl` only grows, by one event per line. A line whose values do not have the types in `_TYPES` is not an event
of the workbench: it is skipped and reported, so that readers of events need no checks.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from tui_workbench.core.errors import storage_error
from tui_workbench.core.files import read_below
from tui_workbench.core.json_values import check_type, parse_json, shown
from tui_workbench.runs.store.status import END_OF_TIME

EVENTS = "events.jsonl"
LARGEST_EVENTS = 8 << 20  # bytes; each lost connection adds two short lines
MOST_UNREADABLE = 1000  # maximum number of invalid lines; a file with more is not from the workbench

_TYPES: dict[str, Any] = {
    "event": str, "time": float, "up": float, "boot": str, "state": str, "reason": str | None, "cause": str | None,
    "exit_code": int | None, "error_code": int, "end": float, "final": bool, "step": str, "status": str,
    "seconds": float, "number": int, "start": float, "due": float, "ended": float, "anew": bool, "reached": bool,
    "text": str, "kept": tuple[str, ...],
}  # fmt: skip
"""The types of the values of events, by key."""

_TIMES = {"time", "start", "end", "due", "ended"}


class Events(NamedTuple):
    """The valid events of a run in order, and why others were skipped, or ""."""

    events: list[dict[str, Any]]
    problem: str = ""


def read_events(directory: str) -> Events:
    """Read the events of the run at `directory`. An incomplete last line is ignored."""
    try:
        data = read_below(directory, EVENTS, LARGEST_EVENTS + 1)
    except FileNotFoundError:
        return Events([])
    except OSError as error:
        return Events([], storage_error("read", "", error).message)
    problem = f"it is larger than {LARGEST_EVENTS >> 20} MiB" if len(data) > LARGEST_EVENTS else ""
    events: list[dict[str, Any]] = []
    skipped = 0
    for number, line in enumerate(io.BytesIO(data[:LARGEST_EVENTS]), 1):
        if not line.endswith(b"\n"):
            break
        try:
            events.append(_event(line))
        except ValueError as error:
            problem = problem or f"line {number} is not an event: {error}"
            skipped += 1
            if skipped > MOST_UNREADABLE:
                break
    return Events(events, problem)


def _event(line: bytes) -> dict[str, Any]:
    """Parse a line. Raises ValueError."""
    event = parse_json(line)
    if not isinstance(event, dict) or "event" not in event:
        raise ValueError("it has no `event`")
    for key, value in event.items():
        if key in _TYPES:
            check_type(_TYPES[key], value, key)
        if key in _TIMES and not abs(value) < END_OF_TIME:
            raise ValueError(f"`{key}` is {shown(value)}, expected a time")
    return event
