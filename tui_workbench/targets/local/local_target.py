"""The local machine as a compute target: the interpreter that the `.compute` file names, in a session of its own.

With `userManagedEnvironment: false` runs have an environment that is made from the conda dependencies file.

The script's output goes straight into the run's log and its end is recorded by the supervising shell, so nothing of
ours has to live while it trains. What the script sees is the caller's environment, the variables of the run
configuration, and a few of ours. As with a container, a run is over when its script is: what the script left running
is then ended, unless it has made itself independent (see `processes`).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tui_workbench.core.errors import ConfigurationError, NeverStarted, StorageError
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.core.processes import start_detached
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.run_environment import DEFAULT_SHARE, PYTHON_PATH_VARIABLE, SDK_FOLDER, SHARE_VARIABLE
from tui_workbench.targets.base.values import CleanupItem, Outcome, ProjectNames
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import (
    EnvironmentMissing,
    FrameworkLocation,
    Interpreter,
    prepare_command,
    variables_of,
)
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import SHELL, Entry
from tui_workbench.targets.hosts.processes import (
    RUN_DIRECTORY_VARIABLE,
    end_processes,
    name_of_process,
    processes_of_run,
    wait_for_any,
)

if TYPE_CHECKING:
    from tui_workbench.targets.environments.managed import Environments, Managed


class LocalTarget(Target):
    """`type: local`."""

    starts_at_once = True

    def __init__(self, target: ComputeTarget, environments: Environments | None = None) -> None:
        """With `environments` each run has one of them, made when it is missing."""
        super().__init__(target)
        self._environments = environments
        if environments is not None:
            self.starts_at_once = False

    def plan(self, spec: RunSpec) -> Plan:
        configuration = spec.run_configuration
        run_environment.require_python(configuration)
        managed = self._environment(spec)
        interpreter = managed.python if managed is not None else find_interpreter(self.target)
        variables, command = self._variables(spec), _command(spec, interpreter)
        run_environment.refuse_impossible(configuration.path, variables, command)
        title = f"start {spec.script} with {interpreter}{run_environment.describe_launcher(spec)}"
        steps = []
        if managed is not None:
            verb = "use" if managed.is_complete else "build"
            steps.append(Step("environment", f"{verb} the environment {managed.folder}"))
        if choice.chooses(self.target):
            steps.append(Step("gpus", choice.describe(self.target)))
        steps += [
            Step("start", title, command, spec.working_directory, mask_variables(variables)),
            Step("follow", "wait for its end; the output goes to output.log"),
        ]
        if spec.tracked:
            kept = "keep outputs/ and every other file that the run made, drop the unchanged copy"
            steps.append(Step("collect", kept))
        return Plan(self.target.name, self.target.type, interpreter, tuple(steps))

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        managed = self._environment(spec)
        if managed is None or managed.is_complete:
            return plan
        managed.refuse_unless_built(spec)
        return plan.with_step("environment", title=f"build the environment {managed.folder}: {managed.why()}")

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        managed = self._environment(spec)
        if managed is not None:
            managed.refuse_unless_built(spec)
            managed.ensure_built(self.report)

    def prepare_environment(self, spec: RunSpec) -> str:
        if self._environments is None:
            return super().prepare_environment(spec)
        managed = self._environment(spec)
        if managed is None:
            return find_interpreter(self.target)
        managed.ensure_built(self.report)
        return managed.folder

    def interpreter_of(self, spec: RunSpec) -> str:
        return find_interpreter(self.target)

    def framework_location(self, spec: RunSpec) -> FrameworkLocation:
        managed = self._environment(spec)
        if managed is None:
            return super().framework_location(spec)
        if not managed.is_complete:
            raise EnvironmentMissing(f"the environment is not made yet: {managed.why()}", prepare_command(spec))
        return Interpreter(self.host, managed.python, variables_of(spec, managed.recipe.variables))

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        # Environments belong to no project: any active run may use one.
        if self._environments is None or active:
            return []
        return [CleanupItem("environment", folder) for folder in self._environments.folders()]

    def remove(self, item: CleanupItem) -> None:
        if self._environments is not None:
            self._environments.remove(item.name)

    def check(self) -> list[Problem]:
        try:
            find_interpreter(self.target)
        except ConfigurationError as error:
            return [Problem(error.file, error.line, error.column, "error", "interpreter", error.message, error.remedy)]
        return []

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script under the supervising shell.

        `environment` is the caller's; the plan's variables go on top of it.
        """
        step = plan.step("start")
        if step is None:
            raise ValueError("a plan without a start step")
        interpreter = step.command[0]
        if self._environments is not None:
            interpreter, environment = self._activated(spec, environment)
        variables = self._variables(spec)
        merged = {**environment, **variables}
        own = spec.run_configuration.environment_variables
        if PYTHON_PATH_VARIABLE not in own:
            inherited = environment.get(PYTHON_PATH_VARIABLE, "")
            merged[PYTHON_PATH_VARIABLE] = run_environment.python_path(SDK_FOLDER, inherited)
        chosen = choice.hidden(self.target, own)
        if choice.chooses(self.target):
            chosen = choice.variables(choice.take(self.host, spec, spec.run_directory), own)
        variables |= chosen
        merged |= chosen
        self._make_share(variables[SHARE_VARIABLE])
        # The plan may be that of run.json, which holds no secret arguments.
        command, _ = run_environment.prefix_env(_command(spec, interpreter), merged, variables)
        arguments = [SHELL, "-c", supervisor.TEXT, "sh", spec.run_directory, spec.working_directory, *command]
        try:
            start_detached(arguments, merged)
        except OSError as error:
            raise StorageError(
                f"cannot start a process: {error.strerror}",
                remedy="Close programs or raise the process limit; very long arguments also end here.",
            ) from error

    def has_ended(self, spec: RunSpec) -> bool:
        if not self.started(spec):
            return False
        shell = supervisor.read_supervisor(spec.run_directory)
        return not (shell is not None and shell.is_alive) and not _processes(spec)

    def started(self, spec: RunSpec) -> bool:
        return os.path.exists(f"{spec.run_directory}/{supervisor.PID}")

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        shell = _wait_for_supervisor(spec, interrupted)
        while shell.is_alive:
            wait_for_any([shell.pid], interrupted=interrupted)
        code = supervisor.read_exit_code(spec.run_directory)
        if code is None and not shell.same_boot:
            return Outcome(None, "the machine was restarted while it ran")
        since = shell.started_at
        while (left := _processes(spec, since=since)) and code is None:
            self.report.orphaned()
            wait_for_any(left, interrupted=interrupted)
        note = _end_left_behind(lambda: _processes(spec, since=since)) if left else ""
        if code is None:
            return Outcome(None, "it ended, but its exit code is not known: the supervising shell was killed")
        return Outcome(code, supervisor.describe_exit(code), note)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        shell = supervisor.read_supervisor(spec.run_directory)

        def leader() -> set[int]:
            # Looked at each time: once the shell is gone its number may lead a session of somebody else.
            return {shell.pid} if shell is not None and shell.is_alive else set()

        def left() -> set[int]:
            session = leader()
            return _processes(spec, max(session, default=0)) - session

        forced = end_processes(left, grace)
        end_processes(leader, grace=1.0)
        return forced

    def _environment(self, spec: RunSpec) -> Managed | None:
        """The environment of the run; None when it takes the interpreter as it is."""
        return self._environments.of(spec, find_interpreter(self.target)) if self._environments is not None else None

    def _activated(self, spec: RunSpec, environment: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """The interpreter and the variables of the run's environment.

        Not those of the plan: a run of an older snapshot is planned before its dependencies file can be read.
        """
        managed = self._environment(spec)
        if managed is None:
            return find_interpreter(self.target), environment
        return managed.python, managed.activated(environment)

    def _make_share(self, share: str) -> None:
        try:
            os.makedirs(share, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the share {share}: {error.strerror}",
                remedy="Set nativeSharedDirectory to a folder that can be written.",
                file=self.target.path,
            ) from error

    def _variables(self, spec: RunSpec) -> dict[str, str]:
        # One that is not absolute begins in the project.
        base = os.path.join(spec.project_root, os.path.expanduser(self.target.native_shared_directory or DEFAULT_SHARE))
        return run_environment.run_variables(
            spec,
            share=os.path.join(base, spec.project_name),
            run_directory=spec.run_directory,
            # Those of an untracked run stay in the project; what is uploaded goes with the run all the same.
            outputs=f"{spec.working_directory if spec.tracked else spec.run_directory}/outputs",
            sdk=SDK_FOLDER,
        )


def _end_left_behind(find: Callable[[], set[int]]) -> str:
    """End what the script left running, and say so. Helpers that end by themselves now are not worth a word."""
    deadline = time.monotonic() + run_environment.HELPERS_SECONDS
    while (left := find()) and time.monotonic() < deadline:
        wait_for_any(left, max(0.0, deadline - time.monotonic()))
    names = [name_of_process(pid) for pid in left]
    end_processes(find, run_environment.LEFT_BEHIND_GRACE)
    return supervisor.describe_left_behind(len(left), filter(None, names))


def _command(spec: RunSpec, interpreter: str) -> tuple[str, ...]:
    return run_environment.script_command(spec, interpreter, SDK_FOLDER, spec.run_directory)


def _processes(spec: RunSpec, session: int = 0, since: int = 0) -> set[int]:
    own_words = RUN_DIRECTORY_VARIABLE in spec.run_configuration.environment_variables
    return processes_of_run(spec.run_id, session, since, "" if own_words else spec.run_directory)


def find_interpreter(target: ComputeTarget) -> str:
    """The absolute path of the target's interpreter.

    A bare name is looked for on the caller's PATH; a path that is not absolute begins in the project. Raises
    ConfigurationError.
    """
    name = target.python_location or "python"
    expanded = os.path.expanduser(name)
    project_root = os.path.dirname(os.path.dirname(target.path))
    if os.sep in expanded:
        found = shutil.which(os.path.join(project_root, expanded))
    else:
        # A relative entry would lead into the current folder; one inside the project is the user's own choice.
        folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
        found = shutil.which(expanded, path=os.pathsep.join(folders))
    if found:
        return os.path.abspath(found)
    where = "is not on the PATH" if os.sep not in expanded else "does not exist or cannot be executed"
    raise ConfigurationError(
        f"pythonLocation: {name} {where}",
        remedy="Name the interpreter with its full path, or start the workbench where it is on the PATH.",
        file=target.path,
        line=line_of_key(target.path, "pythonLocation"),
    )


def _wait_for_supervisor(spec: RunSpec, interrupted: int) -> supervisor.Supervisor:
    """The shell's own record, which appears a millisecond after its start.

    Raises NeverStarted when there is none and nobody is left who could write it.
    """
    shell = supervisor.read_supervisor(spec.run_directory)
    pause = 0.0005
    while shell is None:
        # In this order: a shell that writes the record and ends in between is not missed.
        nobody = not _processes(spec)
        shell = supervisor.read_supervisor(spec.run_directory)
        if shell is None and nobody:
            raise NeverStarted(
                f"it could not be started: the supervising shell cannot write to {spec.run_directory}",
                remedy="Is the disk full, or the folder not writable?",
            )
        if shell is None:
            wait_for_any((), pause, interrupted)
            pause = min(pause * 2, 0.1)
    return shell
