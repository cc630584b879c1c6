"""The machine that a compute target's runs are executed on. No login is tried with a secret that stands in a file."""

from __future__ import annotations

from tui_workbench.errors import ConfigurationError
from tui_workbench.model import REMOTE_TYPES
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.host import Host
    from tui_workbench.targets.ssh import SshHost


def host_of(target: ComputeTarget) -> Host:
    """The host of a target: this machine, or the one that its `.compute` file names.

    Raises ConfigurationError when the file holds a password or passphrase itself.
    """
    if target.type in REMOTE_TYPES:
        return ssh_host_of(target)
    from tui_workbench.targets.host import LocalHost

    return LocalHost()


def ssh_host_of(target: ComputeTarget) -> SshHost:
    """The other machine of a target. Raises ConfigurationError as `host_of` does."""
    from tui_workbench.targets.secrets import SecretStore, is_reference
    from tui_workbench.targets.ssh import SshHost
    from tui_workbench.targets.ssh_wire import login_of

    # A login is handed to a process by its argument list, where everybody can read it.
    for key, value in (("password", target.password), ("privateKeyPassphrase", target.private_key_passphrase)):
        if value and not is_reference(value):
            from tui_workbench.project import line_of_key

            raise ConfigurationError(
                f"`{key}` is the secret itself, and it belongs into the keyring",
                remedy=f"Move it there: workbench-tui computetarget login {target.name} --move-secrets",
                file=target.path,
                line=line_of_key(target.path, key),
            )
    return SshHost(login_of(target), secrets=SecretStore().get)
