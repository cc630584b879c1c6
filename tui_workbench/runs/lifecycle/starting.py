"""The start of a run's script, the record of its end, and handing the run over to its controller, a detached process.

It is what a submit needs of a controller, and no more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable

from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunState
from tui_workbench.core.processes import adopt, child_descriptor, start_detached
from tui_workbench.runs.lifecycle.building import environment_of, forget_environment, make_copy
from tui_workbench.runs.lifecycle.target_lifecycle import TargetLifecycle
from tui_workbench.runs.store import secret_arguments
from tui_workbench.runs.store.rundir import ControllerLock, Ending, Record, RunDirectory
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts.host_for import host_of


def start_script(directory: RunDirectory, record: Record, target: Target, lifecycle: TargetLifecycle) -> None:
    """Take the steps up to and with `start`. A failure ends the run as failed, with the reason."""
    spec, plan = record.spec, record.plan
    begun = time.monotonic()
    try:
        whole = secret_arguments.with_secrets(spec)
        trace.hide_variables(whole.run_configuration.environment_variables)
        with trace.for_run(directory.path):
            make_copy(directory, record)
            lifecycle.persist(lambda: target.start(whole, plan, environment_of(directory, os.environ)))
    except WorkbenchError as error:
        # Whatever went wrong may have done so after the script had begun: only the target knows.
        if not lifecycle.persist(lambda: target.started(spec)):
            end_run(directory, record, not_run(error))
            return
    directory.append_event("step", step="start", status="done", seconds=round(time.monotonic() - begun, 6))
    forget_secrets(directory, record)
    lifecycle.enter(RunState.RUNNING)


def not_run(error: WorkbenchError) -> Ending:
    """How a run ends whose script was not run."""
    return Ending(RunState.FAILED, str(error), error_code=error.exit_code)


def end_run(directory: RunDirectory, record: Record, ending: Ending) -> None:
    """Record the end of a run. Raises StorageError."""
    forget_secrets(directory, record)
    spec = record.spec
    if spec.target.gpus and choice.chosen(spec.run_directory):
        # Where other runs cannot be told now that its GPUs are free, its end tells them.
        with contextlib.suppress(WorkbenchError):
            choice.release(host_of(spec.target), spec)
    fields: dict[str, object] = {"end": round(ending.end or directory.now(), 6)}
    if ending.exit_code is not None:
        fields["exit_code"] = ending.exit_code
    if ending.error_code:
        fields["error_code"] = ending.error_code
    directory.append_event("state", state=ending.state, reason=ending.reason, final=True, **fields)


def end_waiting(directory: RunDirectory, record: Record) -> None:
    """Record that a run was canceled that still waited for its turn. Raises StorageError."""
    end_run(directory, record, Ending(RunState.CANCELED, "canceled before it began"))


def forget_secrets(directory: RunDirectory, record: Record) -> None:
    """Remove what only the start of the script needed."""
    secret_arguments.remove(record.spec)
    forget_environment(directory)


CANCEL_SIGNAL = signal.SIGURG
"""Tells a controller to look for a cancel request now.

A process that does not listen for it (yet) ignores it: that is its default.
"""


def spawn(directory: RunDirectory, lock: ControllerLock) -> int:
    """Start the controller in a new interpreter. Returns its process id. Raises OSError."""
    inherited = child_descriptor(lock.descriptor)
    # -P: a json.py in the current folder must not hide the standard library's.
    module = ("-P", "-m", "tui_workbench.runs.lifecycle.controller")
    return start_detached(
        [sys.executable, *module, str(inherited), directory.path], os.environ, passed=((lock.descriptor, inherited),)
    )


def leave_descriptors(kept: int) -> None:
    """Close everything but `kept`, so that nobody waits for the end of a pipe that we only inherited."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def detach(
    directory: RunDirectory, lock: ControllerLock, start: Callable[[RunDirectory, ControllerLock], int] = spawn
) -> None:
    """Start the controller as a process of its own, with the lock that this process holds.

    Raises WorkbenchError when there can be no further process; the lock is released in any case.
    """
    try:
        pid = start(directory, lock)
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


def wake(directory: RunDirectory) -> int:
    """Tell the run's controller to look for a cancel request now. Returns `ControllerLock.holder`."""
    holder = ControllerLock.holder(directory)
    if holder > 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(holder, CANCEL_SIGNAL)
    return holder
