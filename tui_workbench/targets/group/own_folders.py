"""Refuse members with the same home directory, such as two names of one machine.

The parts of a run need separate folders.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import HostLayout

_OWNER = shell_script("targets/group/scripts/own_folder.sh")


def owner_of_folder(host: Host, run_id: str, member: str) -> str:
    """Return the name of the member that owns the run's folder on a host.

    If the folder has no owner yet, `member` becomes its owner. Raises WorkbenchError.
    """
    return host.check(["sh", "-c", _OWNER, "sh", HostLayout(host.home()).run(run_id), member]).text.strip()


def require_own_folders(group: ComputeTarget, owners: Mapping[str, str]) -> None:
    """Raise ConfigurationError if the folder of a member belongs to another member.

    `owners` maps each member to the owner of its folder.
    """
    for name, owner in owners.items():
        if name != owner:
            raise ConfigurationError(
                f"members {owner} and {name} have the same home folder",
                remedy="Remove one of them from `members`. Each member needs its own home folder.",
                file=group.path,
                line=line_of_key(group.path, "members"),
            )
