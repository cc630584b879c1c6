"""Open the SSH connection of a login: host keys, keys, passwords and jump hosts.

A host key is accepted only if it is in known_hosts or if the user has confirmed its fingerprint, whatever the user's
SSH configuration says. Every failure becomes an error of `targets.hosts.host` with a remedy.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.hosts.host import LoginRefused, SecretNeeded
from tui_workbench.targets.ssh.known_hosts import fingerprint
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.login_errors import (
    CONNECT_SECONDS,
    jump_host,
    login_command,
    needs_password,
    passphrase_reference,
    to_workbench_error,
    wrong_password,
)
from tui_workbench.targets.ssh.proxy_command import ProxyCommand
from tui_workbench.targets.ssh.ssh_client import Client
from tui_workbench.targets.ssh.ssh_config import Hop, asks_for_passphrase, read_key_file
from tui_workbench.targets.ssh.ssh_secrets import Secrets
from tui_workbench.targets.ssh.ssh_wire import Login

CIPHERS = (
    "aes256-gcm@openssh.com", "aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com",
    "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""Ciphers, the fastest first. AES-GCM is 1.6 times as fast as ChaCha20, which would be negotiated otherwise."""

NO_CERTIFICATES = "-*-cert-v01@openssh.com"
"""Removes certificates from the accepted types of host keys (HostKeyAlgorithms in ssh_config(5))."""

_RTO_MAX_MS = 44  # TCP_RTO_MAX_MS of linux/tcp.h, since Linux 6.15; the module `socket` does not define it
_SHORTEST_RTO_MAX = 1000  # milliseconds; Linux accepts no smaller value

LONGEST_JUMP_CHAIN = 8  # maximum number of nested jump hosts; a longer chain counts as a loop


async def connect(
    login: Login, secrets: Secrets, on_lost: Callable[[Exception | None], None]
) -> asyncssh.SSHClientConnection:
    """Open the connection, through configured jump hosts.

    `on_lost` is called once when an open connection ends. Raises ConnectionLost, LoginRefused, SecretNeeded or
    HostKeyRefused.
    """
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


async def _hop(login: Login, address: str, username: str, secrets: Secrets, prefix: str) -> Hop:
    """Read the configuration for one host of the login. No program ever gets an invalid address or user name.

    Raises LoginRefused or ConnectionLost.
    """
    hop_login = login._replace(address=address, username=username)
    mistake = hop_login.mistake
    if mistake is not None:
        raise LoginRefused(f"{login.target}: {prefix}{mistake.message}", remedy=mistake.remedy)
    try:
        # In a thread: commands of `Match exec` take time.
        return await asyncio.to_thread(Hop, *hop_login.host_and_port, username, secrets.agent)
    except TargetUnreachable as error:
        error.message = f"{login.label}: {prefix}{error.message}"
        raise


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


async def _open_jumps(login: Login, hop: Hop, secrets: Secrets, jumps_left: int) -> asyncssh.SSHClientConnection | None:
    """Return the connection to the last jump host before `hop`; None without jump hosts."""
    if not hop.jump or hop.jump.lower() == "none":
        return None
    if jumps_left == 0:
        raise LoginRefused(f"{login.label}: the jump hosts form a loop", remedy="Correct ProxyJump in ~/.ssh/config.")
    connection: asyncssh.SSHClientConnection | None = None
    for number, word in enumerate(hop.jump.split(",")):
        username, _, address = word.strip().removeprefix("ssh://").rstrip("/").rpartition("@")
        with _closed_on_failure(connection):
            jump = await _hop(login, address, username, secrets, "jump host: ")
        if number == 0:
            connection = await _open_jumps(login, jump, secrets, jumps_left - 1)
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
    asks = authentication is not _NOTHING
    new_client = partial(Client, hop, secrets, on_lost, password=password, jump_host=jump_host(login, hop), asks=asks)
    client = new_client()
    options = _options(hop, tunnel) | authentication
    with _closed_on_failure(tunnel):
        try:
            try:
                connection = await _open(hop, client, options)
            except (asyncssh.Error, ConnectionError) as error:
                if not client.may_have_known_plain_key(error):
                    raise
                client = new_client(plain_keys_only=True)
                connection = await _open(hop, client, options | {"server_host_key_algs": NO_CERTIFICATES})
        except (OSError, ValueError, asyncssh.Error, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            await _read_host_key(hop, client, tunnel)
            raise to_workbench_error(login, hop, client, secrets, error) from error
    if tunnel is not None:
        connection.set_tunnel(tunnel)  # closes the tunnel with the connection
    client.is_open = True
    secrets.bind(password, client.host_key)
    _retransmit_each_second(connection.get_extra_info("socket"))
    return connection


def _retransmit_each_second(tcp_socket: socket.socket | None) -> None:
    """Let the TCP connection of a socket retransmit at least once a second.

    Output then arrives at once when the network works again. Otherwise each pause is twice as long as the one before:
    after an interruption of a minute, the next attempt may be a minute later. Other systems keep their pauses. A
    connection through a jump host or a proxy command has no socket.
    """
    if tcp_socket is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            tcp_socket.setsockopt(socket.IPPROTO_TCP, _RTO_MAX_MS, _SHORTEST_RTO_MAX)


async def _open(hop: Hop, client: Client, options: dict[str, Any]) -> asyncssh.SSHClientConnection:
    own: dict[str, Any] = {"client_factory": lambda: client, "known_hosts": client.trusted_keys}
    if options["tunnel"] is None and hop.proxy_command:
        client.proxy = await ProxyCommand.start(hop.proxy_command, hop.agent)
        own["sock"] = client.proxy.connection
    if options.get("password") is not None:
        own["password"] = client.take_password
    try:
        async with asyncio.timeout(CONNECT_SECONDS) as client.limit:
            connection = await asyncssh.connect(hop.host, hop.port or (), **{**options, **own})
        if client.loss is not None:
            raise client.loss
        return connection
    except BaseException as error:
        if client.proxy is not None and isinstance(error, asyncssh.Error | OSError):
            client.proxy_complaint = await client.proxy.complaint()
        client.end_proxy()
        raise


def _options(hop: Hop, tunnel: asyncssh.SSHClientConnection | None) -> dict[str, Any]:
    """Return the options of a connection that do not depend on the login."""
    return {
        "tunnel": tunnel,
        "agent_path": hop.agent,
        "connect_timeout": min(hop.connect_timeout or CONNECT_SECONDS, CONNECT_SECONDS),
        "login_timeout": 0,  # `_open` has a time limit, which does not include the questions to the user
        "keepalive_interval": hop.keepalive,
        "keepalive_count_max": hop.keepalive_count,
        "compression_algs": None,  # the workbench compresses its own streams
        "encryption_algs": CIPHERS,
        "command": None,
        "env": {},
        "send_env": [],
        "request_pty": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "encoding": None,
        "utf8_decode_errors": "replace",  # a server's banner may have any encoding
        **hop.options,
        **hop.authentication,
    }


async def _read_host_key(hop: Hop, client: Client, tunnel: asyncssh.SSHClientConnection | None) -> None:
    """Read the host key if the login failed before the host showed a key of a type that is in known_hosts."""
    if not client.known or client.has_shown_key or (tunnel is None and hop.proxy_command):
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


_NOTHING: dict[str, Any] = {"password": None, "client_keys": None, "agent_path": None}
"""Options of a login without credentials."""


def _authentication(login: Login, secrets: Secrets, hop: Hop) -> dict[str, Any]:
    """Return the options for a login with the password, with the key file, or with OpenSSH's defaults."""
    if login.password:
        password = secrets.values.get(login.password)
        if password is None:
            raise needs_password(login, f"{login.label} needs a password, but none is stored")
        if secrets.is_refused(login.password):
            raise wrong_password(login, f"{login.label}: ")
        return {**_NOTHING, "password": password, "preferred_auth": "password,keyboard-interactive"}
    if not login.private_key:
        return {}
    path = os.path.expanduser(login.private_key)
    passphrase = secrets.values.get(login.passphrase or passphrase_reference(login))
    try:
        asyncssh.import_private_key(read_key_file(path), passphrase)
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
            remedy=f"Enter the passphrase: {login_command(login)}."
            f"{'' if tried else f' Or run `ssh-add {shlex.quote(path)}`, which helps only if {public} exists.'}",
        )
    remedy = "Set privateKey to the path of a private key, not of a public key."
    raise LoginRefused(f"{login.label}: {path} is not a private key ({error})", remedy=remedy)
