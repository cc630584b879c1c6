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

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.report import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui_workbench.model import Plan, Problem, RunSpec
    from tui_workbench.targets.host import Entry
    from tui_workbench.targets.protocol import Outcome
    from tui_workbench.targets.report import Report


class StagedTarget(abc.ABC):
    """Base of such targets; see `protocol.Target` for what is not described here."""

    starts_at_once = False

    def __init__(self) -> None:
        self.report: Report = Silent()
        """Who is told what happens."""

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

    @abc.abstractmethod
    def wait_until_reachable(self, interrupted: int) -> None:
        """Block until the target answers. Raises Interrupted when the descriptor becomes readable first."""
