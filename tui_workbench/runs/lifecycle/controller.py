"""The controller: one detached process for each active run, that takes the plan's steps in order.

Every step is idempotent and recorded in events.jsonl when it is done, so a new controller goes on where a dead one
stopped. A lock on the run directory keeps it at one. Nothing here is needed for the script to go on: it only notes
what happened. `starting.detach` starts the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from tui_workbench.core import trace
from tui_workbench.core.errors import NeverStarted, StorageError, WorkbenchError
from tui_workbench.core.model import RunState
from tui_workbench.core.waiting import Interrupted
from tui_workbench.runs.gpu.verdict import REQUIRED
from tui_workbench.runs.lifecycle import starting
from tui_workbench.runs.lifecycle.building import make_copy
from tui_workbench.runs.lifecycle.collecting import collect_outputs
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.snapshots.provenance import start_collecting
from tui_workbench.runs.store import rundir, secret_arguments
from tui_workbench.runs.store.rundir import ControllerLock, Ending, Record, RunDirectory
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.base.values import Outcome
from tui_workbench.targets.gpu.gpus import may_have_gpu_here

if TYPE_CHECKING:
    from tui_workbench.runs.gpu.recording import Recorder


class Controller:
    """Drives one run.

    The caller holds the run's lock; the descriptor `interrupted` becomes readable when a cancel request may have come,
    -1 where none can. With its `lock` the process is the run's own: it accompanies the script while it runs.
    """

    def __init__(self, directory: RunDirectory, interrupted: int = -1, lock: ControllerLock | None = None) -> None:
        self._lock = lock
        self._recorder: Recorder | None = None
        self.provenance = -1
        """A descriptor that becomes readable when the provenance of the run is recorded; -1 when it is not to be."""
        self._directory = directory
        self._interrupted = interrupted
        self._record: Record = directory.own_record()
        self._target: Target = target_for(self._record.spec.target)
        self._lifecycle = TargetLifecycle(self._target, directory, self._record, interrupted)
        self._metrics = MetricsRecorder(directory)

    def finish(self) -> None:
        """Take all steps that are left, until the run has ended. Raises StorageError when that cannot be recorded."""
        status = self._directory.status()
        if status.end:
            return
        if status.ending is not None:
            self._wrap_up(status.ending)
        elif self._directory.cancel_requested:
            self._cancel()
        elif not self._directory.is_waiting:
            self._lifecycle.watch_directory()
            try:
                if "start" in status.done or self._begin():
                    self._see_through()
            except Interrupted:
                self._cancel()
            finally:
                self._metrics.stop_following()

    def _begin(self) -> bool:
        """Take the steps up to and with `start`; False when that ended the run."""
        try:
            make_copy(self._directory, self._record)
            self._lifecycle.prepare()
        except WorkbenchError as error:
            self._wrap_up(starting.not_run(error))
            return False
        starting.start_script(self._directory, self._record, self._target, self._lifecycle)
        return not self._directory.status().end

    def _see_through(self) -> None:
        """Accompany the script until it has ended, and conclude the run."""
        if self._lock is not None:
            self.provenance = start_collecting(self._directory, self._record, self._lock.descriptor)
            self._recorder = _record_gpus(self._directory, self._record)
        self._metrics.follow()
        self._wrap_up(self._wait())

    def _wait(self) -> Ending:
        """How the run ended, once it has. Raises Interrupted when it is to end, WorkbenchError when that stays open."""
        while True:
            try:
                outcome = self._target.wait(self._record.spec, self._interrupted)
            except Interrupted:
                self._lifecycle.woken()
                if self._directory.cancel_requested:
                    raise
            except NeverStarted as error:
                return starting.not_run(error)
            else:
                return _ending(outcome, self._directory.now())

    def _cancel(self) -> None:
        if self._directory.is_waiting:
            starting.end_waiting(self._directory, self._record)
            return
        grace = self._directory.cancel_request.grace
        forced = self._lifecycle.persist(lambda: self._target.stop(self._record.spec, grace=grace))
        wanted = self._directory.cancel_request.reason
        reason = f"{wanted or 'canceled'}: it did not end within {grace:g} s and was killed" if forced else wanted
        state = RunState.FAILED if wanted.startswith(f"{REQUIRED}: ") else RunState.CANCELED
        self._wrap_up(Ending(state, reason or "canceled"))

    def _wrap_up(self, ending: Ending) -> None:
        """Keep what the run made, then record its end; on a target that lets go of it the ending is noted before."""
        ending = self._conclude_gpu(ending)
        self._lifecycle.note(ending)
        self._metrics.read()
        self._collect_outputs()
        self._lifecycle.bring_back()
        self._metrics.store()
        if self._record.spec.keep_outputs and ending.state == RunState.COMPLETED:
            from tui_workbench.runs.transfer.into_project import keep_outputs

            keep_outputs(self._directory, self._record)
        starting.end_run(self._directory, self._record, self._explain(ending))

    def _explain(self, ending: Ending) -> Ending:
        """The ending of a failed script with the exception that its log ends with, and why a file was not found."""
        if ending.state != RunState.FAILED:
            return ending
        secret_arguments.hide(self._record.spec)  # another process may have started the script
        from tui_workbench.runs.lifecycle.failure import explained

        return explained(self._directory, self._record, ending)

    def _conclude_gpu(self, ending: Ending) -> Ending:
        """Store whether the run used a GPU; what cannot be stored costs the run nothing."""
        if self._recorder is not None:
            self._recorder.stop()
        configuration = self._record.spec.run_configuration
        if not configuration.require_gpu and not os.path.exists(self._directory.file(rundir.GPU_SAMPLES)):
            return ending
        from tui_workbench.runs.gpu.judging import conclude

        try:
            return conclude(self._directory, configuration, ending)
        except StorageError as error:
            self._directory.append_event("step", step="gpu", reason=f"the verdict was not kept: {error}")
            return ending

    def _collect_outputs(self) -> None:
        """Keep what the run made. What cannot be moved stays in the working copy, and the event says why."""
        if self._record.snapshot == "none" or not os.path.lexists(self._directory.file(rundir.WORKING_COPY)):
            return
        begun = time.monotonic()
        fields: dict[str, object] = {"status": "done"}
        try:
            kept = collect_outputs(
                self._directory.path,
                self._directory.copied_at,
                # Where there is no git the copy is all that remembers what ran.
                drop_unchanged=self._record.snapshot == "git",
            )
            if kept:
                fields["kept"] = kept[:100]
        except (OSError, RecursionError) as error:
            fields["reason"] = f"{rundir.WORKING_COPY}/ was left as it is: {error}"
        self._directory.append_event("step", step="collect", seconds=round(time.monotonic() - begun, 6), **fields)


def _ending(outcome: Outcome, end: float) -> Ending:
    """What a run that ends now has come to."""
    if outcome.exit_code is None:
        return Ending(RunState.UNKNOWN, outcome.reason, None, end)
    state = RunState.FAILED if outcome.exit_code else RunState.COMPLETED
    reason = "; ".join(filter(None, (outcome.reason if outcome.exit_code else "", outcome.note)))
    return Ending(state, reason, outcome.exit_code, end)


def drive(directory: RunDirectory, lock: ControllerLock) -> None:
    """Bring the run to its end in this process, which does nothing else. Releases the lock."""
    interrupted = _listen_for_cancel()
    trace.set_process_run(directory.path)
    # The folder that the caller stood in may be wanted gone, or its disk unmounted.
    os.chdir("/")
    with lock:
        directory.make_durable()
        controller = Controller(directory, interrupted, lock)
        controller.finish()
    if directory.is_limited:
        from tui_workbench.runs.lifecycle.queueing import leave

        leave(directory)
    if controller.provenance >= 0:
        # It may take longer than a short script; nothing but this process waits for it.
        os.read(controller.provenance, 1)


def _record_gpus(directory: RunDirectory, record: Record) -> Recorder | None:
    """Watch the GPUs that the run can reach, and its policies, in a thread; None where there is nothing to watch."""
    spec = record.spec
    configuration = spec.run_configuration
    wants = configuration.require_gpu or configuration.stop_if_idle_minutes or configuration.max_duration_minutes
    kind = spec.target.kind
    is_without = kind.runs_in_container and not spec.target.gives_gpus
    if not wants and (is_without or (kind.runs_here and not may_have_gpu_here())):
        return None
    from tui_workbench.runs.gpu.recording import Recorder

    def end(reason: str) -> None:
        directory.request_cancel(directory.cancel_request.grace, reason)
        os.kill(os.getpid(), starting.CANCEL_SIGNAL)

    return Recorder(directory, record, end)


def _listen_for_cancel() -> int:
    """The descriptor that becomes readable on starting.CANCEL_SIGNAL."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writing, b"c")

    signal.signal(starting.CANCEL_SIGNAL, wake)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def main(lock_descriptor: str, path: str) -> None:
    """Drive the run at `path` with the lock that was inherited."""
    lock = ControllerLock(int(lock_descriptor))
    os.set_inheritable(lock.descriptor, False)
    lock.sign()
    starting.leave_descriptors(lock.descriptor)
    drive(RunDirectory(path), lock)


if __name__ == "__main__":
    main(*sys.argv[1:])
