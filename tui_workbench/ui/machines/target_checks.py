"""What checks of targets have found, for as long as it holds: a target whose file has changed counts as unchecked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import CheckResult
from tui_workbench.targets.gpu.fleet import MachineState


class Checked(NamedTuple):
    """A target as it was when it was checked, and the results; none when it could not be checked yet."""

    target: ComputeTarget
    results: Sequence[CheckResult] = ()

    @property
    def error(self) -> WorkbenchError | None:
        """What is broken; None when nothing is."""
        last = self.results[-1] if self.results else None
        if last is None or last.error is None:
            return None
        return WorkbenchError(f"{last.name}: {last.message}", remedy=last.remedy)


class TargetChecks:
    """The last check of each target, and where there was none what its machine told of its GPUs."""

    def __init__(self) -> None:
        self._checked: dict[str, Checked] = {}
        self._unreached: dict[str, tuple[str, str]] = {}  # problem and remedy
        self.gpus: dict[str, int] = {}
        """The number of GPUs by the name of the target, as far as machines have told it."""

    def see(self, states: Iterable[MachineState]) -> bool:
        """Take what the machines tell; true when that changes what is known of the targets."""
        before = self.gpus, self._unreached
        self.gpus, self._unreached = dict(self.gpus), {}
        for state in states:
            for name in state.targets:
                if state.machine is not None and state.machine.devices:
                    self.gpus[name] = len(state.machine.devices)
                elif state.machine is None and state.problem and state.address:
                    self._unreached[name] = (state.problem, state.remedy)
        return before != (self.gpus, self._unreached)

    def add(self, checked: Checked) -> None:
        """Keep what was found."""
        self._checked[checked.target.name] = checked

    def errors(self, targets: Iterable[ComputeTarget]) -> dict[str, WorkbenchError]:
        """What is broken of these targets, by name."""
        found: dict[str, WorkbenchError] = {}
        for target in targets:
            checked = self._of(target)
            if checked is not None and checked.error is not None:
                found[target.name] = checked.error
            elif checked is None and target.name in self._unreached:
                problem, remedy = self._unreached[target.name]
                found[target.name] = WorkbenchError(problem, remedy=remedy)
        return found

    def good(self, targets: Iterable[ComputeTarget]) -> frozenset[str]:
        """The names of those targets that can be used."""
        checked = [one for target in targets if (one := self._of(target)) is not None]
        return frozenset(one.target.name for one in checked if one.results and one.error is None)

    def _of(self, target: ComputeTarget) -> Checked | None:
        checked = self._checked.get(target.name)
        return checked if checked is not None and checked.target == target else None
