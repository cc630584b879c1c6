"""The latest check of each target. A target whose file has changed since its check counts as unchecked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import CheckResult
from tui_workbench.targets.gpu.fleet import MachineState


class Checked(NamedTuple):
    """The results of a check, and the target at that time. `results` is empty if no check has run."""

    target: ComputeTarget
    results: Sequence[CheckResult] = ()

    @property
    def error(self) -> WorkbenchError | None:
        """The failed check as an error, or None."""
        last = self.results[-1] if self.results else None
        if last is None or last.error is None:
            return None
        return WorkbenchError(f"{last.name}: {last.message}", remedy=last.remedy)


class TargetChecks:
    """The latest check of each target, and the problems of unchecked targets that the GPU monitor has reported."""

    def __init__(self) -> None:
        self._checked: dict[str, Checked] = {}
        self._unreached: dict[str, tuple[str, str]] = {}  # problem and remedy by target name
        self.gpus: dict[str, int] = {}  # known numbers of GPUs by target name

    def see(self, states: Iterable[MachineState]) -> bool:
        """Update problems and numbers of GPUs from the states of machines. Return True if anything changed."""
        before = self.gpus, self._unreached
        self.gpus, self._unreached = dict(self.gpus), {}
        for state in states:
            for name in state.targets:
                if state.machine is not None and state.machine.devices:
                    self.gpus[name] = len(state.machine.devices)
                elif state.machine is None and state.problem and state.address and state.is_contacted:
                    self._unreached[name] = (state.problem, state.remedy)
        return before != (self.gpus, self._unreached)

    def add(self, checked: Checked) -> None:
        self._checked[checked.target.name] = checked

    def errors(self, targets: Iterable[ComputeTarget]) -> dict[str, WorkbenchError]:
        errors: dict[str, WorkbenchError] = {}
        for target in targets:
            checked = self._of(target)
            if checked is not None and checked.error is not None:
                errors[target.name] = checked.error
            elif checked is None and target.name in self._unreached:
                problem, remedy = self._unreached[target.name]
                errors[target.name] = WorkbenchError(problem, remedy=remedy)
        return errors

    def good(self, targets: Iterable[ComputeTarget]) -> frozenset[str]:
        checks = filter(None, map(self._of, targets))
        return frozenset(checked.target.name for checked in checks if checked.results and checked.error is None)

    def _of(self, target: ComputeTarget) -> Checked | None:
        checked = self._checked.get(target.name)
        return checked if checked is not None and checked.target == target else None
