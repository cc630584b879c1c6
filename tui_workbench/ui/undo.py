"""Undo of annotations, archived and deleted runs, restored files, filters and the theme.

The invariant: one key undoes the newest step; on the main screen, this includes changes to configuration files.
Such changes have separate undo steps (`config.changes`). Each step here records the number of such changes before it,
so that the newest of all steps is found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from textual.app import App

MOST_STEPS = 200


class UndoStep(NamedTuple):
    """A step that can be undone. `title` is safe text, and `run_ids` are the IDs of the changed runs, if any."""

    title: str
    undo: Callable[[], Awaitable[object]]
    changes_before: int
    run_ids: frozenset[str] = frozenset()


class UndoSteps:
    """The steps of one session, the newest last."""

    def __init__(self) -> None:
        self._steps: list[UndoStep] = []
        self.count_changes: Callable[[], int] = lambda: 0

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, title: str, undo: Callable[[], Awaitable[object]], run_ids: Iterable[str] = ()) -> None:
        """Record a step. `undo` may raise WorkbenchError."""
        step = UndoStep(title, undo, self.count_changes(), frozenset(run_ids))
        self._steps = [*self._steps[1 - MOST_STEPS :], step]

    @property
    def title(self) -> str:
        return self._steps[-1].title if self._steps else ""

    @property
    def is_newest(self) -> bool:
        """True if the newest step is newer than every change to configuration files."""
        return bool(self._steps) and self._steps[-1].changes_before >= self.count_changes()

    def forget(self, title: str) -> None:
        """Remove the newest step with this title, which was undone in another way."""
        for step in reversed(self._steps):
            if step.title == title:
                self._steps.remove(step)
                return

    def forget_runs(self, run_ids: Iterable[str]) -> None:
        """Remove the steps of which no run is left after the permanent deletion of these runs."""
        gone = frozenset(run_ids)
        left = [step._replace(run_ids=step.run_ids - gone) if step.run_ids & gone else step for step in self._steps]
        self._steps = [new for old, new in zip(self._steps, left, strict=True) if new.run_ids or not old.run_ids]

    async def undo(self) -> str:
        """Undo the newest step and return its title. A step that raises WorkbenchError is kept."""
        step = self._steps[-1]
        await step.undo()
        self._steps.remove(step)
        return step.title


_of_apps: WeakKeyDictionary[App[Any], UndoSteps] = WeakKeyDictionary()


def undo_steps(app: App[Any]) -> UndoSteps:
    """Return the undo steps of an app."""
    return _of_apps.setdefault(app, UndoSteps())


def forget_steps(app: App[Any]) -> None:
    """Forget the undo steps of an app, because they belong to a project that is closed."""
    _of_apps.pop(app, None)
