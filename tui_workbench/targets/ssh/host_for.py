"""Return the machine of a compute target. A target file with a plain-text secret is refused."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.hosts.host import Host, LocalHost
from tui_workbench.targets.hosts.secrets import plain_text_secrets

if TYPE_CHECKING:
    from tui_workbench.targets.ssh.ssh_host import SshHost


def host_of(target: ComputeTarget) -> Host:
    """Return the host of a target.

    Raises ConfigurationError if its file contains a plain-text password or passphrase.
    """
    return ssh_host_of(target) if target.uses_ssh else LocalHost()


def ssh_host_of(target: ComputeTarget) -> SshHost:
    """Return the host of a remote target. Raises ConfigurationError as `host_of` does."""
    from tui_workbench.targets.ssh.login_secrets import stored_secret
    from tui_workbench.targets.ssh.ssh_host import SshHost
    from tui_workbench.targets.ssh.ssh_wire import login_of

    # A login contains only references of secrets, so that messages may show it.
    command = f"workbench-tui computetarget login {shlex.quote(target.name)} --move-secrets"
    for key in plain_text_secrets(target):
        raise ConfigurationError(
            f"`{key}` is a plain-text secret",
            remedy=f"Move it to the keyring: `{command}`.",
            file=target.path,
            line=line_of_key(target.path, key),
        )
    return SshHost.of(target, partial(stored_secret, login_of(target)))
