"""Follow many runs with one object, the `RunGroup`.

A *watcher* process waits for the ends of many runs with one `RunGroup` instead of `Target.wait`. On targets with
`drives_together`, the watcher also prepares and starts the runs, with the ordinary methods of `Target`. On other
targets with a `shared_group`, another process starts each run, and then leaves the run to the watcher.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.values import Outcome, Report


class RunGroup(abc.ABC):
    """The base class of objects that wait for many runs, all with the same `SharedGroup.key`.

    All calls come from one thread. There may be thousands of runs, so a queued run must not need a separate thread,
    process or descriptor.
    """

    @abc.abstractmethod
    def add(self, spec: RunSpec, report: Report) -> None:
        """Follow a run whose `Target.start` has returned. The run may already have ended. Does not block.

        The group calls `report.queued` while the run waits on the target, `report.running` while its script runs,
        `report.lost` when the state of the run becomes unknown, and `report.regained` when it is known again. `spec` is
        large, so keep only the needed parts.
        """

    @abc.abstractmethod
    def remove(self, run_id: str) -> None:
        """Stop following a run, and release the lock on the copy of its log. The run continues. Ignores unknown IDs."""

    @abc.abstractmethod
    def wait(self, interrupted: int, timeout: float | None = None) -> Mapping[str, Outcome | None]:
        """Wait until runs end; return the outcomes of these runs by run ID, and stop following them.

        None instead of an outcome means that the script has ended or was never started. Then call `Target.wait`, which
        returns soon. It may have to end processes of the run, for which a group must not wait.

        Returns an empty mapping after `timeout` seconds (None: no limit), or soon after the descriptor `interrupted`
        has become readable (-1: never), even while the target does not answer. Copies the output of all runs meanwhile;
        `output.log` of a returned run is complete. An unreachable target is not an error: the group keeps trying. An
        error of one run, such as a full disk, must not affect the other runs.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Close connections. The runs continue."""


class SharedGroup(NamedTuple):
    """The group in which one process can follow runs on several targets, in any projects of the user."""

    key: str  # the same for all runs that one group can follow
    open: Callable[[], RunGroup]  # returns a new group
    variables: Mapping[str, str] = {}  # environment variables for the process that follows the runs


def wait_for_one(group: RunGroup, spec: RunSpec, report: Report, interrupted: int) -> Outcome:
    """Implement `Target.wait` with a new group that follows only this run. Raises Interrupted."""
    with contextlib.closing(group):
        group.add(spec, report)
        while True:
            outcome = group.wait(interrupted).get(spec.run_id)
            if outcome is not None:
                return outcome
            if interrupted >= 0 and wait_ready([interrupted], timeout=0.0):
                raise Interrupted
