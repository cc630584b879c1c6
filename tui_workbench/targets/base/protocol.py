"""What a compute target must be able to do, whatever it is.

The calls block. A run is driven by one process of its own that does one thing after another, so plain calls are the
simplest form; a target that speaks to the network runs its own event loop inside. Screens never call a target on
their own loop.

Behaviours every target keeps, by number (tests/targets/test_conformance.py runs them over each):

1. `plan` is pure: the same specification gives the same plan, and nothing is read but what names an interpreter or
   image.
2. `start` never starts a run twice, whoever calls it and however often.
3. The run outlives the process that started it.
4. `wait` returns the exit code that the script ended with, also when the run ended before it was called.
5. `wait` says honestly when the exit code cannot be known, and says why.
6. `output.log` holds every byte of stdout and stderr in order when `wait` has returned.
7. `stop` asks first and forces after `grace`; when it returns nothing of the run is left.
8. `stop` on a run that has ended, or never began, does nothing.
9. Arguments, variables and names reach the script exactly, whatever characters they hold.
10. A run is over when its script is: when `wait` has returned an exit code nothing is left running that carries the
    run's id. Only what has shed it, as a service started on purpose may, goes on.
11. `wait` and `stop` can be called from any process, at any time, and again after they were interrupted.
12. `prepare` can be called again at any time, also after its caller was killed in the middle; when it has returned,
    `start` needs nothing more than the target.
13. After `collect` everything that the run made is in its directory here. It can be called again as long as `release`
    was not.
14. After `release` nothing of the run holds memory, processes or a working copy on the target.
15. Every call raises TargetUnreachable when the target cannot be reached, and then can be made again. Only `wait` sees
    it through by itself: it tells `report` that the target is lost, and when it is regained.
16. A script can `import workbench`, whatever its interpreter: what it logs is in the run's directory when `collect` has
    returned, and a Python path of the user's own follows ours.

Targets that `starts_at_once` have nothing to prepare, to collect or to release, and are never out of reach.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec
from tui_workbench.core.target_types import TargetType
from tui_workbench.targets.base import machine_info
from tui_workbench.targets.base.values import CleanupItem, Outcome, ProjectNames, Report
from tui_workbench.targets.gpu.framework_location import FrameworkLocation, Interpreter, variables_of
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.hosts.host_layout import run_records

if TYPE_CHECKING:
    from tui_workbench.targets.checks.check_engine import EngineChecks


class Target(abc.ABC):
    """Somewhere a run can execute. Its type (`target.kind`) says what is the same for all targets of the type."""

    type: ClassVar[TargetType | None] = None
    """What a type that another package adds is like; the built-in ones are in `core.target_types`."""

    starts_at_once: bool = False
    """True when `start` takes milliseconds and needs no `prepare`, so that whoever submits may do it."""

    keeps_runs: ClassVar[bool] = False
    """True when the target itself keeps records of runs, which other machines can find there."""

    def __init__(self, target: ComputeTarget, host: Host | None = None) -> None:
        """Raises ConfigurationError when the file of a remote target holds a password or passphrase itself."""
        self.target = target
        self.host = host or host_of(target)
        """The machine that runs execute on."""

        self.report: Report = Report()
        """Who is told what happens."""

    @abc.abstractmethod
    def plan(self, spec: RunSpec) -> Plan:
        """The steps from start to end. Raises ConfigurationError for what can be seen to be impossible beforehand."""

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """The plan with what only the target can tell: what would be sent and built now, and why. Changes nothing.

        `tree` gives the files of the project. Raises TargetUnreachable or ConfigurationError.
        """
        return plan

    def check(self) -> list[Problem]:
        """What stands in the way of running here, each with its remedy; empty when nothing does."""
        return []

    def engine_checks(self) -> EngineChecks | None:
        """The checks of the container engine that runs execute in; None where they execute in none."""
        return None

    def reach(self) -> None:  # noqa: B027  (a target on this machine is always reached)
        """See that the target answers and has what runs need there.

        Raises TargetUnreachable or ConfigurationError. What runs need beyond that is the affair of `prepare`.
        """

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:  # noqa: B027
        """Bring there what the run needs.

        `tree` gives the files of the run's working copy. Raises Interrupted, or WorkbenchError when it cannot be done.
        """

    @abc.abstractmethod
    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script; returns once it is started. Raises WorkbenchError when it cannot be.

        `environment` is this machine's and reaches only scripts on this machine.
        """

    @abc.abstractmethod
    def started(self, spec: RunSpec) -> bool:
        """True once the script was started, running or not."""

    def has_ended(self, spec: RunSpec) -> bool:
        """True when a started run is known here to be over, so that `wait` returns at once. Asks no other machine.

        By default: when its exit code is in the run's directory here.
        """
        return supervisor.read_exit_code(spec.run_directory) is not None

    @abc.abstractmethod
    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the end of a started run; also when the target is out of reach meanwhile.

        Raises Interrupted as soon as the file descriptor `interrupted` becomes readable (-1: never), and NeverStarted
        when the run was not started. Any other WorkbenchError leaves open how the run stands.
        """

    @abc.abstractmethod
    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """End the run: politely, after `grace` seconds by force (returns True then). Returns when nothing is left."""

    def collect(self, spec: RunSpec) -> None:  # noqa: B027
        """Bring here what the run made."""

    def release(self, spec: RunSpec) -> None:  # noqa: B027
        """Clear away what the run holds on the target. Its log and outputs may stay, for other machines to find."""

    def close(self) -> None:  # noqa: B027
        """Let go of connections; the next call opens them again."""

    def wait_until_reachable(self, interrupted: int) -> None:  # noqa: B027
        """Block until the target answers. Raises Interrupted when the descriptor becomes readable first."""

    def container_id(self, spec: RunSpec) -> str:
        """The id of the run's container, "" when there is none. Raises TargetUnreachable."""
        return ""

    def interpreter_of(self, spec: RunSpec) -> str:
        """The Python of the run on its machine. Raises ConfigurationError, TargetUnreachable, or EnvironmentMissing."""
        return self.target.python_location

    def framework_location(self, spec: RunSpec) -> FrameworkLocation:
        """Where the frameworks of the run lie. Raises as `interpreter_of`."""
        return Interpreter(self.host, self.interpreter_of(spec), variables_of(spec))

    def machine_info(self, spec: RunSpec, interpreter: str) -> dict[str, Any]:
        """What the run runs on, in parts; `interpreter` is that of its plan. Raises WorkbenchError."""
        return machine_info.interpreter_info(self.host, spec, interpreter)

    def prepare_environment(self, spec: RunSpec) -> str:
        """Have the environment that runs of this specification take, made as needed; returns its name.

        Raises ConfigurationError where there is none to be made.
        """
        raise ConfigurationError(
            f"targets of type {self.target.type} use the Python that is there: there is nothing to prepare",
            remedy="Install packages with that Python.",
            file=self.target.path,
        )

    def cleanup_items(self, project: ProjectNames, active: Collection[str]) -> list[CleanupItem]:
        """What runs of a project have left on the target, without those whose ids are `active`."""
        return []

    def remove(self, item: CleanupItem) -> None:
        """Remove one of the things that `cleanup_items` named; fine when it is gone. Raises WorkbenchError."""
        raise NotImplementedError

    def known_runs(self, project: ProjectNames) -> list[tuple[str, bytes]]:
        """The id and run.json of each run of a project that has a folder on the host, whoever submitted it."""
        return run_records(self.host, project)
