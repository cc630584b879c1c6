"""Follow any number of runs on this machine by the descriptors of their supervising shells.

A run needs no thread and no request: one call of `poll` waits for the ends of all shells. `LocalTarget.wait` then
returns the outcome of an ended run, because ending the processes that a script left running takes time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tui_workbench.core import system
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Backoff, wait_ready
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.processes import RUN_DIRECTORY_VARIABLE, SLOW_POLL_SECONDS, processes_of_run
from tui_workbench.targets.values import Outcome, Report

LONGEST_POLL_SECONDS = 1.0
"""Longest pause between two looks at a run whose end the system cannot report."""

MISSING_SECONDS = 0.5
"""Time after which a run without the `pid` file of its shell may never have been started."""


class RunProcesses(NamedTuple):
    """The values by which the processes of a run are found."""

    run_id: str
    directory: str  # "" if the user has set the variable with the run's directory

    @classmethod
    def of(cls, spec: RunSpec) -> RunProcesses:
        is_set = RUN_DIRECTORY_VARIABLE in spec.run_configuration.environment_variables
        return cls(spec.run_id, "" if is_set else spec.run_directory)

    def find(self, session: int = 0, since: int = 0) -> set[int]:
        """Return the live processes of the run; see `processes_of_run`."""
        return processes_of_run(self.run_id, session, since, self.directory)


class _Followed:
    """A run that is followed."""

    def __init__(self, spec: RunSpec, report: Report) -> None:
        self.look_at = 0.0  # when to look at the run, even if no descriptor is readable (monotonic clock)
        self.descriptors: list[int] = []  # a descriptor becomes readable when its process ends
        self._directory = spec.run_directory
        self._processes = RunProcesses.of(spec)
        self._report = report
        self._since = time.monotonic()
        self._pauses = Backoff(SLOW_POLL_SECONDS, LONGEST_POLL_SECONDS)

    def has_ended(self) -> bool:
        """Return True if `LocalTarget.wait` would not wait for the script. Otherwise, prepare the next look."""
        shell = supervisor.read_supervisor(self._directory)
        if shell is None:
            is_missing = time.monotonic() > self._since + MISSING_SECONDS
            if is_missing and not self._processes.find() and supervisor.read_supervisor(self._directory) is None:
                return True
            self._watch(())
        elif shell.is_alive:
            self._watch((shell.pid,))
        elif supervisor.read_exit_code(self._directory) is not None or not shell.same_boot:
            return True
        elif left := self._processes.find(since=shell.started_at):
            self._report.orphaned()
            self._watch(left)
        else:
            return True
        return False

    def _watch(self, pids: Iterable[int]) -> None:
        """Wait for the end of one of the processes, or poll if that is impossible."""
        self.close()
        try:
            for pid in pids:
                self.descriptors.append(system.exit_descriptor(pid))
        except OSError:  # it has ended, or there are no such descriptors or too many open files
            self.close()
        self.look_at = math.inf if self.descriptors else time.monotonic() + self._pauses.next()

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class LocalGroup(RunGroup):
    """Follows runs on this machine."""

    def __init__(self) -> None:
        self._runs: dict[str, _Followed] = {}

    def add(self, spec: RunSpec, report: Report) -> None:
        self.remove(spec.run_id)
        report.running()
        self._runs[spec.run_id] = _Followed(spec, report)

    def remove(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            run.close()

    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome | None]:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not (ended := self._take_ended()):
            descriptors = {descriptor: run for run in self._runs.values() for descriptor in run.descriptors}
            due = min((deadline, *(run.look_at for run in self._runs.values())))
            pause = None if math.isinf(due) else max(0.0, due - time.monotonic())
            ready = wait_ready([*descriptors, *([interrupted] if interrupted >= 0 else [])], timeout=pause)
            for descriptor in ready & descriptors.keys():
                descriptors[descriptor].look_at = 0.0
            if interrupted in ready or time.monotonic() >= deadline:
                break
        return dict.fromkeys(ended)

    def _take_ended(self) -> list[str]:
        """Return the IDs of the runs that have ended, and stop following them."""
        now = time.monotonic()
        ended = [run_id for run_id, run in self._runs.items() if run.look_at <= now and run.has_ended()]
        for run_id in ended:
            self.remove(run_id)
        return ended

    def close(self) -> None:
        for run_id in list(self._runs):
            self.remove(run_id)
