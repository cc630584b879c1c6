"""Execute runs on another machine over SSH, with an interpreter of that machine.

The machine may be the head node of a Spark cluster, where YARN or another master executes scripts with Spark.

The supervising shell writes the same files as for a local run, so a run outlives every connection. The log is copied by
byte offset. The script gets the environment of an SSH login, and the variables of the run configuration and of the
workbench. These variables are sent to the input of the shell that starts the script, because other users of the host
could read arguments.
"""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tui_workbench.core.causes import EXIT_UNKNOWN, MACHINE_RESTARTED, Cause, exit_causes, left_running, plain
from tui_workbench.core.errors import ConfigurationError, NeverStarted, TargetUnreachable, WorkbenchError
from tui_workbench.core.masking import mask_variables
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.waiting import Backoff, at_once
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment, spark
from tui_workbench.targets.base.group import SharedGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.base.reaching import reach, wait_through_losses, wait_until_answering
from tui_workbench.targets.base.run_environment import PYTHON_PATH_VARIABLE, SHARE_VARIABLE
from tui_workbench.targets.base.spark import Spark
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.data import place_data
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, Entry, Host
from tui_workbench.targets.hosts.host_layout import HostLayout, find_cleanup_items
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.mirror import follow
from tui_workbench.targets.hosts.sdk import sdk_version
from tui_workbench.targets.hosts.sending import difference
from tui_workbench.targets.hosts.serving import ServerPlace
from tui_workbench.targets.remote import yarn
from tui_workbench.targets.remote.remote_group import RemoteGroup
from tui_workbench.targets.remote.yarn import YarnRun
from tui_workbench.targets.ssh.ssh_wire import login_of
from tui_workbench.targets.values import CleanupItem, Outcome, ProjectNames, Report

if TYPE_CHECKING:
    from tui_workbench.targets.checks.ladder import Checks, OpenTarget

STOP_SECONDS = 60.0
"""Time beyond the grace period for processes in uninterruptible sleep. Then the call is repeated."""

_TICKS_PER_SECOND = 20
"""The script STOP counts pauses of 50 ms."""

_FIND_PYTHON = shell_script("targets/remote/scripts/find_python.sh")


class RemoteTarget(Target):
    """`type: remote` and `type: cluster`."""

    keeps_runs = True
    jobs_at_once = 16  # a step can wait for processes that do not end; each needs about two SSH sessions

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        super().__init__(target, host)
        self._interpreter: tuple[str, str] | None = None
        self._installed_spark: Spark | None = None
        self._just_started = ""  # the ID of the run whose script this object has started, until it waits for the run

    @classmethod
    def checks(cls, target: ComputeTarget, open_target: OpenTarget, host: Host | None = None) -> Checks:
        from tui_workbench.targets.remote.checks import RemoteChecks

        return RemoteChecks(target, open_target, host)

    def plan(self, spec: RunSpec) -> Plan:
        configuration, label = spec.run_configuration, self.host.label
        if not self.target.user_managed_environment:
            raise ConfigurationError(
                f"userManagedEnvironment is false, but targets of type {self.target.type} do not build environments",
                remedy="Set `userManagedEnvironment: true` and pythonLocation, or use a target of type remotedocker.",
                file=self.target.path,
                line=line_of_key(self.target.path, "userManagedEnvironment"),
            )
        home = f"~/.workbench-tui/runs/{spec.run_id}"
        installed = _spark_to_find(spec)
        variables = self._variables(spec, home, "~", installed)
        command = _command(spec, self.target.python_location, home, installed)
        run_environment.refuse_impossible(configuration.path, variables, command)
        gpu_steps = (Step("gpus", f"{choice.describe(self.target)} on {label}"),) if choice.chooses(self.target) else ()
        steps = (
            Step("sync", f"send changed files to {label}"),
            Step("copy", f"make the run's working copy on {label}"),
            *gpu_steps,
            *self._spark_steps(spec, installed),
            Step(
                "start",
                f"start {spec.script} with {self.target.python_location}{run_environment.describe_launcher(spec)}",
                command,
                f"{home}/work",
                mask_variables(variables),
            ),
            Step("follow", "wait for the end; the output goes to output.log"),
            Step("collect", _collect_title(spec)),
            Step("remove", f"remove the run's working copy on {label}"),
        )
        return Plan(self.target.name, self.target.type, self.target.python_location, steps)

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        interpreter, version = self.interpreter()
        destination = HostRun(self.host, spec).layout.project_tree(spec.project_root, spec.project_name)
        sync = difference(self.host, tree(), destination).text
        title = f"start {spec.script} with {interpreter} (Python {version}){run_environment.describe_launcher(spec)}"
        installed = self._spark(spec)
        command = _command(spec, interpreter, f"~/.workbench-tui/runs/{spec.run_id}", installed)
        if installed is not None:
            plan = plan.with_step("spark", title=spark.plan_step(spec, installed).title)
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

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        # The run's folder needs both, and each needs a round trip.
        at_once({"home": self.host.home, "interpreter": self.interpreter})
        run = HostRun(self.host, spec)
        place_data(self.host, spec, self.report)
        if self._spark(spec) is not None:
            run.make_folders(run.file(supervisor.SPARK))
        if spark.driver_is_in_cluster(spec):
            yarn.prepare(self.host, run, spec)
        # Other nodes of a cluster may change the copy on a network disk.
        run.send(tree, self.report, reuses_copy=not self.target.kind.spark_master)

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        run = HostRun(self.host, spec)
        installed = self._spark(spec)
        variables = self._variables(spec, run.directory, posixpath.dirname(self.host.home()), installed)
        if choice.chooses(self.target) and not run.state().started:
            variables |= choice.variables(choice.take(self.host, spec), spec.run_configuration.environment_variables)
            variables |= choice.folder_variables(self.target)
        command = _command(spec, self.interpreter()[0], run.directory, installed)
        command, passing = run_environment.prefix_env(command, variables)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in passing.items())
        if PYTHON_PATH_VARIABLE not in spec.run_configuration.environment_variables:
            # The login's own PYTHONPATH follows the workbench's.
            exports += f'{PYTHON_PATH_VARIABLE}="${PYTHON_PATH_VARIABLE}$own_path"\n'
            exports = f'own_path="${{{PYTHON_PATH_VARIABLE}:+:${PYTHON_PATH_VARIABLE}}}"\n{exports}'
        exported = exports.encode("utf-8", "surrogateescape").rstrip(b"\n")
        arguments = [run.directory, variables[SHARE_VARIABLE], str(len(exported)), supervisor.TEXT, *command]
        done = self.host.run(["sh", "-c", supervisor.START, "sh", *arguments], stdin=exported, timeout=STOP_SECONDS)
        run.require(done, f"start {spec.script}")
        self._just_started = spec.run_id

    def started(self, spec: RunSpec) -> bool:
        return HostRun(self.host, spec).state().started

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        def wait_once() -> Outcome:
            is_started, self._just_started = self._just_started == spec.run_id, ""
            return _Processes(self.host, spec, self.report).wait(interrupted, is_started=is_started)

        return wait_through_losses(self, wait_once, interrupted)

    def shared_group(self, run_directory: str) -> SharedGroup | None:
        if self.target.kind.spark_master:
            return None  # `wait` may have to wait for an application that continues in the cluster
        key = " ".join((self.target.kind.name, *login_of(self.target)[1:]))
        return SharedGroup(key, partial(RemoteGroup, self.host))

    def wait_until_reachable(self, interrupted: int) -> None:
        wait_until_answering(self.host, self.report, interrupted)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        return _Processes(self.host, spec, self.report).stop(grace)

    def warn(self, spec: RunSpec) -> None:
        run = HostRun(self.host, spec)
        run.require(
            self.host.run(["sh", "-c", supervisor.WARN, "sh", run.directory, spec.run_id]), "send SIGTERM to the run"
        )

    def collect(self, spec: RunSpec) -> None:
        run = HostRun(self.host, spec)
        with run.mirror() as mirror:
            mirror.drain()
        run.fetch(self.report)

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        HostRun(self.host, spec).reset(anew=anew)

    def release(self, spec: RunSpec) -> None:
        HostRun(self.host, spec).remove_copy()

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        return find_cleanup_items(self.host, project, active)

    def _spark_steps(self, spec: RunSpec, installed: Spark | None) -> tuple[Step, ...]:
        if installed is None:
            return ()
        step = spark.plan_step(spec, installed)
        if not self.target.kind.spark_master:
            return (step,)
        python = self.target.python_location
        text = f"build no environment: {python} on all nodes needs the packages that the script imports"
        return step, Step("environment", text)

    def _spark(self, spec: RunSpec) -> Spark | None:
        """Return the Spark of the run; None if it uses none. Raises ConfigurationError or TargetUnreachable."""
        if not spec.run_configuration.uses_spark:
            return None
        if self._installed_spark is None:
            interpreter, location = self.interpreter()[0], self.target.spark_submit_location
            installed = spark.parse_found(self.host.run(spark.find_words(spec, interpreter, location, {})).text)
            where, remedy = f"{interpreter} on {self.host.label}", spark.pip_remedy(interpreter)
            self._installed_spark = spark.require_spark(
                spec, installed, where, spark_remedy=remedy, java_remedy=spark.JAVA_REMEDY
            )
        return self._installed_spark

    def _variables(self, spec: RunSpec, run_directory: str, home: str, installed: Spark | None) -> dict[str, str]:
        interpreter = self._interpreter[0] if self._interpreter is not None else self.target.python_location
        return run_environment.run_variables(
            spec,
            share=run_environment.shared_folder(spec, home),
            run_directory=run_directory,
            outputs=f"{run_directory}/work/outputs",
            sdk=_sdk_folder(run_directory),
            others={
                **choice.hidden(self.target, spec.run_configuration.environment_variables),
                **(spark.variables(interpreter, installed) if installed is not None else {}),
            },
        )

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        return _RemoteEnvironment(self.host, spec, lambda: self.interpreter()[0])

    def server_place(self, spec: RunSpec) -> ServerPlace:
        run, python = HostRun(self.host, spec), self.interpreter()[0]
        return ServerPlace(
            self.host,
            self.host.label,
            python=(python,),
            logs=(run.directory,),
            folders=(run.file(supervisor.WORKING_COPY), run.directory),
            install=f"`ssh {self.host.ssh_words} {shlex.quote(python)} -m pip install PACKAGE`.",
            socket_folder=run.directory,
        )

    def interpreter(self) -> tuple[str, str]:
        """Return the path and version of the interpreter. Raises ConfigurationError or TargetUnreachable."""
        if self._interpreter is None:
            self._interpreter = _find_interpreter(self.host, self.target)
        return self._interpreter


class _RemoteEnvironment(PythonEnvironment):
    """The interpreter that `find` returns, because only the machine knows its full path."""

    def __init__(self, host: Host, spec: RunSpec, find: Callable[[], str]) -> None:
        super().__init__(host, spec)
        self._find = find

    def interpreter(self) -> str:
        return self._find()

    def machine_info(self, planned: str) -> dict[str, Any]:
        return super().machine_info(self.interpreter())


class _Processes:
    """The processes of one run on a host."""

    def __init__(self, host: Host, spec: RunSpec, report: Report) -> None:
        self._host = host
        self._spec = spec
        self._report = report
        self._run = HostRun(host, spec)
        self._yarn = YarnRun(host, self._run, spec)

    def wait(self, interrupted: int, *, is_started: bool) -> Outcome:
        """Wait for the end of the script and copy its log. Raises Interrupted, NeverStarted or WorkbenchError.

        `is_started` is True if the machine has just said that the script was started, and need not be asked again.
        """
        is_in_cluster = self._yarn.is_used
        if not is_started:
            state = self._run.state()
            if not state.started:
                raise NeverStarted(f"the run was not started on {self._host.label}", remedy="Submit the run again.")
            if not is_in_cluster or state.exit_code is None:
                self._report.regained()
        self._follow(supervisor.WAIT, interrupted)
        if is_in_cluster:
            return self._wait_for_application(interrupted)
        outcome = self._record_end()
        if outcome.exit_code is None and not self._run.state().restarted:
            # The shell was killed; the script may continue without it.
            self._report.orphaned()
            self._follow(supervisor.LEFT, interrupted)
            outcome = self._record_end()
        return outcome if outcome.exit_code is None else self._end_left_behind(outcome)

    def _wait_for_application(self, interrupted: int) -> Outcome:
        """Wait for the end of an application in the cluster, which continues without `spark-submit`."""
        state = self._run.state()
        if state.exit_code is None and not state.restarted:
            self._follow(supervisor.LEFT, interrupted)  # only the shell of `spark-submit` was killed
        pauses = Backoff()
        while (outcome := self._yarn.outcome(state.exit_code)) is None:
            self._report.regained()
            pauses.take(interrupted)
        self._report.regained()
        with self._run.mirror() as mirror:
            mirror.drain()
        # Written last, because an exit code on this machine means that the run has ended.
        self._run.note_end(outcome.exit_code)
        return self._end_left_behind(outcome)

    def _end_left_behind(self, outcome: Outcome) -> Outcome:
        """End the processes that the script left running; return the outcome with a note. Raises TargetUnreachable."""
        try:
            done = self._end_processes(run_environment.LEFT_BEHIND_GRACE, run_environment.HELPERS_SECONDS)
        except TargetUnreachable:
            raise
        except WorkbenchError as error:
            return outcome._replace(causes=(*outcome.causes, *plain(error.message)))
        count = done.text.partition(" ")[2]
        return outcome._replace(notes=left_running(whole_number(count) or 0))

    def _follow(self, script: str, interrupted: int) -> None:
        """Copy the log until a script on the host that waits for the run has ended."""
        command = ["sh", "-c", script, "sh", self._run.directory, self._spec.run_id]
        with contextlib.closing(self._host.open(command)) as waiting, self._run.mirror() as mirror:

            def finish() -> None:
                if waiting.wait() != 0:
                    raise ConnectionLost(
                        f"{self._host.label}: the program that waits for the end of the run was killed",
                        remedy="Wait: the workbench starts it again.",
                    )

            follow(waiting.exit_descriptor(), finish, mirror, interrupted, self._run.live())

    def stop(self, grace: float) -> bool:
        """End all processes of the run, the shell last, so that it writes the exit code.

        Returns True if SIGKILL was needed.
        """
        if not self._run.state().started:
            return False
        done = self._end_processes(grace)
        if self._yarn.is_used:
            self._yarn.kill()
        else:
            self._record_end()
        return done.text.startswith("forced")

    def _record_end(self) -> Outcome:
        """Write the exit code on this machine, and return the outcome."""
        state = self._run.state()
        self._report.ran(state.times)
        self._run.note_end(state.exit_code)
        if state.exit_code is not None:
            return self._run.with_full_disk(Outcome(state.exit_code, exit_causes(state.exit_code)))
        if state.restarted:
            return Outcome(None, (Cause(MACHINE_RESTARTED, {"host": self._host.label}),))
        return Outcome(None, (Cause(EXIT_UNKNOWN),))

    def _end_processes(self, grace: float, *helper_seconds: float) -> Completed:
        ticks = str(int(grace * _TICKS_PER_SECOND))
        arguments = (self._run.directory, self._spec.run_id, ticks, *map(str, helper_seconds))
        done = self._host.run(["sh", "-c", supervisor.STOP, "sh", *arguments], timeout=grace + STOP_SECONDS)
        return self._run.require(done, "end the run")


def _find_interpreter(host: Host, target: ComputeTarget) -> tuple[str, str]:
    """Return the path and version of the target's interpreter. Raises ConfigurationError or TargetUnreachable."""
    name = target.python_location or "python"
    done = host.run(["sh", "-c", _FIND_PYTHON, "sh", name])
    words = done.text.split("\n")
    if done.code == 0 and len(words) == 2:
        return words[0], words[1]
    problem = "does not exist or is not Python" if "/" in name else "is not on the PATH of an SSH login"
    raise ConfigurationError(
        f"pythonLocation: {name} {problem} on {host.label}",
        remedy="Set pythonLocation to the full path of an interpreter on that machine.",
        file=target.path,
        line=line_of_key(target.path, "pythonLocation"),
    )


def _sdk_folder(run_directory: str) -> str:
    """Return the folder of the SDK, beside the folder of all runs."""
    return HostLayout(posixpath.dirname(posixpath.dirname(run_directory))).sdk(sdk_version())


def _spark_to_find(spec: RunSpec) -> Spark | None:
    """Return the Spark of the run, as far as known without contacting the machine; None if the run does not use it."""
    if not spec.run_configuration.uses_spark:
        return None
    spark.require_script(spec)
    return spark.UNKNOWN


def _collect_title(spec: RunSpec) -> str:
    if spark.driver_is_in_cluster(spec):
        return "fetch the log of the driver, but not outputs/, which stays on its node"
    return "fetch outputs/ and all other files that the run created"


def _command(spec: RunSpec, interpreter: str, run_directory: str, installed: Spark | None) -> tuple[str, ...]:
    return run_environment.script_command(spec, interpreter, _sdk_folder(run_directory), run_directory, installed)
