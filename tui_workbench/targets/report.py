"""How a target tells what it is doing while it does it. The controller records it; a command line may print it."""

from __future__ import annotations

from tui_workbench.records import Protocol


class Report(Protocol):
    """Somebody who is told about the progress of a run."""

    interrupted: int
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


class Silent:
    """Nobody who listens, or wants the run to end."""

    interrupted = -1

    def begin(self, step: str, title: str) -> None:
        """Nothing."""

    def done(self, step: str, **facts: object) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def lost(self, reason: str) -> None:
        """Nothing."""

    def regained(self) -> None:
        """Nothing."""
