"""The controller: a detached process that executes the steps of the plan of an active run.

Each step is idempotent, and events.jsonl records its end, so that a new controller can continue if a controller is
killed. A lock on the run directory prevents a second controller. The script does not depend on the controller.
`starting.detach` starts the process.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from tui_workbench.core import trace
from tui_workbench.core.causes import CANCELED, GPU_REQUIRED, KILLED, Cause, kinds_of
from tui_workbench.core.errors import NeverStarted, StorageError, WorkbenchError
from tui_workbench.core.files import is_folder_below, remove_below
from tui_workbench.core.model import RunSpec, RunState
from tui_workbench.core.waiting import Interrupted, wait_ready, waking_pipe
from tui_workbench.runs.lifecycle import retrying, starting
from tui_workbench.runs.lifecycle.agent_ends import end_run_of_agent
from tui_workbench.runs.lifecycle.deferred_copy import make_copy, restore_copy
from tui_workbench.runs.lifecycle.handover import leave_to_watcher
from tui_workbench.runs.lifecycle.helpers import Helpers
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.store import agent_runs, logged, rundir, secret_arguments
from tui_workbench.runs.store.attempts import attempt_number, planned_attempt
from tui_workbench.runs.store.rundir import Attempt, ControllerLock, Ending, Record, RunDirectory
from tui_workbench.targets.base.group import SharedGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.values import Outcome

if TYPE_CHECKING:
    from tui_workbench.runs.lifecycle.collecting import EndedCopy


ALONE_SECONDS = 3.0
"""Time for which a controller waits for a script before it leaves the run to the watcher of its group.

Most short runs therefore end without a second process.
"""


class LeftToWatcher(Exception):
    """The watcher of `group` can wait for the end of the script."""

    def __init__(self, group: SharedGroup) -> None:
        super().__init__()
        self.group = group


class Controller:
    """The executor of the steps of a run. The caller holds the lock of the run.

    The descriptor `interrupted` becomes readable when there may be a cancel request; -1 means no descriptor. Pass
    `lock` if this process drives only this run: the controller then also watches the run directory, records the GPUs
    and collects the provenance. Without `patient`, each method raises TryLater if the target is unreachable.
    """

    def __init__(
        self,
        directory: RunDirectory,
        interrupted: int = -1,
        lock: ControllerLock | None = None,
        *,
        patient: bool = True,
        is_known: bool = False,
        helpers: Helpers | None = None,
    ) -> None:
        self._lock = lock
        self.provenance = -1  # descriptor that becomes readable when the provenance is recorded, or -1
        self._directory = directory
        self._interrupted = interrupted
        self.record: Record = directory.own_record()
        self.target: Target = target_for(self.record.spec.target)
        self._lifecycle = TargetLifecycle(
            self.target, directory, self.record, interrupted, patient=patient, is_known=is_known
        )
        self.progress = self._lifecycle.progress
        self._helpers = helpers or Helpers(directory)
        self._ended_copy: EndedCopy | None = None
        self._group: SharedGroup | None = None
        self._alone_until = math.inf
        self._alone_seconds = ALONE_SECONDS

    @property
    def spec(self) -> RunSpec:
        """The request, with the number of the current attempt."""
        return self.record.spec._replace(attempt=attempt_number(self._directory))

    def finish(self) -> None:
        """Execute all remaining steps. Raises StorageError if the end of the run cannot be recorded.

        Raises LeftToWatcher if the script runs for long, the controller has a lock and a group can wait for the run.
        """
        if not self.begin():
            return
        try:
            self._watch()
        except Interrupted:
            self._cancel()
        except LeftToWatcher:
            self._helpers.stop_recording()
            raise
        finally:
            self._helpers.metrics.stop_following()

    def begin(self) -> bool:
        """Execute the steps up to the start of the script, and return True if the caller must wait for its end.

        If the script has ended or the run was canceled, execute the steps up to the end of the run. Raises StorageError
        if the end cannot be recorded.
        """
        status = self._directory.status()
        if status.end:
            return False
        if status.ending is not None:
            self._wrap_up(status.ending)
        elif self._directory.cancel_requested:
            self._cancel()
        elif not self._directory.is_waiting:
            if self._lock is not None:
                self._lifecycle.watch_directory()
            try:
                if "start" not in status.done:
                    return self._start()
                if status.limit_is_reached:
                    self._lifecycle.stop(rundir.DEFAULT_GRACE)
                return True
            except Interrupted:
                self._cancel()
        return False

    @property
    def must_start(self) -> bool:
        """True if the next step is to prepare the run or to start its script."""
        status = self._directory.status()
        is_ending = status.end or status.ending is not None or self._directory.cancel_requested
        return not (is_ending or self._directory.is_waiting or "start" in status.done)

    def keep_copy(self) -> None:
        """Keep a large working copy for the next run. Call this after the run's end, but before queued runs start."""
        if self._ended_copy is not None:
            self._ended_copy.keep()

    def finish_late(self) -> None:
        """Store long metrics, and remove a large working copy that is not kept.

        Call this last, because the end of the run and the queue must not wait.
        """
        self._helpers.metrics.store_late()
        if self._ended_copy is not None:
            self._ended_copy.remove_unused()

    def conclude(self, outcome: Outcome | None) -> bool:
        """Execute the steps after the end of the script. If `outcome` is None, get it from `Target.wait`.

        Return False if `Retry` requests another attempt, which must then be started. Raises StorageError if the end
        cannot be recorded.
        """
        try:
            ending = self._ending(outcome) if outcome is not None else self._wait()
        except Interrupted:
            self._cancel()
            return True
        if retrying.plan_attempt(self._directory, self.record, ending):
            return False
        self._wrap_up(retrying.with_attempt(self._directory, ending))
        return True

    def _start(self) -> bool:
        """Execute the steps up to `start`. Return False if the run has ended."""
        ending = self._start_script()
        if ending is not None:
            self._wrap_up(ending)
            return False
        self._record_attempts()
        return True

    def _start_script(self) -> Ending | None:
        """Prepare the run and start the script. Return None, or the ending if it could not be started."""
        try:
            attempt = planned_attempt(self._directory)
            if attempt is not None:
                self._make_ready(attempt)
            make_copy(self._directory, self.record)
            self._lifecycle.prepare(attempt)
        except WorkbenchError as error:
            return starting.not_started(error)
        return starting.start_script(self._directory, self.record, self.target, self._lifecycle)

    def _make_ready(self, attempt: Attempt) -> None:
        """Make another attempt possible. Raises WorkbenchError, and the errors of `TargetLifecycle.make_ready`."""
        if attempt.anew and rundir.RESET not in self._directory.status().done:
            logged.restore(self._directory)
            restore_copy(self._directory, self.record)
            remove_below(self._directory.path, rundir.GPU_VERDICT)  # the stored verdict does not cover the new attempt
        self._lifecycle.make_ready(attempt)

    def _watch(self) -> None:
        """Wait until the script has ended, and then end the run."""
        if self._lock is not None:
            if self.record.spec.tracked:
                from tui_workbench.runs.snapshots.provenance import start_collecting

                self.provenance = start_collecting(self._directory, self.record, self._lock.descriptor)
            self._helpers.record_gpus(self.record)
            self._helpers.watch_metrics()
        self._helpers.metrics.follow()
        self._wrap_up(self._wait_for_last_attempt())

    def _wait_for_last_attempt(self) -> Ending:
        """Wait for the end of the script, and start it again as `Retry` requests. Raises the errors of `_wait`."""
        while True:
            ending = self._wait()
            if not retrying.plan_attempt(self._directory, self.record, ending):
                return retrying.with_attempt(self._directory, ending)
            failed = self._start_script()
            if failed is not None:
                return failed
            if self._lock is not None:
                self._helpers.record_gpus(self.record)
            self._record_attempts()

    def _wait(self) -> Ending:
        """Wait for the end of the script, and end it if it has reached its time limit.

        Raises Interrupted if the run is canceled, LeftToWatcher, and WorkbenchError if the outcome is unknown.
        """
        self._set_timer(ALONE_SECONDS)
        try:
            return self._wait_for_outcome()
        finally:
            self._set_timer(0.0)

    def _set_timer(self, seconds: float) -> None:
        """Interrupt the wait after `seconds`, if the watcher can then wait for the script. With 0, end the timer."""
        self._group = self.target.shared_group(self._directory.path) if self._lock is not None else None
        if self._group is not None:
            self._alone_until = time.monotonic() + seconds
            self._alone_seconds = seconds
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

    def _leave_if_possible(self) -> None:
        """Raise LeftToWatcher if the timer has ended and nothing else keeps this process.

        The next attempt is made after a longer time, because continuing to wait for another machine costs several
        requests.
        """
        if self._group is None or time.monotonic() < self._alone_until:
            return
        is_collecting = self.provenance >= 0 and not wait_ready([self.provenance], timeout=0.0)
        if not is_collecting and self._helpers.can_be_replaced:
            raise LeftToWatcher(self._group)
        self._set_timer(2 * self._alone_seconds)

    def _wait_for_outcome(self) -> Ending:
        while True:
            try:
                outcome = self.target.wait(self.spec, self._interrupted)
            except Interrupted:
                self._lifecycle.resume_waiting()
                if self._directory.cancel_requested:
                    raise
                if self._directory.status().limit_is_reached:
                    self._lifecycle.stop(rundir.DEFAULT_GRACE)
                else:
                    self._leave_if_possible()
            except NeverStarted as error:
                return starting.not_started(error)
            else:
                return self._ending(outcome)

    def _ending(self, outcome: Outcome) -> Ending:
        """Return the ending of the script. After a warning about the time limit, the limit counts as the cause."""
        ending = _ending_of(outcome, self._directory.end_time())
        # The recording thread may be sending the warning. The time until another attempt must not count as idle time.
        self._helpers.stop_recording()
        limit = self._directory.status().limit
        return ending._replace(state=RunState.CANCELED, causes=limit, exit_code=None) if limit else ending

    def _cancel(self) -> None:
        if self._directory.is_waiting:
            starting.end_waiting(self._directory, self.record)
            return
        grace = self._directory.cancel_request.grace
        forced = self._lifecycle.stop(grace)
        causes = self._directory.cancel_request.causes or (Cause(CANCELED),)
        state = RunState.CANCELED if GPU_REQUIRED.isdisjoint(kinds_of(causes)) else RunState.FAILED
        self._wrap_up(Ending(state, (*causes, *((Cause(KILLED, {"seconds": grace}),) if forced else ()))))

    def _wrap_up(self, ending: Ending) -> None:
        """Collect the files of the run and record its end.

        A killed controller is replaced by one that repeats these steps, so the ending is recorded before the files that
        show it are removed from the target.
        """
        ending = self._conclude_gpu(ending)
        if agent_runs.times_of(self._directory.path).started:
            # End all processes of an agent's run: a file that says that the script has ended may have been forged.
            self._lifecycle.persist(lambda: end_run_of_agent(self._directory.path, rundir.DEFAULT_GRACE))
        self._lifecycle.record_ending(ending)
        self._record_attempts(ending)
        self._helpers.metrics.read()  # some sources are links or unchanged files, which the next step removes
        self._collect_outputs()
        self._lifecycle.fetch()
        self._helpers.metrics.store()
        if self.record.spec.keep_outputs and ending.state == RunState.COMPLETED:
            from tui_workbench.runs.transfer.into_project import keep_outputs

            keep_outputs(self._directory, self.record)
        starting.end_run(self._directory, self.record, self._explain(ending))

    def _explain(self, ending: Ending) -> Ending:
        """Return the ending. If the run failed, its causes are completed: an exception, or a missing file."""
        if ending.state != RunState.FAILED:
            return ending
        secret_arguments.hide(self.record.spec)  # another process may have started the script
        from tui_workbench.runs.lifecycle.failure import with_cause

        return with_cause(self._directory, self.record, ending)

    def _conclude_gpu(self, ending: Ending) -> Ending:
        """Store the GPU verdict, and return the ending, which `RequireGpu` can change. Errors do not affect the run."""
        self._helpers.stop_recording()
        configuration = self.record.spec.run_configuration
        if not configuration.require_gpu and not os.path.exists(self._directory.file(rundir.GPU_SAMPLES)):
            return ending
        from tui_workbench.runs.gpu.judging import conclude

        try:
            return conclude(self._directory, configuration, ending)
        except StorageError as error:
            self._directory.append_event("step", step="gpu", reason=f"the verdict was not stored: {error}")
            return ending

    def _record_attempts(self, ending: Ending | None = None) -> None:
        """Write the missing records of ended attempts; see `record_attempts`. Errors do not affect the run."""
        if not self._directory.attempts():
            return
        from tui_workbench.runs.gpu.judging import record_attempts

        try:
            record_attempts(self._directory, self.record, ending)
        except StorageError as error:
            self._directory.append_event("step", step="attempts", reason=f"not recorded: {error}")

    def _collect_outputs(self) -> None:
        """Collect the outputs. Files that cannot be moved stay in the working copy, and an event records the reason."""
        if self.record.snapshot == "none" or not any(
            os.path.lexists(self._directory.file(name)) for name in (rundir.WORKING_COPY, rundir.UNCHANGED)
        ):
            return
        if is_folder_below(self._directory.path, rundir.EARLIER):
            return  # `restore_copy` was interrupted; the next attempt continues it, and needs the whole copy
        from tui_workbench.runs.lifecycle import collecting

        begun = time.monotonic()
        # If the run was on another machine, the copy has no files of the run until they are fetched.
        is_repeated = any(attempt.anew for attempt in self._directory.attempts())
        has_files = self.target.host.is_local or is_repeated or "fetch" in self._directory.status().begun
        fields: dict[str, object] = {"status": "done"}
        self._ended_copy = collecting.EndedCopy(self._directory, self.record)
        try:
            kept = collecting.collect_outputs(
                self._directory.path,
                self._directory.copied_at,
                # Without git, the copy is the only snapshot.
                drop_unchanged=self.record.snapshot == "git",
                aside=self._ended_copy.path,
                is_unused=not has_files,
            )
            if kept:
                fields["kept"] = kept[:100]
        except (OSError, RecursionError) as error:
            fields["reason"] = f"{rundir.WORKING_COPY}/ was not cleared: {error}"
        self._directory.append_event("step", step="collect", seconds=round(time.monotonic() - begun, 6), **fields)


def _ending_of(outcome: Outcome, end: float) -> Ending:
    if outcome.exit_code is None:
        state = RunState.FAILED if outcome.has_failed else RunState.UNKNOWN
        return Ending(state, outcome.causes, None, end, retry=outcome.retry)
    state = RunState.FAILED if outcome.exit_code else RunState.COMPLETED
    causes = (outcome.causes if outcome.exit_code else ()) + outcome.notes
    return Ending(state, causes, outcome.exit_code, end, retry=outcome.retry)


def drive(directory: RunDirectory, lock: ControllerLock) -> None:
    """Drive a run to its end, as the only task of this process, and release the lock."""
    interrupted = listen_for_cancel()
    trace.forget_agent()
    # Leave the current folder: it may be removed, and a process in it prevents its disk from being unmounted.
    os.chdir("/")
    with lock:
        directory.make_durable()
        controller = _finish(directory, interrupted, lock)
    if controller is None:
        return
    controller.keep_copy()
    if directory.others_may_wait:
        from tui_workbench.runs.lifecycle.queueing import leave

        leave(directory)
    controller.finish_late()
    if controller.provenance >= 0:
        # Collecting the provenance may take longer than a short script, and only this process waits for it.
        os.read(controller.provenance, 1)


def _finish(directory: RunDirectory, interrupted: int, lock: ControllerLock) -> Controller | None:
    """Finish the run. Return its controller, or None if the run was left to the watcher of its target."""
    while True:
        controller = Controller(directory, interrupted, lock)
        trace.set_process_run(directory.path, controller.record.agent)
        try:
            controller.finish()
            return controller
        except LeftToWatcher as left:
            try:
                leave_to_watcher(directory, lock, left.group)
            except (StorageError, OSError):
                if lock.descriptor >= 0:
                    continue  # the state directory is not usable, so continue to wait
            return None


def listen_for_cancel() -> int:
    """Return a descriptor that becomes readable on starting.CANCEL_SIGNAL, and when the timer ends."""
    reading, writing = waking_pipe()

    def wake(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writing, b"c")

    signal.signal(starting.CANCEL_SIGNAL, wake)
    signal.signal(signal.SIGALRM, wake)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def main(lock_descriptor: str, path: str) -> None:
    """Drive the run at `path` with the inherited lock."""
    drive(RunDirectory(path), starting.inherited_lock(lock_descriptor))


if __name__ == "__main__":
    main(*sys.argv[1:])
