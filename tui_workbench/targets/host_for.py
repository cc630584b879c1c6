"""The machine that a compute target's runs are executed on."""

from __future__ import annotations

from tui_workbench.model import REMOTE_TYPES
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.host import Host


def host_of(target: ComputeTarget) -> Host:
    """The host of a target: this machine, or the one that its `.compute` file names."""
    if target.type in REMOTE_TYPES:
        from tui_workbench.targets.ssh import SshHost
        from tui_workbench.targets.ssh_wire import login_of

        return SshHost(login_of(target))
    from tui_workbench.targets.host import LocalHost

    return LocalHost()
