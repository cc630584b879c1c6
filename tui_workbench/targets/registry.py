"""Target types by name. Built-in ones are found without a look at what else is installed; others are entry points.

A third party adds a type with an entry point in the group `tui_workbench.targets`, named like the `type` in the
`.compute` file and pointing at a class that is called with the ComputeTarget.
"""

from __future__ import annotations

from tui_workbench.config.target_types import ENTRY_POINT_GROUP
from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.protocol import Target

DOCKER_TYPES = ("localdocker", "docker", "remotedocker")
KNOWN_TYPES = ("local", "localdocker", "docker", "remotedocker", "remote", "cluster")


def create(target: ComputeTarget) -> Target:
    """The implementation for the target's type.

    Raises ConfigurationError, with the `.compute` file, when there is none.
    """
    if target.problem is not None:
        problem = target.problem
        raise ConfigurationError(
            problem.message, remedy=problem.remedy, file=problem.file, line=problem.line, column=problem.column
        )
    if target.type == "local" and not target.user_managed_environment:
        from tui_workbench.targets.local_managed import ManagedLocalTarget

        return ManagedLocalTarget(target)
    if target.type == "local":
        from tui_workbench.targets.local import LocalTarget

        return LocalTarget(target)
    if target.type in DOCKER_TYPES:
        from tui_workbench.targets.docker import DockerTarget
        from tui_workbench.targets.host_for import host_of

        return DockerTarget(target, host_of(target))
    if target.type == "remote":
        from tui_workbench.targets.host_for import host_of
        from tui_workbench.targets.remote import RemoteTarget

        return RemoteTarget(target, host_of(target))
    factory = _from_entry_points(target.type)
    if factory is not None:
        implementation: Target = factory(target)
        return implementation
    if target.type in KNOWN_TYPES:
        message, remedy = (
            f"targets of type {target.type} cannot run yet in this version",
            "Choose a target of type local.",
        )
    else:
        message, remedy = (
            f"nothing here can run targets of type {target.type!r}",
            "Use local, or install what adds this type.",
        )
    raise ConfigurationError(message, remedy=remedy, file=target.path)


def _from_entry_points(name: str) -> Any:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return entry_point.load()
    return None
