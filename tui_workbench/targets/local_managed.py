"""The local machine with an environment of the run's own: `type: local` with `userManagedEnvironment: false`.

All but the environment is as on any local target: the same shell supervises the script, and the run is local in every
other way.
"""

from __future__ import annotations

import os

from tui_workbench.errors import NotPrepared
from tui_workbench.model import Plan, Problem, Step
from tui_workbench.project import line_of_key
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.local import LocalTarget, find_interpreter
from tui_workbench.targets.staged import Leftover, StagedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.targets.host import Entry
    from tui_workbench.targets.managed import Managed
    from tui_workbench.targets.protocol import Outcome
    from tui_workbench.targets.staged import ProjectNames


class ManagedLocalTarget(StagedTarget):
    """`type: local` with an environment that is made from the conda dependencies file."""

    def __init__(self, target: ComputeTarget) -> None:
        super().__init__()
        self.target = target
        self._local = LocalTarget(target)

    def plan(self, spec: RunSpec) -> Plan:
        """The plan of a local run, with the environment's interpreter. Raises ConfigurationError."""
        plan, managed = self._local.plan(spec), self._environment(spec)
        if managed is None:
            return plan
        verb = "take" if managed.is_whole else "make"
        steps = [Step("environment", f"{verb} the environment {managed.folder}")]
        for step in plan.steps:
            if step.name == "start":
                title = f"start {spec.script} with {managed.python}"
                step = step._replace(title=title, command=(managed.python, *step.command[1:]))
            steps.append(step)
        return plan._replace(interpreter=managed.python, steps=tuple(steps))

    def survey(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """The plan with the reason why the environment would be made."""
        managed = self._environment(spec)
        if managed is None or managed.is_whole:
            return plan
        self._refuse_unless_made(spec, managed)
        title = f"make the environment {managed.folder}: {managed.why()}"
        steps = (step._replace(title=title) if step.name == "environment" else step for step in plan.steps)
        return plan._replace(steps=tuple(steps))

    def check(self) -> list[Problem]:
        """As on any local target."""
        return self._local.check()

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        """Have the environment."""
        managed = self._environment(spec)
        if managed is not None:
            self._refuse_unless_made(spec, managed)
            managed.have(self.report)

    def prepare_environment(self, spec: RunSpec) -> str:
        """The folder of the environment; the interpreter as it is when it has all that the file asks for."""
        managed = self._environment(spec)
        if managed is None:
            return find_interpreter(self.target)
        managed.have(self.report)
        return managed.folder

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script with the environment's programs first on the PATH."""
        managed = self._environment(spec)
        if managed is not None:
            path = f"{managed.folder}/bin:{environment.get('PATH', os.defpath)}"
            own = {"PATH": path, "VIRTUAL_ENV": managed.folder, "CONDA_PREFIX": managed.folder}
            environment = {**environment, **own, **managed.recipe.variables}
        # A run of an older snapshot is planned before its dependencies file is there to be read.
        python = managed.python if managed is not None else find_interpreter(self.target)
        steps = (
            step._replace(command=(python, *step.command[1:])) if step.name == "start" else step for step in plan.steps
        )
        self._local.start(spec, plan._replace(steps=tuple(steps)), environment)

    def started(self, spec: RunSpec) -> bool:
        """As on any local target."""
        return self._local.started(spec)

    def has_ended(self, spec: RunSpec) -> bool:
        """As on any local target."""
        return self._local.has_ended(spec)

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """As on any local target."""
        return self._local.wait(spec, interrupted)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """As on any local target."""
        return self._local.stop(spec, grace=grace)

    def collect(self, spec: RunSpec) -> None:
        """Nothing: it is all here."""

    def release(self, spec: RunSpec) -> None:
        """Nothing: the environment stays for the next run."""

    def wait_until_reachable(self, interrupted: int) -> None:
        """It is here."""

    def leftovers(self, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
        """The environments of this machine, unless runs go on that may use one."""
        from tui_workbench.targets import managed

        return [] if active else [Leftover("environment", folder) for folder in managed.kept()]

    def remove(self, leftover: Leftover) -> None:
        """Remove an environment."""
        from tui_workbench.targets import managed

        managed.remove(leftover.name)

    def _environment(self, spec: RunSpec) -> Managed | None:
        """The environment of the run; None when the interpreter has all that the file asks for."""
        from tui_workbench.targets.managed import managed_environment

        managed = managed_environment(spec, find_interpreter(self.target))
        return None if managed.recipe.is_met_by(managed.version) else managed

    def _refuse_unless_made(self, spec: RunSpec, managed: Managed) -> None:
        configuration = spec.run_configuration
        if managed.is_whole or configuration.prepare_environment:
            return
        raise NotPrepared(
            f"its environment is not prepared ({managed.why()}), and PrepareEnvironment is false",
            remedy=f"Prepare it with `workbench-tui experiment prepare -c {configuration.name}`, or set "
            "`PrepareEnvironment: true`.",
            file=configuration.path,
            line=line_of_key(configuration.path, "PrepareEnvironment"),
        )
