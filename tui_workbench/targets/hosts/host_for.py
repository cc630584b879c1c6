"""The machine that a compute target's runs are executed on. No login is tried with a secret that stands in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.secrets import SecretStore, is_reference
from tui_workbench.targets.hosts.host import Host, LocalHost

if TYPE_CHECKING:
    from tui_workbench.targets.ssh.ssh_host import SshHost


def host_of(target: ComputeTarget) -> Host:
    """The host of a target: this machine, or the one that its `.compute` file names.

    Raises ConfigurationError when the file holds a password or passphrase itself.
    """
    if target.kind.is_remote:
        return ssh_host_of(target)
    return LocalHost()


def ssh_host_of(target: ComputeTarget) -> SshHost:
    """The other machine of a target. Raises ConfigurationError as `host_of` does."""
    from tui_workbench.targets.ssh.ssh_host import SshHost
    from tui_workbench.targets.ssh.ssh_wire import login_of

    # A login is handed to a process by its argument list, where everybody can read it.
    for key, value in (("password", target.password), ("privateKeyPassphrase", target.private_key_passphrase)):
        if value and not is_reference(value):
            raise ConfigurationError(
                f"`{key}` is the secret itself, and it belongs into the keyring",
                remedy=f"Move it there: workbench-tui computetarget login {target.name} --move-secrets",
                file=target.path,
                line=line_of_key(target.path, key),
            )
    return SshHost(login_of(target), secrets=SecretStore().get)
