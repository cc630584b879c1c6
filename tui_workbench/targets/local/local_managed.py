"""The local machine with an environment of the run's own: `type: local` with `userManagedEnvironment: false`.

All but the environment is as on any local target: the same shell supervises the script, and the run is local in every
other way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence

from tui_workbench.core.model import Plan, RunSpec, Step
from tui_workbench.targets.base.values import Leftover, ProjectNames
from tui_workbench.targets.environments import managed
from tui_workbench.targets.environments.environment import not_prepared
from tui_workbench.targets.environments.managed import Managed, managed_environment
from tui_workbench.targets.gpu.framework_location import Interpreter, NotThere, Place, preparing_command, variables_of
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.local.local_target import LocalTarget, find_interpreter


class ManagedLocalTarget(LocalTarget):
    """`type: local` with an environment that is made from the conda dependencies file."""

    starts_at_once = False

    def plan(self, spec: RunSpec) -> Plan:
        plan, managed = super().plan(spec), self._environment(spec)
        if managed is None:
            return plan
        verb = "take" if managed.is_whole else "make"
        first = Step("environment", f"{verb} the environment {managed.folder}")
        command = _command_of(plan, managed.python)
        plan = plan.with_step("start", title=f"start {spec.script} with {managed.python}", command=command)
        return plan._replace(interpreter=managed.python, steps=(first, *plan.steps))

    def survey(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        managed = self._environment(spec)
        if managed is None or managed.is_whole:
            return plan
        self._refuse_unless_made(spec, managed)
        title = f"make the environment {managed.folder}: {managed.why()}"
        return plan.with_step("environment", title=title)

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        managed = self._environment(spec)
        if managed is not None:
            self._refuse_unless_made(spec, managed)
            managed.have(self.report)

    def framework_place(self, spec: RunSpec) -> Place:
        managed = self._environment(spec)
        if managed is None:
            return super().framework_place(spec)
        if not managed.is_whole:
            raise NotThere(f"the environment is not made yet: {managed.why()}", preparing_command(spec))
        return Interpreter(self.host, managed.python, variables_of(spec, managed.recipe.variables))

    def prepare_environment(self, spec: RunSpec) -> str:
        managed = self._environment(spec)
        if managed is None:
            return find_interpreter(self.target)
        managed.have(self.report)
        return managed.folder

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        managed = self._environment(spec)
        if managed is not None:
            path = f"{managed.folder}/bin:{environment.get('PATH', os.defpath)}"
            own = {"PATH": path, "VIRTUAL_ENV": managed.folder, "CONDA_PREFIX": managed.folder}
            environment = {**environment, **own, **managed.recipe.variables}
        # A run of an older snapshot is planned before its dependencies file is there to be read.
        python = managed.python if managed is not None else find_interpreter(self.target)
        super().start(spec, plan.with_step("start", command=_command_of(plan, python)), environment)

    def leftovers(self, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
        return [] if active else [Leftover("environment", folder) for folder in managed.kept()]

    def remove(self, leftover: Leftover) -> None:
        managed.remove(leftover.name)

    def _environment(self, spec: RunSpec) -> Managed | None:
        """The environment of the run; None when the interpreter has all that the file asks for."""
        managed = managed_environment(spec, find_interpreter(self.target))
        return None if managed.recipe.is_met_by(managed.version) else managed

    def _refuse_unless_made(self, spec: RunSpec, managed: Managed) -> None:
        if not managed.is_whole and not spec.run_configuration.prepare_environment:
            raise not_prepared(spec, managed.why())


def _command_of(plan: Plan, python: str) -> tuple[str, ...]:
    step = plan.step("start")
    return (python, *step.command[1:]) if step is not None else ()
