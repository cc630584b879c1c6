"""Run directories with metrics, without running a script."""

from __future__ import annotations

import json
import os
import struct
import time
from typing import TYPE_CHECKING, Any

from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.tensorboard import masked_crc32c
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def log(run: Path, *records: dict[str, Any]) -> None:
    """Append lines to the run's metrics.jsonl."""
    with (run / "metrics.jsonl").open("a") as file:
        for record in records:
            file.write(json.dumps({"step": None, "time": 1_700_000_000.0, **record}, separators=(",", ":")) + "\n")


def point(name: str, value: object, step: object = None, when: float = 1_700_000_000.0) -> dict[str, Any]:
    """Return a point as the SDK logs it."""
    return {"name": name, "step": step, "value": value, "time": when}


def points(run: Path, *found: dict[str, Any]) -> None:
    """Append points to the run's metrics.jsonl."""
    write(run / "metrics.jsonl", "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in found), append=True)


def write(path: Path, text: str | bytes, *, append: bool = False) -> None:
    """Write a file and create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab" if append else "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def end(run: Path, state: str = "completed") -> None:
    """Record the end of a run."""
    directory = RunDirectory(str(run))
    directory.append_event("state", state="running")
    directory.append_event("state", state=state, reason="", final=True, end=time.time(), exit_code=0)


def read(run: Path, **options: bool) -> RunMetrics:
    """Read the run's metrics."""
    metrics = RunMetrics(str(run))
    metrics.refresh(**options)
    return metrics


def curve(metrics: RunMetrics, name: str) -> list[tuple[float, float]]:
    """Return the steps and values of a metric."""
    series = metrics.series(name)
    return list(zip(series.steps, series.values, strict=True))


def lasts(metrics: RunMetrics) -> dict[str, object]:
    """Return the last value of every metric."""
    return {name: found.last for name, found in metrics.summary().items()}


# Event files


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def field(number: int, content: bytes) -> bytes:
    """Return a bytes field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(data: bytes) -> bytes:
    """Return a record of an event file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def event(tag: str, value: float, step: int, when: float = 1_700_000_000.0) -> bytes:
    """Return an event with one number."""
    number = varint(2 << 3 | 5) + struct.pack("<f", value)
    return values_event([field(1, tag.encode()) + number], step, when)


def values_event(values: Iterable[bytes], step: int, when: float = 1_700_000_000.0) -> bytes:
    """Return an event with several encoded values."""
    summary = b"".join(field(1, value) for value in values)
    return record(varint(1 << 3 | 1) + struct.pack("<d", when) + varint(2 << 3) + varint(step) + field(5, summary))


def events(tag: str, values: Sequence[float]) -> bytes:
    """Events of a curve."""
    return b"".join(event(tag, value, step) for step, value in enumerate(values))


def age(path: Path, seconds: float = -100.0) -> None:
    """Set the mtime of a file, but not its ctime."""
    moment = time.time() + seconds
    os.utime(path, (moment, moment))
