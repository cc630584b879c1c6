"""Open the SSH connection of a login: host keys, keys, passwords and jump hosts.

A host key is accepted only if it is in known_hosts or if the user has confirmed its fingerprint, whatever the user's
SSH configuration says. Every failure becomes an error of `targets.hosts.host` with a remedy.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import getpass
import os
import shlex
import socket
from collections.abc import Callable, Iterator
from typing import Any

import asyncssh

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh.retransmission import retransmit_each_second
from tui_workbench.targets.ssh.ssh_config import (
    CERTIFICATE_AUTHORITY,
    DEFAULT_PORT,
    REVOKED,
    Hop,
    HostKey,
    asks_for_passphrase,
    fingerprint,
    import_key,
    import_keys,
    shown_name,
)
from tui_workbench.targets.ssh.ssh_secrets import Secrets, host_key_of, is_revoked
from tui_workbench.targets.ssh.ssh_wire import Login

CONNECT_SECONDS = 30.0  # time limit for the whole login; on a busy machine, the DNS lookups alone can take ten seconds

CIPHERS = (
    "aes256-gcm@openssh.com", "aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com",
    "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""Ciphers, the fastest first. AES-GCM is 1.6 times as fast as ChaCha20, which would be negotiated otherwise."""

NO_CERTIFICATES = "-*-cert-v01@openssh.com"
"""Removes certificates from the accepted types of host keys (HostKeyAlgorithms in ssh_config(5))."""

LONGEST_JUMP_CHAIN = 8  # maximum number of nested jump hosts; a longer chain counts as a loop


async def connect(
    login: Login, secrets: Secrets, on_lost: Callable[[Exception | None], None]
) -> asyncssh.SSHClientConnection:
    """Open the connection, through configured jump hosts.

    `on_lost` is called once when an open connection ends. Raises ConnectionLost, LoginRefused, SecretNeeded or
    HostKeyRefused.
    """
    try:
        hop = await _hop(login, login.address, login.username, secrets, "")
        try:
            authentication = await asyncio.to_thread(_authentication, login, secrets, hop)
        except SecretNeeded as error:
            if error.reference not in secrets.unknown:
                raise  # a keyring may have it
            return await _try_without_secret(login, hop, secrets, error, on_lost)
        except LoginRefused as error:
            return await _try_without_secret(login, hop, secrets, error, on_lost)
        tunnel = await _open_jumps(login, hop, secrets, LONGEST_JUMP_CHAIN)
        return await _connect_hop(login, hop, secrets, tunnel, authentication, on_lost)
    except (asyncssh.ConfigParseError, UnicodeDecodeError) as error:
        remedy = "Correct the SSH configuration, and save it as UTF-8."
        raise LoginRefused(f"{login.label}: the SSH configuration is invalid: {error}", remedy=remedy) from error


async def _hop(login: Login, address: str, username: str, secrets: Secrets, prefix: str) -> Hop:
    """Read the configuration for one host of the login. No program ever gets an invalid address or user name.

    Raises LoginRefused, asyncssh.ConfigParseError or UnicodeDecodeError.
    """
    place = login._replace(address=address, username=username)
    mistake = place.mistake
    if mistake is not None:
        raise LoginRefused(f"{login.target}: {prefix}{mistake.message}", remedy=mistake.remedy)
    # In a thread: commands of `Match exec` take time.
    return await asyncio.to_thread(Hop, *place.host_and_port, username, secrets.agent)


async def _try_without_secret(
    login: Login, hop: Hop, secrets: Secrets, problem: LoginRefused, on_lost: Callable[[Exception | None], None]
) -> asyncssh.SSHClientConnection:
    """Connect without key or password, so that problems with the machine are reported before a missing secret.

    Raises `problem` if the machine answers but refuses the login.
    """
    tunnel = await _open_jumps(login, hop, secrets, LONGEST_JUMP_CHAIN)
    try:
        return await _connect_hop(login, hop, secrets, tunnel, _NOTHING, on_lost)
    except LoginRefused:
        if isinstance(problem, SecretNeeded):
            problem.host_verified = True
        raise problem from None


async def _open_jumps(login: Login, hop: Hop, secrets: Secrets, left: int) -> asyncssh.SSHClientConnection | None:
    """Return the connection to the last jump host before `hop`; None without jump hosts."""
    if not hop.jump or hop.jump.lower() == "none":
        return None
    if left == 0:
        raise LoginRefused(f"{login.label}: the jump hosts form a loop", remedy="Correct ProxyJump in ~/.ssh/config.")
    connection: asyncssh.SSHClientConnection | None = None
    for number, word in enumerate(hop.jump.split(",")):
        username, _, place = word.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
        with _closed_on_failure(connection):
            jump = await _hop(login, place, username, secrets, "jump host: ")
        if number == 0:
            connection = await _open_jumps(login, jump, secrets, left - 1)
        connection = await _connect_hop(login, jump, secrets, connection, {}, lambda _error: None)
    return connection


@contextlib.contextmanager
def _closed_on_failure(tunnel: asyncssh.SSHClientConnection | None) -> Iterator[None]:
    """Close the connection to a jump host, if any, if the context raises an exception or is canceled."""
    try:
        yield
    except BaseException:
        if tunnel is not None:
            tunnel.close()
        raise


async def _connect_hop(
    login: Login,
    hop: Hop,
    secrets: Secrets,
    tunnel: asyncssh.SSHClientConnection | None,
    authentication: dict[str, Any],
    on_lost: Callable[[Exception | None], None],
) -> asyncssh.SSHClientConnection:
    password = login.password if authentication.get("password") is not None else ""
    client = _Client(hop, secrets, on_lost, password=password)
    options = _options(hop, tunnel) | authentication
    with _closed_on_failure(tunnel):
        try:
            try:
                connection = await _open(hop, client, options)
            except (asyncssh.Error, ConnectionError) as error:
                if not client.may_have_known_plain_key(error):
                    raise
                client = _Client(hop, secrets, on_lost, password=password, plain_keys_only=True)
                connection = await _open(hop, client, options | {"server_host_key_algs": NO_CERTIFICATES})
        except (OSError, UnicodeError, asyncssh.Error, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            await _read_host_key(hop, client, tunnel)
            raise _to_workbench_error(login, hop, client, secrets, error) from error
    if tunnel is not None:
        connection.set_tunnel(tunnel)  # closes the tunnel with the connection
    client.is_open = True
    secrets.bind(password, client.host_key)
    retransmit_each_second(connection.get_extra_info("socket"))
    return connection


async def _open(hop: Hop, client: _Client, options: dict[str, Any]) -> asyncssh.SSHClientConnection:
    own = {"client_factory": lambda: client, "known_hosts": client.trusted_keys}
    return await asyncssh.connect(hop.alias, hop.port or (), **options, **own)


def _options(hop: Hop, tunnel: asyncssh.SSHClientConnection | None) -> dict[str, Any]:
    """Return the options of a connection that do not depend on the login."""
    return {
        "config": hop.files,
        "username": hop.username or (),
        "tunnel": tunnel,
        "proxy_command": hop.proxy_command,
        "agent_path": hop.agent,
        "connect_timeout": CONNECT_SECONDS,
        "login_timeout": CONNECT_SECONDS,
        "keepalive_interval": hop.keepalive,
        "keepalive_count_max": hop.keepalive_count,
        "compression_algs": None,  # the workbench compresses its own streams
        "encryption_algs": () if hop.has_ciphers else CIPHERS,
        "command": None,
        "env": {},
        "send_env": [],
        "request_pty": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "encoding": None,
        "utf8_decode_errors": "replace",  # a server's banner may have any encoding
        **hop.authentication,
    }


async def _read_host_key(hop: Hop, client: _Client, tunnel: asyncssh.SSHClientConnection | None) -> None:
    """Read the host key if the login failed before the host showed a key of a type that is in known_hosts."""
    if not client.known or client.has_shown_key:
        return
    try:
        key = await asyncio.wait_for(
            asyncssh.get_server_host_key(client.name, client.port, tunnel=tunnel, config=[]), CONNECT_SECONDS
        )
    except (OSError, asyncssh.Error):
        return
    if key is not None:
        blob = base64.b64encode(key.public_data).decode("ascii")
        if blob not in [entry.blob for entry in client.known]:
            client.presented = fingerprint(blob)


_NO_SSH = frozenset(("Unsupported SSH version", "Banner line too long", "Too many banner lines"))
"""asyncssh's errors for a server that does not speak SSH."""

_NOTHING: dict[str, Any] = {"password": None, "client_keys": None, "agent_path": None}
"""Options of a login without credentials."""


def _authentication(login: Login, secrets: Secrets, hop: Hop) -> dict[str, Any]:
    """Return the options for a login with the password, with the key file, or with OpenSSH's defaults."""
    if login.password:
        password = secrets.values.get(login.password)
        if password is None:
            raise _needs_password(login, f"{login.label} needs a password, but none is stored")
        if secrets.is_refused(login.password):
            raise _wrong_password(login, f"{login.label}: ")
        return {**_NOTHING, "password": password, "preferred_auth": "password,keyboard-interactive"}
    if not login.private_key:
        return {}
    path = os.path.expanduser(login.private_key)
    passphrase = secrets.values.get(login.passphrase or passphrase_reference(login))
    try:
        asyncssh.read_private_key(path, passphrase)
    except OSError as error:
        raise LoginRefused(
            f"{login.label}: the private key {path} cannot be read: {error.strerror}",
            remedy="Set privateKey to an existing file that you can read, or correct the permissions of the file.",
        ) from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        return _key_from_agent(login, path, hop, passphrase is not None, error)
    # asyncssh looks for a certificate beside the key only if it gets the path of the key.
    return {"client_keys": [path], "passphrase": passphrase, "agent_path": None}


def _key_from_agent(login: Login, path: str, hop: Hop, tried: bool, error: Exception) -> dict[str, Any]:
    """Return the options for an encrypted key that the SSH agent may hold. Raises SecretNeeded or LoginRefused."""
    encrypted = asks_for_passphrase(error)
    public = f"{path}.pub"
    if encrypted and not tried and os.access(public, os.R_OK) and hop.agent:
        return {"agent_identities": [public]}
    if encrypted:
        reason = "cannot be decrypted with this passphrase" if tried else "needs a passphrase"
        raise SecretNeeded(
            f"{login.label}: the private key {path} {reason}",
            reference=login.passphrase or passphrase_reference(login),
            prompt=f"Passphrase of {path}",
            remedy=f"Enter the passphrase: {_login_command(login)}."
            f"{'' if tried else f' Or run `ssh-add {shlex.quote(path)}`, which helps only if {public} exists.'}",
        )
    remedy = "Set privateKey to the path of a private key, not of a public key."
    raise LoginRefused(f"{login.label}: {path} is not a private key ({error})", remedy=remedy)


def passphrase_reference(login: Login) -> str:
    """Return the in-memory reference of a passphrase that is not in the target's file."""
    return f"passphrase of {login.private_key}"


def _needs_password(login: Login, message: str, *, remedy: str = "", host_verified: bool = False) -> SecretNeeded:
    return SecretNeeded(
        message,
        reference=login.password,
        prompt=f"Password of {login.username or getpass.getuser()} on {login.address}",
        remedy=remedy or f"Enter the password: {_login_command(login)}.",
        host_verified=host_verified,
    )


def _wrong_password(login: Login, prefix: str, *, host_verified: bool = False) -> SecretNeeded:
    message = f"{prefix}the password is wrong, or the server does not allow passwords"
    remedy = f"Enter the correct password: {_login_command(login)}. Or use `privateKey` instead of `password`."
    return _needs_password(login, message, remedy=remedy, host_verified=host_verified)


def _login_command(login: Login) -> str:
    return f"`workbench-tui computetarget login {shlex.quote(login.target)}`"


class _Client(asyncssh.SSHClient):
    """The client of one hop. It checks the host key as `ssh` does, and records the key.

    With `plain_keys_only`, it ignores certificates. If the host uses a port other than 22, it also ignores the lines of
    known_hosts without a port.
    """

    def __init__(
        self,
        hop: Hop,
        secrets: Secrets,
        on_lost: Callable[[Exception | None], None],
        *,
        password: str,
        plain_keys_only: bool = False,
    ) -> None:
        """`password` is the reference of the password to send, or "". It is only sent to the host key it is for."""
        self._hop = hop
        self._secrets = secrets
        self._on_lost = on_lost
        self._password = password
        self._connection: asyncssh.SSHClientConnection | None = None
        self.is_for_another_key = False
        self._plain_keys_only = plain_keys_only
        self._has_more = False  # certificate authorities, or keys in lines without a port
        self.is_open = False
        self.name, self.port = hop.alias, hop.port or DEFAULT_PORT
        self.known: list[HostKey] = []
        self.presented = ""  # the fingerprint of an unknown key
        self.has_shown_key = False

    @property
    def recorded_name(self) -> str:
        """The host's name in known_hosts files."""
        return self._hop.host_key_alias or shown_name(self.name, self.port)

    def trusted_keys(self, host: str, _address: str, port: int | None) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the host's keys, certificate authorities and revoked keys in known_hosts."""
        self.name, self.port = host, port or DEFAULT_PORT
        exact, bare = self._hop.known.lookup(host, self.port, self._hop.host_key_alias)
        self.known = [entry for entry in exact if not entry.marker and import_key(entry)]
        plain = [entry for entry in bare if not entry.marker and not self.known]
        authorities = [entry for entry in (*exact, *bare) if entry.marker == CERTIFICATE_AUTHORITY]
        decided = {entry.blob for entry in exact}
        revoked = [e for e in (*exact, *bare) if e.marker == REVOKED and (e in exact or e.blob not in decided)]
        self._has_more = bool(plain or authorities)
        if self._plain_keys_only:
            plain, authorities = [], []
        return import_keys([*self.known, *plain]), import_keys(authorities), import_keys(revoked)

    def may_have_known_plain_key(self, error: Exception) -> bool:
        """Return True if another attempt that asks for a plain key may succeed.

        `ssh` likewise accepts a known key inside a certificate that no known authority has signed for this name.
        """
        if self._plain_keys_only or self.has_shown_key or is_revoked(error):
            return False
        return isinstance(error, asyncssh.HostKeyNotVerifiable) or self._has_more

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        blob = base64.b64encode(key.public_data).decode("ascii")
        self.presented, self.has_shown_key = fingerprint(blob), True
        # Accepting a fingerprint does not replace a known key.
        if self.known or self.presented not in self._secrets.accepted:
            return False
        self._hop.known.accept(self.recorded_name, f"{key.get_algorithm()} {blob}")
        return True

    @property
    def host_key(self) -> str:
        """The fingerprint of the verified host key; "" before the key exchange."""
        return host_key_of(self._connection) if self._connection is not None else ""

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> None:
        self.has_shown_key = True
        if self._password and not self._secrets.is_for(self._password, self.host_key):
            self.is_for_another_key = True
            raise asyncssh.PermissionDenied("the stored password is for another host key")

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_open:
            self.is_open = False
            self._on_lost(exc)


def _to_workbench_error(
    login: Login, hop: Hop, client: _Client, secrets: Secrets, error: Exception
) -> TargetUnreachable:
    """Convert an error of asyncssh or of the system that occurred while a connection was opened."""
    prefix = _prefix(login, hop)
    if client.is_for_another_key:
        message = f"{prefix}the stored password is for another host key than {client.host_key}, and was not sent"
        return _needs_password(login, message, host_verified=True)
    if isinstance(error, asyncssh.HostKeyNotVerifiable) or (client.known and client.presented):
        return _host_key_error(prefix, client, error)
    if isinstance(error, asyncssh.PermissionDenied | asyncssh.PasswordChangeRequired):
        return _login_error(login, hop, prefix, secrets, must_change=isinstance(error, asyncssh.PasswordChangeRequired))
    if isinstance(error, asyncssh.DisconnectError) and "authentication failures" in error.reason:
        return LoginRefused(
            f"{prefix}the server disconnected after too many wrong keys: {error.reason}",
            remedy="Set the key to use: privateKey of the target, or IdentityFile and `IdentitiesOnly yes` in "
            "~/.ssh/config.",
        )
    if isinstance(error, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
        remedy = f"Correct the IdentityFile of {hop.alias} in ~/.ssh/config."
        return LoginRefused(f"{prefix}cannot use a key that ~/.ssh/config names: {error}", remedy=remedy)
    return _connection_error(prefix, client, error)


def _prefix(login: Login, hop: Hop) -> str:
    return f"{login.label}: " if hop.alias == login.host_and_port[0] else f"{login.label}, jump host {hop.alias}: "


def _connection_error(prefix: str, client: _Client, error: Exception) -> ConnectionLost:
    """Return the error for a machine without a working SSH server."""
    said = getattr(error, "reason", "")
    if isinstance(error, UnicodeDecodeError) or said in _NO_SSH:
        said = "the answer is not text" if isinstance(error, UnicodeDecodeError) else said
        text = f"no SSH server answers on port {client.port} of {client.name}: {said}"
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
    said = said or getattr(error, "strerror", "") or str(error) or type(error).__name__
    return ConnectionLost(
        f"{prefix}{said}", remedy="Try again. `ssh -v` to the same address shows details.", failed_check=failed_check
    )


def _host_key_error(prefix: str, client: _Client, error: Exception) -> HostKeyRefused:
    where = client.recorded_name
    if is_revoked(error):
        return HostKeyRefused(
            f"{prefix}the host key of {where} is marked as revoked in known_hosts",
            presented="",
            remedy="Do not log in. Ask the machine's administrator for its new key.",
        )
    is_refused = isinstance(error, asyncssh.HostKeyNotVerifiable)
    said = str(error) if is_refused else "the machine has no host key of a type that is in known_hosts"
    known = tuple(f"{entry.fingerprint} ({entry.file}:{entry.line})" for entry in client.known)
    if known:
        shown = client.presented or "another key"
        return HostKeyRefused(
            f"{prefix}THE HOST KEY CHANGED: {where} shows {shown}, but known_hosts has {', '.join(known)} ({said})",
            presented=client.presented,
            known=known,
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
        f"{prefix}the host key of {where} was refused: {said}",
        presented="",
        remedy=f"Run `ssh -v -p {client.port} {shlex.quote(client.name)}` to find the cause.",
    )


def _login_error(login: Login, hop: Hop, prefix: str, secrets: Secrets, *, must_change: bool) -> LoginRefused:
    if hop.alias != login.host_and_port[0]:
        command = f"ssh {shlex.quote(hop.alias)}"
        return LoginRefused(f"{prefix}the login was refused", remedy=f"Run `{command}` to find the cause.")
    if login.password and login.password in secrets.values:
        secrets.refuse(login.password)
        if must_change:
            remedy = f"Set a new password with `ssh {login.ssh_words}`, then enter it: {_login_command(login)}."
            return _needs_password(login, f"{prefix}the password has expired", remedy=remedy, host_verified=True)
        return _wrong_password(login, prefix, host_verified=True)
    if login.private_key:
        return LoginRefused(
            f"{prefix}the key {login.private_key} was refused",
            remedy=f"Append {login.private_key}.pub to ~/.ssh/authorized_keys on the machine: "
            f"`ssh-copy-id {login.all_words}`.",
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
    )
