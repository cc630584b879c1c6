"""What the target of a run asks of its controller, besides starting the script and waiting for its end.

A target elsewhere may be out of reach at any moment. That is no failure: the run is `unknown` since then, and what was
to be done is done when the target answers again. How the run ended is recorded before anything is removed over there,
so a controller that goes on later never needs what is gone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tui_workbench.core.errors import StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.core.model import RunState
from tui_workbench.core.progress import listening
from tui_workbench.core.waiting import BackgroundCall, Backoff, Interrupted
from tui_workbench.runs.gpu.gate import STEP, TITLE, admit
from tui_workbench.runs.lifecycle.step_progress import Progress
from tui_workbench.runs.store.rundir import FOLLOWED, Ending, Record, RunDirectory
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.hosts.host import Entry

_Result = TypeVar("_Result")

LOOK_SECONDS = 5.0
"""How often it is looked whether the run's directory is still there, while a controller waits for a target."""

CONNECT = "connect"
"""The step that is done once the target has answered. A run that ends before was never on it."""

CONNECT_ATTEMPTS = 6
"""How often a target that was never reached is tried, in some seconds: a connection can break at any moment."""

_AT_ONCE = frozenset(("name", "port"))
"""Checks that fail on a machine that is switched off or misspelled: that is told at once."""

_HERE = frozenset(("queue", "prepare", CONNECT, "collect", "fetch"))
"""Steps that are begun here, whether the target answers or not."""


class TargetLifecycle:
    """What one run's controller does on its target. `target.report` tells the run's directory how far it is.

    Some targets start scripts at once and are always in reach: there nothing is prepared and nothing brought back. The
    descriptor `interrupted` becomes readable when a cancel request may have come; -1 where none can.
    """

    def __init__(self, target: Target, directory: RunDirectory, record: Record, interrupted: int = -1) -> None:
        self._target = target
        self._directory = directory
        self._record = record
        self._progress = target.report = Progress(directory, interrupted)
        self.enter = self._progress.enter
        self.close = target.close

    def watch_directory(self) -> None:
        """Wake whoever waits for the target when the run's directory is removed: there is nothing to note any more."""
        if self._target.starts_at_once:
            return

        def watch() -> None:
            while os.path.isdir(self._directory.path):
                time.sleep(LOOK_SECONDS)
            os.kill(os.getpid(), signal.SIGURG)

        threading.Thread(target=watch, name="watch the run's directory", daemon=True).start()

    def prepare(self) -> None:
        """Have everything on the target that the run needs.

        Raises Interrupted when the run is to end, TargetUnreachable when the target was never reached (whoever submits
        to a machine that is switched off is told so), NoGpu, and WorkbenchError when it cannot be.
        """
        if self._target.starts_at_once:
            return
        if "prepare" not in self._directory.status().done:
            spec, plan = self._record.spec, self._record.plan
            self._progress.enter(RunState.PREPARING)
            self._progress.begin("prepare", f"preparing {spec.target.name}")
            if not self._was_reached():
                self._connect()
            self.persist(lambda: self._target.prepare(spec, plan, lambda: _listing_of(self._record)))
            self._progress.done("prepare")
        self._check_gpu()

    def _connect(self) -> None:
        """Reach the target for the first time. Raises TargetUnreachable, ConfigurationError or Interrupted."""
        self._progress.begin(CONNECT, "")
        pauses = Backoff()
        for left in reversed(range(CONNECT_ATTEMPTS)):
            try:
                self._target.reach()
                break
            except TargetUnreachable as error:
                if not left or error.permanent or getattr(error, "failed_check", "") in _AT_ONCE:
                    raise
            self._unless_canceled(lambda: pauses.take(self._progress.interrupted), ending=False)
        self._progress.done(CONNECT)

    def _check_gpu(self) -> None:
        """See that a run that asks for a GPU would use one, now that its environment is there."""
        spec = self._record.spec
        if not spec.gpu_check_due or STEP in self._directory.status().done:
            return

        def look() -> None:
            # A framework may take minutes to answer, and a driver for ever.
            with BackgroundCall(lambda: admit(spec)) as looking:
                looking.wait(self._progress.interrupted)

        self._progress.begin(STEP, TITLE)
        self.persist(look)
        self._progress.done(STEP)

    def persist(self, action: Callable[[], _Result]) -> _Result:
        """Do something on the target, again when it was out of reach or the connection broke meanwhile.

        Raises Interrupted when the run is to end, unless that is why it is done.
        """
        if self._target.starts_at_once:
            return action()
        ending = self._directory.cancel_requested or self._directory.status().ending is not None
        pauses, interrupted = Backoff(), self._progress.interrupted
        while True:
            try:
                with listening(self._progress.show):
                    result = action()
                self._progress.regained()
                return result
            except TargetUnreachable as error:
                self._progress.lost(str(error))
                self._unless_canceled(lambda: self._target.wait_until_reachable(interrupted), ending=ending)
                self._unless_canceled(lambda: pauses.take(interrupted), ending=ending)
            except Interrupted:
                self._go_on(ending)

    def woken(self) -> None:
        """Go on after a wait was interrupted. Raises StorageError when the run's directory was removed."""
        self._progress.drain()
        if not os.path.isdir(self._directory.path):
            raise StorageError(
                f"the directory of run {self._directory.run_id} was removed",
                remedy="experiment clean removes what is left of it on its target.",
                file=self._directory.path,
            )

    def note(self, ending: Ending) -> None:
        """Record how the run ended, before anything is cleared away."""
        if not self._target.starts_at_once and self._directory.status().ending is None:
            self._directory.append_event("ending", **ending._asdict())
            self._progress.enter(RunState.FINALIZING)

    def bring_back(self) -> None:
        """Bring here what the run made and clear away what it holds, as far as that can be done."""
        if self._target.starts_at_once or not self._was_reached():
            return
        try:
            self.persist(self.collect)
        except (WorkbenchError, OSError) as error:
            # It stays where it is: `collecting` brings it later.
            self._progress.line(f"not all was brought back: {error}")
        finally:
            self._target.close()

    def collect(self) -> None:
        """Bring here what the run made, and clear away what it holds. Can be called again.

        Raises TargetUnreachable and other WorkbenchErrors, and OSError.
        """
        if self._target.starts_at_once:
            return
        spec = self._record.spec
        if "fetch" not in self._directory.status().done:
            self._progress.begin("fetch", "")
            self._target.collect(spec)
            self._progress.done("fetch")
        if not os.path.lexists(self._directory.file(FOLLOWED)):
            self._target.release(spec)

    def _was_reached(self) -> bool:
        """True once there can be something of the run on the target."""
        status = self._directory.status()
        return "prepare" in status.done or bool(status.begun - _HERE)

    def _unless_canceled(self, wait: Callable[[], None], *, ending: bool) -> None:
        """Wait for something. Raises Interrupted when the run is to end, unless it is `ending` anyhow."""
        while True:
            try:
                wait()
                return
            except Interrupted:
                self._go_on(ending)

    def _go_on(self, ending: bool) -> None:
        self.woken()
        if self._directory.cancel_requested and not ending:
            raise Interrupted


def _listing_of(record: Record) -> Sequence[Entry]:
    from tui_workbench.runs.snapshots.working_copy import files_of_run

    return files_of_run(record)
