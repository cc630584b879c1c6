"""The implementations of target types, each loaded on first use. `core.target_types` describes the types."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from tui_workbench.core import target_types
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.target_types import CLUSTER, GROUP, LOCAL, REMOTE, TargetType
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import Host

if TYPE_CHECKING:
    from tui_workbench.targets.checks.ladder import Checks


def target_for(target: ComputeTarget, host: Host | None = None) -> Target:
    """Return the implementation of a target; `host` is its machine, if already known. Raises ConfigurationError."""
    if target.problem is not None:
        problem = target.problem
        raise ConfigurationError(
            problem.message, remedy=problem.remedy, file=problem.file, line=problem.line, column=problem.column
        )
    kind = target.kind
    if kind not in target_types.BUILT_IN:
        return _from_another_package(target)
    if kind is GROUP:
        from tui_workbench.targets.group.group_target import GroupTarget

        return GroupTarget(target, {member.name: target_for(member) for member in target.parts})
    if kind is LOCAL:
        from tui_workbench.targets.local.local_target import LocalTarget

        if not target.builds_environment:
            return LocalTarget(target)
        from tui_workbench.targets.environments.managed import Environments

        return LocalTarget(target, Environments())
    return _class_for(kind)(target, host)


def _class_for(kind: TargetType) -> type[Target]:
    """Return the class of a built-in type."""
    if kind is LOCAL:
        from tui_workbench.targets.local.local_target import LocalTarget

        return LocalTarget
    if kind.runs_in_container:
        from tui_workbench.targets.docker.docker_target import DockerTarget

        return DockerTarget
    if kind.has_scheduler:
        from tui_workbench.targets.slurm.slurm_target import SlurmTarget

        return SlurmTarget
    if kind not in (REMOTE, CLUSTER):
        raise LookupError(f"the registry has no implementation of the target type {kind.name!r}")
    from tui_workbench.targets.remote.remote_target import RemoteTarget

    return RemoteTarget


def checks_for(target: ComputeTarget, hosts: Mapping[str, Host | None] = MappingProxyType({})) -> Checks:
    """Return the checks of a target. Contacts no machine; the first check reports an invalid target.

    `hosts` maps the name of the target, or of each member of a group, to its machine, if known.
    """
    if target.kind is GROUP:
        from tui_workbench.targets.group.checks import GroupChecks

        return GroupChecks(target, target_for, {member.name: checks_for(member, hosts) for member in target.parts})
    return _class_of(target).checks(target, partial(target_for, target), hosts.get(target.name))


def _class_of(target: ComputeTarget) -> type[Target]:
    """Return the class of a target; `Target` if the package that adds its type cannot be loaded."""
    kind = target.kind
    if kind in target_types.BUILT_IN:
        return _class_for(kind)
    try:
        found = target_types.load(target.type)
    except Exception:  # the code of another package may raise anything; `target_for` reports it
        return Target
    return found if isinstance(found, type) and issubclass(found, Target) else Target


def target_to_look_at(target: ComputeTarget) -> Target:
    """Return the implementation of a target for an action that only looks at the target.

    Raises NotContacted if the user has not contacted its machine, and ConfigurationError.
    """
    contacts.require_contacted(target)
    return target_for(target)


def _from_another_package(target: ComputeTarget) -> Target:
    try:
        factory = target_types.load(target.type)
        implementation = factory(target) if factory is not None else None
    except WorkbenchError:
        raise
    except Exception as error:  # the code of another package may raise anything
        raise ConfigurationError(
            f"cannot load the target type {target.type!r} ({type(error).__name__}: {error})",
            remedy="Reinstall or update the package that adds this type.",
            file=target.path,
        ) from error
    if factory is None:
        from difflib import get_close_matches

        names = target_types.names()
        near = get_close_matches(target.type, names, 1)
        remedy = (
            f"Did you mean {near[0]!r}? If another package adds this type, install that package."
            if near
            else f"Set `type` to one of: {', '.join(names)}. If another package adds this type, install that package."
        )
        raise ConfigurationError(f"unknown target type {target.type!r}", remedy=remedy, file=target.path)
    if not isinstance(implementation, Target):
        raise ConfigurationError(
            f"the package for target type {target.type!r} is not compatible with this version of the workbench",
            remedy="Update the package. Its entry point must name a subclass of "
            "tui_workbench.targets.base.protocol.Target.",
            file=target.path,
        )
    return implementation
