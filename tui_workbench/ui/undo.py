"""What can be taken back besides edits of files: annotations, archived runs, restored files, filters, the theme.

The invariant: one key takes back the newest step, whatever screen made it. Changes of configuration files have a
history of their own (`config.changes`), edits of a text another; each step here knows how many of the former were
before it, so that the newest of all is found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from textual.app import App

MOST_STEPS = 200


class Step(NamedTuple):
    """Something that was done: what it is called, safe text, and what takes it back."""

    title: str
    undo: Callable[[], Awaitable[None]]
    changes_before: int


class UndoSteps:
    """The steps of one session, the newest last."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self.count_changes: Callable[[], int] = lambda: 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, title: str, undo: Callable[[], Awaitable[None]]) -> None:
        """Something was done. `undo` raises WorkbenchError when it cannot."""
        self._steps = [*self._steps[1 - MOST_STEPS :], Step(title, undo, self.count_changes())]

    @property
    def title(self) -> str:
        """What would be taken back; "" when nothing."""
        return self._steps[-1].title if self._steps else ""

    @property
    def is_newest(self) -> bool:
        """Whether the newest step is newer than every change of configuration files."""
        return bool(self._steps) and self._steps[-1].changes_before >= self.count_changes()

    def forget(self, title: str) -> None:
        """The newest step of this name was taken back in another way."""
        for step in reversed(self._steps):
            if step.title == title:
                self._steps.remove(step)
                return

    async def undo(self) -> str:
        """Take the newest step back; gives its title. Raises WorkbenchError; the step is then still there."""
        step = self._steps[-1]
        await step.undo()
        self._steps.remove(step)
        return step.title


_of_apps: WeakKeyDictionary[App[Any], UndoSteps] = WeakKeyDictionary()


def undo_steps(app: App[Any]) -> UndoSteps:
    """The steps of the session that an app is."""
    return _of_apps.setdefault(app, UndoSteps())
