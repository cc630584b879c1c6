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
from typing import TYPE_CHECKING, Any, TypeVar

import asyncssh

from tui_workbench.errors import TargetUnreachable
from tui_workbench.targets import ssh_wire as wire
from tui_workbench.targets.host import ConnectionLost, LoginRefused
from tui_workbench.targets.ssh import AGENT_VARIABLE
from tui_workbench.targets.ssh_bridge import Bridge
from tui_workbench.targets.ssh_channel import NoShell, Shell
from tui_workbench.targets.ssh_connection import Secrets, connect, server_facts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

IDLE_SECONDS = 600.0
"""A connection that nobody uses is given up after this."""

IDLE_WITH_SECRETS_SECONDS = 12 * 3600.0
"""A secret that is nowhere else is remembered for a working day; the connection is given up before, as any other."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to reach a machine that is waited for; doubled each time."""

_DESCRIPTORS = 3

_Result = TypeVar("_Result")


class Line:
    """One SSH connection to the machine; `is_full` when the server allows no further session on it."""

    def __init__(self, connection: asyncssh.SSHClientConnection, on_idle: Callable[[Line], None]) -> None:
        self.connection = connection
        self.is_full = False
        self._on_idle = on_idle
        self._in_use = 0
        self._spare: asyncio.Task[Shell] | None = _quietly(Shell.open(connection))
        # A session with a terminal makes the SSH server send at once (TCP_NODELAY) from then on, for all channels:
        # 0.8 ms instead of 44 ms for each new one.
        _quietly(connection.run("exec true", term_type="dumb", request_pty="force", stdin=asyncssh.DEVNULL))

    async def shell(self) -> Shell | None:
        """A shell that waits for its line, and another one behind it for the next caller. None when the line is full.

        Raises asyncssh.Error or OSError.
        """
        spare, self._spare = self._spare, None
        shell = None
        if spare is not None:
            # There was no room for it when it was to be made; there may be now.
            with contextlib.suppress(asyncssh.ChannelOpenError):
                shell = await spare
        try:
            if shell is None or not shell.is_usable:
                shell = await Shell.open(self.connection)
        except asyncssh.ChannelOpenError:
            self.is_full = True
            return None
        self._in_use += 1
        shell.ended.add_done_callback(self._ended)
        self._spare = self._spare or _quietly(Shell.open(self.connection))
        return shell

    def _ended(self, _ended: asyncio.Future[int]) -> None:
        self.is_full = False
        self._in_use -= 1
        if not self._in_use:
            self._on_idle(self)


class Connections:
    """The way to the machine: one SSH connection, opened when first needed and anew after it was lost.

    A server allows ten programs at once on a connection; only when they do not suffice a second one is opened.
    """

    def __init__(self, login: wire.Login, paths: wire.LinkPaths) -> None:
        self.secrets = Secrets()
        self.since = time.time()
        self._login = login
        self._paths = paths
        self._lines: list[Line] = []
        self._attempt: asyncio.Task[Line] | None = None
        self._forwards: dict[str, asyncssh.SSHListener | Bridge] = {}
        self._forwarding = asyncio.Lock()

    @property
    def state(self) -> str:
        """`up`, `connecting` or `down`."""
        return "up" if self._lines else "connecting" if self._attempt else "down"

    def facts(self) -> dict[str, str]:
        """What is known of the open connection."""
        return server_facts(self._lines[0].connection) if self._lines else {}

    async def line(self) -> Line:
        """The first open line; makes one attempt when there is none. Raises TargetUnreachable."""
        return self._lines[0] if self._lines else await self._another()

    async def shell(self) -> Shell:
        """A shell that waits for its line. Raises TargetUnreachable."""
        await self.line()
        try:
            for line in list(self._lines):
                shell = await line.shell() if not line.is_full else None
                if shell is not None:
                    return shell
            shell = await (await self._another()).shell()
        except NoShell as error:
            raise _no_programs(self._login, str(error)) from error
        except (asyncssh.Error, OSError) as error:
            raise _lost(self._login, error) from error
        if shell is None:
            raise _no_programs(self._login, "MaxSessions of its SSH server is 0")
        return shell

    async def forward(self, path: str) -> str:
        """Let the host's unix socket `path` appear here; returns where. Raises TargetUnreachable."""
        here = self._paths.forwarded(path)
        async with self._forwarding:
            line = await self.line()
            if path not in self._forwards:
                try:
                    self._forwards[path] = await self._listen(line.connection, here, path)
                except (asyncssh.Error, OSError) as error:
                    raise _lost(self._login, error) from error
        return here

    async def _listen(
        self, connection: asyncssh.SSHClientConnection, here: str, path: str
    ) -> asyncssh.SSHListener | Bridge:
        try:
            _, writer = await connection.open_unix_connection(path)
        except asyncssh.ChannelOpenError:
            # The server does not say why; nothing but a forbidden one keeps us from a socket that is there.
            bridge = Bridge(path, self.shell)
            await bridge.open(here)
            return bridge
        writer.close()
        return await connection.forward_local_path(here, path)

    async def wait(self) -> None:
        """Return once the machine answers. Raises TargetUnreachable when waiting is of no use."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self.line()
                return
            except ConnectionLost:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """End every connection."""
        self._end_forwards()
        for line in self._lines:
            line.connection.close()

    async def _another(self) -> Line:
        """One more line. Callers at the same time share the attempt, and one who gives up does not end it."""
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect())
            self._attempt.add_done_callback(self._attempt_ended)
        return await asyncio.shield(self._attempt)

    async def _connect(self) -> Line:
        lost: list[Line] = []
        connection = await connect(self._login, self.secrets, lambda _error: self._lost(lost))
        line = Line(connection, self._line_idle)
        lost.append(line)
        if not self._lines:
            self.since = time.time()
        self._lines.append(line)
        return line

    def _line_idle(self, line: Line) -> None:
        """More than one connection is held only while it is needed."""
        if line in self._lines[1:]:
            line.connection.close()

    def _attempt_ended(self, attempt: asyncio.Task[Line]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()

    def _end_forwards(self) -> None:
        for path, listener in self._forwards.items():
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._paths.forwarded(path))
        self._forwards.clear()

    def _lost(self, lost: list[Line]) -> None:
        was_first = bool(self._lines) and self._lines[0] in lost
        self._lines = [line for line in self._lines if line not in lost]
        if was_first:
            self._end_forwards()
        if not self._lines:
            self.since = time.time()


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
            raise _lost(self._login, error) from error
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


def _no_programs(login: wire.Login, said: str) -> LoginRefused:
    return LoginRefused(
        f"{login.label}: the login works, and no program can be started{f': {said}' if said else ''}",
        remedy="Does the account have a shell that runs commands, and do its start-up files neither end it nor wait? "
        f"`ssh {login.host_and_port[0]} true` shows it.",
    )


def _lost(login: wire.Login, error: Exception) -> ConnectionLost:
    said = getattr(error, "reason", "") or str(error) or type(error).__name__
    return ConnectionLost(f"{login.label}: the connection was lost: {said}", remedy="What runs there goes on.")


def _quietly(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Start something whose failure shows when its result is asked for, if it ever is."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


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
