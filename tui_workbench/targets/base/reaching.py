"""Reach the host of a target, and wait for it when the connection is lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from tui_workbench.core.errors import NeverStarted, StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import Backoff, Interrupted
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.tools import require_tools, slow_shell
from tui_workbench.targets.values import Outcome, Report

STEADY_SECONDS = 5.0
"""After this time in seconds without an error, earlier errors do not lengthen the pause before the next attempt."""


def reach(target: ComputeTarget, host: Host, report: Report) -> None:
    """Check that a machine answers and has the tools that runs need, and report a slow shell.

    Raises the errors of `require_tools`.
    """
    if not host.is_local:
        require_tools(target, host)
        if message := slow_shell(host):
            report.line(message)


def wait_through_losses(target: Target, wait_once: Callable[[], Outcome], interrupted: int) -> Outcome:
    """Call `wait_once` until it returns the outcome of a run; after each error, wait until the target answers again.

    Raises Interrupted and NeverStarted.
    """
    pauses = Backoff()
    while True:
        begun = time.monotonic()
        try:
            return wait_once()
        except NeverStarted:
            raise
        except WorkbenchError as error:
            if time.monotonic() >= begun + STEADY_SECONDS:
                pauses = Backoff()
            # After any error, such as a full disk on this machine, the script may still be running.
            with contextlib.suppress(StorageError):
                target.report.lost(str(error))
            target.wait_until_reachable(interrupted)
            pauses.take(interrupted)


def wait_until_answering(
    host: Host, report: Report, interrupted: int, ask: Callable[[], object] = lambda: None
) -> None:
    """Block until the host is reachable and `ask` does not raise TargetUnreachable. Raises Interrupted."""
    pauses = Backoff()
    while True:
        try:
            if not host.wait_until_reachable(interrupted):
                raise Interrupted
            ask()
            return
        except TargetUnreachable as error:
            report.lost(str(error))
        pauses.take(interrupted)
