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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tui_workbench.core.errors import ConfigurationError, NeverStarted, TargetUnreachable, WorkbenchError
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE, SHARE_VARIABLE
from tui_workbench.targets.base.values import CleanupItem, Outcome, ProjectNames, Report
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, Entry, Host
from tui_workbench.targets.hosts.host_layout import HostLayout, find_cleanup_items, remove_cleanup_item
from tui_workbench.targets.hosts.host_run import HostRun, sdk_version
from tui_workbench.targets.hosts.mirror import follow
from tui_workbench.targets.hosts.reaching import reach, wait_through_losses, wait_until_answering
from tui_workbench.targets.hosts.remote_scripts import FIND_PYTHON, LEFT, START, STOP, WAIT
from tui_workbench.targets.hosts.sending import difference

STOP_SECONDS = 60.0
"""Beyond the grace: what processes in an uninterruptible wait are given before the host is asked anew."""

_TICKS_A_SECOND = 20
"""Of the shell there, which can only count its naps."""


class RemoteTarget(Target):
    """`type: remote`."""

    keeps_runs = True

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        super().__init__(target, host)
        self._found: tuple[str, str] | None = None

    def plan(self, spec: RunSpec) -> Plan:
        configuration, label = spec.run_configuration, self.host.label
        run_environment.require_python(configuration)
        if not self.target.user_managed_environment:
            raise ConfigurationError(
                "userManagedEnvironment is false, and environments are not made on targets of type remote",
                remedy="Set `userManagedEnvironment: true` and name an interpreter with pythonLocation, or use Docker.",
                file=self.target.path,
                line=line_of_key(self.target.path, "userManagedEnvironment"),
            )
        home = f"~/.workbench-tui/runs/{spec.run_id}"
        variables = self._variables(spec, home, "~")
        command = _command(spec, self.target.python_location, home)
        run_environment.refuse_impossible(configuration.path, variables, command)
        chosen = (Step("gpus", f"{choice.describe(self.target)} on {label}"),) if choice.chooses(self.target) else ()
        steps = (
            Step("sync", f"send what changed since the last run to {label}"),
            Step("copy", f"make the run's own copy on {label}"),
            *chosen,
            Step(
                "start",
                f"start {spec.script} with {command[0]}{run_environment.describe_launcher(spec)}",
                command,
                f"{home}/work",
                mask_variables(variables),
            ),
            Step("follow", "wait for its end; the output goes to output.log"),
            Step("collect", "keep outputs/ and every other file that the run made"),
            Step("remove", "remove the run's copy there"),
        )
        return Plan(self.target.name, self.target.type, command[0], steps)

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        interpreter, version = self.interpreter()
        destination = HostRun(self.host, spec).layout.project_tree(spec.project_root, spec.project_name)
        sync = difference(self.host, tree(), destination).text
        title = f"start {spec.script} with {interpreter} (Python {version}){run_environment.describe_launcher(spec)}"
        command = _command(spec, interpreter, f"~/.workbench-tui/runs/{spec.run_id}")
        plan = plan.with_step("sync", title=f"send to {self.host.label}: {sync}")
        return plan.with_step("start", title=title, command=command)._replace(interpreter=interpreter)

    def check(self) -> list[Problem]:
        try:
            self.interpreter()
        except WorkbenchError as error:
            path = error.file or self.target.path
            return [Problem(path, error.line, error.column, "error", "target", error.message, error.remedy)]
        return []

    def reach(self) -> None:
        reach(self.target, self.host, self.report)

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        run = HostRun(self.host, spec)
        if run.state().started:
            return
        self.interpreter()
        run.make_folders()
        run.send(tree(), self.report)
        run.keep_record()

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        run = HostRun(self.host, spec)
        variables = self._variables(spec, run.directory, posixpath.dirname(self.host.home()))
        if choice.chooses(self.target) and not run.state().started:
            variables |= choice.variables(
                choice.take(self.host, spec, run.directory), spec.run_configuration.environment_variables
            )
        command = _command(spec, self.interpreter()[0], run.directory)
        command, passing = run_environment.prefix_env(command, variables)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in passing.items())
        if PYTHON_PATH_VARIABLE not in spec.run_configuration.environment_variables:
            # What a login of this user has follows ours.
            exports += f'{PYTHON_PATH_VARIABLE}="${PYTHON_PATH_VARIABLE}$own_path"\n'
            exports = f'own_path="${{{PYTHON_PATH_VARIABLE}:+:${PYTHON_PATH_VARIABLE}}}"\n{exports}'
        exported = exports.encode("utf-8", "surrogateescape").rstrip(b"\n")
        arguments = [run.directory, variables[SHARE_VARIABLE], str(len(exported)), supervisor.TEXT, *command]
        done = self.host.run(["sh", "-c", START, "sh", *arguments], stdin=exported, timeout=STOP_SECONDS)
        run.require(done, f"start {spec.script}")

    def started(self, spec: RunSpec) -> bool:
        return HostRun(self.host, spec).state().started

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        def wait_once() -> Outcome:
            return _Processes(self.host, spec, self.report).wait(interrupted)

        return wait_through_losses(self, wait_once, interrupted)

    def wait_until_reachable(self, interrupted: int) -> None:
        wait_until_answering(self.host, self.report, interrupted)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        return _Processes(self.host, spec, self.report).stop(grace)

    def collect(self, spec: RunSpec) -> None:
        run = HostRun(self.host, spec)
        with run.mirror() as mirror:
            mirror.drain()
        run.fetch(self.report)

    def release(self, spec: RunSpec) -> None:
        HostRun(self.host, spec).remove_copy()

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        return find_cleanup_items(self.host, project, active)

    def remove(self, item: CleanupItem) -> None:
        remove_cleanup_item(self.host, item)

    def _variables(self, spec: RunSpec, run_directory: str, home: str) -> dict[str, str]:
        return run_environment.run_variables(
            spec,
            share=run_environment.shared_folder(spec, home),
            run_directory=run_directory,
            outputs=f"{run_directory}/work/outputs",
            sdk=_sdk_folder(run_directory),
            others=choice.hidden(self.target, spec.run_configuration.environment_variables),
        )

    def interpreter_of(self, spec: RunSpec) -> str:
        return self.interpreter()[0]

    def machine_info(self, spec: RunSpec, interpreter: str) -> dict[str, Any]:
        return super().machine_info(spec, self.interpreter()[0])

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


class _Processes:
    """The processes of one run on a host."""

    def __init__(self, host: Host, spec: RunSpec, report: Report) -> None:
        self._host = host
        self._spec = spec
        self._report = report
        self._run = HostRun(host, spec)

    def wait(self, interrupted: int) -> Outcome:
        """Wait for the script's end while its log arrives. Raises Interrupted, NeverStarted or WorkbenchError."""
        if not self._run.state().started:
            raise NeverStarted(f"it was not started on {self._host.label}", remedy="Submit it again.")
        self._report.regained()
        self._follow(WAIT, interrupted)
        outcome = self._note()
        if outcome.exit_code is None and not self._run.state().restarted:
            # The shell was killed, and the script may go on without it.
            self._report.orphaned()
            self._follow(LEFT, interrupted)
            outcome = self._note()
        return outcome if outcome.exit_code is None else self._end_what_is_left(outcome)

    def _end_what_is_left(self, outcome: Outcome) -> Outcome:
        """End what the script left running. Where that fails the outcome says so. Raises TargetUnreachable."""
        try:
            done = self._end_processes(run_environment.LEFT_BEHIND_GRACE, run_environment.HELPERS_SECONDS)
        except TargetUnreachable:
            raise
        except WorkbenchError as error:
            return outcome._replace(reason="; ".join(filter(None, (outcome.reason, error.message))))
        count = done.text.partition(" ")[2]
        return outcome._replace(note=supervisor.describe_left_behind(int(count) if count.isdigit() else 0))

    def _follow(self, script: str, interrupted: int) -> None:
        """Wait for the end of a program there that ends with the run, while the log arrives; all of it is here then."""
        command = ["sh", "-c", script, "sh", self._run.directory, self._spec.run_id]
        with contextlib.closing(self._host.open(command)) as waiting, self._run.mirror() as mirror:

            def finish() -> None:
                if waiting.wait() != 0:
                    raise ConnectionLost(
                        f"{self._host.label}: the program there that waits for the run's end was ended",
                        remedy="Try again.",
                    )

            follow(waiting.exit_descriptor(), finish, mirror, interrupted, self._run.live())

    def stop(self, grace: float) -> bool:
        """End every process of the run, the shell last so that it can still write the exit code."""
        if not self._run.state().started:
            return False
        done = self._end_processes(grace)
        self._note()
        return done.text.startswith("forced")

    def _note(self) -> Outcome:
        """How the run ended, noted in its directory here."""
        ending = self._run.state()
        self._run.note_end(ending.exit_code)
        if ending.exit_code is not None:
            return self._run.add_full_disk_reason(Outcome(ending.exit_code, supervisor.describe_exit(ending.exit_code)))
        if ending.restarted:
            return Outcome(None, f"{self._host.label} was restarted while it ran; submit it again")
        return Outcome(None, "it ended, but its exit code is not known: the supervising shell was killed")

    def _end_processes(self, grace: float, *patience: float) -> Completed:
        ticks = str(int(grace * _TICKS_A_SECOND))
        words = (self._run.directory, self._spec.run_id, ticks, *map(str, patience))
        done = self._host.run(["sh", "-c", STOP, "sh", *words], timeout=grace + STOP_SECONDS)
        return self._run.require(done, "end the run")


def _sdk_folder(run_directory: str) -> str:
    """What the script may import to log, beside the folder of all runs there."""
    return HostLayout(posixpath.dirname(posixpath.dirname(run_directory))).sdk(sdk_version())


def _command(spec: RunSpec, interpreter: str, run_directory: str) -> tuple[str, ...]:
    return run_environment.script_command(spec, interpreter, _sdk_folder(run_directory), run_directory)
