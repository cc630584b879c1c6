"""Arguments and results of the calls of targets, the receiver of progress reports, and folders that scripts see."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import tui_workbench
from tui_workbench.core.causes import Cause, Causes, text_of
from tui_workbench.core.model import ClusterJob

SDK_FOLDER = os.path.join(os.path.dirname(tui_workbench.__file__), "sdk")
"""The folder with `workbench` and the modules of Azure ML Workbench; first on every run's Python path."""

RUN_IN_CONTAINER = "/workbench/run"
"""The run's directory inside a container."""

PROJECT_IN_CONTAINER = "/workbench/project"
"""The project folder, or a copy of it, inside a container."""


class Outcome(NamedTuple):
    """The end of a run on its target. If `exit_code` is None, `causes` say why it is unknown."""

    exit_code: int | None
    causes: Causes = ()
    notes: Causes = ()  # remarks, for any exit code
    has_failed: bool = False  # without an exit code: it is certain that the script did not complete
    retry: str | None = None  # the value of `Retry.on`; "": no further attempt; None: the exit code decides

    @property
    def reason(self) -> str:
        return text_of(self.causes)


class Times(NamedTuple):
    """When a script began and ended, in seconds since the epoch by the clock of this machine; 0.0 if unknown."""

    start: float = 0.0
    end: float = 0.0


class ProjectNames(NamedTuple):
    """The name and the folder of a project; targets use both to identify it."""

    name: str
    root: str


class CleanupItem(NamedTuple):
    """An item that the workbench left on a target and that no run needs."""

    kind: str  # container, environment, cache, run or project
    name: str
    remove: Callable[[], object]
    """Remove the item, if it still exists. Raises WorkbenchError."""

    size: int = -1  # bytes; -1 if unknown
    note: str = ""


class ClusterPartition(NamedTuple):
    """The GPUs of a partition. A node may belong to several partitions."""

    name: str
    total: int
    used: int  # by all users
    free: int  # on nodes that can take jobs
    yours: int  # used by this user's jobs


class JobGpus(NamedTuple):
    """The GPUs of a running job of this user."""

    job_id: str
    run_id: str  # "" for other jobs
    partition: str
    nodes: str  # as the cluster writes them: `node[1-2]`
    gpus: int
    left: str  # time until the limit, as the cluster writes it


class ClusterGpus(NamedTuple):
    """The GPUs of a cluster. Strings are as the cluster reports them."""

    partitions: tuple[ClusterPartition, ...] = ()
    jobs: tuple[JobGpus, ...] = ()


class Report:
    """A receiver of the progress of a run. This base class ignores all reports; subclasses record or print them."""

    interrupted = -1
    """A file descriptor that becomes readable when there may be a cancel request; -1 for none."""

    def begin(self, step: str, title: str) -> None:
        """Report that a step of the plan began."""

    def done(self, step: str, **facts: object) -> None:
        """Report that a step is complete; `facts` go into the run's record."""

    def line(self, text: str) -> None:
        """Report a line of output of the preparation. It may contain any characters."""

    def lost(self, reason: str) -> None:
        """Report that the target is unreachable, so that the state of the run is unknown. The reason may change."""

    def regained(self) -> None:
        """Report that the target answers again. Ignored unless `lost` was called before."""

    def queued(self, reason: str) -> None:
        """Report that a started run waits in a queue of the target, which is reachable. The reason may change."""

    def job(self, facts: ClusterJob) -> None:
        """Report new facts of the scheduler about the job of the run."""

    def running(self) -> None:
        """Report that the script is running and the target is reachable. May be called repeatedly."""

    def ran(self, times: Times) -> None:
        """Report when the script of the current attempt began and ended, as its machine has recorded.

        May be called repeatedly. Without this report, the script began and ended when the target reported it.
        """

    def attempt(self, number: int, start: int, cause: Cause, exit_code: int | None = None) -> None:
        """Report that the target executes the script again, for the `number`-th time.

        May be called again with the same number. `start` is the size of output.log before this attempt. `cause` says
        why the previous attempt ended, and `exit_code` is its exit code, if known.
        """

    def orphaned(self) -> None:
        """Report that the supervising shell was killed while the script continues: its exit code will be unknown."""
