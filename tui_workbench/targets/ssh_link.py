"""The link: the process that holds one login's SSH connection for every program of this user.

`python -m tui_workbench.targets.ssh_link LISTENING_DESCRIPTOR LOGIN_JSON`, started on demand by `ssh.SshHost`. It holds
nothing that matters: the runs go on without it, and the next one who needs a connection starts another. It ends by
itself when nobody has used it for a while. Secrets stay in its memory and are never written.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import resource
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import asyncssh

from tui_workbench.errors import TargetUnreachable
from tui_workbench.targets import ssh_wire as wire
from tui_workbench.targets.host import ConnectionLost
from tui_workbench.targets.ssh import AGENT_VARIABLE
from tui_workbench.targets.ssh_channel import Shell
from tui_workbench.targets.ssh_lines import Connections, lost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

IDLE_SECONDS = 600.0
"""A connection that nobody uses is given up after this."""

IDLE_WITH_SECRETS_SECONDS = 12 * 3600.0
"""A secret that is nowhere else is remembered for a working day; the connection is given up before, as any other."""

_DESCRIPTORS = 3


class Link:
    """Answers requests on the listening socket until nobody needs the connection any more."""

    def __init__(self, login: wire.Login, listener: socket.socket, paths: wire.LinkPaths) -> None:
        self._login = login
        self._listener = listener
        self._paths = paths
        self._connection = Connections(login, paths)
        self._clients: set[asyncio.Task[None]] = set()
        self._used = time.monotonic()
        self._over = asyncio.Event()
        self._answers: dict[str, Callable[[_Client, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            wire.EXEC: self._exec,
            wire.FORWARD: self._forward,
            wire.WAIT: self._wait,
            wire.SECRET: self._secret,
            wire.NO_SECRET: self._no_secret,
            wire.ACCEPT: self._accept,
            wire.STATUS: self._status,
            wire.CLOSE: self._close,
        }

    async def run(self) -> None:
        """Serve until idle or told to end."""
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
        """Under the lock that starters take: true when nobody came in the last moment; then nobody can any more."""
        if not os.path.exists(self._paths.socket):
            return not self._clients  # somebody removed it, or the whole folder: nobody can come any more
        with open(self._paths.lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
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
            # Both, whatever one of them raises: nobody may go on to watch a descriptor that is somebody else's by then.
            await asyncio.wait({answering, gone})
            if not answering.cancelled():
                answering.result()
        finally:
            client.close()

    async def _answer(self, client: _Client, request: dict[str, Any]) -> None:
        _use_agent(request.get("agent", ""))
        try:
            reply = await self._answers[request["op"]](client, request)
        except TargetUnreachable as error:
            reply = wire.error_to_message(error)
        except Exception as error:
            client.reply(wire.error_to_message(self._failed(error)))
            raise
        client.reply(reply)

    def _failed(self, error: Exception) -> ConnectionLost:
        """What to tell a caller of a mistake of ours, whose traceback goes to our own stderr."""
        return ConnectionLost(
            f"{self._login.label}: the process that holds the SSH connection met an error of its own: "
            f"{type(error).__name__}: {error}",
            remedy=f"{self._paths.errors} says more.",
        )

    async def _exec(self, client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        # A caller who hangs up cancels this. What is half made then must not stay: an open channel counts against those
        # that the server allows, and asyncio forgets to unregister a pipe whose joining is cancelled, so that who gets
        # the descriptor's number after it is never heard.
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

    async def _forward(self, _client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        # Not given up half-way, see `_exec`.
        forwarding = asyncio.create_task(self._connection.forward(request["path"]))
        return {"socket": await asyncio.shield(forwarding)}

    async def _wait(self, _client: _Client, _request: dict[str, Any]) -> dict[str, Any]:
        await self._connection.wait()
        return {}

    async def _secret(self, _client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        self._connection.secrets.learn(request["reference"], request["value"], kept=bool(request.get("kept")))
        return {}

    async def _no_secret(self, _client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        self._connection.secrets.unknown.add(request["reference"])
        return {}

    async def _accept(self, _client: _Client, request: dict[str, Any]) -> dict[str, Any]:
        self._connection.secrets.accepted.add(request["fingerprint"])
        return {}

    async def _status(self, _client: _Client, _request: dict[str, Any]) -> dict[str, Any]:
        return {"state": self._connection.state, "since": self._connection.since, **self._connection.facts()}

    async def _close(self, _client: _Client, _request: dict[str, Any]) -> dict[str, Any]:
        self._over.set()
        return {}


class _Client:
    """One caller: its request, its descriptors, and replies to it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._descriptors: list[int] = []
        self._buffer = bytearray()

    async def request(self) -> dict[str, Any] | None:
        """The request; None when the caller left before it was complete."""
        while True:
            await _readable(self._connection)
            try:
                data, descriptors, _, _ = socket.recv_fds(self._connection, 1 << 16, _DESCRIPTORS)
            except BlockingIOError:
                continue
            except OSError:
                return None
            self._descriptors += descriptors
            self._buffer += data
            message = wire.complete_message(self._buffer)
            if message is not None:
                return wire.decode(message)
            if not data:
                return None

    async def gone(self) -> None:
        """Return when the caller has closed its end."""
        while True:
            await _readable(self._connection)
            try:
                if not self._connection.recv(1 << 12):
                    return
            except BlockingIOError:
                continue
            except OSError:
                return

    def take_descriptors(self) -> tuple[int, int, int]:
        """The program's stdin, stdout and stderr; they no longer belong to this object."""
        stdin, stdout, stderr = self._descriptors
        self._descriptors = []
        return stdin, stdout, stderr

    def reply(self, message: dict[str, Any]) -> None:
        """Send one message; a caller that has gone gets none. Replies are small and fit into the socket's buffer."""
        with contextlib.suppress(OSError):
            wire.send(self._connection, message)

    def close(self) -> None:
        """Forget the caller."""
        self._connection.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(connection, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(connection)


def _close_unused(opening: asyncio.Task[Shell]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _use_agent(path: str) -> None:
    if path and os.path.exists(path):
        os.environ[AGENT_VARIABLE] = path


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def main(arguments: list[str]) -> int:
    """Serve the login described by the arguments; see the module's text."""
    descriptor, login_text = arguments
    login = wire.Login(*json.loads(login_text))
    listener = socket.socket(fileno=int(descriptor))
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no file may hold what we remember
    asyncio.run(Link(login, listener, wire.LinkPaths(login)).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
