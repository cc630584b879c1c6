"""Values that targets give and take, and how a target tells what it is doing while it does it."""

from __future__ import annotations

from typing import NamedTuple

RUN_IN_CONTAINER = "/workbench/run"
"""Where a run finds its directory inside a container."""

PROJECT_IN_CONTAINER = "/workbench/project"
"""Where it finds the project there, when it works in the project itself or in a copy that the container holds."""


class Outcome(NamedTuple):
    """How a run ended on its target. `exit_code` is None when it is not known, and `reason` then says why."""

    exit_code: int | None
    reason: str = ""
    note: str = ""  # a remark on a run of any result


class ProjectNames(NamedTuple):
    """How a target knows a project: by its name, and by what tells this folder from all others of the name."""

    name: str
    root: str


class CleanupItem(NamedTuple):
    """Something of ours on a target that no run needs any more."""

    kind: str  # container, environment, cache, run or project
    name: str
    size: int = -1  # bytes; -1 when it is not known
    note: str = ""


class Report:
    """Is told about the progress of a run; this one does nothing with it. A controller records it."""

    interrupted = -1
    """A file descriptor that becomes readable when somebody may want the run to end; -1 when nobody can."""

    def begin(self, step: str, title: str) -> None:
        """A step of the plan was begun."""

    def done(self, step: str, **facts: object) -> None:
        """The step that was begun is complete; `facts` go into the run's record."""

    def line(self, text: str) -> None:
        """A line of what a preparation prints: a build's output, what was sent. It may hold anything."""

    def lost(self, reason: str) -> None:
        """The target cannot be reached: what the run does is not known now. May be told again with another reason."""

    def regained(self) -> None:
        """The target answers again. Without a loss before, nothing happens."""

    def orphaned(self) -> None:
        """The supervising shell was killed and the script goes on: its exit code will not be known."""
