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
16. A script can `import workbench`, whatever its interpreter: what it logs is in the run's directory when `wait` has
    returned (`collect`, where there is one), and a Python path of the user's own follows ours. (12 to 15 are
    in `staged`.)
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.model import ComputeTarget, Plan, Problem, RunSpec


class Outcome(NamedTuple):
    """How a run ended on its target. `exit_code` is None when it is not known, and `reason` then says why."""

    exit_code: int | None
    reason: str = ""


class Interrupted(Exception):
    """`wait` returned early because somebody asked for the run to end."""


class Target(Protocol):
    """Somewhere a run can execute."""

    starts_at_once: bool
    """True when `start` takes milliseconds, so the one who submits may do it before handing over to the controller."""

    def plan(self, spec: RunSpec) -> Plan:
        """The steps from start to end. Raises ConfigurationError for what can be seen to be impossible beforehand."""

    def check(self) -> list[Problem]:
        """What stands in the way of running here, each with its remedy; empty when nothing does."""

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        """Start the script; returns once it is started. Raises WorkbenchError when it cannot be."""

    def started(self, spec: RunSpec) -> bool:
        """True once the script was started, running or not."""

    def has_ended(self, spec: RunSpec) -> bool:
        """True when it takes no waiting to see that a started run is over, so that `wait` returns at once."""

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        """Wait for the end of a started run.

        Raises Interrupted as soon as the file descriptor `interrupted` becomes readable (-1: never), and WorkbenchError
        when it turns out that the run was never started and cannot be.
        """

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        """End the run: politely, after `grace` seconds by force (returns True then). Returns when nothing is left."""


def target_for(target: ComputeTarget) -> Target:
    """The implementation for a compute target's type.

    Raises ConfigurationError for a type that nothing here can run.
    """
    from tui_workbench.targets.registry import create

    return create(target)
