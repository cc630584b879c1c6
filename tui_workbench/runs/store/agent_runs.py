"""The registry of the runs that agents submitted, in the user's state directory.

The limits for agents must not depend on files of a project, which agents may be able to write. An entry therefore has
everything that is needed to end the run: its specification, when its script started, and when it ended. Only processes
of the workbench write entries. A run that an agent did not submit has no entry.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import load_json, write_below
from tui_workbench.core.json_values import read_as
from tui_workbench.core.model import Plan, RunSpec
from tui_workbench.runs.store.record import Record, record_from_json, record_to_json

_RECORD, _TIMES = ".json", ".times"


class Times(NamedTuple):
    """When the script of a run started and ended, in seconds since the epoch. 0 means not yet."""

    started: float = 0.0
    ended: float = 0.0
    hours: float = 0.0  # the duration of the run when it ended, with earlier starts


def add(spec: RunSpec, agent: str) -> None:
    """Add the entry of a run that is being submitted. Raises StorageError."""
    plan = Plan(spec.target.name, spec.target.type, "", ())
    record = Record(spec.run_id, 0, time.time(), "", spec, plan, "", "none", agent=agent)
    data = json.dumps(record_to_json(record)).encode()
    with storage_errors("write", _path(spec.run_directory, _RECORD)):
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        write_below(folder(), _name(spec.run_directory, _RECORD), data)


def find(run_directory: str) -> RunSpec | None:
    """Return the specification of a run, or None if no agent submitted it."""
    try:
        return record_from_json(load_json(_path(run_directory, _RECORD)), run_directory).spec
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def times_of(run_directory: str) -> Times:
    """Return when a run started and ended, as far as it is known."""
    try:
        return read_as(Times, load_json(_path(run_directory, _TIMES)))
    except (OSError, ValueError):
        return Times()


def note_start(run_directory: str) -> None:
    """Note that the script of a run has started. Only the first start counts, until the run has ended."""
    times = times_of(run_directory)
    if not times.started or times.ended:
        _write(run_directory, Times(time.time(), 0.0, times.hours))


def note_end(run_directory: str) -> None:
    """Note that a run has ended, and that its processes have ended too."""
    times, now = times_of(run_directory), time.time()
    if not times.ended:
        took = max(0.0, now - times.started) / 3600 if times.started else 0.0
        _write(run_directory, Times(times.started, now, times.hours + took))


def keep_only(run_directories: Iterable[str]) -> None:
    """Remove the entries of all other runs."""
    kept = {_name(run_directory, suffix) for run_directory in run_directories for suffix in (_RECORD, _TIMES)}
    with contextlib.suppress(OSError):
        for name in os.listdir(folder()):
            if name.endswith((_RECORD, _TIMES)) and name not in kept:
                os.unlink(os.path.join(folder(), name))


def _write(run_directory: str, times: Times) -> None:
    # If the file cannot be written, the run counts with its maximum duration.
    with contextlib.suppress(OSError):
        if os.path.exists(_path(run_directory, _RECORD)):
            write_below(folder(), _name(run_directory, _TIMES), json.dumps(times._asdict()).encode())


def folder() -> str:
    """Return the folder of the entries."""
    return os.path.join(user_state_directory(), "agents", "runs")


def _path(run_directory: str, suffix: str) -> str:
    return os.path.join(folder(), _name(run_directory, suffix))


def _name(run_directory: str, suffix: str) -> str:
    digest = blake2b(os.fsencode(run_directory), digest_size=8).hexdigest()
    return f"{os.path.basename(run_directory)}.{digest}{suffix}"
