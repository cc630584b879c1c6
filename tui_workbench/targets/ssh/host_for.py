"""Return the machine of a compute target. A target file with a plain-text secret is refused."""

from __future__ import annotations

from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import Host, LocalHost


def host_of(target: ComputeTarget) -> Host:
    """Return the host of a target.

    Raises ConfigurationError if its file contains a plain-text password or passphrase.
    """
    if not target.uses_ssh:
        return LocalHost()
    from tui_workbench.targets.ssh.login_secrets import ssh_host_of

    return ssh_host_of(target)
