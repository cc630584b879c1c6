"""The checks of a target, one after the other, up to the first that fails.

A target type with checks of its own has a subclass of `Checks`. The checks install nothing on the machine and need no
more permissions than a run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.target_types import BUILT_IN
from tui_workbench.targets.checks import connection, result
from tui_workbench.targets.checks.check_machine import (
    clock,
    disk_of_home,
    local_python,
    python,
    ready,
    reservations,
    tools,
)
from tui_workbench.targets.checks.checked import CheckedTarget
from tui_workbench.targets.checks.preflight import ContainerChecks, Preflight
from tui_workbench.targets.checks.result import CheckResult, failure, run_check
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.frameworks import ONE
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.ssh.host_for import host_of

_FRAMEWORKS = (result.FRAMEWORK, result.COMPATIBILITY, result.COMPUTES, result.MEMORY)

OpenTarget: TypeAlias = Callable[[Host | None], CheckedTarget]
"""Returns the implementation of a target; the argument is its machine, if known. Raises ConfigurationError."""


class Check(NamedTuple):
    """A check that a machine has to pass. `run` raises CheckFailed or another WorkbenchError."""

    name: str
    run: Callable[[], CheckResult]


class Checks:
    """The checks of a target: its connection, its machine, the checks of its type, and its GPUs.

    The names are known before the target is opened, so also for a target that is invalid.
    """

    container_checks: ClassVar[tuple[str, ...]] = ()
    """The names of the checks of GPUs in containers, if runs are executed in containers."""

    def __init__(self, target: ComputeTarget, open_target: OpenTarget, host: Host | None = None) -> None:
        """`host` is the machine of the target, if it is already known."""
        self.target = target
        self._open_target = open_target
        self._known_host = host

    # -- what a type changes -----------------------------------------------------------------------------------------

    def of_type(self) -> Sequence[Check]:
        """Return the checks between those of the login and those of the GPUs that depend on the type.

        Contacts no machine. A check is run when `host` and `implementation` are known.
        """
        kind = self.target.kind
        if not kind.uses_interpreter:
            return ()
        if kind.runs_here:
            return (Check(result.PYTHON, lambda: local_python(self.implementation)),)
        checks = (Check(result.PYTHON, self._python), Check(result.DISK, self._disk))
        return checks if kind.is_remote else checks[:1]

    def before_gpus(self) -> Sequence[Check]:
        """Return those of the checks that must pass before GPUs can be checked. Contacts no machine."""
        return ()

    def on_request(self) -> Sequence[Check]:
        """Return the checks that execute a job. They are run only if the user asks for them. Contacts no machine."""
        return ()

    def containers(self) -> ContainerChecks | None:
        """Return the checks of GPUs in containers; None if runs are not executed in containers."""
        return None

    @property
    def wants_gpus(self) -> bool:
        """True if the target requests GPUs for its runs."""
        return self.target.gpus not in ("", "0")

    # -- the checks in order -----------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the checks, in order.

        If the target requests no GPUs but its machine has some, `run` may add checks of the GPUs.
        """
        machine = tuple(check.name for check in self._of_machine())
        if self.target.uses_ssh:
            machine = (*connection.NAMES, *machine)
        if not self.target.kind.has_gpus:
            return machine
        if not self.wants_gpus:
            return (*machine, result.GPU)
        return (*machine, result.GPU, result.DEVICES, *self.container_checks, *_FRAMEWORKS)

    def run(self, *, with_job: bool = False) -> Iterator[CheckResult]:
        """Yield the result of each check immediately. Only the last result can have the state `broken`.

        With `with_job`, also run the checks that execute a job.
        """
        for check_result in self._all(with_job=with_job):
            yield check_result
            if check_result.state == result.BROKEN:
                return

    def run_gpus(self, spec: RunSpec) -> Iterator[CheckResult]:
        """Check the GPUs, from the driver to the framework in the environment of a run.

        Results of earlier checks, such as the login, are yielded only if they fail. Only the last result can have the
        state `broken`.
        """
        failed = self._open() or self._first_failure()
        if failed is not None:
            yield failed
        elif self.target.kind.has_gpus:
            yield from Preflight(self.implementation, spec, self.containers()).run()
        else:
            unsupported = WorkbenchError(
                f"the workbench cannot check the GPUs of targets of type {self.target.type}",
                remedy="To check them, submit a script that runs `nvidia-smi` or `amd-smi`.",
                file=self.target.path,
            )
            yield failure(result.GPU, unsupported, self.host.label)

    def run_before_start(self, spec: RunSpec, *, only_known: bool = False) -> Iterator[CheckResult]:
        """Check quickly that a run would use a GPU, as `run_gpus`, but without the connection.

        With `only_known`, no interpreter is started: the framework is checked only if its report is cached.
        """
        try:
            self.implementation = self._open_target(self._known_host)
        except WorkbenchError as error:
            yield CheckResult(result.CONFIGURATION, result.BROKEN, error.message, error.remedy, error=error)
            return
        self.host = self.implementation.host
        failed = _failure_among(self.before_gpus(), self.host)
        if failed is not None:
            yield failed
            return
        preflight = Preflight(self.implementation, spec, self.containers(), ONE, only_known=only_known)
        yield from preflight.run(is_quick=True)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _of_machine(self) -> Iterator[Check]:
        kind = self.target.kind
        if kind.is_remote:
            yield Check(result.TOOLS, lambda: tools(self.target, self.host))
        yield from self.of_type()
        if kind not in BUILT_IN:
            yield Check(result.READY, lambda: ready(self.implementation))
        if self.target.gpu_reservations:
            yield Check(result.RESERVATIONS, lambda: reservations(self.target, self.host))
        if kind.is_remote:
            yield Check(result.CLOCK, lambda: clock(self.host))

    def _python(self) -> CheckResult:
        return python(self.target, self.host)

    def _disk(self) -> CheckResult:
        return disk_of_home(self.target, self.host)

    def _all(self, *, with_job: bool) -> Iterator[CheckResult]:
        """Yield the results of all checks; the caller stops at the first failure."""
        failed = self._open()
        if failed is not None:
            yield failed
            return
        yield from self._connect()
        for check in self._of_machine():
            yield run_check(check.name, check.run, self.host)
        if self.target.kind.has_gpus:
            preflight = Preflight(self.implementation, spec_of(self.target), self.containers())
            yield from preflight.run(is_wanted=self.wants_gpus)
        if with_job:
            for check in self.on_request():
                yield run_check(check.name, check.run, self.host)

    def _open(self) -> CheckResult | None:
        """Set `implementation` and `host`. Return the result of a failure; None if there is none."""
        command, host = "", self._known_host
        try:
            if self.target.problem is None and host is None:
                command = f"workbench-tui computetarget login {shlex.quote(self.target.name)} --move-secrets"
                host, command = host_of(self.target), ""
            self.implementation = self._open_target(host)
        except WorkbenchError as error:
            return CheckResult(result.CONFIGURATION, result.BROKEN, error.message, error.remedy, command, error=error)
        self.host = host or host_of(self.target)
        contacts.record(self.target)
        return None

    def _connect(self) -> Iterator[CheckResult]:
        return connection.check_connection(self.target, self.host) if self.target.uses_ssh else iter(())

    def _first_failure(self) -> CheckResult | None:
        """Log in, and run the checks that must pass before those of the GPUs; return the first failed result."""
        failed = next((each for each in self._connect() if each.state == result.BROKEN), None)
        return failed or _failure_among(self.before_gpus(), self.host)


def _failure_among(checks: Sequence[Check], host: Host) -> CheckResult | None:
    results = (run_check(check.name, check.run, host) for check in checks)
    return next((each for each in results if each.state == result.BROKEN), None)
