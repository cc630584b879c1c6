"""Targets of type `group`: torchrun on several machines.

Each member has the same files and starts the same command. Only the variables that connect torchrun on one member to
the others differ (see `rendezvous`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tui_workbench.core.errors import ConfigurationError, TargetUnreachable, WorkbenchError, storage_errors
from tui_workbench.core.files import make_folders
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunSpec, Step
from tui_workbench.core.waiting import at_once
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.framework_location import FrameworkLocation
from tui_workbench.targets.group import waiting
from tui_workbench.targets.group.collecting import join_files, merged_files
from tui_workbench.targets.group.comparing import (
    clock_warning,
    clocks_of,
    describe_versions,
    owner_of_folder,
    require_own_folders,
    versions_of,
)
from tui_workbench.targets.group.connecting import require_connections
from tui_workbench.targets.group.member_reports import LostMembers, MemberReport, joined_times
from tui_workbench.targets.group.rendezvous import NodeAddress, find_address, part_with_addresses, port_of
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.stacks import Reading
from tui_workbench.targets.reservations.folder import GpusBusy
from tui_workbench.targets.values import Outcome, Report, Times

_Result = TypeVar("_Result")

END = "end"  # a value of `onLostMember`

STOP_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for parts that are ended because of another part."""


class GroupTarget(Target):
    """A target of type `group`. `members` are its member targets by name, in the order of the `.compute` file."""

    def __init__(self, target: ComputeTarget, members: Mapping[str, Target]) -> None:
        super().__init__(target)
        self._members = members
        self._lost = LostMembers(self)
        self._reports = {name: MemberReport(name, self, self._lost) for name in members}
        for name, member in members.items():
            member.report = self._reports[name]

    # -- before the start ----------------------------------------------------------------------------------------------

    def plan(self, spec: RunSpec) -> Plan:
        run_environment.require_python(spec.run_configuration, spec.target.type)
        if not spec.run_configuration.processes_per_node:
            path = spec.run_configuration.path
            raise ConfigurationError(
                f"{spec.target.name} is a group of machines, but the run configuration does not start torchrun",
                remedy="Set `ProcessesPerNode` to a number or to `gpus`, or choose one of the members as the target.",
                file=path,
                line=line_of_key(path, "ProcessesPerNode"),
            )
        return _joined(spec, [self._members[part.target.name].plan(part) for part in spec.parts])

    def plan_details(self, spec: RunSpec, plan: Plan, tree: Callable[[], Sequence[Entry]]) -> Plan:
        files = tree()

        def details(member: Target, part: RunSpec) -> Plan:
            return member.plan_details(part, member.plan(part), lambda: files)

        joined = _joined(spec, list(self._on_each(spec, details).values()))
        names = {step.name for step in joined.steps}
        before = tuple(step for step in plan.steps if step.name not in names)
        return joined._replace(steps=(*before, *joined.steps))

    def check(self) -> list[Problem]:
        return [problem for member in self._members.values() for problem in member.check()]

    def reach(self) -> None:
        at_once({name: member.reach for name, member in self._members.items()})

    def prepare(self, spec: RunSpec, plan: Plan, tree: Callable[[], FileList]) -> None:
        files = tree()
        owners = self._on_each(spec, lambda member, part: owner_of_folder(member.host, spec.run_id, part.target.name))
        require_own_folders(self.target, owners)
        for part in spec.parts:
            with storage_errors("create", part.run_directory):
                make_folders(spec.run_directory, os.path.relpath(part.run_directory, spec.run_directory))
        self._on_each(spec, lambda member, part: member.prepare(part, plan, lambda: files))

    # -- start and end -------------------------------------------------------------------------------------------------

    def reserve(self, spec: RunSpec) -> None:
        # In the same order for all runs, so that two runs never wait for each other's GPUs.
        # If a member has too few GPUs, `start` releases those of the others.
        for part in sorted(spec.parts, key=lambda part: part.target.name):
            self._members[part.target.name].reserve(part)

    def start(self, spec: RunSpec, plan: Plan, environment: Mapping[str, str]) -> None:
        try:
            self.reserve(spec)
            addresses = self._on_each(
                spec, lambda member, part: find_address(self.target, part.target.name, member.host)
            )
            if not any(self._on_each(spec, lambda member, part: member.started(part)).values()):
                self._compare_members(spec, addresses)
            nodes = list(addresses.values())
            parts = {part.target.name: part_with_addresses(spec, nodes, n) for n, part in enumerate(spec.parts)}
            self._on_each(spec, lambda member, part: member.start(parts[part.target.name], plan, environment))
        except TargetUnreachable:
            raise  # the start is repeated; meanwhile, reservations are kept and torchrun of the other members waits
        except GpusBusy as error:
            if any(self._on_each(spec, lambda member, part: member.started(part)).values()):
                self._give_up(spec)
                raise WorkbenchError(
                    f"the script was ended, because not all members could start it: {error.message}",
                    remedy="Start the run again.",
                ) from error
            # The start is repeated too, but two groups must not wait for each other's GPUs.
            self._on_each(spec, lambda member, part: _release(member, part, keeps_place=True))
            raise
        except WorkbenchError:
            self._give_up(spec)
            raise

    def _give_up(self, spec: RunSpec) -> None:
        """End the script on members that have started it, and release all GPUs."""
        self.stop(spec, grace=STOP_GRACE)
        self._on_each(spec, _release)

    def _compare_members(self, spec: RunSpec, addresses: Mapping[str, NodeAddress]) -> None:
        """Check that the members can connect, and warn of different versions and clocks. Raises WorkbenchError."""
        environments = self._on_each(spec, lambda member, part: member.python_environment(part))
        require_connections(self.target, environments, addresses, port_of(spec.run_id))
        versions = versions_of(environments)
        if len(set(versions.values())) > 1:
            self.report.line(f"the members have different versions: {describe_versions(versions)}")
        if warning := clock_warning(clocks_of(self.target)):
            self.report.line(warning)

    def started(self, spec: RunSpec) -> bool:
        return all(self._on_each(spec, lambda member, part: member.started(part)).values())

    def has_ended(self, spec: RunSpec) -> bool:
        return all(self._members[part.target.name].has_ended(part) for part in spec.parts)

    def wait(self, spec: RunSpec, interrupted: int) -> Outcome:
        parts = [(self._members[part.target.name], part) for part in spec.parts]
        given_up = self._lost.given_up if self.target.on_lost_member == END else waiting.no_member
        self._lost.restart()
        self._forget_times()
        with merged_files(spec) as merges:
            outcome = waiting.wait_for_parts(
                parts, interrupted, lambda: sum(merge.pump() for merge in merges) > 0, given_up
            )
            for merge in merges:
                merge.finish()
        self._report_times()
        return outcome

    def wait_until_reachable(self, interrupted: int) -> None:
        for member in self._members.values():
            member.wait_until_reachable(interrupted)

    def stop(self, spec: RunSpec, *, grace: float) -> bool:
        self._forget_times()
        forced = self._on_each(spec, lambda member, part: member.stop(part, grace=grace))
        self._report_times()
        return any(forced.values())

    def _forget_times(self) -> None:
        """Forget the times of an earlier attempt."""
        for report in self._reports.values():
            report.times = Times()

    def _report_times(self) -> None:
        self.report.ran(joined_times([report.times for report in self._reports.values()]))

    def warn(self, spec: RunSpec) -> None:
        self._on_each(spec, lambda member, part: member.warn(part))

    def read_stacks(self, spec: RunSpec) -> Reading:
        readings = self._on_each(spec, lambda member, part: member.read_stacks(part))
        return functools.reduce(Reading.with_machine, readings.values())

    # -- after the end -------------------------------------------------------------------------------------------------

    def collect(self, spec: RunSpec) -> None:
        try:
            may_lack = self.target.on_lost_member == END
            self._on_each(spec, _collect_or_give_up if may_lack else lambda member, part: member.collect(part))
        except TargetUnreachable:
            raise  # the caller repeats the call
        except WorkbenchError:
            join_files(spec)
            raise
        join_files(spec)

    def reset(self, spec: RunSpec, *, anew: bool = False) -> None:
        def reset(member: Target, part: RunSpec) -> None:
            if not member.has_ended(part):
                member.stop(part, grace=STOP_GRACE)  # `wait` has given it up
            member.reset(part, anew=anew)

        self._on_each(spec, reset)

    def release(self, spec: RunSpec) -> None:
        self._on_each(spec, lambda member, part: member.release(part))

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def python_environment(self, spec: RunSpec) -> PythonEnvironment:
        return _FirstEnvironment(self, self._members, spec)

    # -- members -------------------------------------------------------------------------------------------------------

    def _on_each(self, spec: RunSpec, call: Callable[[Target, RunSpec], _Result]) -> dict[str, _Result]:
        """Call a function for each member and its part at once; return the results by member. See `at_once`."""
        return at_once({
            part.target.name: functools.partial(call, self._members[part.target.name], part) for part in spec.parts
        })  # fmt: skip


class _FirstEnvironment(PythonEnvironment):
    """The environment on the first member. `prepare` builds the environments of all members."""

    def __init__(self, group: GroupTarget, members: Mapping[str, Target], spec: RunSpec) -> None:
        super().__init__(group.host, spec)
        self._group, self._members = group, members
        self._first = members[spec.parts[0].target.name].python_environment(spec.parts[0])

    def interpreter(self) -> str:
        return self._first.interpreter()

    def framework_location(self) -> FrameworkLocation:
        return self._first.framework_location()

    def machine_info(self, planned: str) -> dict[str, Any]:
        return self._first.machine_info(planned)

    def prepare(self, report: Report) -> str:
        self._group.report = report
        calls = {}
        for part in self.spec.parts:
            if part.target.builds_environment:
                member = self._members[part.target.name]
                calls[part.target.name] = functools.partial(member.python_environment(part).prepare, member.report)
        return ", ".join(dict.fromkeys(at_once(calls).values()))


def _release(member: Target, part: RunSpec, *, keeps_place: bool = False) -> None:
    """Release the GPUs that a member has reserved for a run. See `choice.release`."""
    if choice.chooses(part.target):
        choice.release(member.host, part, keeps_place=keeps_place)


def _joined(spec: RunSpec, plans: Sequence[Plan]) -> Plan:
    """Return one plan with the steps of all members. Steps of the same name follow each other."""
    names = dict.fromkeys(step.name for plan in plans for step in plan.steps)
    steps = tuple(
        Step(*step)._replace(title=f"{plan.target}: {step.title}")
        for name in names
        for plan in plans
        for step in plan.steps
        if step.name == name
    )
    return Plan(spec.target.name, spec.target.type, plans[0].interpreter, steps)


def _collect_or_give_up(member: Target, part: RunSpec) -> None:
    """Collect the files of a part. If `wait` has given the part up, end it first.

    For such a part, raises WorkbenchError instead of TargetUnreachable, so that the call is not repeated.
    """
    if member.has_ended(part):
        member.collect(part)
        return
    try:
        member.stop(part, grace=STOP_GRACE)
        member.collect(part)
    except TargetUnreachable as error:
        raise WorkbenchError(
            f"member {part.target.name} does not answer: {error.message}",
            remedy=f"When it answers again, run `workbench-tui experiment collect --run {part.run_id}`, which also "
            "ends the processes of the run there.",
        ) from error
