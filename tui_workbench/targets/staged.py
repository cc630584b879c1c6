"""Targets that have more to do than to start a script.

What is needed is brought there before, and what the run made is brought back and cleared away after. They can be out of
reach meanwhile, which is nothing that a run fails from.

The numbered behaviours of `protocol` hold for them too, and these:

12. `prepare` can be called again at any time, also after its caller was killed in the middle; when it has returned,
    `start` needs nothing more than the target.
13. After `collect` everything that the run made is in its directory here. It can be called again as long as `release`
    was not.
14. After `release` nothing of the run holds memory, processes or a working copy on the target.
15. Every call raises TargetUnreachable when the target cannot be reached, and then can be made again. Only `wait` sees
    it through by itself: it tells `report` that the target is lost, and when it is regained.
"""

from __future__ import annotations

import abc

from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.report import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tui_workbench.model import Plan, Problem, RunSpec
    from tui_workbench.targets.host import Entry
    from tui_workbench.targets.protocol import Outcome
    from tui_workbench.targets.report import Report


class ProjectNames(NamedTuple):
    """How a target knows a project: by its name, and by what tells this folder from all others of the name."""

    name: str
    root: str


class Leftover(NamedTuple):
    """Something of ours on a target that no run needs any more."""

    kind: str  # container, environment, cache, run or project
    name: str
    size: int = -1  # bytes; -1 when it is not known
    note: str = ""


class StagedTarget(abc.ABC):
    """Base of such targets; see `protocol.Target` for what is not described here."""

    starts_at_once = False

    def __init__(self) -> None:
        self.report: Report = Silent()
        """Who is told what happens."""

    @property
    def place(self) -> str:
        """What two targets have in common that are the same machine."""
        return ""

    @abc.abstractmethod
    def plan(self, spec: RunSpec) -> Plan:
        """As Target."""

    @abc.abstractmethod
    def survey(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        """The plan with what only the target can tell: what would be sent and built now, and why. Changes nothing.

        `tree` gives the files of the project. Raises TargetUnreachable or ConfigurationError.
        """

    @abc.abstractmethod
    def check(self) -> list[Problem]:
        """As Target."""

    @abc.abstractmethod
    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> None:
        """Bring there what the run needs.

        `tree` gives the files of the run's working copy. Raises Interrupted, or WorkbenchError when it cannot be done.
        """

    @abc.abstractmethod
    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """As Target. `environment`, which is this machine's, does not reach the script."""

    @abc.abstractmethod
    def started(self, spec: RunSpec) -> bool:
        """As Target."""

    @abc.abstractmethod
    def has_ended(self, spec: RunSpec) -> bool:
        """As Target; what only the target could tell does not count."""

    @abc.abstractmethod
    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """As Target; also when the target is out of reach meanwhile."""

    @abc.abstractmethod
    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """As Target."""

    @abc.abstractmethod
    def collect(self, spec: RunSpec) -> None:
        """Bring here what the run made."""

    @abc.abstractmethod
    def release(self, spec: RunSpec) -> None:
        """Clear away what the run holds on the target. Its log and outputs may stay, for other machines to find."""

    def close(self) -> None:  # noqa: B027  (a target that holds nothing has nothing to close)
        """Let go of connections; the next call opens them again."""

    def prepare_environment(self, spec: RunSpec) -> str:
        """Have the environment that runs of this specification take, made as needed; returns its name.

        Raises ConfigurationError where there is none to be made.
        """
        raise ConfigurationError(
            f"targets of type {spec.target.type} use the Python that is there: there is nothing to prepare",
            remedy="Install packages with that Python.",
            file=spec.target.path,
        )

    def leftovers(self, project: ProjectNames, active: Collection[str]) -> list[Leftover]:
        """What runs of a project have left on the target, without those whose ids are `active`."""
        return []

    def remove(self, leftover: Leftover) -> None:
        """Remove one of the things that `leftovers` named; fine when it is gone. Raises WorkbenchError."""
        raise NotImplementedError

    def known_runs(self, project: ProjectNames) -> list[tuple[str, bytes]]:
        """The id and run.json of each run of a project that the target knows, whoever submitted it."""
        return []

    @abc.abstractmethod
    def wait_until_reachable(self, interrupted: int) -> None:
        """Block until the target answers. Raises Interrupted when the descriptor becomes readable first."""
