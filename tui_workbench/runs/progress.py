"""What a target tells about a run, written into the run's directory.

Steps with their times, a log of the preparation, and the time in which nothing is known because the target cannot be
reached.
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.progress import Progress as LongProgress
    from tui_workbench.runs.rundir import RunDirectory

PREPARATION_LOG = "preparation.log"

PROGRESS = "progress.json"
"""How far the step is that is at work, while one is that takes long: written anew many times, and gone at its end."""

WRITING_SECONDS = 0.25
"""Between two times that it is written."""


class Progress:
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
        path = self._directory.file(PROGRESS)
        try:
            if progress is None:
                os.unlink(path)
            elif time.monotonic() >= self._next_writing:
                self._next_writing = time.monotonic() + WRITING_SECONDS
                with open(f"{path}.new", "w", encoding="utf-8") as file:
                    json.dump(progress, file)
                os.replace(f"{path}.new", path)
        except OSError:
            return  # nobody needs it to go on

    def line(self, text: str) -> None:
        """Append a line to the preparation's log."""
        data = text.encode("utf-8", "surrogateescape") + b"\n"
        descriptor = os.open(
            self._directory.file(PREPARATION_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

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
        try:
            while self.interrupted >= 0 and os.read(self.interrupted, 64):
                pass
        except BlockingIOError:
            return

    def regained(self) -> None:
        """Record that the run is again in the state that it was in."""
        if self._lost:
            self._lost = self._since = ""
            self._directory.append_event("state", state=self.state)


def read_progress(directory: RunDirectory) -> LongProgress | None:
    """How far the step of the run is that is at work; None when nothing is known of that."""
    from tui_workbench.progress import Progress as LongProgress

    try:
        with open(directory.file(PROGRESS), encoding="utf-8") as file:
            what, done, total, unit, *numbers = json.load(file)
        return LongProgress(str(what), float(done), float(total), str(unit), *map(float, numbers))
    except (OSError, ValueError, TypeError):
        return None
