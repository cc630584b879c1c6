"""Follow any number of runs in containers of a Docker engine with one connection, which reports the ends of containers.

The states of all containers are also requested after each connection, and regularly, so that no end is missed. On
another machine, a `RemoteGroup` copies the logs and the other files. `DockerTarget.wait` then returns the outcome of an
ended run. The group does not copy the output of containers without a shell, which is in the engine's log.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping

from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Backoff, Interrupted, wait_ready
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.docker.container import container_name
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.docker.engine_events import RUNS, EngineEvents
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.remote.remote_group import RemoteGroup
from tui_workbench.targets.ssh.background import result_of
from tui_workbench.targets.values import Outcome, Report

LIST_SECONDS = 30.0
"""Seconds between two requests for the states of all containers."""

SOON_SECONDS = 0.5
"""Seconds until the states are requested for new runs, and after a connection.

Before, a list might be older than an event that was sent before the group could receive it.
"""

LOG, ENGINE = "log", "engine"

ACTIVE = ("running", "paused", "restarting", "removing")
"""States of containers whose end will be reported."""


class _Followed(Report):
    """A run that is followed. It receives the reports about the copy of its log."""

    def __init__(self, spec: RunSpec, report: Report, *, has_copy: bool) -> None:
        self.run_id = spec.run_id
        self.container = container_name(spec.run_id)
        self._report = report
        # Why a part is not reachable, the more important part first; "" until it has answered.
        self._missing = {LOG: "", ENGINE: ""} if has_copy else {ENGINE: ""}

    def answer(self, part: str) -> None:
        """Report that the run continues, if both the engine and the copy of the log are reachable."""
        self._missing.pop(part, None)
        self._tell()

    def lose(self, part: str, reason: str) -> None:
        """Report that the state of the run is unknown."""
        self._missing[part] = reason
        self._tell()

    def _tell(self) -> None:
        reasons = [self._missing[part] for part in (LOG, ENGINE) if self._missing.get(part)]
        with contextlib.suppress(StorageError):
            if reasons:
                self._report.lost(reasons[0])
            elif not self._missing:
                self._report.running()

    def running(self) -> None:
        self.answer(LOG)

    def lost(self, reason: str) -> None:
        self.lose(LOG, reason)


class DockerGroup(RunGroup):
    """Follows the runs in containers of an engine."""

    def __init__(self, host: Host, connect: Callable[[], Engine]) -> None:
        """`connect` returns a new connection to the engine of the host."""
        self._connect = connect
        self._logs = None if host.is_local else RemoteGroup(host, in_containers=True)
        self._runs: dict[str, _Followed] = {}
        self._ended: list[str] = []
        self._events: EngineEvents | None = None
        self._is_connected = False
        self._connect_at = 0.0  # earliest time (monotonic clock)
        self._list_at = math.inf
        self._pauses = Backoff()

    def add(self, spec: RunSpec, report: Report) -> None:
        self.remove(spec.run_id)
        run = self._runs[spec.run_id] = _Followed(spec, report, has_copy=self._logs is not None)
        self._list_soon()
        if self._logs is not None:
            self._logs.add(spec, run)

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        with contextlib.suppress(ValueError):
            self._ended.remove(run_id)
        if self._logs is not None:
            self._logs.remove(run_id)

    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome | None]:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with contextlib.suppress(Interrupted):
            while not self._ended:
                self._step(interrupted, deadline)
                if time.monotonic() >= deadline:
                    break
        ended, self._ended = self._ended, []
        return dict.fromkeys(ended)

    def close(self) -> None:
        self._disconnect()
        if self._logs is not None:
            self._logs.close()

    # -- one round ----------------------------------------------------------------------------------------------------

    def _step(self, interrupted: int, deadline: float) -> None:
        """Wait for an event until `deadline`, and process it. Raises Interrupted."""
        if not self._runs:
            self._disconnect()
        elif self._events is None and time.monotonic() >= self._connect_at:
            self._events = EngineEvents(self._connect)
        self._wait_ready(interrupted, min(deadline, self._next_time()))
        try:
            if self._events is not None:
                self._take_events(self._events)
                if time.monotonic() >= self._list_at:
                    self._list(interrupted)
        except WorkbenchError as error:
            self._disconnect()
            self._connect_at = time.monotonic() + self._pauses.next()
            for run in self._runs.values():
                run.lose(ENGINE, str(error))

    def _next_time(self) -> float:
        """Return the time of the next action without an event; infinity if none is due."""
        if not self._runs:
            return math.inf
        if self._events is None:
            return self._connect_at
        return self._list_at if self._is_connected else math.inf

    def _wait_ready(self, interrupted: int, until: float) -> None:
        """Wait for events until a time, and copy the logs meanwhile. Raises Interrupted."""
        timeout = None if math.isinf(until) else max(0.0, until - time.monotonic())
        woken = self._events.descriptor if self._events is not None else -1
        if self._logs is None:
            ready = wait_ready([descriptor for descriptor in (woken, interrupted) if descriptor >= 0], timeout=timeout)
        else:
            self._end(self._logs.wait(interrupted, timeout, woken=woken))
            # `wait` also returns early if interrupted, without an error.
            ready = wait_ready([interrupted] if interrupted >= 0 else [], timeout=0.0)
        if interrupted in ready:
            raise Interrupted

    # -- the engine ---------------------------------------------------------------------------------------------------

    def _take_events(self, events: EngineEvents) -> None:
        """Process the events. Raises the error of a lost connection."""
        names = set(events.take())
        if not self._is_connected and events.engine is not None:
            self._is_connected = True
            self._list_soon()
        if names:
            self._end([run.run_id for run in self._runs.values() if run.container in names])

    def _list_soon(self) -> None:
        self._list_at = min(self._list_at, time.monotonic() + SOON_SECONDS)

    def _list(self, interrupted: int) -> None:
        """Request the states of all containers. Raises Interrupted, and the errors of the engine."""
        engine = self._events.engine if self._events is not None else None
        if engine is None:
            return
        states = result_of(lambda: engine.states(RUNS), interrupted)
        self._list_at, self._pauses = time.monotonic() + LIST_SECONDS, Backoff()
        is_active = {run.run_id: states.get(run.container) in ACTIVE for run in self._runs.values()}
        self._end([run_id for run_id in is_active if not is_active[run_id]])
        for run in self._runs.values():
            run.answer(ENGINE)

    def _end(self, run_ids: Iterable[str]) -> None:
        """Stop following runs that have ended or were never started."""
        for run_id in list(run_ids):
            self.remove(run_id)
            self._ended.append(run_id)

    def _disconnect(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events, self._is_connected, self._list_at = None, False, math.inf
