"""The local machine as a compute target, with the interpreter of the `.compute` file or a managed environment.

The script writes directly to the run's log, and the supervising shell records its end, so no process of the workbench
is needed meanwhile. The script sees the caller's environment, and the variables of the run configuration and of the
workbench. A run ends with its script: processes that the script left running are then ended (see `processes`).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tui_workbench.core import system
from tui_workbench.core.causes import EXIT_UNKNOWN, MACHINE_RESTARTED, Cause, Causes, exit_causes, left_running
from tui_workbench.core.errors import ConfigurationError, NeverStarted, StorageError
from tui_workbench.core.files import make_folders
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.core.processes import find_executable, start_detached
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment, spark
from tui_workbench.targets.base.group import SharedGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.base.run_environment import DEFAULT_SHARE, PYTHON_PATH_VARIABLE, SHARE_VARIABLE
from tui_workbench.targets.base.spark import Spark
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import (
    EnvironmentMissing,
    FrameworkLocation,
    Interpreter,
    prepare_command,
    variables_of,
)
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.data import place_data
from tui_workbench.targets.hosts.host import SHELL, Entry, Host
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.processes import (
    ask_to_end,
    end_processes,
    wait_for_any,
)
from tui_workbench.targets.hosts.run_times import times_here
from tui_workbench.targets.hosts.serving import ServerPlace
from tui_workbench.targets.local.local_group import LocalGroup, RunProcesses
from tui_workbench.targets.values import SDK_FOLDER, CleanupItem, Outcome, ProjectNames, Report

if TYPE_CHECKING:
    from tui_workbench.targets.environments.managed import Environments, Managed

SEARCH_PAUSE = 0.016
"""Shortest pause in seconds that is followed by a search for processes of the run. A search is slow."""


class LocalTarget(Target):
    """A target of type `local`."""

    starts_at_once = True
    jobs_at_once: ClassVar[int] = 64  # a step can wait for processes that do not end

    def __init__(self, target: ComputeTarget, environments: Environments | None = None) -> None:
        """With `environments`, a run that needs packages uses a managed environment, which `prepare` builds."""
        super().__init__(target)
        self._environments = environments
        self.starts_at_once = environments is None and not choice.may_wait(target)

    def plan(self, spec: RunSpec) -> Plan:
        managed = _managed(self._environments, spec)
        interpreter = managed.python if managed is not None else find_interpreter(self.target)
        installed = self._spark(spec, interpreter, os.environ)
        variables = _variables(self.target, spec, interpreter, installed)
        command = _command(spec, interpreter, installed)
        run_environment.refuse_impossible(spec.run_configuration.path, variables, command)
        title = f"start {spec.script} with {interpreter}{run_environment.describe_launcher(spec)}"
        steps = []
        if managed is not None:
            verb = "use" if managed.is_complete else "build"
            steps.append(Step("environment", f"{verb} the environment {managed.folder}"))
        if choice.chooses(self.target):
            steps.append(Step("gpus", choice.describe(self.target)))
        if installed is not None:
            steps.append(spark.plan_step(spec, installed))
        steps += [
            Step("start", title, command, spec.working_directory, mask_variables(variables)),
            Step("follow", "wait for the end; the output goes to output.log"),
        ]
        if spec.tracked:
            steps.append(
                Step("collect", "keep outputs/ and all other files that the run created; remove unchanged files")
            )
        return Plan(self.target.name, self.target.type, interpreter, tuple(steps))

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        managed = _managed(self._environments, spec)
        if managed is None or managed.is_complete:
            return plan
        managed.refuse_unless_built(spec)
        return plan.with_step("environment", title=f"build the environment {managed.folder}: {managed.why()}")

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        place_data(self.host, spec, self.report)
        managed = _managed(self._environments, spec)
        if managed is not None:
            managed.refuse_unless_built(spec)
            managed.ensure_built(self.report)
            self._spark(spec, managed.python, os.environ)

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        return _LocalEnvironment(self.host, spec, self._environments)

    def server_place(self, spec: RunSpec) -> ServerPlace:
        managed = _managed(self._environments, spec)
        python = managed.python if managed is not None else find_interpreter(self.target)
        install = f"`{shlex.quote(python)} -m pip install PACKAGE`."
        if managed is not None:
            if not managed.is_complete:
                reason = f"the environment of the run is not built ({managed.why()})"
                raise ConfigurationError(reason, remedy=f"Build it: `{prepare_command(spec)}`.")
            install = f"add PACKAGE to the pip packages of the dependencies file, then run `{prepare_command(spec)}`."
        logs = spec.run_directory if spec.tracked else spec.working_directory
        folders = (spec.working_directory, spec.project_root)
        return ServerPlace(self.host, self.host.label, python=(python,), logs=(logs,), folders=folders, install=install)

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        # Projects share environments, so an active run may use any of them.
        if self._environments is None or active:
            return []
        remove = self._environments.remove
        return [CleanupItem("environment", folder, partial(remove, folder)) for folder in self._environments.folders()]

    def check(self) -> list[Problem]:
        try:
            find_interpreter(self.target)
        except ConfigurationError as error:
            return [Problem(error.file, error.line, error.column, "error", "interpreter", error.message, error.remedy)]
        return []

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        step = plan.step("start")
        if step is None:
            raise ValueError("the plan has no start step")
        place_data(self.host, spec, self.report)
        interpreter = plan.interpreter
        if self._environments is not None:
            interpreter, environment = self._activated(spec, environment)
        installed = self._spark(spec, interpreter, environment)
        variables = _variables(self.target, spec, interpreter, installed)
        merged = {**environment, **variables}
        own = spec.run_configuration.environment_variables
        if PYTHON_PATH_VARIABLE not in own:
            inherited = environment.get(PYTHON_PATH_VARIABLE, "")
            merged[PYTHON_PATH_VARIABLE] = run_environment.python_path(SDK_FOLDER, inherited)
        gpu_variables = choice.hidden(self.target, own)
        if choice.chooses(self.target) and not self.started(spec):
            gpu_variables = choice.variables(choice.take(self.host, spec), own) | choice.folder_variables(self.target)
        variables |= gpu_variables
        merged |= gpu_variables
        _make_share(self.target, variables[SHARE_VARIABLE])
        if installed is not None:
            make_folders(spec.run_directory, supervisor.SPARK)
        # The plan's command cannot be used, because its secret arguments are masked in run.json.
        command, _ = run_environment.prefix_env(_command(spec, interpreter, installed), merged, variables)
        arguments = [SHELL, "-c", supervisor.TEXT, "sh", spec.run_directory, spec.working_directory, *command]
        try:
            start_detached(arguments, merged)
        except OSError as error:
            raise StorageError(
                f"cannot start a process: {error.strerror}",
                remedy="Close programs, raise the process limit (`ulimit -u`), or shorten very long arguments and "
                "variables.",
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
        self.report.ran(times_here(spec.run_directory, restarted=not shell.same_boot))
        if code is None and not shell.same_boot:
            return Outcome(None, (Cause(MACHINE_RESTARTED),))
        since = shell.started_at
        while (left := _processes(spec, since=since)) and code is None:
            self.report.orphaned()
            wait_for_any(left, interrupted=interrupted)
        notes = _end_left_behind(lambda: _processes(spec, since=since)) if left else ()
        if code is None:
            return Outcome(None, (Cause(EXIT_UNKNOWN),))
        return Outcome(code, exit_causes(code), notes)

    def shared_group(self, run_directory: str) -> SharedGroup:
        # Another machine or container can have the same home folder. A file system that does not answer must not affect
        # runs on other file systems.
        device = 0
        with contextlib.suppress(OSError):
            device = os.stat(os.path.dirname(self.target.path)).st_dev
        key = f"{self.target.kind.name} {os.uname().nodename} {system.process_namespace()} {device}"
        return SharedGroup(key, LocalGroup)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        shell = supervisor.read_supervisor(spec.run_directory)

        def leader() -> set[int]:
            # Checked each time: after the shell has ended, another session may get its ID.
            return {shell.pid} if shell is not None and shell.is_alive else set()

        def left() -> set[int]:
            session = leader()
            return _processes(spec, max(session, default=0)) - session

        forced = end_processes(left, grace)
        end_processes(leader, grace=1.0)  # the shell last, so that it writes the exit code
        self.report.ran(times_here(spec.run_directory, restarted=False))
        return forced

    def warn(self, spec: RunSpec) -> None:
        shell = supervisor.read_supervisor(spec.run_directory)
        if shell is not None and shell.is_alive:
            ask_to_end(_processes(spec, shell.pid) - {shell.pid})

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        supervisor.forget(spec.run_directory)

    def _activated(self, spec: RunSpec, environment: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """Return the interpreter and the variables of the run's environment.

        The plan may contain others: a run of an older snapshot is planned before its dependencies file is available.
        """
        managed = _managed(self._environments, spec)
        if managed is None:
            return find_interpreter(self.target), environment
        return managed.python, managed.activated(environment)

    def _spark(self, spec: RunSpec, interpreter: str, environment: Mapping[str, str]) -> Spark | None:
        """Return the Spark of the run, UNKNOWN while its environment is not built; None if the run does not use Spark.

        Raises ConfigurationError if Spark or Java is missing.
        """
        if not spec.run_configuration.uses_spark:
            return None
        spark.require_script(spec)
        managed = _managed(self._environments, spec)
        if managed is not None:
            if not managed.is_complete:
                return spark.UNKNOWN
            environment = managed.activated(environment)
        location = os.path.expanduser(self.target.spark_submit_location)
        if os.sep in location:
            location = os.path.join(os.path.dirname(os.path.dirname(self.target.path)), location)
        installed = spark.parse_found(self.host.run(spark.find_words(spec, interpreter, location, environment)).text)
        remedy = spark.pip_remedy(interpreter) if managed is None else spark.conda_remedy(spec, "pyspark")
        return spark.require_spark(spec, installed, interpreter, spark_remedy=remedy, java_remedy=spark.JAVA_REMEDY)


class _LocalEnvironment(PythonEnvironment):
    """The interpreter of the target, or a managed environment."""

    def __init__(self, host: Host, spec: RunSpec, environments: Environments | None) -> None:
        super().__init__(host, spec)
        self._environments = environments

    def interpreter(self) -> str:
        return find_interpreter(self.spec.target)

    def framework_location(self) -> FrameworkLocation:
        managed = _managed(self._environments, self.spec)
        if managed is None:
            return super().framework_location()
        if not managed.is_complete:
            raise EnvironmentMissing(f"the environment is not built yet ({managed.why()})", prepare_command(self.spec))
        visible = choice.named_variables(self.host, self.spec)
        return Interpreter(self.host, managed.python, variables_of(self.spec, visible, managed.recipe.variables))

    def prepare(self, report: Report) -> str:
        managed = _managed(self._environments, self.spec)
        if managed is None:
            return self.interpreter()
        managed.ensure_built(report)
        return managed.folder


def _managed(environments: Environments | None, spec: RunSpec) -> Managed | None:
    """Return the managed environment of a run; None if it uses the interpreter of the target."""
    return environments.of(spec, find_interpreter(spec.target)) if environments is not None else None


def _make_share(target: ComputeTarget, share: str) -> None:
    try:
        os.makedirs(share, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create the shared folder {share}: {error.strerror}",
            remedy="Set nativeSharedDirectory to a writable folder.",
            file=target.path,
        ) from error


def _end_left_behind(find: Callable[[], set[int]]) -> Causes:
    """End the processes that the script left running, and describe them, except for helpers that end by themselves."""
    deadline = time.monotonic() + run_environment.HELPERS_SECONDS
    while (left := find()) and time.monotonic() < deadline:
        wait_for_any(left, max(0.0, deadline - time.monotonic()))
    names = [system.name_of_process(pid) for pid in left]
    end_processes(find, run_environment.LEFT_BEHIND_GRACE)
    return left_running(len(left), filter(None, names))


def _command(spec: RunSpec, interpreter: str, installed: Spark | None) -> tuple[str, ...]:
    return run_environment.script_command(spec, interpreter, SDK_FOLDER, spec.run_directory, installed)


def _variables(target: ComputeTarget, spec: RunSpec, interpreter: str, installed: Spark | None) -> dict[str, str]:
    # A relative folder is below the project.
    base = os.path.join(spec.project_root, os.path.expanduser(target.native_shared_directory or DEFAULT_SHARE))
    return run_environment.run_variables(
        spec,
        share=os.path.join(base, spec.project_name),
        run_directory=spec.run_directory,
        # The `outputs/` of an untracked run is in the project, but the SDK stores files in the run directory.
        outputs=f"{spec.working_directory if spec.tracked else spec.run_directory}/outputs",
        sdk=SDK_FOLDER,
        others=spark.variables(interpreter, installed) if installed is not None else None,
    )


def _processes(spec: RunSpec, session: int = 0, since: int = 0) -> set[int]:
    return RunProcesses.of(spec).find(session, since)


def find_interpreter(target: ComputeTarget) -> str:
    """Return the absolute path of the target's interpreter. Raises ConfigurationError.

    A bare name is looked up on the caller's PATH; a relative path is below the project.
    """
    name = target.python_location or "python"
    expanded = os.path.expanduser(name)
    project_root = os.path.dirname(os.path.dirname(target.path))
    if os.sep in expanded:
        path = find_executable(expanded, [project_root])
    else:
        # Relative entries of PATH are skipped, because they could lead into the project.
        folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
        path = find_executable(expanded, folders)
    if path:
        return os.path.abspath(path)
    problem = "is not on the PATH" if os.sep not in expanded else "does not exist or is not executable"
    raise ConfigurationError(
        f"pythonLocation: {name} {problem}",
        remedy="Set `pythonLocation` to the full path of an interpreter, or to a name on the PATH of the workbench.",
        file=target.path,
        line=line_of_key(target.path, "pythonLocation"),
    )


def _wait_for_supervisor(spec: RunSpec, interrupted: int) -> supervisor.Supervisor:
    """Read the shell's pid file, which appears about a millisecond after the shell starts.

    Raises NeverStarted if the file is missing and no process could write it.
    """
    shell = supervisor.read_supervisor(spec.run_directory)
    pause = 0.0005
    while shell is None:
        # Look for processes first: the shell may write the file and end in between.
        has_processes = pause < SEARCH_PAUSE or bool(_processes(spec))
        shell = supervisor.read_supervisor(spec.run_directory)
        if shell is None and not has_processes:
            raise NeverStarted(
                f"the run could not be started: the supervising shell cannot write to {spec.run_directory}",
                remedy="Check the free space and the permissions of that folder, then submit the run again.",
            )
        if shell is None:
            wait_for_any((), pause, interrupted)
            pause = min(pause * 2, 0.1)
    return shell
