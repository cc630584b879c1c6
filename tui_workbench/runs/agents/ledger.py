"""The runs that agents have started in the last 24 hours, in all projects, with their time and GPUs.

The file `agents/runs.json` in the user's state directory lists these runs. A process holds `exclusive` while it
compares a run with the limits, submits the run and adds it to the list. Concurrent submissions therefore cannot exceed
a limit together.

Agents may be able to write the files of a run, so these files free nothing: a run counts as active until a process of
the workbench has noted its end in `runs.store.agent_runs`, or until its time is over.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import ConfigurationError, storage_errors
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.core.json_values import check_type
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.store.rundir import RunDirectory

DAY = 24 * 3600
FILE = "runs.json"


class Use(NamedTuple):
    """The resources that an agent's run uses: `gpus` GPUs for at most `minutes`."""

    agent: str
    at: float  # time of the submission
    minutes: int
    gpus: int
    run: str = ""  # its directory; "" until it was submitted, and if the submitting process was killed
    delay: int = 0  # total time between the attempts of `Retry`, in seconds
    is_active: bool = True
    hours: float = 0.0  # measured if the run has ended, otherwise its maximum
    started: float = 0.0  # when its script started; 0 if it has not
    has_ended: bool = False
    is_waiting: bool = False  # in the queue or being prepared

    @property
    def counts(self) -> bool:
        """True while the run counts toward the limits of a day."""
        return self.at > time.time() - DAY or (self.is_active and bool(self.run))

    @property
    def deadline(self) -> float:
        """The time at which the run must have ended."""
        return (self.started or self.at) + 60 * self.minutes + self.delay


def agents_directory() -> str:
    """Return the folder of the state of agents, which may not exist."""
    return os.path.join(user_state_directory(), "agents")


def exclusive() -> AbstractContextManager[None]:
    """Return a context manager that holds the lock of the list and of the approvals. Raises StorageError."""
    return locks.lock_file(os.path.join(agents_directory(), "lock"))


def read_uses() -> list[Use]:
    """Return the runs that count toward the limits. Raises StorageError, and ConfigurationError for an invalid file."""
    path = os.path.join(agents_directory(), FILE)
    with storage_errors("read", path):
        try:
            uses = [_now(use) for use in check_type(tuple[Use, ...], load_json(path), "")]
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise ConfigurationError(
                "this file does not contain a list of runs of agents",
                remedy="Remove the file. The runs that it listed then no longer count toward the limits.",
                file=path,
            ) from error
    return [use for use in uses if use.counts]


def write_uses(uses: Sequence[Use]) -> None:
    """Write the list. The caller holds `exclusive`. Raises StorageError."""
    path = os.path.join(agents_directory(), FILE)
    with storage_errors("write", path):
        os.makedirs(agents_directory(), mode=0o700, exist_ok=True)
        kept = ("agent", "at", "minutes", "gpus", "run", "delay")
        data = [{name: getattr(use, name) for name in kept} for use in uses]
        write_atomically(path, (json.dumps(data, indent=2) + "\n").encode(), mode=0o600)
    agent_runs.keep_only(use.run for use in uses)


def exists() -> bool:
    """Return True if an agent has submitted a run."""
    return os.path.exists(os.path.join(agents_directory(), FILE))


def _now(use: Use) -> Use:
    """Return the use with the current state of its run. A run whose end is not known counts with its maximum."""
    longest = use.minutes / 60
    times = agent_runs.times_of(use.run) if use.run else agent_runs.Times()
    use = use._replace(started=times.started)
    if times.ended:
        # The end may have been noted late, for example because its machine was not reachable.
        return use._replace(is_active=False, has_ended=True, hours=min(times.hours, longest))
    run = RunDirectory(use.run)
    is_waiting = bool(use.run) and not times.started and run.is_own and not run.status().end
    is_active = is_waiting or time.time() < use.deadline
    return use._replace(is_active=is_active, hours=longest, is_waiting=is_waiting)
