"""The local machine as a compute target: the interpreter that the `.compute` file names, in a process group of its own.

The script's output goes straight into the run's log and its end is recorded by the supervising shell, so nothing of
ours has to live while it trains. What the script sees is the caller's environment, the variables of the run
configuration, and a few of ours.
"""

from __future__ import annotations

import os
import select

from tui_workbench.errors import ConfigurationError, StorageError
from tui_workbench.model import Plan, Problem, Step, masked
from tui_workbench.project import line_of_key
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import supervisor
from tui_workbench.targets.processes import RUN_ID_VARIABLE, adopt, end_processes, processes_of_run
from tui_workbench.targets.protocol import Interrupted, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.model import ComputeTarget, RunSpec

SHARE_VARIABLE = "AZUREML_NATIVE_SHARE_DIRECTORY"
RUN_DIRECTORY_VARIABLE = "WORKBENCH_RUN_DIRECTORY"
DEFAULT_SHARE = "~/.azureml/share/"
"""Where the original put what runs share (workbench reference, 1a)."""

SHELL = "/bin/sh"
POLL_SECONDS = 0.05
"""How often a run's end is looked for on systems that cannot wait for a process that is not a child."""


class LocalTarget:
    """`type: local`."""

    starts_at_once = True

    def __init__(self, target: ComputeTarget) -> None:
        self.target = target

    def plan(self, spec: RunSpec) -> Plan:
        """Start, follow, collect. Raises ConfigurationError for PySpark and for a missing interpreter."""
        configuration = spec.run_configuration
        if configuration.framework.lower() != "python":
            said = (
                "Framework is PySpark"
                if "Framework" in configuration.values
                else "Framework is missing, which means PySpark"
            )
            raise ConfigurationError(
                f"{said}, and Spark runs are not supported yet",
                remedy="Set `Framework: Python`.",
                file=configuration.path,
                line=line_of_key(configuration.path, "Framework"),
            )
        interpreter = find_interpreter(self.target)
        variables = self._variables(spec)
        # A name that begins with a hyphen would be read as an option of the interpreter.
        script = f"./{spec.script}" if spec.script.startswith("-") else spec.script
        command = (interpreter, script, *spec.arguments)
        steps = [
            Step(
                "start", f"start {spec.script} with {interpreter}", command, spec.working_directory, masked(variables)
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
        share = variables[SHARE_VARIABLE]
        try:
            os.makedirs(share, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the share {share}: {error.strerror}",
                remedy="Set nativeSharedDirectory to a folder that can be written.",
                file=self.target.path,
            ) from error
        # A POSIX shell keeps only variables whose names it could have set itself; `env` carries the others past it.
        odd = [f"{name}={value}" for name, value in variables.items() if not name.isidentifier()]
        command = ["/usr/bin/env", *odd, *step.command] if odd else list(step.command)
        arguments = [SHELL, "-c", supervisor.TEXT, "sh", spec.run_directory, spec.working_directory, *command]
        null = os.open(os.devnull, os.O_RDWR)
        try:
            pid = os.posix_spawn(
                SHELL,
                arguments,
                merged,
                file_actions=[(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)],
                setsid=True,
            )
            adopt(pid)
        except OSError as error:
            raise StorageError(
                f"cannot start a process: {error.strerror}",
                remedy="Close programs or raise the process limit; very long arguments also end here.",
            ) from error
        finally:
            os.close(null)

    def has_ended(self, spec: RunSpec) -> bool:
        """True when the script is over: it was started, and no process of it is left."""
        shell = supervisor.read_supervisor(spec.run_directory)
        return shell is not None and not shell.is_alive and not processes_of_run(spec.run_id, shell.pid)

    def started(self, spec: RunSpec) -> bool:
        """True once the shell has put its name down."""
        return os.path.exists(f"{spec.run_directory}/{supervisor.PID}")

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the shell's end, and after it for whatever still runs when the shell was killed."""
        shell = _wait_for_supervisor(spec, interrupted)
        if shell is None:
            return Outcome(None, "the supervising shell did not start")
        _wait_for_process(shell, interrupted)
        code = supervisor.read_exit_code(spec.run_directory)
        if code is None and not shell.same_boot:
            return Outcome(None, "the machine was restarted while it ran")
        while code is None and processes_of_run(spec.run_id, shell.pid):
            _pause(interrupted, POLL_SECONDS)
        code = supervisor.read_exit_code(spec.run_directory) if code is None else code
        if code is None:
            return Outcome(None, "it ended, but its exit code is not known: the supervising shell was killed")
        return Outcome(code, supervisor.describe_exit(code))

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """End every process of the run, the shell last so that it can still write the exit code."""
        shell = supervisor.read_supervisor(spec.run_directory)
        session = shell.pid if shell is not None and shell.is_alive else 0

        def left() -> set[int]:
            return processes_of_run(spec.run_id, session) - {session}

        forced = end_processes(left, grace)
        if session and shell is not None:
            end_processes(lambda: {session} if shell.is_alive else set(), grace=1.0)
        return forced

    def _variables(self, spec: RunSpec) -> dict[str, str]:
        """What the run sees on top of the caller's environment; the run configuration's own variables win over ours."""
        base = os.path.expanduser(self.target.native_shared_directory or DEFAULT_SHARE)
        if not os.path.isabs(base):
            base = os.path.join(spec.project_root, base)
        return {
            "PYTHONUNBUFFERED": "1",
            SHARE_VARIABLE: os.path.join(base, spec.project_name, ""),
            "AZUREML_RUN_ID": spec.run_id,
            RUN_DIRECTORY_VARIABLE: spec.run_directory,
            **spec.run_configuration.environment_variables,
            RUN_ID_VARIABLE: spec.run_id,
        }


def find_interpreter(target: ComputeTarget) -> str:
    """The absolute path of the target's interpreter; a bare name is looked for on the caller's PATH.

    Raises ConfigurationError.
    """
    name = target.python_location or "python"
    expanded = os.path.expanduser(name)
    found = _on_path(expanded)
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
    folders = [""] if os.sep in name else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name) if folder else name
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return ""


def _wait_for_supervisor(spec: RunSpec, interrupted: int) -> supervisor.Supervisor | None:
    """The shell's own record, which appears a millisecond after its start; None when it does not within a second."""
    for _ in range(1000):
        shell = supervisor.read_supervisor(spec.run_directory)
        if shell is not None:
            return shell
        _pause(interrupted, 0.001)
    return None


def _wait_for_process(shell: supervisor.Supervisor, interrupted: int) -> None:
    if not shell.is_alive:
        return
    try:
        descriptor = os.pidfd_open(shell.pid)
    except (OSError, AttributeError):
        while shell.is_alive:
            _pause(interrupted, POLL_SECONDS)
        return
    try:
        # Between the look and the open the number may have gone to another process.
        if shell.is_alive and interrupted in select.select([descriptor, interrupted], [], [])[0]:
            raise Interrupted
    finally:
        os.close(descriptor)


def _pause(interrupted: int, seconds: float) -> None:
    if select.select([interrupted], [], [], seconds)[0]:
        raise Interrupted
