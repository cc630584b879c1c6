"""Write the progress that a target reports into the run directory, and read the progress of active runs.

Progress consists of steps with durations, a log of the preparation, and times when the target is unreachable.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from tui_workbench.core.causes import ORPHANED, UNREACHABLE, Cause, Causes, kinds_of, plain
from tui_workbench.core.files import append_below, load_json, unlink_below, write_below
from tui_workbench.core.model import ClusterJob, Run, RunState
from tui_workbench.core.progress import Progress as LongProgress
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.store.cluster_job import write_job
from tui_workbench.runs.store.rundir import ATTEMPT, DUE, Attempt, RunDirectory
from tui_workbench.targets.values import Report, Times

PREPARATION_LOG = "preparation.log"

PROGRESS = "progress.json"  # the progress of a long step; often rewritten, and removed when the step ends
WRITING_SECONDS = 0.25  # minimum time between two writes of the progress


class Progress(Report):
    """The report of a target to the controller of a run."""

    def __init__(self, directory: RunDirectory, interrupted: int, started: str = RunState.RUNNING) -> None:
        """`started` is the state after the start of the script and before the call of `running`."""
        self.interrupted = interrupted
        self.on_running: Callable[[], object] | None = None  # called once, after the start of the script
        self._directory = directory
        self._begun: dict[str, float] = {}
        status = directory.status()
        self._lost = status.reason if status.state == RunState.UNKNOWN else ""
        self._since = ""
        self._causes = status.causes if status.state == RunState.QUEUED else ()
        self.state = RunState.PREPARING  # the state of the run while its target is reachable
        if "start" in status.done:
            self.state = RunState.RUNNING if status.attempt_begin is not None else started
        self._next_writing = 0.0

    def enter(self, state: str, causes: Causes = ()) -> None:
        self.state, self._causes = state, causes
        self._lost = self._since = ""
        fields = {"causes": causes} if causes else {}
        if state == RunState.RUNNING:
            agent_runs.note_start(self._directory.path)
        self._directory.append_event("state", state=state, **fields)

    def begin(self, step: str, title: str) -> None:
        """Record the start of a step, and write its title, if any, to the preparation log."""
        self._begun[step] = time.monotonic()
        self._directory.append_event("step", step=step, status="begun")
        if title:
            self.line(title)

    def done(self, step: str, **facts: Any) -> None:
        seconds = round(time.monotonic() - self._begun.pop(step, time.monotonic()), 6)
        self._directory.append_event("step", step=step, status="done", seconds=seconds, **facts)

    def show(self, progress: LongProgress | None) -> None:
        """Write the progress of the current step, or remove the file if `progress` is None."""
        with contextlib.suppress(OSError):  # progress is not essential
            if progress is None:
                unlink_below(self._directory.path, PROGRESS)
            elif time.monotonic() >= self._next_writing:
                self._next_writing = time.monotonic() + WRITING_SECONDS
                write_below(self._directory.path, PROGRESS, json.dumps(progress._asdict()).encode())

    def line(self, text: str) -> None:
        append_below(self._directory.path, PREPARATION_LOG, text.encode("utf-8", "surrogateescape") + b"\n")

    def lost(self, reason: str) -> None:
        """Record that the target is unreachable, once for each reason."""
        if reason == self._lost:
            return
        self._since = self._since or time.strftime("%H:%M:%S")
        self._lost = reason
        cause = Cause(UNREACHABLE, {"since": self._since, "error": reason})
        self._directory.append_event("state", state=RunState.UNKNOWN, causes=(cause,))

    def drain(self) -> None:
        """Read all data from the descriptor `interrupted`."""
        with contextlib.suppress(BlockingIOError):
            while self.interrupted >= 0 and os.read(self.interrupted, 64):
                pass

    def queued(self, reason: str) -> None:
        if self._lost or (self.state, self._causes) != (RunState.QUEUED, plain(reason)):
            self.enter(RunState.QUEUED, plain(reason))

    def job(self, facts: ClusterJob) -> None:
        with contextlib.suppress(OSError):  # not essential
            write_job(self._directory.path, facts)

    def running(self) -> None:
        if self._lost or self.state != RunState.RUNNING:
            self.enter(RunState.RUNNING)
        on_running, self.on_running = self.on_running, None
        if on_running is not None:
            on_running()

    def ran(self, times: Times) -> None:
        self._directory.record_times(times)

    def attempt(self, number: int, start: int, cause: Cause, exit_code: int | None = None) -> None:
        if all(other.number != number for other in self._directory.attempts()):
            attempt = Attempt(number, start, (cause,), exit_code=exit_code)
            event = attempt._asdict()
            del event[DUE]  # the target has started it
            self._directory.append_event(ATTEMPT, **event)
            self.enter(RunState.RUNNING, attempt.note)

    def orphaned(self) -> None:
        """Record once that the exit code of the run will be unknown."""
        if ORPHANED not in kinds_of(self._directory.status().causes):
            self._directory.append_event("state", state=self.state, causes=(Cause(ORPHANED),))

    def regained(self) -> None:
        if self._lost:
            self._lost = self._since = ""
            self.enter(self.state, self._causes if self.state == RunState.QUEUED else ())


def read_progress(directory: RunDirectory) -> LongProgress | None:
    """Return the progress of the current step, or None if it is unknown."""
    try:
        stored = load_json(directory.file(PROGRESS))
        numbers = {name: float(stored[name]) for name in ("done", "total", "started", "rate", "seconds")}
        return LongProgress(label=str(stored.get("label") or stored["what"]), unit=str(stored["unit"]), **numbers)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def current_step(directory: RunDirectory) -> str:
    """Return the active step that began last, or ""."""
    at_work: dict[str, None] = {}
    for event in directory.events():
        if event["event"] != "step":
            continue
        step = str(event.get("step"))
        if event.get("status") == "begun":
            at_work[step] = None
        else:
            at_work.pop(step, None)
    return next(reversed(at_work), "")


def steps_of(runs: Iterable[Run]) -> dict[str, str]:
    """Return the current steps of active runs by run ID, with progress if known: `sync`, `sync 63 %`."""
    steps: dict[str, str] = {}
    for run in runs:
        directory = RunDirectory(run.directory)
        if run.is_active and (step := current_step(directory)):
            progress = read_progress(directory)
            steps[run.run_id] = f"{step} {progress.percent.strip()}".rstrip() if progress is not None else step
    return steps
