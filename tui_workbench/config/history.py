"""Undo and redo of a text: one list of steps that every view of the text shares.

Invariant: undoing all steps gives the first text back, to the character, and redoing them the last.
"""

from __future__ import annotations

from tui_workbench.records import NamedTuple

MAX_STEPS = 1_000
"""Enough for an afternoon; a step holds only what changed."""


class Step(NamedTuple):
    """Between two texts: at `start`, `before` was replaced by `after`."""

    start: int
    before: str
    after: str
    label: str  # what was done, as a person would say it: "set nvidiaDocker"
    merge: str = ""  # steps of the same non-empty word that follow on each other are one step to the user

    @property
    def inverse(self) -> Step:
        """The step back."""
        return Step(self.start, self.after, self.before, self.label, self.merge)

    def apply(self, text: str) -> str:
        """`text` with the step made."""
        return text[: self.start] + self.after + text[self.start + len(self.before) :]


def difference(old: str, new: str, label: str, merge: str = "") -> Step:
    """The shortest single replacement that makes `old` into `new`."""
    limit = min(len(old), len(new))
    start = _common(old, new, limit)
    end = _common(old[::-1], new[::-1], limit - start)
    return Step(start, old[start : len(old) - end], new[start : len(new) - end], label, merge)


def _common(one: str, other: str, limit: int) -> int:
    """Length of the common beginning, at most `limit`."""
    # By halves, because comparing slices is fast and comparing characters one by one is not.
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class History:
    """The steps made and the steps undone."""

    def __init__(self) -> None:
        self._done: list[Step] = []
        self._undone: list[Step] = []

    def add(self, step: Step) -> None:
        """Remember a step that was just made; what was undone before is forgotten."""
        self._undone.clear()
        last = self._done[-1] if self._done else None
        merged = _merged(last, step) if last is not None else None
        if merged is not None:
            self._done[-1] = merged
            return
        self._done.append(step)
        del self._done[:-MAX_STEPS]

    def undo(self) -> Step | None:
        """The step to make to go back, None when there is none."""
        if not self._done:
            return None
        step = self._done.pop()
        self._undone.append(step)
        return step.inverse

    def redo(self) -> Step | None:
        """The step to make to go forward again, None when there is none."""
        if not self._undone:
            return None
        step = self._undone.pop()
        self._done.append(step)
        return step

    def seal(self) -> None:
        """The next step will not be merged into the last one."""
        if self._done:
            self._done[-1] = self._done[-1]._replace(merge="")

    @property
    def undo_label(self) -> str:
        """What undo would take back, "" when nothing."""
        return self._done[-1].label if self._done else ""

    @property
    def redo_label(self) -> str:
        """What redo would bring back, "" when nothing."""
        return self._undone[-1].label if self._undone else ""


def _merged(last: Step, step: Step) -> Step | None:
    """Typing and erasing in a row as one step; a new word begins a new one."""
    if not step.merge or step.merge != last.merge:
        return None
    if not last.before and not step.before and step.start == last.start + len(last.after):
        if "\n" in step.after or (last.after[-1:].isspace() and not step.after[:1].isspace()):
            return None
        return last._replace(after=last.after + step.after)
    if not last.after and not step.after and step.start + len(step.before) == last.start:
        return Step(step.start, step.before + last.before, "", last.label, last.merge)
    return None
