"""The checks of the members of a group, and those that compare the members."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.checks.ladder import Check, Checks
from tui_workbench.targets.checks.result import (
    BROKEN,
    CLOCK,
    HOMES,
    NETWORK,
    OK,
    PYTHON,
    WARNING,
    CheckFailed,
    CheckResult,
    run_check,
)
from tui_workbench.targets.gpu.framework_location import EnvironmentMissing, spec_of
from tui_workbench.targets.group.comparing import (
    NO_TORCH,
    clock_warning,
    clocks_of,
    describe_versions,
    owner_of_folder,
    require_own_folders,
    versions_of,
)
from tui_workbench.targets.group.connecting import require_connections
from tui_workbench.targets.group.rendezvous import find_address, port_of
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.ssh.host_for import host_of

CLOCK_REMEDY = "Synchronize the clocks with NTP. torchrun drops members whose clocks differ by 15 seconds."


class Comparison:
    """Checks of a group whose members have passed their own checks."""

    def __init__(self, target: ComputeTarget, members: Mapping[str, Target]) -> None:
        self._target = target
        self._members = members

    @cached_property
    def _environments(self) -> dict[str, PythonEnvironment]:
        """The environments of runs with the default run configuration (see `spec_of`), by member."""
        parts = spec_of(self._target).parts
        return {part.target.name: self._members[part.target.name].python_environment(part) for part in parts}

    def homes(self) -> CheckResult:
        """Check that the members have different home directories. Raises WorkbenchError."""
        run_id = f"check-{secrets.token_hex(8)}"  # `experiment clean` removes the folder after a lost connection
        hosts = {part.name: host_of(part) for part in self._target.parts}
        try:
            require_own_folders(
                self._target, {name: owner_of_folder(host, run_id, name) for name, host in hosts.items()}
            )
        finally:
            for host in hosts.values():
                host.run(["rm", "-rf", "--", HostLayout(host.home()).run(run_id)])
        return CheckResult(HOMES, OK, "each member has its own home folder")

    def python(self) -> CheckResult:
        """Check that all members have the same versions of Python and PyTorch. Raises WorkbenchError."""
        try:
            versions_by_member = versions_of(self._environments)
        except EnvironmentMissing as missing:
            return _not_checked(PYTHON, missing)
        if len(set(versions_by_member.values())) > 1:
            raise CheckFailed(
                describe_versions(versions_by_member),
                "Install the same versions on all members, correct their pythonLocation, or use the same image.",
                file=self._target.path,
            )
        versions = next(iter(versions_by_member.values()))
        if versions.endswith(NO_TORCH):
            remedy = "Runs start torchrun: install PyTorch on all members, or add it to the environment of the runs."
            return CheckResult(PYTHON, WARNING, f"all members have {versions}", remedy)
        return CheckResult(PYTHON, OK, f"all members have {versions}")

    def network(self) -> CheckResult:
        """Check that all other members can connect to the first member, as torchrun does. Raises WorkbenchError."""
        addresses = {part.name: find_address(self._target, part.name, host_of(part)) for part in self._target.parts}
        try:
            require_connections(self._target, self._environments, addresses, port_of(secrets.token_hex(8)))
        except EnvironmentMissing as missing:
            return _not_checked(NETWORK, missing)
        texts = (f"{name} has {node.address} ({node.interface or 'SSH'})" for name, node in addresses.items())
        return CheckResult(NETWORK, OK, "; ".join(texts))

    def clocks(self) -> CheckResult:
        """Compare the clocks of the members. Raises WorkbenchError."""
        if warning := clock_warning(clocks_of(self._target)):
            return CheckResult(CLOCK, WARNING, warning, CLOCK_REMEDY)
        return CheckResult(CLOCK, OK, "the clocks of the members agree")


class GroupChecks(Checks):
    """The checks of each member of a group, with one result for each, and then those that compare the members."""

    def __init__(
        self, target: ComputeTarget, find: Callable[[ComputeTarget], Target], members: Mapping[str, Checks]
    ) -> None:
        """`find` returns the implementation of a target. `members` are the checks of the members, by name."""
        super().__init__(target, lambda _: find(target))
        self._find = find
        self._members = members

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(self.target, {part.name: self._find(part) for part in self.target.parts})

    def of_type(self) -> Sequence[Check]:
        return (
            Check(HOMES, lambda: self._comparison.homes()),
            Check(PYTHON, lambda: self._comparison.python()),
            Check(NETWORK, lambda: self._comparison.network()),
            Check(CLOCK, lambda: self._comparison.clocks()),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.target.members, *(check.name for check in self.of_type()))

    def run(self, *, with_job: bool = False) -> Iterator[CheckResult]:
        if not self._members:  # the file of the group is invalid
            yield from super().run(with_job=with_job)
            return
        for part in self.target.parts:
            found = _of_all(part, list(self._members[part.name].run()))
            yield found
            if found.state == BROKEN:
                return
        for check in self.of_type():
            found = run_check(check.name, check.run, host_of(self.target))
            yield found
            if found.state == BROKEN:
                return

    def run_gpus(self, spec: RunSpec) -> Iterator[CheckResult]:
        if not self._members:
            yield from super().run_gpus(spec)
            return
        for part in spec.parts:
            for found in self._members[part.target.name].run_gpus(part):
                yield _of_member(part.target, found)
                if found.state == BROKEN:
                    return


def _of_all(member: ComputeTarget, results: Sequence[CheckResult]) -> CheckResult:
    """Return one result for all checks of a member."""
    problems = [found for found in results if found.state in (BROKEN, WARNING)]
    if not problems:
        return CheckResult(member.name, OK, f"{len(results)} checks passed")
    command = f"workbench-tui computetarget check {shlex.quote(member.name)}"
    # Only the last result can be broken.
    return _of_member(member, problems[-1])._replace(command=command, there=False)


def _of_member(member: ComputeTarget, found: CheckResult) -> CheckResult:
    return found._replace(name=member.name, message=f"{found.name}: {found.message}", place=member.address)


def _not_checked(name: str, missing: EnvironmentMissing) -> CheckResult:
    return CheckResult(name, WARNING, f"not checked: {missing.message}", missing.remedy, missing.command)
