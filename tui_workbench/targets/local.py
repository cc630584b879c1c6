"""The local machine as a compute target: the interpreter that the `.compute` file names, in a session of its own.

The script's output goes straight into the run's log and its end is recorded by the supervising shell, so nothing of
ours has to live while it trains. What the script sees is the caller's environment, the variables of the run
configuration, and a few of ours. As with a container, a run is over when its script is: what the script left running
is then ended, unless it has made itself independent (see `processes`).
"""

from __future__ import annotations

import os

from tui_workbench.errors import ConfigurationError, StorageError, WorkbenchError
from tui_workbench.model import Plan, Problem, Step, masked
from tui_workbench.project import line_of_key
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import supervisor
from tui_workbench.targets.children import start_detached
from tui_workbench.targets.framework import refuse_impossible, require_python
from tui_workbench.targets.processes import (
    RUN_DIRECTORY_VARIABLE,
    RUN_ID_VARIABLE,
    created_since,
    end_processes,
    processes_of_run,
    wait_for_one,
)
from tui_workbench.targets.protocol import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tui_workbench.model import ComputeTarget, RunSpec

SHARE_VARIABLE = "AZUREML_NATIVE_SHARE_DIRECTORY"
OUTPUTS_VARIABLE = "WORKBENCH_OUTPUTS_DIRECTORY"
"""Where files go that are kept with the run, wherever the script's working directory is by then."""

PYTHON_PATH_VARIABLE = "PYTHONPATH"
SDK_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sdk")
"""What `import workbench` and the original's names come from; first on every run's Python path."""

DEFAULT_SHARE = "~/.azureml/share/"
"""Where the original put what runs share (workbench reference, 1a)."""

SHELL = "/bin/sh"
LEFT_BEHIND_GRACE = 2.0
"""Seconds that processes which outlive the script have to end when they are asked to."""

SHELL_VARIABLES = frozenset(
    ("ENV", "IFS", "LINENO", "MAIL", "OLDPWD", "OPTARG", "OPTIND", "PPID", "PS1", "PS2", "PS4", "PWD", "SHLVL", "_")
).union(supervisor.VARIABLES)
"""Names that a shell may give values of its own, and that the supervising one does."""


class LocalTarget:
    """`type: local`."""

    starts_at_once = True

    def __init__(self, target: ComputeTarget) -> None:
        self.target = target

    def plan(self, spec: RunSpec) -> Plan:
        """Start, follow, collect. Raises ConfigurationError for PySpark and for a missing interpreter."""
        configuration = spec.run_configuration
        require_python(configuration)
        interpreter = find_interpreter(self.target)
        variables = self._variables(spec)
        # A name that begins with a hyphen would be read as an option of the interpreter.
        script = f"./{spec.script}" if spec.script.startswith("-") else spec.script
        command, under = (interpreter, script, *spec.arguments), ""
        if configuration.processes_per_node:
            from tui_workbench.targets import torchrun

            command = (interpreter, *torchrun.launcher(spec, SDK_FOLDER, spec.run_directory), *command[1:])
            under = torchrun.describe(spec)
        refuse_impossible(configuration.path, variables, command)
        steps = []
        if self.target.gpus not in ("", "all", "0"):
            from tui_workbench.targets.gpu import choice

            steps.append(Step("gpus", choice.describe(self.target)))
        steps += [
            Step(
                "start",
                f"start {spec.script} with {interpreter}{under}",
                command,
                spec.working_directory,
                masked(variables),
            ),
            Step("follow", "wait for its end; the output goes to output.log"),
        ]
        if spec.tracked:
            steps.append(
                Step("collect", "keep outputs/ and every other file that the run made, drop the unchanged copy")
            )
        return Plan(self.target.name, self.target.type, interpreter, tuple(steps))

    def check(self) -> list[Problem]:
        """The interpreter is all that a local run needs."""
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
        variables = self._variables(spec)
        merged = {**environment, **variables}
        if PYTHON_PATH_VARIABLE not in spec.run_configuration.environment_variables:
            merged[PYTHON_PATH_VARIABLE] = python_path(SDK_FOLDER, environment.get(PYTHON_PATH_VARIABLE, ""))
        chosen = self._choose(spec)
        variables |= chosen
        merged |= chosen
        share = variables[SHARE_VARIABLE]
        try:
            os.makedirs(share, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the share {share}: {error.strerror}",
                remedy="Set nativeSharedDirectory to a folder that can be written.",
                file=self.target.path,
            ) from error
        command = _past_the_shell(step.command, merged, variables)
        arguments = [SHELL, "-c", supervisor.TEXT, "sh", spec.run_directory, spec.working_directory, *command]
        try:
            start_detached(arguments, merged)
        except OSError as error:
            raise StorageError(
                f"cannot start a process: {error.strerror}",
                remedy="Close programs or raise the process limit; very long arguments also end here.",
            ) from error

    def _choose(self, spec: RunSpec) -> dict[str, str]:
        """What tells the script which GPUs are its; nothing where the target leaves it to the script."""
        if not self.target.gpus:
            return {}
        from tui_workbench.targets.gpu import choice
        from tui_workbench.targets.host import LocalHost

        own = spec.run_configuration.environment_variables
        if not choice.chooses(self.target):
            return choice.hidden(self.target, own)
        return choice.variables(choice.take(LocalHost(), spec, spec.run_directory), own)

    def has_ended(self, spec: RunSpec) -> bool:
        """True when the script is over: it was started, or tried to, and no process of it is left."""
        if not self.started(spec):
            return False
        shell = supervisor.read_supervisor(spec.run_directory)
        return not (shell is not None and shell.is_alive) and not _processes(spec)

    def started(self, spec: RunSpec) -> bool:
        """True once the shell has put its name down."""
        return os.path.exists(f"{spec.run_directory}/{supervisor.PID}")

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the shell's end, and after it for whatever still runs when the shell was killed."""
        shell = _wait_for_supervisor(spec, interrupted)
        while shell.is_alive:
            wait_for_one([shell.pid], interrupted=interrupted)
        code = supervisor.read_exit_code(spec.run_directory)
        if code is None and not shell.same_boot:
            return Outcome(None, "the machine was restarted while it ran")
        since = shell.started_at
        among = created_since(shell.pid, since) if since else None
        while (left := _processes(spec, since=since, among=among)) and code is None:
            among = None
            wait_for_one(left, interrupted=interrupted)
        if left:
            end_processes(lambda: _processes(spec, since=since), LEFT_BEHIND_GRACE)
        if code is None:
            return Outcome(None, "it ended, but its exit code is not known: the supervising shell was killed")
        return Outcome(code, supervisor.describe_exit(code))

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """End every process of the run, the shell last so that it can still write the exit code."""
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

    def _variables(self, spec: RunSpec) -> dict[str, str]:
        """What the run sees on top of the caller's environment; the run configuration's own variables win over ours."""
        # One that is not absolute begins in the project.
        base = os.path.join(spec.project_root, os.path.expanduser(self.target.native_shared_directory or DEFAULT_SHARE))
        own = spec.run_configuration.environment_variables
        return {
            "PYTHONUNBUFFERED": "1",
            SHARE_VARIABLE: os.path.join(base, spec.project_name, ""),
            "AZUREML_RUN_ID": spec.run_id,
            RUN_DIRECTORY_VARIABLE: spec.run_directory,
            # Those of an untracked run stay in the project; what is uploaded goes with the run all the same.
            OUTPUTS_VARIABLE: f"{spec.working_directory if spec.tracked else spec.run_directory}/outputs",
            **own,
            PYTHON_PATH_VARIABLE: python_path(SDK_FOLDER, own.get(PYTHON_PATH_VARIABLE, "")),
            RUN_ID_VARIABLE: spec.run_id,
        }


def python_path(first: str, user_s: str) -> str:
    """A Python path that begins with a folder; an empty part would mean the current directory, so none is made."""
    return f"{first}{os.pathsep}{user_s}" if user_s else first


def _past_the_shell(
    command: tuple[str, ...], environment: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[str, ...]:
    """The command with `env` before it for the variables that a shell would not pass on, or not as they are.

    A shell keeps only those whose names it could have set itself, and has values of its own for some.
    """
    odd = [
        f"{name}={value}"
        for name, value in environment.items()
        if not (name.isascii() and name.isidentifier()) or (name in SHELL_VARIABLES and name in variables)
    ]
    return ("/usr/bin/env", "--", *odd, *command) if odd else command


def _processes(spec: RunSpec, session: int = 0, since: int = 0, among: Iterable[str] | None = None) -> set[int]:
    own_words = RUN_DIRECTORY_VARIABLE in spec.run_configuration.environment_variables
    return processes_of_run(spec.run_id, session, since, among, "" if own_words else spec.run_directory)


def find_interpreter(target: ComputeTarget) -> str:
    """The absolute path of the target's interpreter.

    A bare name is looked for on the caller's PATH; a path that is not absolute begins in the project. Raises
    ConfigurationError.
    """
    name = target.python_location or "python"
    expanded = os.path.expanduser(name)
    project_root = os.path.dirname(os.path.dirname(target.path))
    found = _executable(os.path.join(project_root, expanded)) if os.sep in expanded else _on_path(expanded)
    if found:
        return found
    where = "is not on the PATH" if os.sep not in expanded else "does not exist or cannot be executed"
    raise ConfigurationError(
        f"pythonLocation: {name} {where}",
        remedy="Name the interpreter with its full path, or start the workbench where it is on the PATH.",
        file=target.path,
        line=line_of_key(target.path, "pythonLocation"),
    )


def _on_path(name: str) -> str:
    # Not shutil.which: its import costs more than a whole look-up.
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = _executable(os.path.join(folder, name))
        if found:
            return found
    return ""


def _executable(path: str) -> str:
    return os.path.abspath(path) if os.path.isfile(path) and os.access(path, os.X_OK) else ""


def _wait_for_supervisor(spec: RunSpec, interrupted: int) -> supervisor.Supervisor:
    """The shell's own record, which appears a millisecond after its start.

    Raises WorkbenchError when there is none and nobody is left who could write it.
    """
    shell = supervisor.read_supervisor(spec.run_directory)
    pause = 0.0005
    while shell is None:
        # In this order: a shell that writes the record and ends in between is not missed.
        nobody = not _processes(spec)
        shell = supervisor.read_supervisor(spec.run_directory)
        if shell is None and nobody:
            raise WorkbenchError(
                f"it could not be started: the supervising shell cannot write to {spec.run_directory}",
                remedy="Is the disk full, or the folder not writable?",
            )
        if shell is None:
            wait_for_one((), pause, interrupted)
            pause = min(pause * 2, 0.1)
    return shell
