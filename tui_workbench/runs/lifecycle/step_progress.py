"""What a target tells about a run, written into the run's directory, and what an active run does according to that.

Steps with their times, a log of the preparation, and the time in which nothing is known because the target cannot be
reached.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from typing import Any

from tui_workbench.core.files import append_below, load_json, unlink_below, write_below
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.progress import Progress as LongProgress
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.base.values import Report

PREPARATION_LOG = "preparation.log"

PROGRESS = "progress.json"
"""How far the step is that is at work, while one is that takes long: written anew many times, and gone at its end."""

ORPHANED = "the supervising shell was killed: the script goes on, and its exit code will not be known"
"""Reason of a run whose script goes on without the shell that would have noted its end."""

WRITING_SECONDS = 0.25
"""Between two times that it is written."""


class Progress(Report):
    """A target's report, for the controller of one run."""

    def __init__(self, directory: RunDirectory, interrupted: int) -> None:
        self.interrupted = interrupted
        self._directory = directory
        self._begun: dict[str, float] = {}
        status = directory.status()
        self._lost = status.reason if status.state == RunState.UNKNOWN else ""
        self._since = ""
        self.state = RunState.RUNNING if "start" in status.done else RunState.PREPARING
        """What the run is doing when its target can be reached."""
        self._next_writing = 0.0

    def enter(self, state: str) -> None:
        """The run goes on to another state."""
        self.state = state
        self._lost = ""
        self._directory.append_event("state", state=state)

    def begin(self, step: str, title: str) -> None:
        """Note the moment; the title, if there is one, goes into the preparation's log."""
        self._begun[step] = time.monotonic()
        self._directory.append_event("step", step=step, status="begun")
        if title:
            self.line(title)

    def done(self, step: str, **facts: Any) -> None:
        """Record a step as complete, with its duration."""
        seconds = round(time.monotonic() - self._begun.pop(step, time.monotonic()), 6)
        self._directory.append_event("step", step=step, status="done", seconds=seconds, **facts)

    def show(self, progress: LongProgress | None) -> None:
        """Write down how far a step is, for whoever looks; it is over when there is nothing to tell."""
        with contextlib.suppress(OSError):  # nobody needs it to go on
            if progress is None:
                unlink_below(self._directory.path, PROGRESS)
            elif time.monotonic() >= self._next_writing:
                self._next_writing = time.monotonic() + WRITING_SECONDS
                write_below(self._directory.path, PROGRESS, json.dumps(progress._asdict()).encode())

    def line(self, text: str) -> None:
        """Append a line to the preparation's log."""
        append_below(self._directory.path, PREPARATION_LOG, text.encode("utf-8", "surrogateescape") + b"\n")

    def lost(self, reason: str) -> None:
        """Record that nothing is known any more, with the moment since when; once for each reason."""
        if reason == self._lost:
            return
        self._since = self._since or time.strftime("%H:%M:%S")
        self._lost = reason
        text = f"out of reach since {self._since}: {reason}"
        self._directory.append_event("state", state=RunState.UNKNOWN, reason=text)

    def drain(self) -> None:
        """Take note that `interrupted` has become readable, so that it can again."""
        with contextlib.suppress(BlockingIOError):
            while self.interrupted >= 0 and os.read(self.interrupted, 64):
                pass

    def orphaned(self) -> None:
        """Record, once, that the run goes on and its exit code will not be known."""
        if self._directory.status().reason != ORPHANED:
            self._directory.append_event("state", state=self.state, reason=ORPHANED)

    def regained(self) -> None:
        """Record that the run is again in the state that it was in."""
        if self._lost:
            self._lost = self._since = ""
            self._directory.append_event("state", state=self.state)


def read_progress(directory: RunDirectory) -> LongProgress | None:
    """How far the step of the run is that is at work; None when nothing is known of that."""
    try:
        stored = load_json(directory.file(PROGRESS))
        numbers = {name: float(stored[name]) for name in ("done", "total", "started", "rate", "seconds")}
        return LongProgress(label=str(stored.get("label") or stored["what"]), unit=str(stored["unit"]), **numbers)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def current_step(directory: RunDirectory) -> str:
    """The name of the innermost step at work; "" when none is, or none was recorded."""
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
    """The current step of each run that is active on a target where there are steps, by run id.

    With how far it is where that is known: `sync`, `sync 63 %`.
    """
    found: dict[str, str] = {}
    for run in runs:
        directory = RunDirectory(run.directory)
        if run.is_active and (step := current_step(directory)):
            progress = read_progress(directory)
            found[run.run_id] = f"{step} {progress.percent.strip()}".rstrip() if progress is not None else step
    return found
