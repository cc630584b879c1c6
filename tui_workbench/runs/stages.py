"""What a run on another machine or in a container goes through besides starting and ending, and how it persists.

The target may be out of reach at any moment. That is no failure: the run is `unknown` since then, and what was to be
done is done when the target answers again. How the run ended is recorded before anything is removed over there, so a
controller that goes on later never needs what is gone.
"""

from __future__ import annotations

import os
import time

from tui_workbench.errors import StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.model import RunState
from tui_workbench.progress import listening
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.progress import Progress
from tui_workbench.runs.rundir import FOLLOWED
from tui_workbench.targets.protocol import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from tui_workbench.runs.rundir import Ending, Record, RunDirectory
    from tui_workbench.targets.host import Entry
    from tui_workbench.targets.staged import StagedTarget

    _Result = TypeVar("_Result")


LOOK_SECONDS = 5.0
"""How often it is looked whether the run's directory is still there, while a controller waits for a target."""

_HERE = frozenset(("queue", "prepare", "collect", "fetch"))
"""Steps that are begun here, whether the target answers or not."""


class Stages:
    """The stages of one run; `interrupted` becomes readable when a cancel request may have come, -1 where none can."""

    def __init__(self, target: StagedTarget, directory: RunDirectory, record: Record, interrupted: int) -> None:
        self._target = target
        self._directory = directory
        self._record = record
        self._progress = target.report = Progress(directory, interrupted)

    def look_after_directory(self) -> None:
        """Wake whoever waits for the target when the run's directory is removed: there is nothing to note any more."""
        import signal
        import threading

        def look() -> None:
            while os.path.isdir(self._directory.path):
                time.sleep(LOOK_SECONDS)
            os.kill(os.getpid(), signal.SIGURG)

        threading.Thread(target=look, name="look after the run's directory", daemon=True).start()

    def go_on(self) -> None:
        """After having been woken. Raises StorageError when the run's directory was removed."""
        if not os.path.isdir(self._directory.path):
            raise StorageError(
                f"the directory of run {self._directory.run_id} was removed",
                remedy="experiment clean removes what is left of it on its target.",
                file=self._directory.path,
            )

    def enter(self, state: str) -> None:
        """Record that the run is in another state now."""
        self._progress.enter(state)

    def prepare(self) -> None:
        """Have everything on the target that the run needs.

        Raises Interrupted when the run is to end, TargetUnreachable when the target was never reached (somebody who
        submits to a machine that is switched off is told so), and WorkbenchError when it cannot be.
        """
        status = self._directory.status()
        if "prepare" in status.done:
            return
        spec, plan = self._record.spec, self._record.plan
        self._progress.enter(RunState.PREPARING)
        self._progress.begin("prepare", f"preparing {spec.target.name}")
        self.persist(lambda: self._target.prepare(spec, plan, self._tree), from_the_first=self._was_reached())
        self._progress.done("prepare")

    def check_gpu(self) -> None:
        """See that a run that asks for a GPU would use one, now that its environment is there.

        Raises NoGpu when it would not, Interrupted when the run is to end.
        """
        from tui_workbench.runs.gpu.gate import STEP, TITLE, admit
        from tui_workbench.targets.following import Background

        spec = self._record.spec
        if not spec.gpu_check_due or STEP in self._directory.status().done:
            return

        def look() -> None:
            # A framework may take minutes to answer, and a driver for ever.
            with Background(lambda: admit(spec)) as looking:
                looking.wait(self._progress.interrupted)

        self._progress.begin(STEP, TITLE)
        self.persist(look)
        self._progress.done(STEP)

    def persist(self, action: Callable[[], _Result], *, from_the_first: bool = True) -> _Result:
        """Do something on the target, again when it was out of reach.

        Raises Interrupted when the run is to end, unless that is why it is done; and, not `from_the_first`,
        TargetUnreachable when the target does not answer at all.
        """
        ending = self._directory.cancel_requested or self._directory.status().ending is not None
        while True:
            try:
                with listening(self._progress.show):
                    result = action()
                self._progress.regained()
                return result
            except TargetUnreachable as error:
                if not from_the_first and not self._was_reached():
                    raise
                self._progress.lost(str(error))
                self._wait(ending)
            except Interrupted:
                self._progress.drain()
                self.go_on()
                if self._directory.cancel_requested and not ending:
                    raise

    def note(self, ending: Ending) -> None:
        """Record how the run ended, before anything is cleared away."""
        if self._directory.status().ending is None:
            self._directory.append_event("ending", **ending._asdict())
            self._progress.enter(RunState.FINALIZING)

    def bring_back(self, ending: Ending) -> Ending:
        """Bring here what the run made and clear away what it holds; gives the ending with what went wrong in it.

        What could not be brought back stays where it is.
        """
        if not self._was_reached():
            return ending
        spec = self._record.spec
        try:
            if "fetch" not in self._directory.status().done:
                self._progress.begin("fetch", "")
                self.persist(lambda: self._target.collect(spec))
                self._progress.done("fetch")
            if not os.path.exists(self._directory.file(FOLLOWED)):
                self.persist(lambda: self._target.release(spec))
        except WorkbenchError as error:
            reason = f"{ending.reason}; " if ending.reason else ""
            return ending._replace(reason=f"{reason}not all was brought back: {error}")
        finally:
            self._target.close()
        return ending

    def _was_reached(self) -> bool:
        """True once there can be something of the run on the target."""
        status = self._directory.status()
        return "prepare" in status.done or bool(status.begun - _HERE)

    def _wait(self, ending: bool) -> None:
        """Wait until the target answers. Raises Interrupted when the run is to end, unless it is `ending` anyhow."""
        while True:
            try:
                self._target.wait_until_reachable(self._progress.interrupted)
                return
            except Interrupted:
                self._progress.drain()
                self.go_on()
                if self._directory.cancel_requested and not ending:
                    raise

    def _tree(self) -> list[Entry]:
        from tui_workbench.runs.listing import listing_of

        return listing_of(self._record)
