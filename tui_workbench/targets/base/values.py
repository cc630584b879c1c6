"""Values in the calls of targets, and the receiver of their progress."""

from __future__ import annotations

from typing import NamedTuple

RUN_IN_CONTAINER = "/workbench/run"
"""The run's directory inside a container."""

PROJECT_IN_CONTAINER = "/workbench/project"
"""The project folder, or a copy of it, inside a container."""


class Outcome(NamedTuple):
    """How a run ended on its target. If `exit_code` is None, `reason` says why it is unknown."""

    exit_code: int | None
    reason: str = ""
    note: str = ""  # a remark, whatever the exit code


class ProjectNames(NamedTuple):
    """The name and the folder of a project; targets use both to identify it."""

    name: str
    root: str


class CleanupItem(NamedTuple):
    """Something that the workbench left on a target and that no run needs."""

    kind: str  # container, environment, cache, run or project
    name: str
    size: int = -1  # bytes; -1 if unknown
    note: str = ""


class Report:
    """Receives the progress of a run. This base class ignores it; the controller records it."""

    interrupted = -1
    """A file descriptor that becomes readable when the run may have to end; -1 for none."""

    def begin(self, step: str, title: str) -> None:
        """A step of the plan began."""

    def done(self, step: str, **facts: object) -> None:
        """A step is complete; `facts` go into the run's record."""

    def line(self, text: str) -> None:
        """A line of output of the preparation. It may contain any characters."""

    def lost(self, reason: str) -> None:
        """The target is unreachable, so the state of the run is unknown. May be called again with another reason."""

    def regained(self) -> None:
        """The target answers again. Ignored unless `lost` was called before."""

    def orphaned(self) -> None:
        """The supervising shell was killed while the script continues: its exit code will be unknown."""
