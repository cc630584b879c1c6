"""Follow any number of runs on a machine over SSH with one shell on that machine.

The shell reports which scripts have ended, and the sizes of all logs, whenever they change. New bytes of the logs are
then fetched with one request for all runs. The sizes of the copies on this machine are the only state, so any process
can continue, and no byte is lost or repeated. `RemoteTarget.wait` then returns the outcome of an ended run.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.hosts.copying import MOST_BYTES, Part, append, fetch, missing_parts
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.hosts.supervisor import FOLLOW_RUNS, OUTPUT
from tui_workbench.targets.ssh.background import FollowingProgram, result_of
from tui_workbench.targets.values import Outcome, Report

_Result = TypeVar("_Result")

REQUEST_SECONDS = 0.5
"""Shortest time in seconds between two changes of the runs to follow, because each starts another shell."""

SILENCE_SECONDS = 60.0
"""Time limit in seconds for more output of the shell, which prints a listing every ten seconds."""

RETRY_SECONDS = 2.0
"""Seconds before another attempt to copy bytes that could not be read or written."""

SOON_SECONDS = 1.0
"""Live files that are due within this time are fetched with those that are due now."""

MOST_POLLED = 200
"""Maximum number of runs whose live files are listed by one request, because a command line has a maximum length."""

MOST_LINES, MOST_LINE = 1 << 20, 1 << 16
"""Maximum number of lines in a listing, and of bytes in its last line. Larger listings are invalid."""

_STATE = re.compile(r"= (?P<run>\S+) (?P<state>runs|left|over)")
_SIZE = re.compile(rf" *(?P<size>\d{{1,18}}) (?P<run>[^/]+)/{re.escape(OUTPUT)}")


class _Followed:
    """A run that is followed."""

    def __init__(self, host: Host, spec: RunSpec, report: Report) -> None:
        self.run_id = spec.run_id
        self.directory = spec.run_directory
        self.live: LiveFiles | None = None  # None until the machine has answered
        self.copies_at = 0.0  # earliest time of the next copy (monotonic clock)
        self._host = host
        self._report = report
        self._size = 0  # of the log on the machine
        self._is_behind = False  # the copy may be shorter
        self._state = ""
        self._errors: dict[str, str] = {}  # why this machine cannot write copies: of the log, or of other files

    def take_state(self, state: str) -> None:
        """Process a state of a script that continues: `runs` or `left`."""
        if self.live is None:
            self.live = LiveFiles(self._host, HostLayout(self._host.home()).run(self.run_id), self.directory)
        if self._errors:
            return
        with contextlib.suppress(StorageError):
            self._report.running()
            if state == "left" and self._state != state:
                self._report.orphaned()
            self._state = state

    def live_due(self) -> float:
        """Return when to fetch the other files, such as metrics (monotonic clock)."""
        return time.monotonic() + self.live.timeout if self.live is not None else math.inf

    def take_size(self, size: int) -> None:
        if size != self._size:
            self._size, self._is_behind = size, True
            if self.live is not None:
                self.live.poll_soon()

    def missing(self) -> list[Part]:
        """Return the bytes of the log that the copy lacks."""
        parts = missing_parts(self.run_id, self.directory, {OUTPUT: self._size}) if self._is_behind else []
        self._is_behind = bool(parts)
        return parts

    def take_result(self, files: str, error: str = "") -> None:
        """Process the result of writing the copy of the log or of other files; `error` is "" if it was written."""
        if error:
            self._errors[files] = error
            self.lose(error)
        elif self._errors.pop(files, ""):
            self.take_state(self._state or "runs")

    def lose(self, reason: str) -> None:
        """Report that the state of the run is unknown."""
        if self._state == "left":
            self._state = ""  # report it again
        with contextlib.suppress(StorageError):
            self._report.lost(reason)


class RemoteGroup(RunGroup):
    """Follows the runs of one login on a machine."""

    def __init__(self, host: Host, *, in_containers: bool = False) -> None:
        """With `in_containers`, the end of a run that writes no exit code is not noticed."""
        self._host = host
        self._mode = "containers" if in_containers else ""
        self._shell = FollowingProgram(host, self._command)
        self._runs: dict[str, _Followed] = {}
        self._ended: list[str] = []
        self._rest = b""  # the incomplete last line of the shell's output
        self._lines: list[str] = []  # of the incomplete last listing
        self._listed = ""  # the number of the request to which the listing belongs
        self._heard_at = 0.0  # when the shell was started or has printed something
        self._number = 0  # of the last request
        self._requested: dict[str, _Followed] = {}  # the runs in the last request
        self._has_changed = False  # the runs are not those in the last request
        self._request_at = 0.0  # the earliest time (monotonic clock)
        self._interrupted = self._woken = -1

    def add(self, spec: RunSpec, report: Report) -> None:
        self._runs[spec.run_id] = _Followed(self._host, spec, report)
        self._has_changed = True

    def remove(self, run_id: str) -> None:
        self._has_changed |= self._runs.pop(run_id, None) is not None
        with contextlib.suppress(ValueError):
            self._ended.remove(run_id)

    def wait(self, interrupted: int, timeout: float | None = None, *, woken: int = -1) -> Mapping[str, Outcome | None]:
        """Like `RunGroup.wait`, but also return when the descriptor `woken` becomes readable."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        self._interrupted, self._woken = interrupted, woken
        with contextlib.suppress(Interrupted):
            while not self._ended:
                self._step(deadline)
                if time.monotonic() >= deadline:
                    break
        ended, self._ended = self._ended, []
        return dict.fromkeys(ended)

    def close(self) -> None:
        self._shell.close()

    # -- one round ----------------------------------------------------------------------------------------------------

    def _step(self, deadline: float) -> None:
        """Wait for an event until `deadline`, and process it. Raises Interrupted."""
        if self._runs:
            self._shell.start()
        else:
            self._shell.close()
        descriptors = (self._shell.descriptor, self._interrupted, self._woken)
        watched = [descriptor for descriptor in descriptors if descriptor >= 0]
        pause = max(0.0, min(deadline, self._next_time()) - time.monotonic())
        ready = wait_ready(watched, timeout=None if math.isinf(pause) else pause)
        if {self._interrupted, self._woken} & ready:
            raise Interrupted
        try:
            if self._shell.descriptor in ready:
                self._take_output(self._shell.read())
            self._request()
            if self._shell.is_started and self._runs and time.monotonic() > self._heard_at + SILENCE_SECONDS:
                raise self._shell.lost(f"no answer came for {SILENCE_SECONDS:g} s")
            if self._shell.has_answered:
                self._copy()
                self._poll_live()
        except WorkbenchError as error:
            self._shell.fail()
            for run in self._runs.values():
                run.lose(str(error))

    def _next_time(self) -> float:
        """Return the time of the next action without an event; infinity if none is due."""
        if not self._runs:
            return math.inf
        if not self._shell.is_started:
            return self._shell.start_due
        times = [self._heard_at + SILENCE_SECONDS, *([self._request_at] if self._has_changed else [])]
        if self._shell.has_answered:
            times += [run.live_due() for run in self._runs.values()]
            times += [run.copies_at for run in self._runs.values() if run.missing()]
        return min(times)

    def _call(self, action: Callable[[], _Result]) -> _Result:
        """Return the result of a call that contacts the machine. Raises its errors, and Interrupted."""
        return result_of(action, self._interrupted)

    # -- the shell ----------------------------------------------------------------------------------------------------

    def _command(self) -> Sequence[str]:
        return ["sh", "-c", FOLLOW_RUNS, "sh", HostLayout(self._host.home()).runs, self._mode]

    def _request(self) -> None:
        """Tell the shell which runs to follow, if they have changed. Raises TargetUnreachable."""
        now = time.monotonic()
        if not self._runs or not self._shell.is_started or not self._has_changed or now < self._request_at:
            return
        self._number += 1
        self._requested, self._has_changed, self._request_at = dict(self._runs), False, now + REQUEST_SECONDS
        self._shell.write(os.fsencode(" ".join((str(self._number), *self._runs))) + b"\n")

    def _take_output(self, data: bytes) -> None:
        """Process complete listings in the output of the shell. Raises TargetUnreachable."""
        self._heard_at = time.monotonic()
        if not data:  # the shell was started
            self._rest, self._lines, self._listed = b"", [], ""
            self._has_changed, self._request_at = True, 0.0
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in map(os.fsdecode, lines):
            if line.startswith(": "):
                self._listed, self._lines = line[2:], []
            elif line != ".":
                self._lines.append(line)
            else:
                # Another run with the same ID may have been added since an earlier request.
                if self._listed == str(self._number):
                    self._take_listing(self._lines)
                self._lines = []
        if len(self._rest) > MOST_LINE or len(self._lines) > MOST_LINES:
            raise self._shell.lost("the answer was invalid")

    def _take_listing(self, lines: Sequence[str]) -> None:
        self._shell.accept_answer()
        for line in lines:
            match = _STATE.fullmatch(line) or _SIZE.fullmatch(line)
            run = self._requested.get(match["run"]) if match is not None else None
            if match is None or run is None or self._runs.get(run.run_id) is not run:
                continue
            if match.re is _SIZE:
                run.take_size(int(match["size"]))
            elif match["state"] == "over":
                self.remove(run.run_id)
                self._ended.append(run.run_id)
            else:
                run.take_state(match["state"])

    # -- copies -------------------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        """Copy new bytes of the logs. Raises TargetUnreachable or Interrupted."""
        now = time.monotonic()
        parts = []
        for run in self._runs.values():
            missing = run.missing() if run.copies_at <= now else None
            if missing:
                parts += missing
            elif missing is not None:
                run.take_result("log")  # another process may have written the copy
        if not parts:
            return
        fetched = self._call(lambda: fetch(self._host, parts))
        is_limited = sum(part.size for part in parts) > MOST_BYTES
        copied = {part.run_id: (part, data) for part, data in fetched.items()}  # parts may be the beginnings of `parts`
        for part in parts:
            run, piece = self._runs[part.run_id], copied.get(part.run_id)
            if piece is None and is_limited:
                continue  # the next request fetches it
            try:
                if piece is not None and append(*piece, is_patient=False):
                    run.take_result("log")
                    continue
            except StorageError as error:
                run.take_result("log", str(error))
            # The file has shrunk, another process is copying it, or the copy cannot be written.
            run.copies_at = time.monotonic() + RETRY_SECONDS

    def _poll_live(self) -> None:
        """Fetch new bytes of the other files, such as metrics, if due. Raises TargetUnreachable or Interrupted."""
        soon = time.monotonic() + SOON_SECONDS
        runs = sorted((run for run in self._runs.values() if run.live_due() <= soon), key=_Followed.live_due)
        if not runs or runs[0].live_due() > time.monotonic():
            return
        files = {run: run.live for run in runs[:MOST_POLLED] if run.live is not None}
        errors = self._call(lambda: LiveFiles.poll_together(self._host, [*files.values()]))
        for run, error in zip(files, errors, strict=True):
            run.take_result("other files", str(error or ""))
