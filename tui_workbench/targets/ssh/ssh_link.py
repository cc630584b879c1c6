"""The link: the process that holds the SSH connection of a login for all processes of the user.

`SshHost` starts `python -m tui_workbench.targets.ssh.ssh_link LISTENING_DESCRIPTOR LOGIN_JSON`. The link ends after
some time without requests. Runs continue without it, and the next request starts a new link. Secrets stay in the memory
of the link and are never written to a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import sys
import time
from typing import Any

import asyncssh

from tui_workbench.core import trace
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.locks import held, open_lock
from tui_workbench.targets.hosts.host import ConnectionLost
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.connection_pool import ConnectionPool, lost
from tui_workbench.targets.ssh.ssh_channel import Shell
from tui_workbench.targets.ssh.ssh_host import AGENT_VARIABLE

IDLE_SECONDS = 600.0
"""An idle connection is closed after this time. A link whose secrets are all in a keyring then ends."""

IDLE_WITH_SECRETS_SECONDS = 12 * 3600.0
"""A link with a secret that is not in a keyring ends after this time without requests."""

REQUEST_SECONDS = 10.0
"""Time limit for a client to send its request."""


class Link:
    """Serves requests on a listening socket until it is idle."""

    def __init__(self, login: wire.Login, listener: socket.socket, paths: wire.LinkPaths) -> None:
        self._login = login
        self._listener = listener
        self._paths = paths
        self._connection = ConnectionPool(login, paths)
        self._clients: set[asyncio.Task[None]] = set()
        self._used = time.monotonic()
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Answer requests until the link is idle or closed."""
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        loop.add_reader(self._listener, self._accept_clients)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), max(0.1, self._seconds_left(IDLE_SECONDS)))
            if self._over.is_set():
                break
            if self._seconds_left(IDLE_SECONDS) <= 0:
                self._connection.close()
                life = IDLE_WITH_SECRETS_SECONDS if self._connection.secrets.are_only_here else IDLE_SECONDS
                if self._seconds_left(life) <= 0 and self._may_end():
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._over.wait(), IDLE_SECONDS)
        loop.remove_reader(self._listener)
        with contextlib.suppress(OSError):
            os.unlink(self._paths.socket)
        self._listener.close()
        self._connection.close()

    def _seconds_left(self, limit: float) -> float:
        return limit if self._clients else self._used + limit - time.monotonic()

    def _may_end(self) -> bool:
        """Remove the socket and return True, unless a client has connected. Holds the lock for starting a link."""
        if not os.path.exists(self._paths.socket):
            return not self._clients  # the socket was removed, so no client can connect
        with held(open_lock(self._paths.lock)):
            self._accept_clients()
            if self._clients:
                return False
            with contextlib.suppress(OSError):
                os.unlink(self._paths.socket)
            return True

    def _accept_clients(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            task = asyncio.create_task(self._serve(_Client(connection)))
            self._clients.add(task)
            task.add_done_callback(self._client_left)

    def _client_left(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        self._used = time.monotonic()

    async def _serve(self, client: _Client) -> None:
        try:
            client.reply({})
            request = await client.request()
            if request is None:
                return
            answering = asyncio.create_task(self._answer(client, request))
            gone = asyncio.create_task(client.gone())
            await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
            for task in (answering, gone):
                task.cancel()
            # Wait for both: a task must not watch a descriptor that is closed and may be reused.
            await asyncio.wait({answering, gone})
            if not answering.cancelled():
                answering.result()
        finally:
            client.close()

    async def _answer(self, client: _Client, request: dict[str, Any]) -> None:
        _use_agent(request.get("agent", ""))
        try:
            reply = await self._reply_to(client, request)
        except TargetUnreachable as error:
            reply = wire.error_to_message(error)
        except asyncssh.ChannelOpenError as error:
            reply = {"refused": error.reason, "forbidden": error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED}
        except Exception as error:  # a bug; the traceback goes to stderr
            failure = ConnectionLost(
                f"{self._login.label}: internal error of the process that holds the SSH connection: "
                f"{type(error).__name__}: {error}",
                remedy=f"Try again. The details are in {self._paths.errors}.",
            )
            client.reply(wire.error_to_message(failure))
            raise
        client.reply(reply)

    async def _reply_to(self, client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        connection, secrets = self._connection, self._connection.secrets
        match request["op"]:
            case wire.EXEC:
                return await self._exec(client, request)
            case wire.FORWARD:
                # Shielded, so that a client that disconnects does not cancel the call half-way; see `_exec`.
                forwarding = asyncio.create_task(connection.forward(request["path"]))
                return {"socket": await asyncio.shield(forwarding)}
            case wire.FORWARD_PORT:
                address, port, here = request["address"], request["port"], request["here"]
                async with connection.forwarded_port(address, port, here) as (bound, wait_closed):
                    client.reply({"port": bound})
                    await wait_closed()
            case wire.STATUS:
                return {"state": connection.state, "since": connection.since, **connection.facts()}
            case wire.WAIT:
                await connection.wait()
            case wire.SECRET:
                secrets.add(request["reference"], request["value"], kept=bool(request.get("kept")))
            case wire.NO_SECRET:
                secrets.unknown.add(request["reference"])
            case wire.ACCEPT:
                secrets.accepted.add(request["fingerprint"])
            case wire.CLOSE:
                self._over.set()
            case unknown:
                raise KeyError(unknown)
        return {}

    async def _exec(self, client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        # A client that disconnects cancels this call. The shell must then be closed, as channels are limited, and the
        # pipes must be connected first: asyncio does not unregister a pipe whose connection was canceled.
        opening = asyncio.create_task(self._connection.shell())
        try:
            shell = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise
        joining = asyncio.create_task(shell.run(request["command"], *client.take_descriptors()))
        try:
            await asyncio.shield(joining)
            client.reply({})
            return {"exit": await asyncio.shield(shell.ended)}
        except (asyncssh.Error, OSError) as error:
            raise lost(self._login, error) from error
        finally:
            await asyncio.wait({joining})
            shell.close()


class _Client:
    """A client: its request and its descriptors."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(REQUEST_SECONDS)
        self._connection = connection
        self._descriptors: list[int] = []

    async def request(self) -> dict[str, Any] | None:
        """Read the request; None if the client disconnected before it was complete."""
        try:
            return await asyncio.to_thread(wire.receive, self._connection, self._descriptors)
        except (OSError, ValueError):
            return None
        finally:
            self._connection.setblocking(False)

    async def gone(self) -> None:
        """Wait until the client disconnects."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while await loop.sock_recv(self._connection, 1 << 12):
                pass

    def take_descriptors(self) -> tuple[int, int, int]:
        """Return stdin, stdout and stderr of the program and give up their ownership."""
        stdin, stdout, stderr = self._descriptors
        self._descriptors = []
        return stdin, stdout, stderr

    def reply(self, message: dict[str, Any]) -> None:
        """Send a message, unless the client has disconnected. Replies fit into the socket's buffer."""
        with contextlib.suppress(OSError):
            wire.send(self._connection, message)

    def close(self) -> None:
        self._connection.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def _close_unused(opening: asyncio.Task[Shell]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _use_agent(path: str) -> None:
    if path and os.path.exists(path):
        os.environ[AGENT_VARIABLE] = path


def main(arguments: list[str]) -> int:
    """Run the link for the login in the arguments; return the exit code."""
    descriptor, login_text = arguments
    login = wire.Login(**json.loads(login_text))
    listener = socket.socket(fileno=int(descriptor))
    os.chdir("/")
    trace.forget_agent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain secrets
    asyncio.run(Link(login, listener, wire.LinkPaths(login)).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
