"""Plain Python on another machine over SSH: the host's own interpreter, no Docker, nothing installed.

The run's directory on the host is as a local run's: the same supervising shell writes the same files there, so the run
outlives every connection, and its log is copied here by byte offset. What the script sees is what a login of this user
sees, the variables of the run configuration, and a few of ours; they travel as input of the shell that starts it,
never as arguments that other users of the host could read.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex

from tui_workbench.errors import ConfigurationError, TargetUnreachable, WorkbenchError
from tui_workbench.model import Plan, Problem, Step, masked
from tui_workbench.project import line_of_key
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import framework, supervisor, torchrun
from tui_workbench.targets.container import share_of
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.host import wait_ready
from tui_workbench.targets.hostrun import HostRun
from tui_workbench.targets.layout import HostLayout
from tui_workbench.targets.local import (
    DEFAULT_SHARE,
    LEFT_BEHIND_GRACE,
    OUTPUTS_VARIABLE,
    PYTHON_PATH_VARIABLE,
    SHARE_VARIABLE,
    SHELL_VARIABLES,
    python_path,
)
from tui_workbench.targets.processes import RUN_DIRECTORY_VARIABLE, RUN_ID_VARIABLE
from tui_workbench.targets.protocol import Interrupted, Outcome
from tui_workbench.targets.remote_scripts import FIND_PYTHON, LEFT, START, STOP, WAIT
from tui_workbench.targets.staged import StagedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.targets.host import Completed, Entry, Host
    from tui_workbench.targets.staged import Leftover, ProjectNames

RETRY_SECONDS = 30.0
"""A login that is refused is tried again after this: somebody may have mended it."""

STOP_SECONDS = 60.0
"""Beyond the grace: what processes in an uninterruptible wait are given before the host is asked anew."""

_TICKS_A_SECOND = 20
"""Of the shell there, which can only count its naps."""


class RemoteTarget(StagedTarget):
    """`type: remote`."""

    def __init__(self, target: ComputeTarget, host: Host) -> None:
        super().__init__()
        self.target = target
        self.host = host
        self._found: tuple[str, str] | None = None

    def plan(self, spec: RunSpec) -> Plan:
        """The steps as far as files tell them. Raises ConfigurationError."""
        configuration, label = spec.run_configuration, self.host.label
        framework.require_python(configuration)
        if not self.target.user_managed_environment:
            raise ConfigurationError(
                "userManagedEnvironment is false, and environments are not made on targets of type remote",
                remedy="Set `userManagedEnvironment: true` and name an interpreter with pythonLocation, or use Docker.",
                file=self.target.path,
                line=line_of_key(self.target.path, "userManagedEnvironment"),
            )
        home = f"~/.workbench-tui/runs/{spec.run_id}"
        variables = self._variables(spec, home, "~")
        command = (self.target.python_location, *self._launcher(spec, home), _script(spec), *spec.arguments)
        framework.refuse_impossible(configuration.path, variables, command)
        chosen = (Step("gpus", f"{choice.describe(self.target)} on {label}"),) if choice.chooses(self.target) else ()
        steps = (
            Step("sync", f"send what changed since the last run to {label}"),
            Step("copy", f"make the run's own copy on {label}"),
            *chosen,
            Step(
                "start",
                f"start {spec.script} with {command[0]}{torchrun.describe(spec)}",
                command,
                f"{home}/work",
                masked(variables),
            ),
            Step("follow", "wait for its end; the output goes to output.log"),
            Step("collect", "keep outputs/ and every other file that the run made"),
            Step("remove", "remove the run's copy there"),
        )
        return Plan(self.target.name, self.target.type, command[0], steps)

    def survey(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """The plan with the interpreter that is there, and what would be sent."""
        from tui_workbench.targets.sending import difference

        interpreter, version = self.interpreter()
        destination = HostRun(self.host, spec).layout.project_tree(spec.project_root, spec.project_name)
        sync = difference(self.host, tree(), destination).text
        steps = []
        for step in plan.steps:
            if step.name == "sync":
                step = step._replace(title=f"send to {self.host.label}: {sync}")
            elif step.name == "start":
                title = f"start {spec.script} with {interpreter} (Python {version}){torchrun.describe(spec)}"
                step = step._replace(title=title, command=(interpreter, *step.command[1:]))
            steps.append(step)
        return plan._replace(interpreter=interpreter, steps=tuple(steps))

    def check(self) -> list[Problem]:
        """The interpreter is all that such a run needs there."""
        try:
            self.interpreter()
        except WorkbenchError as error:
            path = error.file or self.target.path
            return [Problem(path, error.line, error.column, "error", "target", error.message, error.remedy)]
        return []

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        """Send the project and make the run's copy of it, unless it has been started."""
        run = HostRun(self.host, spec)
        if run.ending().started:
            return
        self.interpreter()
        run.make_folders()
        run.send(tree(), self.report)
        run.keep_record()

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script under the supervising shell; one that was started is left alone."""
        run = HostRun(self.host, spec)
        variables = self._variables(spec, run.directory, posixpath.dirname(self.host.home()))
        if choice.chooses(self.target) and not run.ending().started:
            variables |= choice.variables(
                choice.take(self.host, spec, run.directory), spec.run_configuration.environment_variables
            )
        command = [
            self.interpreter()[0], *self._launcher(spec, run.directory), _script(spec), *spec.arguments
        ]  # fmt: skip
        # A shell keeps only variables whose names it could have set itself, and the supervising one uses a few;
        # `env` carries the others past it.
        odd = [f"{name}={value}" for name, value in variables.items() if not _passes_the_shells(name)]
        if odd:
            command = ["/usr/bin/env", "--", *odd, *command]
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in variables.items() if _passes_the_shells(name)
        )
        if PYTHON_PATH_VARIABLE not in spec.run_configuration.environment_variables:
            # What a login of this user has follows ours.
            exports += f'{PYTHON_PATH_VARIABLE}="${PYTHON_PATH_VARIABLE}$own_path"\n'
            exports = f'own_path="${{{PYTHON_PATH_VARIABLE}:+:${PYTHON_PATH_VARIABLE}}}"\n{exports}'
        arguments = [run.directory, variables[SHARE_VARIABLE], supervisor.TEXT, *command]
        exported = exports.encode("utf-8", "surrogateescape")
        done = self.host.run(["sh", "-c", START, "sh", *arguments], stdin=exported, timeout=STOP_SECONDS)
        run.must(done, f"start {spec.script}")

    def started(self, spec: RunSpec) -> bool:
        """True once the shell there has put its name down."""
        return HostRun(self.host, spec).ending().started

    def has_ended(self, spec: RunSpec) -> bool:
        """True when the end has been noted in the run's directory here."""
        return supervisor.read_exit_code(spec.run_directory) is not None

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the script's end with the log taken meanwhile, through every loss of the connection."""
        while True:
            try:
                return self._wait_once(spec, interrupted)
            except TargetUnreachable as error:
                self.report.lost(str(error))
                self.wait_until_reachable(interrupted)

    def wait_until_reachable(self, interrupted: int) -> None:
        """Block until the machine answers. Raises Interrupted when the descriptor becomes readable first."""
        watched = [interrupted] if interrupted >= 0 else []
        while True:
            try:
                if not self.host.wait_until_reachable(interrupted):
                    raise Interrupted
                return
            except TargetUnreachable as error:
                self.report.lost(str(error))
            if wait_ready(watched, timeout=RETRY_SECONDS):
                raise Interrupted

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """End every process of the run there, the shell last so that it can still write the exit code."""
        run = HostRun(self.host, spec)
        if not run.ending().started:
            return False
        done = self._end_processes(run, spec, grace)
        self._note(run)
        return done.text == "forced"

    def collect(self, spec: RunSpec) -> None:
        """Bring here the rest of the log, outputs/ and every other file that the run made."""
        run = HostRun(self.host, spec)
        with run.mirror() as mirror:
            mirror.drain()
        run.fetch()

    def release(self, spec: RunSpec) -> None:
        """Remove the run's copy of the project there."""
        HostRun(self.host, spec).remove_copy()

    @property
    def place(self) -> str:
        """The host."""
        return self.host.label

    def leftovers(self, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
        """Folders of runs and of the project."""
        from tui_workbench.targets.leftovers import find_folders

        return find_folders(self.host, project, active)

    def remove(self, leftover: Leftover) -> None:
        """Remove one of them."""
        from tui_workbench.targets.leftovers import remove_folder

        remove_folder(self.host, leftover)

    def known_runs(self, project: ProjectNames) -> list[tuple[str, bytes]]:
        """Those with a folder there."""
        from tui_workbench.targets.leftovers import run_folders

        return [(folder.run_id, folder.record) for folder in run_folders(self.host) if folder.project == project.name]

    def _variables(self, spec: RunSpec, run_directory: str, home: str) -> dict[str, str]:
        """What the run sees on top of a login's environment; the run configuration's own variables win over ours."""
        share = share_of(spec, self.target.native_shared_directory or DEFAULT_SHARE, home)
        own = spec.run_configuration.environment_variables
        return {
            "PYTHONUNBUFFERED": "1",
            SHARE_VARIABLE: posixpath.join(share, ""),
            "AZUREML_RUN_ID": spec.run_id,
            RUN_DIRECTORY_VARIABLE: run_directory,
            OUTPUTS_VARIABLE: f"{run_directory}/work/outputs",
            **choice.hidden(self.target, own),
            **own,
            PYTHON_PATH_VARIABLE: python_path(_sdk_folder(run_directory), own.get(PYTHON_PATH_VARIABLE, "")),
            RUN_ID_VARIABLE: spec.run_id,
        }

    @staticmethod
    def _launcher(spec: RunSpec, run_directory: str) -> tuple[str, ...]:
        return torchrun.launcher(spec, _sdk_folder(run_directory), run_directory)

    def interpreter(self) -> tuple[str, str]:
        """Absolute path and version of the interpreter there, asked once.

        Raises ConfigurationError or TargetUnreachable.
        """
        if self._found is None:
            self._found = self._find_interpreter()
        return self._found

    def _find_interpreter(self) -> tuple[str, str]:
        name = self.target.python_location or "python"
        done = self.host.run(["sh", "-c", FIND_PYTHON, "sh", name])
        words = done.text.split("\n")
        if done.code == 0 and len(words) == 2:
            return words[0], words[1]
        where = "is not on the PATH of a login" if "/" not in name else "does not exist or is no Python"
        raise ConfigurationError(
            f"pythonLocation: {name} {where} on {self.host.label}",
            remedy="Name the interpreter with its full path there.",
            file=self.target.path,
            line=line_of_key(self.target.path, "pythonLocation"),
        )

    def _wait_once(self, spec: RunSpec, interrupted: int) -> Outcome:
        run = HostRun(self.host, spec)
        if not run.ending().started:
            raise WorkbenchError(f"it was never started on {self.host.label}", remedy="Submit it again.")
        self.report.regained()
        self._follow(run, spec, WAIT, interrupted)
        outcome = self._note(run)
        if outcome.exit_code is None and not run.ending().restarted:
            # The shell was killed, and the script may go on without it.
            self._follow(run, spec, LEFT, interrupted)
            outcome = self._note(run)
        if outcome.exit_code is not None:
            self._end_processes(run, spec, LEFT_BEHIND_GRACE)
        return outcome

    def _follow(self, run: HostRun, spec: RunSpec, script: str, interrupted: int) -> None:
        """Wait for the end of a program there that ends with the run, while the log arrives; all of it is here then."""
        with (
            contextlib.closing(self.host.open(["sh", "-c", script, "sh", run.directory, spec.run_id])) as waiting,
            run.mirror() as mirror,
        ):
            ended, log, live = waiting.exit_descriptor(), mirror.open(), run.live()
            while True:
                watched = [descriptor for descriptor in (ended, log, interrupted) if descriptor >= 0]
                ready = wait_ready(watched, timeout=None if live is None else live.timeout)
                if live is not None:
                    live.look()
                if log in ready:
                    if not mirror.pump():
                        mirror.end()
                    if live is not None:
                        live.hasten()
                if ended in ready:
                    waiting.wait()
                    mirror.drain()
                    return
                if interrupted in ready:
                    raise Interrupted

    def _note(self, run: HostRun) -> Outcome:
        """How the run ended, noted in its directory here."""
        ending = run.ending()
        run.note_end(ending.exit_code)
        if ending.exit_code is not None:
            return run.told_of_disk(Outcome(ending.exit_code, supervisor.describe_exit(ending.exit_code)))
        if ending.restarted:
            return Outcome(None, f"{self.host.label} was restarted while it ran; submit it again")
        return Outcome(None, "it ended, but its exit code is not known: the supervising shell was killed")

    def _end_processes(self, run: HostRun, spec: RunSpec, grace: float) -> Completed:
        ticks = str(int(grace * _TICKS_A_SECOND))
        done = self.host.run(
            ["sh", "-c", STOP, "sh", run.directory, spec.run_id, ticks], timeout=grace + STOP_SECONDS
        )  # fmt: skip
        return run.must(done, "end the run")


def _sdk_folder(run_directory: str) -> str:
    """What the script may import to log, beside the folder of all runs there."""
    from tui_workbench.targets import sdk

    return HostLayout(posixpath.dirname(posixpath.dirname(run_directory))).sdk(sdk.version())


def _script(spec: RunSpec) -> str:
    # A name that begins with a hyphen would be read as an option of the interpreter.
    return f"./{spec.script}" if spec.script.startswith("-") else spec.script


def _passes_the_shells(name: str) -> bool:
    return name.isascii() and name.isidentifier() and name not in SHELL_VARIABLES
