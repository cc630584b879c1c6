"""What checks of targets have found, for as long as it holds: a target whose file has changed counts as unchecked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.check import Rung


class Checked:
    """A target as it was when it was checked, and the rungs that were climbed; none when it could not be yet."""

    def __init__(self, target: ComputeTarget, rungs: Sequence[Rung]) -> None:
        self.target = target
        self.rungs = tuple(rungs)

    @property
    def error(self) -> WorkbenchError | None:
        """What is broken; None when nothing is."""
        last = self.rungs[-1] if self.rungs else None
        if last is None or last.error is None:
            return None
        return WorkbenchError(f"{last.name}: {last.message}", remedy=last.remedy)


class TargetChecks:
    """The last check of each target."""

    def __init__(self) -> None:
        self._checked: dict[str, Checked] = {}

    def add(self, checked: Checked) -> None:
        """Keep what was found."""
        self._checked[checked.target.name] = checked

    def errors(self, targets: Iterable[ComputeTarget]) -> dict[str, WorkbenchError]:
        """What is broken of these targets, by name."""
        found = {target.name: checked.error for target in targets if (checked := self._of(target)) is not None}
        return {name: error for name, error in found.items() if error is not None}

    def good(self, targets: Iterable[ComputeTarget]) -> frozenset[str]:
        """The names of those targets that can be used."""
        checked = [one for target in targets if (one := self._of(target)) is not None]
        return frozenset(one.target.name for one in checked if one.rungs and one.error is None)

    def _of(self, target: ComputeTarget) -> Checked | None:
        checked = self._checked.get(target.name)
        return checked if checked is not None and checked.target == target else None
