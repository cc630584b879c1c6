"""The controller: one detached process for each active run, that takes the plan's steps in order.

Every step is idempotent and recorded in events.jsonl when it is done, so a new controller goes on where a dead one
stopped. A lock on the run directory keeps it at one. Nothing here is needed for the script to go on: it only notes
what happened.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from tui_workbench import trace
from tui_workbench.errors import ConfigurationError, StorageError, WorkbenchError
from tui_workbench.model import MASK, RunState, is_secret_name
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import GPU_SAMPLES, OUTPUTS, WORKING_COPY, ControllerLock, Ending, RunDirectory
from tui_workbench.targets.children import adopt, number_for, start_detached
from tui_workbench.targets.protocol import Interrupted, Outcome, Target, target_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from tui_workbench.model import RunSpec
    from tui_workbench.runs.gpu.recording import Recorder
    from tui_workbench.runs.metrics.keeping import Keeper
    from tui_workbench.runs.rundir import Record
    from tui_workbench.runs.stages import Stages

    _Result = TypeVar("_Result")

CANCEL_SIGNAL = signal.SIGURG
"""Tells a controller to look for a cancel request now.

A process that does not listen for it (yet) ignores it: that is its default.
"""

LOCK_ARGUMENT = "--lock-fd"

REQUIRED_MARK = "RequireGpu: "
"""Begins the reason of a run that was ended because it used no GPU: it has failed and was not merely stopped."""


class Controller:
    """Drives one run.

    The caller holds the run's lock; the descriptor `interrupted` becomes readable when a cancel request may have come,
    -1 where none can. `on_running` is called once the script has been started, before its end is waited for.
    """

    def __init__(
        self,
        directory: RunDirectory,
        interrupted: int = -1,
        record: Record | None = None,
        on_running: Callable[[Record], Recorder | None] | None = None,
    ) -> None:
        self._on_running = on_running
        self._recorder: Recorder | None = None
        self._directory = directory
        self._interrupted = interrupted
        self._record: Record = record or directory.read_record()
        self._target: Target = target_for(self._record.spec.target)
        self._keeper: Keeper | None = None
        at_once = self._target.starts_at_once
        self._stages = None if at_once else stages_of(self._target, directory, self._record, interrupted)

    def start(self, environment: Mapping[str, str]) -> None:
        """Take the steps up to and with `start`. A failure ends the run as failed, with the reason."""
        directory, spec, plan = self._directory, self._record.spec, self._record.plan
        begun = time.time()
        try:
            whole = with_secrets(spec)
            trace.hide_variables(whole.run_configuration.environment_variables)
            with trace.OfRun(directory.path):
                if self._stages is None:
                    self._have_copy()
                self._persist(lambda: self._target.start(whole, plan, environment))
        except WorkbenchError as error:
            self._end(RunState.FAILED, str(error))
            return
        directory.append_event("step", step="start", status="done", seconds=round(time.time() - begun, 6))
        self._forget_environment()
        if self._stages is None:
            directory.append_event("state", state=RunState.RUNNING)
        else:
            self._stages.enter(RunState.RUNNING)

    def finish(self, environment: Mapping[str, str]) -> None:
        """Take all steps that are left, until the run has ended. Raises StorageError when that cannot be recorded."""
        status = self._directory.status()
        if status.end:
            return
        if status.ending is not None:
            self._wrap_up(status.ending)
            return
        if self._directory.cancel_requested:
            self._cancel()
            return
        if self._directory.is_waiting:
            return
        if self._stages is not None:
            self._stages.look_after_directory()
        try:
            if "start" not in status.done and not self._begin(environment):
                return
            if self._on_running is not None:
                self._recorder = self._on_running(self._record)
            # Loaded while the script runs, and not when somebody waits for the run's end.
            self._have_keeper()
            ending = self._wait()
        except Interrupted:
            self._cancel()
        else:
            self._wrap_up(ending)

    def _begin(self, environment: Mapping[str, str]) -> bool:
        """Take the steps up to and with `start`; False when that ended the run."""
        if self._directory.is_limited:
            from tui_workbench.runs.pending import environment_of

            environment = environment_of(self._directory, environment)
        if self._stages is not None:
            try:
                self._have_copy()
                self._stages.prepare()
                self._stages.check_gpu()
            except WorkbenchError as error:
                self._wrap_up(Ending(RunState.FAILED, str(error)))
                return False
        self.start(environment)
        return not self._directory.status().end

    def _have_copy(self) -> None:
        """Make the working copy if that was left for later. Raises StorageError."""
        if self._directory.is_limited:
            from tui_workbench.runs.launch import make_copy

            make_copy(self._directory, self._record)

    def _forget_environment(self) -> None:
        if self._directory.is_limited:
            from tui_workbench.runs.pending import forget_environment

            forget_environment(self._directory)

    def abandon(self) -> None:
        """Let nothing of the run go on; what becomes of its directory is the caller's affair."""
        self._target.stop(self._record.spec, grace=0.0)

    def _persist(self, action: Callable[[], _Result]) -> _Result:
        """Do something on the target, as often as it takes when the target can be out of reach."""
        return action() if self._stages is None else self._stages.persist(action)

    def _wait(self) -> Ending:
        """How the run ended, once it has. Raises Interrupted when it is to end."""
        while True:
            try:
                outcome = self._target.wait(self._record.spec, self._interrupted)
            except Interrupted:
                _drain(self._interrupted)
                if self._stages is not None:
                    self._stages.go_on()
                if self._directory.cancel_requested:
                    raise
            except WorkbenchError as error:
                return Ending(RunState.FAILED, str(error))
            else:
                return _ending(outcome)

    def _cancel(self) -> None:
        if self._directory.is_waiting:
            self._end(RunState.CANCELED, "canceled before it began")
            return
        grace = self._directory.cancel_grace
        forced = self._persist(lambda: self._target.stop(self._record.spec, grace=grace))
        wanted = self._directory.cancel_reason
        reason = f"{wanted or 'canceled'}: it did not end within {grace:g} s and was killed" if forced else wanted
        state = RunState.FAILED if wanted.startswith(REQUIRED_MARK) else RunState.CANCELED
        self._wrap_up(Ending(state, reason or "canceled"))

    def _wrap_up(self, ending: Ending) -> None:
        """Keep what the run made, then record its end; on a target that lets go of it the ending is noted before."""
        metrics = self._have_keeper()
        ending = self._conclude_gpu(ending)
        if self._stages is None:
            metrics.look()
            self._settle()
        else:
            self._stages.note(ending)
            metrics.look()
            self._settle()
            ending = self._stages.bring_back(ending)
        metrics.keep()
        if self._record.spec.run_configuration.processes_per_node:
            from tui_workbench.runs.ranks import explained

            ending = explained(self._directory.path, ending)
        self._end(ending.state, ending.reason, end=ending.end, exit_code=ending.exit_code)

    def _conclude_gpu(self, ending: Ending) -> Ending:
        """Store whether the run used a GPU; what cannot be stored costs the run nothing."""
        if self._recorder is not None:
            self._recorder.stop()
        configuration = self._record.spec.run_configuration
        if not configuration.require_gpu and not os.path.exists(self._directory.file(GPU_SAMPLES)):
            return ending
        from tui_workbench.runs.gpu.reading import conclude

        try:
            return conclude(self._directory, configuration, ending)
        except StorageError as error:
            self._directory.append_event("step", step="gpu", reason=f"the verdict was not kept: {error}")
            return ending

    def _have_keeper(self) -> Keeper:
        """Who keeps the run's metrics."""
        if self._keeper is None:
            from tui_workbench.runs.metrics.keeping import Keeper

            self._keeper = Keeper(self._directory)
        return self._keeper

    def _settle(self) -> None:
        """Keep what the run made. What cannot be settled stays in the working copy, and the event says why."""
        if self._record.snapshot == "none" or not os.path.isdir(self._directory.file(WORKING_COPY)):
            return
        from tui_workbench.runs.settle import settle_working_copy

        begun = time.time()
        made_whole = self._directory.copied_at
        fields: dict[str, object] = {"status": "done"}
        try:
            kept = settle_working_copy(
                self._directory.file(WORKING_COPY),
                self._directory.file(OUTPUTS),
                made_whole,
                # Where there is no git the copy is all that remembers what ran.
                drop_unchanged=self._record.snapshot == "git",
            )
            if kept:
                fields["kept"] = kept[:100]
        except OSError as error:
            fields["reason"] = f"{WORKING_COPY}/ was left as it is: {error}"
        self._directory.append_event("step", step="collect", seconds=round(time.time() - begun, 6), **fields)

    def _end(self, state: str, reason: str, *, end: float = 0.0, exit_code: int | None = None) -> None:
        self._forget_environment()
        if self._record.spec.target.gpus:
            _release_gpus(self._record.spec)
        fields: dict[str, object] = {"end": round(end or time.time(), 6)}
        if exit_code is not None:
            fields["exit_code"] = exit_code
        self._directory.append_event("state", state=state, reason=reason, final=True, **fields)


def _ending(outcome: Outcome) -> Ending:
    """What a run that ends now has come to."""
    if outcome.exit_code is None:
        return Ending(RunState.UNKNOWN, outcome.reason, None, time.time())
    state = RunState.FAILED if outcome.exit_code else RunState.COMPLETED
    return Ending(state, outcome.reason if outcome.exit_code else "", outcome.exit_code, time.time())


def stages_of(target: Target, directory: RunDirectory, record: Record, interrupted: int) -> Stages | None:
    """What a target that needs preparation and clearing away goes through besides; None for any other."""
    from tui_workbench.targets.staged import StagedTarget

    if not isinstance(target, StagedTarget):
        return None
    from tui_workbench.runs.stages import Stages

    return Stages(target, directory, record, interrupted)


def with_secrets(spec: RunSpec) -> RunSpec:
    """The specification with the values that run.json does not hold, from the run configuration as it is now.

    Raises ConfigurationError when they are not there any more.
    """
    variables = spec.run_configuration.environment_variables
    masked = [name for name, value in variables.items() if value == MASK and is_secret_name(name)]
    if not masked:
        return spec
    from tui_workbench.config.loading import load_run_configuration

    now = load_run_configuration(spec.run_configuration.path).environment_variables
    missing = [name for name in masked if name not in now]
    if missing:
        raise ConfigurationError(
            f"EnvironmentVariables no longer holds {missing[0]}, which this run was submitted with",
            remedy="Submit it again.",
            file=spec.run_configuration.path,
        )
    whole = {name: now[name] if name in masked else value for name, value in variables.items()}
    return spec._replace(run_configuration=spec.run_configuration._replace(environment_variables=whole))


def drive(directory: RunDirectory, lock: ControllerLock, environment: Mapping[str, str]) -> None:
    """Bring the run to its end in this process, which is its controller and does nothing else. Releases the lock."""
    interrupted = _listen_for_cancel()
    trace.all_of_run(directory.path)
    # The folder that the caller stood in may be wanted gone, or its disk unmounted.
    os.chdir("/")
    collecting = -1

    def accompany(record: Record) -> Recorder | None:
        nonlocal collecting
        if record.spec.tracked:
            from tui_workbench.runs.provenance import start_collecting

            collecting = start_collecting(directory, record, lock.descriptor)
        return _record_gpus(directory, record)

    try:
        directory.make_durable()
        Controller(directory, interrupted, on_running=accompany).finish(environment)
    finally:
        lock.release()
    leave_line(directory)
    if collecting >= 0:
        # It may take longer than a short script; nothing but this process waits for it.
        os.read(collecting, 1)


def _release_gpus(spec: RunSpec) -> None:
    """Let other runs have the GPUs that were chosen for this one; where that cannot be said now, its end tells it."""
    from tui_workbench.targets.gpu import choice
    from tui_workbench.targets.host_for import host_of

    if choice.chosen(spec.run_directory):
        with contextlib.suppress(WorkbenchError):
            choice.release(host_of(spec.target), spec)


def _record_gpus(directory: RunDirectory, record: Record) -> Recorder | None:
    """Watch the GPUs that the run can reach, and its policies, in a thread; None where there is nothing to watch."""
    spec = record.spec
    configuration = spec.run_configuration
    wants = configuration.require_gpu or configuration.stop_if_idle_minutes or configuration.max_duration_minutes
    if not wants and spec.target.type == "local":
        from tui_workbench.targets.gpu.presence import may_have_gpu_here

        if not may_have_gpu_here():
            return None
    if not wants and spec.target.type.endswith("docker") and not spec.target.gives_gpus:
        return None
    from tui_workbench.runs.gpu.recording import Recorder

    def end(reason: str) -> None:
        directory.request_cancel(directory.cancel_grace, reason)
        os.kill(os.getpid(), CANCEL_SIGNAL)

    return Recorder(directory, record, end)


def leave_line(directory: RunDirectory) -> None:
    """Let runs begin that waited for the end of this one. Raises StorageError."""
    if directory.is_limited:
        from tui_workbench.runs.queueing import leave

        leave(directory)


def detach(directory: RunDirectory, lock: ControllerLock, *, fork: bool) -> int:
    """Start the controller as a process of its own, with the lock that this process holds. Returns its process id.

    `fork` may be true only where this process has one thread: the copy then needs no interpreter start, which a short
    run's end would wait for. Elsewhere a fresh interpreter is started, which threads cannot harm. Raises WorkbenchError
    when there can be no further process; the lock is released in any case.
    """
    try:
        pid = _fork(directory, lock) if fork else _spawn(directory, lock)
        # By us, who know it already, and by the child, should we be killed here.
        lock.sign(pid)
    except OSError as error:
        raise WorkbenchError(
            f"cannot start the controller of {directory.run_id}: {error.strerror}",
            remedy="Close programs or raise the process limit, then look at the run again: that starts it anew.",
        ) from error
    finally:
        lock.release()
    adopt(pid)
    return pid


def _fork(directory: RunDirectory, lock: ControllerLock) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        _leave_descriptors(lock.descriptor)
        lock.sign()
        drive(directory, lock, os.environ)
        code = 0
    finally:
        os._exit(code)


def _spawn(directory: RunDirectory, lock: ControllerLock) -> int:
    # -P: a json.py in the folder we stand in must not stand in for the library's.
    module = ("-P", "-m", "tui_workbench.runs.controller")
    inherited = number_for(lock.descriptor)
    return start_detached(
        [sys.executable, *module, LOCK_ARGUMENT, str(inherited), directory.path],
        os.environ,
        passed=((lock.descriptor, inherited),),
    )


def _leave_descriptors(kept: int) -> None:
    """Close everything but `kept`, so that nobody waits for the end of a pipe that we only inherited."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = list(range(3, 256))
    for descriptor in found:
        if descriptor > 2 and descriptor != kept:
            try:
                os.close(descriptor)
            except OSError:
                continue


def _listen_for_cancel() -> int:
    """The descriptor that becomes readable on CANCEL_SIGNAL."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wake(_number: int, _frame: object) -> None:
        try:
            os.write(writing, b"c")
        except BlockingIOError:
            return

    signal.signal(CANCEL_SIGNAL, wake)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    except BlockingIOError:
        return


def main(arguments: list[str]) -> int:
    """`python -m tui_workbench.runs.controller [--lock-fd N] RUN_DIRECTORY`.

    Drive a run; 3 when another process does.
    """
    if arguments[:1] == [LOCK_ARGUMENT]:
        lock: ControllerLock | None = ControllerLock(int(arguments[1]))
        path = arguments[2]
    else:
        lock, path = None, os.path.abspath(arguments[0])
    directory = RunDirectory(path)
    lock = lock or ControllerLock.acquire(directory)
    if lock is None:
        return 3
    os.set_inheritable(lock.descriptor, False)
    lock.sign()
    _leave_descriptors(lock.descriptor)
    drive(directory, lock, os.environ)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
