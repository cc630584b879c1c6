"""The controller: one detached process per active run, which executes the steps of the plan.

Every step is idempotent and recorded in events.jsonl when it is done, so a new controller continues where a killed one
stopped. A lock on the run directory prevents a second controller. The script does not depend on the controller, which
only records what happens. `starting.detach` starts the process.
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

    The caller holds the run's lock. The descriptor `interrupted` becomes readable when a cancel request may have come;
    -1 for none. With `lock` this process belongs to the run, and watches it while the script runs.
    """

    def __init__(self, directory: RunDirectory, interrupted: int = -1, lock: ControllerLock | None = None) -> None:
        self._lock = lock
        self._recorder: Recorder | None = None
        self.provenance = -1  # becomes readable when the provenance is recorded; -1 if it is not collected
        self._directory = directory
        self._interrupted = interrupted
        self._record: Record = directory.own_record()
        self._target: Target = target_for(self._record.spec.target)
        self._lifecycle = TargetLifecycle(self._target, directory, self._record, interrupted)
        self._metrics = MetricsRecorder(directory)

    def finish(self) -> None:
        """Execute all remaining steps. Raises StorageError when the end of the run cannot be recorded."""
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
                    self._watch()
            except Interrupted:
                self._cancel()
            finally:
                self._metrics.stop_following()

    def _begin(self) -> bool:
        """Execute the steps up to `start`; False if that ended the run."""
        try:
            make_copy(self._directory, self._record)
            self._lifecycle.prepare()
        except WorkbenchError as error:
            self._wrap_up(starting.not_started(error))
            return False
        starting.start_script(self._directory, self._record, self._target, self._lifecycle)
        return not self._directory.status().end

    def _watch(self) -> None:
        """Watch the script until it has ended, then end the run."""
        if self._lock is not None:
            self.provenance = start_collecting(self._directory, self._record, self._lock.descriptor)
            self._recorder = _record_gpus(self._directory, self._record)
        self._metrics.follow()
        self._wrap_up(self._wait())

    def _wait(self) -> Ending:
        """Wait for the end of the script. Raises Interrupted to cancel, WorkbenchError if the outcome is unknown."""
        while True:
            try:
                outcome = self._target.wait(self._record.spec, self._interrupted)
            except Interrupted:
                self._lifecycle.resume_waiting()
                if self._directory.cancel_requested:
                    raise
            except NeverStarted as error:
                return starting.not_started(error)
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
        """Collect the run's files, then record its end. The ending is recorded before a target releases the run."""
        ending = self._conclude_gpu(ending)
        self._lifecycle.record_ending(ending)
        self._metrics.read()
        self._collect_outputs()
        self._lifecycle.fetch()
        self._metrics.store()
        if self._record.spec.keep_outputs and ending.state == RunState.COMPLETED:
            from tui_workbench.runs.transfer.into_project import keep_outputs

            keep_outputs(self._directory, self._record)
        starting.end_run(self._directory, self._record, self._explain(ending))

    def _explain(self, ending: Ending) -> Ending:
        """Add the exception from the log, or the cause of a missing file, to the ending of a failed script."""
        if ending.state != RunState.FAILED:
            return ending
        secret_arguments.hide(self._record.spec)  # another process may have started the script
        from tui_workbench.runs.lifecycle.failure import with_cause

        return with_cause(self._directory, self._record, ending)

    def _conclude_gpu(self, ending: Ending) -> Ending:
        """Store the GPU verdict; errors do not affect the run."""
        if self._recorder is not None:
            self._recorder.stop()
        configuration = self._record.spec.run_configuration
        if not configuration.require_gpu and not os.path.exists(self._directory.file(rundir.GPU_SAMPLES)):
            return ending
        from tui_workbench.runs.gpu.judging import conclude

        try:
            return conclude(self._directory, configuration, ending)
        except StorageError as error:
            self._directory.append_event("step", step="gpu", reason=f"the verdict was not stored: {error}")
            return ending

    def _collect_outputs(self) -> None:
        """Collect the outputs. Files that cannot be moved stay in the working copy, and an event says why."""
        if self._record.snapshot == "none" or not os.path.lexists(self._directory.file(rundir.WORKING_COPY)):
            return
        begun = time.monotonic()
        fields: dict[str, object] = {"status": "done"}
        try:
            kept = collect_outputs(
                self._directory.path,
                self._directory.copied_at,
                # Without git, the copy is the only snapshot.
                drop_unchanged=self._record.snapshot == "git",
            )
            if kept:
                fields["kept"] = kept[:100]
        except (OSError, RecursionError) as error:
            fields["reason"] = f"{rundir.WORKING_COPY}/ was not cleared: {error}"
        self._directory.append_event("step", step="collect", seconds=round(time.monotonic() - begun, 6), **fields)


def _ending(outcome: Outcome, end: float) -> Ending:

    if outcome.exit_code is None:
        return Ending(RunState.UNKNOWN, outcome.reason, None, end)
    state = RunState.FAILED if outcome.exit_code else RunState.COMPLETED
    reason = "; ".join(filter(None, (outcome.reason if outcome.exit_code else "", outcome.note)))
    return Ending(state, reason, outcome.exit_code, end)


def drive(directory: RunDirectory, lock: ControllerLock) -> None:
    """Drive the run to its end; this process does nothing else. Releases the lock."""
    interrupted = _listen_for_cancel()
    trace.set_process_run(directory.path)
    # The current folder may be removed, or its disk unmounted.
    os.chdir("/")
    with lock:
        directory.make_durable()
        controller = Controller(directory, interrupted, lock)
        controller.finish()
    if directory.is_limited:
        from tui_workbench.runs.lifecycle.queueing import leave

        leave(directory)
    if controller.provenance >= 0:
        # It may take longer than a short script, and only this process waits for it.
        os.read(controller.provenance, 1)


def _record_gpus(directory: RunDirectory, record: Record) -> Recorder | None:
    """Record the GPUs of the run and enforce its policies in a thread; None if there is nothing to record."""
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
    """Return a descriptor that becomes readable on starting.CANCEL_SIGNAL."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(_number: int, _frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(writing, b"c")

    signal.signal(starting.CANCEL_SIGNAL, wake)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def main(lock_descriptor: str, path: str) -> None:
    """Drive the run at `path` with the inherited lock."""
    lock = ControllerLock(int(lock_descriptor))
    os.set_inheritable(lock.descriptor, False)
    lock.sign()
    starting.close_other_descriptors(lock.descriptor)
    drive(RunDirectory(path), lock)


if __name__ == "__main__":
    main(*sys.argv[1:])
