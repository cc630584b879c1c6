"""The protocol of compute targets.

All calls block. The controller of a run does one thing after another, so plain calls are the simplest interface; a
target that needs an event loop runs one internally. Screens call targets in threads.

Every target guarantees these behaviors (tests/targets/test_conformance.py checks them by number):

1. `plan` changes nothing and contacts no other machine. The same specification gives the same plan.
2. `start` starts a run at most once, even if several processes call it repeatedly.
3. The run outlives the process that started it.
4. `wait` returns the exit code of the script, even if the run ended before the call.
5. If the exit code is unknown, the exit code of the outcome is None, and the outcome has the reason.
6. When `wait` returns, `output.log` holds every byte of stdout and stderr in order.
7. `stop` asks the processes of the run to end, and kills them after `grace` seconds. It returns when all have ended.
8. `stop` does nothing for a run that has ended or never began.
9. Arguments, variables and names reach the script unchanged, whatever characters they contain.
10. A run ends with its script: when `wait` has returned an exit code, no process with the run's ID is left. A process
    that removed the ID from its environment, such as a service, may continue.
11. `wait` and `stop` can be called from any process, at any time, and again after an interruption.
12. `prepare` can be called again at any time, even after its caller was killed.
13. After `collect`, all files of the run are in its directory on this machine. `collect` can be called again until
    `release`.
14. After `release`, no memory, process or working copy of the run is left on the target.
15. Every call raises TargetUnreachable if the target does not answer, and can then be repeated. Only `wait` keeps
    trying: it calls `report.lost` and later `report.regained`.
16. A script can `import workbench` with any interpreter. Values that it logs are in the run's directory after
    `collect`. In PYTHONPATH, the workbench's folder precedes the user's folders.
17. A `shared_group`, opened in any process, returns each run once. The outcome is that of `wait`, or None if `wait`
    must be called and will return soon.
18. If the type reads `Retry`, an ended run can be started again after `reset`. Its log continues. After `release`, it
    can be started again after `reset` with `anew`, and `prepare`.
19. `warn` sends SIGTERM to the processes of a run and returns at once. The run continues until its script ends.
20. `wait` calls `report.ran` with the times at which the script began and ended, even if it ended long before the call.
21. The names of `checks` are known without contacting a machine, and are all different. `run` gives results of these
    checks in this order, up to the first that is broken, and may add checks of GPUs that the target does not request.
    It leaves nothing on the machine.

Targets with `starts_at_once` have nothing to prepare, collect or release, and are always reachable.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec
from tui_workbench.core.target_types import TargetType
from tui_workbench.targets.base.attaching import Attaching
from tui_workbench.targets.base.group import SharedGroup
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.hosts import py_spy, supervisor
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.serving import ServerPlace
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.values import CleanupItem, ClusterGpus, Outcome, ProjectNames, Report

if TYPE_CHECKING:
    from tui_workbench.targets.checks.ladder import Checks, OpenTarget


class Target(abc.ABC):
    """A compute target, which executes runs."""

    type: ClassVar[TargetType | None] = None
    """The type, if another package adds it. The built-in types are in `core.target_types`."""

    attaching: ClassVar[Attaching | None] = None
    """How the type is attached, if another package adds it; None if its files are written by hand.

    The built-in types are in `targets.attaching.attachable`.
    """

    starts_at_once: bool = False
    """True if `start` takes milliseconds and needs no `prepare`. Then the submitting process starts the run."""

    drives_together: ClassVar[bool] = False
    """True if the process that follows a run in its `shared_group` also starts the run.

    Then `start` may return before the script runs; the group reports when the script runs.
    """

    jobs_at_once: ClassVar[int] = 4
    """Maximum number of runs whose steps the watcher executes at once. An SSH server allows few sessions."""

    sends_at_start: ClassVar[bool] = False
    """True if `start` sends the files that `prepare` was given; then `prepare` is called before each `start`."""

    keeps_runs: ClassVar[bool] = False
    """True if the target keeps records of runs that other machines can read."""

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        """Raises ConfigurationError if the file of a remote target contains a plain-text password or passphrase."""
        self.target = target
        self.host = host or host_of(target)
        """The machine that executes the runs."""

        self.report: Report = Report()
        """Receives the progress of the run."""

        self.limits_sweep = False
        """True if `start` has given the run to a scheduler that limits the number of active runs of the sweep."""

    @classmethod
    def checks(cls, target: ComputeTarget, open_target: OpenTarget, host: Host | None = None) -> Checks:
        """Return the checks of a target of this type, each with its fix. Contacts no machine.

        `target` can be invalid; then `open_target`, which returns its implementation, raises ConfigurationError. `host`
        is its machine, if already known. A type with checks of its own returns a subclass of `Checks`.
        """
        from tui_workbench.targets.checks.ladder import Checks

        return Checks(target, open_target, host)

    @abc.abstractmethod
    def plan(self, spec: RunSpec) -> Plan:
        """Return the steps of a run. Raises ConfigurationError if the run is impossible."""

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """Return the plan with the files that the run would send and the environment it would build.

        Sends and builds nothing. `tree` returns the files of the project. Raises TargetUnreachable or
        ConfigurationError.
        """
        return plan

    def check(self) -> list[Problem]:
        """Return the problems that prevent runs, each with its remedy."""
        return []

    def reach(self) -> None:  # noqa: B027  (this machine is always reachable)
        """Check that the target answers and has the required tools.

        Raises TargetUnreachable or ConfigurationError.
        """

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:  # noqa: B027
        """Send the files that the run needs, and build its environment.

        First, check that the run's data exists (`hosts.data.place_data`). With `starts_at_once`, `start` checks it.
        `tree` returns the files of the run's working copy. Raises Interrupted or WorkbenchError.
        """

    def reserve(self, spec: RunSpec) -> None:
        """Reserve the GPUs of the run, if the target chooses them. `start` reserves the same GPUs again.

        Does nothing after the start. Raises WorkbenchError if too few GPUs are free.
        """
        # After the start, the processes on the GPUs may be those of the run.
        if choice.chooses(self.target) and not self.started(spec):
            choice.take(self.host, spec)

    @abc.abstractmethod
    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script, and return once it has started. Raises WorkbenchError.

        `environment` holds the caller's environment variables; only scripts on this machine inherit them.
        """

    @abc.abstractmethod
    def started(self, spec: RunSpec) -> bool:
        """Return True if the script was ever started."""

    def has_ended(self, spec: RunSpec) -> bool:
        """Return True if this machine knows that the run has ended, so that `wait` does not block.

        Contacts no other machine. By default, True if the exit code is in the run's directory on this machine.
        """
        return supervisor.read_exit_code(spec.run_directory) is not None

    @abc.abstractmethod
    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the end of a started run, even while the target is unreachable, and return the outcome.

        Raises Interrupted as soon as the file descriptor `interrupted` becomes readable (-1: never), and NeverStarted
        if the run was not started. After any other WorkbenchError the state of the run is unknown.
        """

    def shared_group(self, run_directory: str) -> SharedGroup | None:
        """Return the group in which one process can follow a run with others; None if the run needs its own process.

        `run_directory` is the directory of the run on this machine. Contacts no other machine. Required with
        `drives_together`.
        """
        return None

    @abc.abstractmethod
    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """Ask all processes of the run to end, kill them after `grace` seconds, and return when no process is left.

        Returns True if processes were killed.
        """

    def warn(self, spec: RunSpec) -> None:
        """Send SIGTERM to the processes of the run, if it is active, and return without waiting for their end.

        Raises WorkbenchError, also if the type of target cannot send signals.
        """
        raise WorkbenchError(
            f"targets of type {self.target.type} cannot send SIGTERM before the end of a run",
            remedy="Remove `SignalBeforeEndMinutes` from the run configuration.",
        )

    def collect(self, spec: RunSpec) -> None:  # noqa: B027
        """Copy the files of the run to this machine."""

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        """Make it possible to start an ended run again. Its log, working copy and outputs are kept.

        With `anew`, the run was collected and released. Then only its log is kept, and `prepare` sends its working copy
        again. `spec.attempt` is the number of the next attempt. Only for types that read `Retry`. Raises StorageError,
        and WorkbenchError if the log no longer exists.
        """
        raise NotImplementedError

    def release(self, spec: RunSpec) -> None:  # noqa: B027
        """Free the resources of the run on the target. Its log and outputs may stay for other machines."""

    def close(self) -> None:  # noqa: B027
        """Close connections; the next call opens them again."""

    def wait_until_reachable(self, interrupted: int) -> None:  # noqa: B027
        """Block until the target answers. Raises Interrupted if the descriptor `interrupted` becomes readable first."""

    def cluster_gpus(self) -> ClusterGpus:
        """Return the GPUs of the cluster and of this user's jobs; empty without a scheduler. Raises WorkbenchError."""
        return ClusterGpus()

    def container_id(self, spec: RunSpec) -> str:
        """Return the ID of the run's container; "" without a container. Raises TargetUnreachable."""
        return ""

    def read_stacks(self, spec: RunSpec) -> Reading:
        """Return the Python stacks of the processes of a running script; empty if no Python process is found.

        The script is not paused and not changed. Raises WorkbenchError.
        """
        return py_spy.read_stacks(self.host, spec.run_id)

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        """Return the Python environment of a run. Contacts no other machine."""
        return PythonEnvironment(self.host, spec)

    def server_place(self, spec: RunSpec) -> ServerPlace:
        """Return the machine or container in which TensorBoard and Jupyter are started for a run, and its address.

        Raises WorkbenchError, also if the type of target cannot forward ports.
        """
        raise ConfigurationError(
            f"ports of runs on targets of type {self.target.type} cannot be opened",
            remedy="Forward the port yourself: `ssh -L PORT:localhost:PORT NODE`, where NODE is the machine that "
            "executes the run.",
        )

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        """Return the items that runs of a project left on the target, except those of the runs in `active`."""
        return []
