"""The connections of one login, and who gets a session on which; opened when needed, and anew after they were lost.

A server allows a number of programs at once on a connection. While they suffice there is one, and no more of them than
are needed at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import asyncssh

from tui_workbench.core import trace
from tui_workbench.core.waiting import Backoff
from tui_workbench.targets.hosts.host import ConnectionLost, LoginRefused
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_channel import Bridge, NoShell, Shell
from tui_workbench.targets.ssh.ssh_connection import Secrets, connect, server_facts

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to reach a machine that is waited for; doubled each time."""

SLOW_SHELL = 1.0
"""Seconds: start-up files that take longer make whoever starts one program after another wait for each."""

SPARES, SPARES_WHERE_SLOW = 1, 5
"""Shells that are kept waiting for the next programs."""

TERMINAL_SECONDS = 10.0

_Result = TypeVar("_Result")


class PooledConnection:
    """One SSH connection to the machine; `is_full` when the server allows no further session on it."""

    def __init__(self, connection: asyncssh.SSHClientConnection, on_idle: Callable[[PooledConnection], None]) -> None:
        self.connection = connection
        self.is_full = False
        self._on_idle = on_idle
        self._asked = self._in_use = 0
        self._has_given = False
        self._spares: list[asyncio.Task[Shell]] = []
        self.shell_seconds = 0.0
        """How long the last shell took to start."""
        self._replenish()
        # A session with a terminal makes the SSH server send at once (TCP_NODELAY) from then on, for all channels:
        # 0.8 ms instead of 44 ms for each new one. Its shell may print anything, even without end.
        nothing = asyncssh.DEVNULL
        _quietly(
            connection.run(
                "exec true", term_type="dumb", request_pty="force", timeout=TERMINAL_SECONDS,
                stdin=nothing, stdout=nothing, stderr=nothing,
            )
        )  # fmt: skip

    @property
    def is_useless(self) -> bool:
        """Full though nobody ever had a shell of it: the server allows no sessions at all."""
        return self.is_full and not self._asked and not self._has_given

    async def shell(self) -> Shell | None:
        """A shell that waits for its line, and another one behind it for the next caller. None when the line is full.

        Raises NoShell, asyncssh.Error or OSError.
        """
        self._asked += 1
        try:
            return await self._take()
        except asyncssh.ChannelOpenError:
            self.is_full = True
            return None
        finally:
            self._asked -= 1
            self._tell_when_idle()

    async def _take(self) -> Shell:
        spare = self._spares.pop(0) if self._spares else None
        shell = None
        if spare is not None:
            # There was no room for it when it was to be made; there may be now.
            with contextlib.suppress(asyncssh.ChannelOpenError):
                shell = await spare
        if shell is None or not shell.is_usable:
            shell = await Shell.open(self.connection)
        self._in_use += 1
        self._has_given = True
        self.shell_seconds = shell.seconds
        shell.ended.add_done_callback(self._ended)
        self._replenish()
        return shell

    def _replenish(self) -> None:
        wanted = SPARES if self.shell_seconds < SLOW_SHELL else SPARES_WHERE_SLOW
        while len(self._spares) < wanted:
            self._spares.append(_quietly(Shell.open(self.connection)))

    def _ended(self, _ended: asyncio.Future[int]) -> None:
        self.is_full = False
        self._in_use -= 1
        self._tell_when_idle()

    def _tell_when_idle(self) -> None:
        # A line that a caller waits for is not idle: closing it would look like an account without a shell.
        if not self._in_use and not self._asked:
            self._on_idle(self)


class ConnectionPool:
    """The way to the machine: one SSH connection, opened when first needed and anew after it was lost.

    A server allows ten programs at once on a connection; only when they do not suffice a second one is opened.
    """

    def __init__(self, login: wire.Login, paths: wire.LinkPaths) -> None:
        self.secrets = Secrets()
        self.since = time.time()
        self._login = login
        self._paths = paths
        self._lines: list[PooledConnection] = []
        self._attempt: asyncio.Task[PooledConnection] | None = None
        self._forwards: dict[str, asyncssh.SSHListener | Bridge] = {}
        self._forwarding = asyncio.Lock()

    @property
    def state(self) -> str:
        """`up`, `connecting` or `down`."""
        return "up" if self._lines else "connecting" if self._attempt else "down"

    def facts(self) -> dict[str, str | float]:
        """What is known of the open connection, and `shell`: the seconds that starting a shell takes."""
        if not self._lines:
            return {}
        return {**server_facts(self._lines[0].connection), "shell": self._lines[0].shell_seconds}

    async def line(self) -> PooledConnection:
        """The first open line; makes one attempt when there is none. Raises TargetUnreachable."""
        return self._lines[0] if self._lines else await self._another()

    async def shell(self) -> Shell:
        """A shell that waits for its line. Raises TargetUnreachable."""
        await self.line()
        try:
            while True:
                for line in list(self._lines):
                    # A line may have been closed while the one before it was asked.
                    shell = await line.shell() if line in self._lines and not line.is_full else None
                    if shell is not None:
                        return shell
                # Others who wait for the same line may be quicker.
                line = await self._another()
                shell = await line.shell()
                if shell is not None:
                    return shell
                if line.is_useless:
                    raise _no_programs(self._login, "MaxSessions of its SSH server is 0")
        except NoShell as error:
            raise _no_programs(self._login, str(error)) from error
        except (asyncssh.Error, OSError) as error:
            raise lost(self._login, error) from error

    async def forward(self, path: str) -> str:
        """Let the host's unix socket `path` appear here; returns where. Raises TargetUnreachable."""
        here = self._paths.forwarded(path)
        async with self._forwarding:
            line = await self.line()
            if path not in self._forwards:
                words = f"-N -L {shlex.quote(here)}:{shlex.quote(path)} {self._login.all_words}"
                with trace.Call(trace.SSH, (), login=words) as call:
                    try:
                        self._forwards[path] = await self._listen(line.connection, here, path)
                    except (asyncssh.Error, OSError) as error:
                        raise lost(self._login, error) from error
                    call.end(None, note="forwarded")
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
        pauses = Backoff(FIRST_PAUSE)
        while True:
            try:
                await self.line()
                return
            except ConnectionLost:
                await asyncio.sleep(pauses.next())

    def close(self) -> None:
        """End every connection."""
        self._end_forwards()
        for line in self._lines:
            line.connection.close()

    async def _another(self) -> PooledConnection:
        """One more line. Callers at the same time share the attempt, and one who gives up does not end it."""
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._connect())
            self._attempt.add_done_callback(self._attempt_ended)
        return await asyncio.shield(self._attempt)

    async def _connect(self) -> PooledConnection:
        ended: list[PooledConnection] = []
        with trace.Call(trace.SSH, (), login=self._login.all_words, log_start=True) as call:
            connection = await connect(self._login, self.secrets, lambda _error: self._ended(ended))
            call.end(None, note="connected")
        line = PooledConnection(connection, self._line_idle)
        ended.append(line)
        if not self._lines:
            self.since = time.time()
        self._lines.append(line)
        return line

    def _line_idle(self, line: PooledConnection) -> None:
        """More than one connection is held only while it is needed."""
        if line in self._lines[1:]:
            self._lines.remove(line)
            line.connection.close()

    def _attempt_ended(self, attempt: asyncio.Task[PooledConnection]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()

    def _end_forwards(self) -> None:
        for path, listener in self._forwards.items():
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._paths.forwarded(path))
        self._forwards.clear()

    def _ended(self, ended: list[PooledConnection]) -> None:
        was_first = bool(self._lines) and self._lines[0] in ended
        self._lines = [line for line in self._lines if line not in ended]
        if was_first:
            self._end_forwards()
        if not self._lines:
            self.since = time.time()


def _no_programs(login: wire.Login, said: str) -> LoginRefused:
    return LoginRefused(
        f"{login.label}: the login works, and no program can be started{f': {said}' if said else ''}",
        remedy="Does the account have a shell that runs commands, and do its start-up files neither end it nor wait? "
        f"`ssh {login.ssh_words} true` shows it.",
    )


def lost(login: wire.Login, error: Exception) -> ConnectionLost:
    """The error for a connection that has ended, for asyncssh's or the system's."""
    said = getattr(error, "reason", "") or str(error) or type(error).__name__
    return ConnectionLost(f"{login.label}: the connection was lost: {said}", remedy="What runs there goes on.")


def _quietly(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Start something whose failure shows when its result is asked for, if it ever is."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
