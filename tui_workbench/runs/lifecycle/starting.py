"""Start the script of a run, record the end of a run, and start detached processes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from tui_workbench.core import system, trace
from tui_workbench.core.causes import CANCELED_EARLY, NOT_STARTED, Cause, kinds_of
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunState
from tui_workbench.core.processes import adopt, child_descriptor, start_detached
from tui_workbench.runs.lifecycle.deferred_copy import make_copy
from tui_workbench.runs.lifecycle.stored_environment import environment_of, remove_environment
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.notify.announcing import announce
from tui_workbench.runs.notify.channels import END
from tui_workbench.runs.store import agent_runs, secret_arguments
from tui_workbench.runs.store.attempts import attempt_number
from tui_workbench.runs.store.rundir import ControllerLock, Ending, Record, RunDirectory
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts.data import unlink_data
from tui_workbench.targets.ssh.host_for import host_of


def start_script(directory: RunDirectory, record: Record, target: Target, lifecycle: TargetLifecycle) -> Ending | None:
    """Execute the steps up to `start`. Return None, or the ending of the run if the script could not be started."""
    spec, plan = record.spec, record.plan
    begun = time.monotonic()
    try:
        with_secrets = secret_arguments.with_secrets(spec)._replace(attempt=attempt_number(directory))
        trace.hide_variables(with_secrets.run_configuration.environment_variables)
        with trace.for_run(directory.path), trace.for_agent(record.agent):
            make_copy(directory, record)
            lifecycle.persist(lambda: target.start(with_secrets, plan, environment_of(directory, os.environ)))
    except WorkbenchError as error:
        # The error may have occurred after the start of the script, so ask the target.
        if not lifecycle.persist(lambda: target.started(spec)):
            return not_started(error)
    directory.append_event("step", step="start", status="done", seconds=round(time.monotonic() - begun, 6))
    if not spec.run_configuration.retry:
        remove_secrets(directory, record)
    lifecycle.enter_started()
    return None


def not_started(error: WorkbenchError) -> Ending:
    """Return the ending of a run whose script was not started."""
    return Ending(RunState.FAILED, (Cause(NOT_STARTED, {"error": str(error)}),), error_code=error.exit_code)


def end_run(directory: RunDirectory, record: Record, ending: Ending) -> None:
    """Record the end of a run. Raises StorageError."""
    remove_secrets(directory, record)
    unlink_data(record.spec)
    for part in record.spec.parts:
        if part.target.gpus and choice.has_reserved(part.run_directory):
            # Some targets need an explicit release of the GPUs.
            with contextlib.suppress(WorkbenchError):
                choice.release(host_of(part.target), part)
    fields: dict[str, object] = {"end": round(ending.end or directory.end_time(), 6)}
    if ending.exit_code is not None:
        fields["exit_code"] = ending.exit_code
    if ending.error_code:
        fields["error_code"] = ending.error_code
    if CANCELED_EARLY not in kinds_of(ending.causes):  # the user has canceled the run, and needs no notification
        announce(directory, END)
    directory.append_event("state", state=ending.state, causes=ending.causes, final=True, **fields)
    agent_runs.note_end(directory.path)


def end_waiting(directory: RunDirectory, record: Record, cause: Cause | None = None) -> None:
    """Record that a queued run has ended without starting; by default, the user has canceled it.

    Raises StorageError.
    """
    end_run(directory, record, Ending(RunState.CANCELED, (cause or Cause(CANCELED_EARLY),)))


def remove_secrets(directory: RunDirectory, record: Record) -> None:
    """Remove the stored arguments and environment, which only the start of the script needs."""
    secret_arguments.remove(record.spec)
    remove_environment(directory)


CANCEL_SIGNAL = signal.SIGURG
"""Signal that makes a controller check for a cancel request. By default, processes ignore this signal."""


CONTROLLER, WATCHER = "tui_workbench.runs.lifecycle.controller", "tui_workbench.runs.lifecycle.watcher"
"""Modules of detached processes. In each, `drive` takes a directory and its lock, and `main` takes both as strings."""


def spawn(directory: RunDirectory, lock: ControllerLock, module: str, variables: Mapping[str, str]) -> int:
    """Start a module in a new interpreter with more environment variables; return its process ID. Raises OSError."""
    inherited = child_descriptor(lock.descriptor)
    command = _command(module, inherited, directory.path)
    return start_detached(command, {**os.environ, **variables}, passed=((lock.descriptor, inherited),))


def become(path: str, lock: ControllerLock, variables: Mapping[str, str]) -> NoReturn:
    """Continue this process, with more environment variables, as the watcher of the folder at `path`.

    Raises OSError.
    """
    os.set_inheritable(lock.descriptor, True)
    command = _command(WATCHER, lock.descriptor, path)
    os.execve(command[0], command, {**os.environ, **variables})


def _command(module: str, descriptor: int, path: str) -> list[str]:
    # With -P, a json.py in the current folder does not shadow the standard library's.
    return [sys.executable, "-P", "-m", module, str(descriptor), path]


def inherited_lock(descriptor: str) -> ControllerLock:
    """Return the lock that `spawn` passed to this process, and close all other descriptors."""
    lock = ControllerLock(int(descriptor))
    os.set_inheritable(lock.descriptor, False)
    lock.sign()
    close_other_descriptors(lock.descriptor)
    return lock


def close_other_descriptors(kept: int) -> None:
    """Redirect the standard streams to /dev/null, and close all other descriptors except `kept`."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


Start = Callable[[RunDirectory, ControllerLock, str, Mapping[str, str]], int]
"""A function that starts a detached process, such as `spawn`."""


def detach(
    directory: RunDirectory,
    lock: ControllerLock,
    start: Start = spawn,
    module: str = CONTROLLER,
    variables: Mapping[str, str] = {},
) -> None:
    """Start the controller, or another module, as a detached process, and pass it the lock of this process.

    `variables` are added to its environment. Raises WorkbenchError if no process can be started. The lock is always
    released in this process.
    """
    try:
        pid = start(directory, lock, module, variables)
        # Both this process and the child write the ID, because this process may be killed before this line.
        lock.sign(pid)
    except OSError as error:
        process = f"the controller of run {directory.run_id}" if module == CONTROLLER else "the watcher of the runs"
        raise WorkbenchError(
            f"cannot start {process}: {error.strerror}",
            remedy="Close other programs, or raise the limit of processes with `ulimit -u`, then try again.",
        ) from error
    finally:
        lock.release()
    adopt(pid)


def has_ended(holder: int) -> bool:
    """Return True if `holder`, a result of `ControllerLock.holder`, is a process that has ended.

    For a moment, its last threads, or a child that it was starting, may still hold the lock.
    """
    return holder > 0 and system.process_stat(holder)[0] in ("", "Z", "X")


def wake(directory: RunDirectory) -> int:
    """Make the controller of a run check for a cancel request.

    Return the result of `ControllerLock.holder`, or 0 if that process has ended.
    """
    holder = ControllerLock.holder(directory)
    if has_ended(holder):
        return 0
    if holder > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder, CANCEL_SIGNAL)
    return holder
