"""The steps of a run on its target, except for starting the script and waiting for its end.

A target on another machine can become unreachable at any time. This is not a failure: the run becomes `unknown`, and
its steps continue when the target answers again. The ending of a run is recorded before files on the target are
removed, so that a later controller never needs removed files.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tui_workbench.core.causes import NEXT_ATTEMPT, Cause
from tui_workbench.core.errors import StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.core.model import RunState
from tui_workbench.core.progress import listening
from tui_workbench.core.waiting import BackgroundCall, Backoff, Interrupted, pause, wait_ready
from tui_workbench.runs.gpu.gate import STEP, TITLE, admit
from tui_workbench.runs.lifecycle.step_progress import Progress
from tui_workbench.runs.store.attempts import attempt_number
from tui_workbench.runs.store.rundir import FOLLOWED, RESET, Attempt, Ending, Record, RunDirectory
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.reservations.folder import GpusBusy

_Result = TypeVar("_Result")

LOOK_SECONDS = 5.0  # interval of the checks that the run directory still exists
GPU_SECONDS = 10.0  # interval of the attempts to get GPUs of a shared machine; each renews the run's place in the order
CONNECT = "connect"  # the step that waits for the first answer of the target, which has no files of the run before
CONNECT_ATTEMPTS = 6  # attempts to reach a target that has never answered; they take some seconds
_AT_ONCE = frozenset(("name", "port"))  # failed checks that are not repeated: a wrong name, or no server
_HERE = frozenset(("queue", RESET, "prepare", CONNECT, "collect", "fetch"))  # steps that need no files on the target


class TryLater(Exception):
    """The target is unreachable. The caller can repeat the steps later."""


class NotDue(Exception):
    """The next attempt starts at the time `due`, in seconds since the epoch. The caller can repeat the steps then."""

    def __init__(self, due: float) -> None:
        super().__init__()
        self.due = due


class TargetLifecycle:
    """The steps of a controller on the target of a run. `target.report` writes progress to the run directory.

    Targets with `starts_at_once` need no preparation and no fetching. The descriptor `interrupted` becomes readable
    when there may be a cancel request; -1 means no descriptor. While the target is unreachable, the steps wait, or
    without `patient` raise TryLater. `is_known` means that the target has answered for another run, so its address is
    correct.
    """

    def __init__(
        self,
        target: Target,
        directory: RunDirectory,
        record: Record,
        interrupted: int = -1,
        *,
        patient: bool = True,
        is_known: bool = False,
    ) -> None:
        self._target = target
        self._patient = patient
        self._is_known = is_known
        self._directory = directory
        self._record = record
        self._started = RunState.QUEUED if target.drives_together else RunState.RUNNING
        self.progress = target.report = Progress(directory, interrupted, self._started)
        self.close = target.close

    def watch_directory(self) -> None:
        """If the run directory is removed, interrupt all waits for the target."""
        if self._target.starts_at_once:
            return

        def watch() -> None:
            while os.path.isdir(self._directory.path):
                time.sleep(LOOK_SECONDS)
            os.kill(os.getpid(), signal.SIGURG)

        threading.Thread(target=watch, name="watch the run's directory", daemon=True).start()

    def prepare(self, attempt: Attempt | None = None) -> None:
        """Prepare the target for the run, or for another attempt.

        Raises Interrupted if the run is canceled, TargetUnreachable if the target has never answered, TryLater, NoGpu,
        and other WorkbenchErrors.
        """
        if self._target.starts_at_once:
            return
        from tui_workbench.runs.snapshots.working_copy import files_of_run

        spec, plan = self._record.spec, self._record.plan
        is_prepared = "prepare" in self._directory.status().done
        if not is_prepared:
            self.progress.enter(RunState.PREPARING)
            self.progress.begin("prepare", f"preparing {spec.target.name}")
            if not self._was_reached():
                self._connect()
        if not is_prepared or self._target.sends_at_start:
            since = self._directory.copied_at if attempt is not None and attempt.anew else 0
            self.persist(
                lambda: self._target.prepare(spec, plan, lambda: files_of_run(self._record, changed_since=since))
            )
        if not is_prepared:
            self.progress.done("prepare")
        self._check_gpu()

    def _connect(self) -> None:
        """Connect to the target for the first time.

        Raises TargetUnreachable, ConfigurationError, TryLater or Interrupted.
        """
        self.progress.begin(CONNECT, "")
        pauses = Backoff()
        for left in reversed(range(CONNECT_ATTEMPTS)):
            try:
                self._target.reach()
                break
            except TargetUnreachable as error:
                if self._is_known and not error.permanent:
                    self.progress.lost(str(error))
                    raise TryLater from error
                if not left or error.permanent or getattr(error, "failed_check", "") in _AT_ONCE:
                    raise
            self._unless_canceled(lambda: pauses.take(self.progress.interrupted), ending=False)
        self.progress.done(CONNECT)

    def _check_gpu(self) -> None:
        """Check that a run that requests a GPU would use one. The environment of the run exists now."""
        spec = self._record.spec
        if not spec.gpu_check_due or STEP in self._directory.status().done:
            return

        def check() -> None:
            # A framework may take minutes to answer, and a driver may hang.
            with BackgroundCall(lambda: admit(spec)) as checking:
                checking.wait(self.progress.interrupted)

        self.progress.begin(STEP, TITLE)
        self.persist(check)
        self.progress.done(STEP)

    def make_ready(self, attempt: Attempt) -> None:
        """Wait until the next attempt is due, then reset the run on its target, so that its script can start again.

        Raises Interrupted if the run is canceled, TryLater, and StorageError. Without `patient`, raises NotDue instead
        of waiting.
        """
        status = self._directory.status()
        if RESET in status.done:
            return
        when = time.strftime("%H:%M:%S", time.localtime(attempt.due))
        causes = (Cause(NEXT_ATTEMPT, {"number": attempt.number, "at": when}), *attempt.causes)
        is_due = attempt.due <= time.time()
        if status.causes != causes and not (is_due and status.state == RunState.UNKNOWN):
            self.progress.enter(RunState.QUEUED, causes)
        if not (is_due or self._patient):
            raise NotDue(attempt.due)
        self._unless_canceled(lambda: self._pause(attempt.due), ending=False)
        self.progress.begin(RESET, "")
        spec = self._record.spec._replace(attempt=attempt.number)
        self.persist(lambda: self._target.reset(spec, anew=attempt.anew))
        self.progress.done(RESET)

    def _pause(self, end: float) -> None:
        """Wait until the time `end`. Raises Interrupted."""
        watched = [self.progress.interrupted] if self.progress.interrupted >= 0 else []
        while (left := end - time.time()) > 0:
            if wait_ready(watched, timeout=left):
                raise Interrupted

    def persist(self, action: Callable[[], _Result]) -> _Result:
        """Call `action`, and repeat the call if the target is unreachable, or shared and has too few free GPUs.

        Raises TryLater, and Interrupted if the run is canceled, unless the run is ending already.
        """
        if self._target.starts_at_once:
            return action()
        ending = self._directory.cancel_requested or self._directory.status().ending is not None
        pauses, interrupted = Backoff(), self.progress.interrupted
        while True:
            try:
                with listening(self.progress.show):
                    result = action()
                self.progress.regained()
                return result
            except TargetUnreachable as error:
                self.progress.lost(str(error))
                if not self._patient:
                    raise TryLater from error
                self._unless_canceled(lambda: self._target.wait_until_reachable(interrupted), ending=ending)
                self._unless_canceled(lambda: pauses.take(interrupted), ending=ending)
            except GpusBusy as error:
                self.progress.queued(str(error))
                self._unless_canceled(lambda: pause(GPU_SECONDS, interrupted), ending=ending)
            except Interrupted:
                self._check_canceled(ending)

    def resume_waiting(self) -> None:
        """Continue after an interrupted wait. Raises StorageError if the run directory was removed."""
        self.progress.drain()
        if not os.path.isdir(self._directory.path):
            raise StorageError(
                f"the directory of run {self._directory.run_id} was removed",
                remedy="Run `workbench-tui experiment clean` to remove the run's files from the target.",
                file=self._directory.path,
            )

    def stop(self, grace: float) -> bool:
        """End the processes of the run; return True if they had to be killed after `grace` seconds."""
        if not (self._target.starts_at_once or self._was_reached()):
            return False  # no processes exist, and the target may never answer
        spec = self._record.spec._replace(attempt=attempt_number(self._directory))
        return self.persist(lambda: self._target.stop(spec, grace=grace))

    def enter_started(self) -> None:
        """Record that the script was started, or that the target has queued it."""
        self.progress.enter(self._started)

    def record_ending(self, ending: Ending) -> None:
        if not self._target.starts_at_once and self._directory.status().ending is None:
            self._directory.append_event("ending", **ending.fields)
            self.progress.enter(RunState.FINALIZING)

    def fetch(self) -> None:
        """Fetch the files of the run and clean up the target, if possible."""
        if self._target.starts_at_once or not self._was_reached():
            return
        try:
            self.persist(self.collect)
        except (WorkbenchError, OSError) as error:
            # The files stay on the target. `collecting` can fetch those of the script later.
            has_files = self._directory.status().has_files
            problem = "not all files were fetched" if has_files else "the copy of the project was not removed"
            self.progress.line(f"{problem}: {error}")
        finally:
            self._target.close()

    def collect(self) -> None:
        """Fetch the files of the run and clean up the target. The call can be repeated.

        Raises OSError, TargetUnreachable and other WorkbenchErrors.
        """
        if self._target.starts_at_once:
            return
        spec, status = self._record.spec, self._directory.status()
        if status.has_files and "fetch" not in status.done:
            self.progress.begin("fetch", "")
            self._target.collect(spec)
            self.progress.done("fetch")
        if not os.path.lexists(self._directory.file(FOLLOWED)):
            self._target.release(spec)

    def _was_reached(self) -> bool:
        """Return True if the target may have files of the run."""
        status = self._directory.status()
        return "prepare" in status.done or bool(status.begun - _HERE)

    def _unless_canceled(self, wait: Callable[[], None], *, ending: bool) -> None:
        """Call `wait` until it returns. Raises Interrupted if the run is canceled, unless it is `ending` already."""
        while True:
            try:
                wait()
                return
            except Interrupted:
                self._check_canceled(ending)

    def _check_canceled(self, ending: bool) -> None:
        self.resume_waiting()
        if self._directory.cancel_requested and not ending:
            raise Interrupted
