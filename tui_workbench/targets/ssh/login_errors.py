"""Convert the errors of asyncssh and of the system to errors with a remedy."""

from __future__ import annotations

import getpass
import shlex
import socket

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.plaintext import short_name
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.ssh_client import Client
from tui_workbench.targets.ssh.ssh_config import Hop
from tui_workbench.targets.ssh.ssh_secrets import Secrets, is_revoked
from tui_workbench.targets.ssh.ssh_wire import Login

CONNECT_SECONDS = 30.0
"""Time limit in seconds for the whole login. On a busy machine, the DNS lookups alone can take ten seconds."""

LONGEST_REASON = 300
"""Maximum number of characters of a reason that a server gives."""

_NO_SSH = frozenset(("Unsupported SSH version", "Banner line too long", "Too many banner lines"))
"""asyncssh's errors for a server that does not speak SSH."""


def passphrase_reference(login: Login) -> str:
    """Return the in-memory reference of a passphrase that is not in the target's file."""
    return f"passphrase of {login.private_key}"


def needs_password(login: Login, message: str, *, remedy: str = "", host_verified: bool = False) -> SecretNeeded:
    """Return the error for a missing or wrong password."""
    return SecretNeeded(
        message,
        reference=login.password,
        prompt=f"Password of {login.username or getpass.getuser()} on {login.address}",
        remedy=remedy or f"Enter the password: {login_command(login)}.",
        host_verified=host_verified,
    )


def wrong_password(login: Login, prefix: str, *, host_verified: bool = False) -> SecretNeeded:
    """Return the error for a password that the server has refused."""
    message = f"{prefix}the password is wrong, or the server does not allow passwords"
    remedy = f"Enter the correct password: {login_command(login)}. Or use `privateKey` instead of `password`."
    return needs_password(login, message, remedy=remedy, host_verified=host_verified)


def login_command(login: Login) -> str:
    """Return the command that asks for the secret of a login, in backquotes."""
    return f"`workbench-tui computetarget login {shlex.quote(login.target)}`"


def to_workbench_error(login: Login, hop: Hop, client: Client, secrets: Secrets, error: Exception) -> TargetUnreachable:
    """Convert an error of asyncssh or of the system that occurred while a connection was opened."""
    prefix = _prefix(login, hop)
    if client.is_for_another_key:
        message = f"{prefix}the stored password is for another host key than {client.host_key}, and was not sent"
        return needs_password(login, message, host_verified=True)
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or (client.known and client.presented):
        return _host_key_error(prefix, client, error)
    if isinstance(error, asyncssh.PermissionDenied | asyncssh.PasswordChangeRequired):
        must_change = isinstance(error, asyncssh.PasswordChangeRequired)
        return _login_error(login, hop, prefix, client, secrets, must_change=must_change)
    if isinstance(error, asyncssh.DisconnectError) and "authentication failures" in error.reason:
        return LoginRefused(
            f"{prefix}the server disconnected after too many wrong keys: {short_name(error.reason, LONGEST_REASON)}",
            remedy="Set the key to use: privateKey of the target, or IdentityFile and `IdentitiesOnly yes` in "
            "~/.ssh/config.",
        )
    # Before the check for ValueError, the base class of both.
    if isinstance(error, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
        remedy = f"Correct the IdentityFile of {hop.alias} in ~/.ssh/config."
        return LoginRefused(f"{prefix}cannot use a key that ~/.ssh/config names: {error}", remedy=remedy)
    if client.proxy_complaint and not client.has_shown_key:
        return ConnectionLost(
            f"{prefix}the ProxyCommand failed: {client.proxy_complaint}",
            remedy=f"Correct the ProxyCommand of {hop.alias} in ~/.ssh/config, or check the machine that it connects "
            f"to. `ssh -v {login.ssh_words}` shows details.",
            failed_check="port",
        )
    if isinstance(error, ValueError) and not isinstance(error, UnicodeError):
        remedy = f"Correct the settings of {hop.alias} in ~/.ssh/config."
        return LoginRefused(f"{prefix}a setting of the SSH configuration cannot be used: {error}", remedy=remedy)
    return _connection_error(prefix, client, error)


def jump_host(login: Login, hop: Hop) -> str:
    """Return the name of a hop if it is a jump host; "" for the host of the login."""
    return "" if hop.alias == login.host_and_port[0] else hop.alias


def _prefix(login: Login, hop: Hop) -> str:
    name = jump_host(login, hop)
    return f"{login.label}, jump host {name}: " if name else f"{login.label}: "


def _connection_error(prefix: str, client: Client, error: Exception) -> ConnectionLost:
    """Return the error for a machine without a working SSH server."""
    complaint = getattr(error, "reason", "")
    if isinstance(error, UnicodeDecodeError) or complaint in _NO_SSH:
        complaint = "the answer is not text" if isinstance(error, UnicodeDecodeError) else complaint
        text = f"no SSH server answers on port {client.port} of {client.name}: {complaint}"
        return ConnectionLost(f"{prefix}{text}", remedy="Check the address and the port.", failed_check="port")
    if isinstance(error, socket.gaierror | UnicodeError):  # UnicodeError for an invalid name such as `a..b`
        remedy = "Check the address, and the network connection of this machine."
        return ConnectionLost(f"{prefix}unknown host name {client.name}", remedy=remedy, failed_check="name")
    if isinstance(error, ConnectionRefusedError):
        return ConnectionLost(
            f"{prefix}nothing listens on port {client.port} of {client.name}",
            remedy="Check the port, and that the machine and its SSH server are running.",
            failed_check="port",
        )
    if isinstance(error, TimeoutError):
        return ConnectionLost(
            f"{prefix}no answer within {CONNECT_SECONDS:g} s",
            remedy="Check that the machine is running and that no firewall blocks the connection.",
            failed_check="port",
        )
    is_open = isinstance(error, asyncssh.Error | ConnectionResetError | BrokenPipeError)
    failed_check = "login" if client.has_shown_key else "host key" if is_open else "port"
    complaint = complaint or getattr(error, "strerror", "") or str(error)
    complaint = short_name(complaint, LONGEST_REASON) or type(error).__name__
    return ConnectionLost(
        f"{prefix}{complaint}",
        remedy="Try again. `ssh -v` to the same address shows details.",
        failed_check=failed_check,
    )


def _host_key_error(prefix: str, client: Client, error: Exception) -> HostKeyRefused:
    where = client.recorded_name
    if is_revoked(error):
        return HostKeyRefused(
            f"{prefix}the host key of {where} is marked as revoked in known_hosts",
            presented="",
            remedy="Do not log in. Ask the machine's administrator for its new key.",
        )
    is_refused = isinstance(error, asyncssh.HostKeyNotVerifiable)
    complaint = str(error) if is_refused else "the machine has no host key of a type that is in known_hosts"
    keys = tuple(f"{entry.fingerprint} ({entry.file}:{entry.line})" for entry in client.known)
    if keys:
        shown = client.presented or "another key"
        return HostKeyRefused(
            f"{prefix}THE HOST KEY CHANGED: {where} shows {shown}, but known_hosts has {', '.join(keys)} ({complaint})",
            presented=client.presented,
            known=keys,
            remedy=f"If the machine was reinstalled, remove the old key: `ssh-keygen -R '{where}'`. Otherwise do not "
            "log in: the connection may be intercepted.",
        )
    if client.presented:
        return HostKeyRefused(
            f"{prefix}the host key of {where} is unknown: {client.presented}",
            presented=client.presented,
            remedy="Compare the fingerprint with those of `cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -` on that "
            f"machine. Then add `--accept-host-key {client.presented}` to `workbench-tui computetarget attach`, "
            "`check` or `login`.",
        )
    return HostKeyRefused(
        f"{prefix}the host key of {where} was refused: {complaint}",
        presented="",
        remedy=f"Run `ssh -v -p {client.port} {shlex.quote(client.name)}` to find the cause.",
    )


def _login_error(
    login: Login, hop: Hop, prefix: str, client: Client, secrets: Secrets, *, must_change: bool
) -> LoginRefused:
    if secrets.questions.is_unattended:
        return secrets.questions.error(login, login_command(login))
    if client.has_asked:
        remedy = f"Log in again with the right answers: {login_command(login)}."
        return LoginRefused(f"{prefix}the server refused the answers to its questions", remedy=remedy)
    if client.key_was_accepted:
        return LoginRefused(
            f"{prefix}the server accepted a key, but then refused the login",
            remedy=f"It requires more than the key. `ssh -v {login.ssh_words}` shows its questions.",
        )
    if jump_host(login, hop):
        command = f"ssh {shlex.quote(hop.alias)}"
        return LoginRefused(f"{prefix}the login was refused", remedy=f"Run `{command}` to find the cause.")
    if login.password and login.password in secrets.values:
        secrets.refuse(login.password)
        if must_change:
            remedy = f"Set a new password with `ssh {login.ssh_words}`, then enter it: {login_command(login)}."
            return needs_password(login, f"{prefix}the password has expired", remedy=remedy, host_verified=True)
        return wrong_password(login, prefix, host_verified=True)
    if login.private_key:
        return LoginRefused(
            f"{prefix}the key {login.private_key} was refused",
            remedy=f"Append {login.private_key}.pub to ~/.ssh/authorized_keys on the machine: "
            f"`ssh-copy-id {login.all_words}`.",
            offers_password=client.offers_password,
        )
    locked = hop.locked_keys
    if locked:
        return LoginRefused(
            f"{prefix}no SSH key was accepted; keys with a passphrase were not tried: {', '.join(locked)}",
            remedy=f"Load the right key into your SSH agent, for example `ssh-add {locked[0]}`. Or set privateKey of "
            "the target to that key. The workbench then asks for its passphrase.",
        )
    return LoginRefused(
        f"{prefix}none of your SSH keys was accepted",
        remedy=f"Copy your public key to the machine: `ssh-copy-id {login.ssh_words}`. Or attach the target "
        "with a password.",
        offers_password=client.offers_password,
    )
