"""The SSH connections of one login: opened on demand, and opened again after a loss.

A server limits the number of sessions per connection (MaxSessions). More connections are open only while the first has
too few sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tui_workbench.core import trace
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.plaintext import short_name
from tui_workbench.core.waiting import Backoff
from tui_workbench.targets.hosts.host import ConnectionLost, LoginRefused
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.library import asyncssh
from tui_workbench.targets.ssh.login_errors import LONGEST_REASON, login_command
from tui_workbench.targets.ssh.ssh_channel import Bridge, NoShell, Shell
from tui_workbench.targets.ssh.ssh_connection import connect
from tui_workbench.targets.ssh.ssh_secrets import Secrets, host_key_of

SLOW_SHELL = 0.25
"""If starting a shell takes longer than this, in seconds, more spare shells are kept."""

SPARES, SPARES_WHERE_SLOW = 2, 5
"""Number of spare shells. Starting a shell takes two round trips, or more if its start-up files are slow.

A program takes one round trip. When a run starts, its controller, the recorder of its GPUs and the collector of its
provenance start about five programs while one shell starts.
"""

TERMINAL_SECONDS = 10.0

LOOPBACK = "127.0.0.1"

_Result = TypeVar("_Result")


class PooledConnection:
    """One SSH connection. `is_full` is True when the server allows no more sessions."""

    def __init__(self, connection: asyncssh.SSHClientConnection, on_idle: Callable[[PooledConnection], None]) -> None:
        self.connection = connection
        self.is_full = False
        self.loss: Exception | None = None  # the reason why it ended
        self._on_idle = on_idle
        self._asked = self._in_use = 0
        self._has_given = False
        self._spares: list[asyncio.Task[Shell]] = []
        self.shell_seconds = 0.0
        """Seconds that the last shell took to start."""
        self._replenish()
        # After a session with a terminal, the SSH server uses TCP_NODELAY for all channels: starting a program takes
        # 0.8 ms instead of 44 ms. The login shell may print without end, so its output is discarded.
        nothing = asyncssh.DEVNULL
        _quietly(
            connection.run(
                "exec true", term_type="dumb", request_pty="force", timeout=TERMINAL_SECONDS,
                stdin=nothing, stdout=nothing, stderr=nothing,
            )
        )  # fmt: skip

    @property
    def is_useless(self) -> bool:
        """True if the server allows no sessions at all."""
        return self.is_full and not self._asked and not self._has_given

    async def shell(self) -> Shell | None:
        """Return a shell that waits for its command line; None if the connection is full. Also starts a spare shell.

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
            self._check_idle()

    async def _take(self) -> Shell:
        spare = self._spares.pop(0) if self._spares else None
        shell = None
        if spare is not None:
            # If the connection was full when the spare was started, try again.
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
        count = SPARES if self.shell_seconds < SLOW_SHELL else SPARES_WHERE_SLOW
        while len(self._spares) < count:
            self._spares.append(_quietly(Shell.open(self.connection)))

    def _ended(self, _ended: asyncio.Future[int]) -> None:
        self.is_full = False
        self._in_use -= 1
        self._check_idle()

    def _check_idle(self) -> None:
        # If the connection were closed while a caller waits for it, the caller would report a login without a shell.
        if not self._in_use and not self._asked:
            self._on_idle(self)


class ConnectionPool:
    """The SSH connections of one login."""

    def __init__(self, login: wire.Login, paths: wire.LinkPaths) -> None:
        self.secrets = Secrets()
        self.since = time.time()
        self._login = login
        self._paths = paths
        self._open: list[PooledConnection] = []
        self._attempt: asyncio.Task[PooledConnection] | None = None
        self._has_ended = False
        self._forwards: dict[str, asyncssh.SSHListener | Bridge] = {}
        self._forwarding = asyncio.Lock()

    @property
    def state(self) -> str:
        return "up" if self._open else "connecting" if self._attempt else "down"

    def facts(self) -> dict[str, str | float]:
        """Return facts about the first connection, and `shell`, the seconds to start a shell; empty if none is open."""
        if not self._open:
            return {}
        return {**_server_facts(self._open[0].connection), "shell": self._open[0].shell_seconds}

    async def first(self) -> PooledConnection:
        """Return the first connection; if none is open, try once to open it. Raises TargetUnreachable."""
        return self._open[0] if self._open else await self._add()

    async def shell(self) -> Shell:
        """Return a shell that waits for its command line. Raises TargetUnreachable."""
        await self.first()
        try:
            while True:
                for pooled in list(self._open):
                    # The connection may have been closed while the loop waited for an earlier one.
                    shell = await pooled.shell() if pooled in self._open and not pooled.is_full else None
                    if shell is not None:
                        return shell
                # Other callers that wait for the new connection may use all of its sessions.
                added = await self._add()
                shell = await added.shell()
                if shell is not None:
                    return shell
                if added.loss is not None:
                    raise lost(self._login, added.loss)
                if added.is_useless:
                    raise _no_programs(self._login, "its SSH server allows no sessions (MaxSessions)")
        except NoShell as error:
            raise _no_programs(self._login, str(error)) from error
        except (asyncssh.Error, OSError) as error:
            raise lost(self._login, error) from error

    async def forward(self, path: str) -> str:
        """Connect a local unix socket to the host's socket `path`; return the local path. Raises TargetUnreachable."""
        here = self._paths.forwarded(self._login, path)
        async with self._forwarding:
            first = await self.first()
            if path not in self._forwards:
                words = f"-N -L {shlex.quote(here)}:{shlex.quote(path)} {self._login.all_words}"
                with trace.Call(trace.SSH, (), login=words) as call:
                    try:
                        listener = await self._listen(first.connection, here, path)
                        # Lost meanwhile: `_end_forwards` does not know the listener yet.
                        if first not in self._open:
                            listener.close()
                            raise asyncssh.ConnectionLost("it was closed")
                    except (asyncssh.Error, OSError) as error:
                        raise lost(self._login, error) from error
                    self._forwards[path] = listener
                    call.end(None, note="forwarded")
        return here

    @contextlib.asynccontextmanager
    async def forwarded_port(
        self, address: str, port: int, here: int
    ) -> AsyncIterator[tuple[int, Callable[[], Awaitable[None]]]]:
        """Forward the local port `here`, or a free one if it is in use, to a port that the machine can reach.

        Yields the local port, and a function that waits for the end of the connection. Raises TargetUnreachable, or
        asyncssh.ChannelOpenError if the port cannot be reached.
        """
        connection = (await self.first()).connection
        try:
            _, writer = await connection.open_connection(address, port)
            writer.close()
            listener = await _listen_at(connection, here, address, port)
        except asyncssh.ChannelOpenError:
            raise
        except (asyncssh.Error, OSError) as error:
            raise lost(self._login, error) from error
        words = f"-N -L {listener.get_port()}:{shlex.quote(address)}:{port} {self._login.all_words}"
        with contextlib.closing(listener), trace.Call(trace.SSH, (), login=words) as call:
            call.end(None, note="forwarded")
            yield listener.get_port(), connection.wait_closed

    async def _listen(
        self, connection: asyncssh.SSHClientConnection, here: str, path: str
    ) -> asyncssh.SSHListener | Bridge:
        try:
            _, writer = await connection.open_unix_connection(path)
        except asyncssh.ChannelOpenError:
            # The server probably forbids forwarding; it gives no reason.
            bridge = Bridge(path, self.shell)
            await bridge.open(here)
            return bridge
        writer.close()
        return await connection.forward_local_path(here, path)

    async def wait(self) -> None:
        """Wait until the machine answers. Raises TargetUnreachable if waiting is useless."""
        pauses = Backoff()
        while True:
            try:
                await self.first()
                return
            except ConnectionLost:
                await asyncio.sleep(pauses.next())

    def add_secret(self, reference: str, value: str, *, kept: bool, host_key: str = "") -> None:
        """Remember a secret as `Secrets.add` does. A different value than before ends the connections."""
        if self.secrets.questions.answer(reference, value):
            self.secrets.are_only_here = True
            return
        if self.secrets.values.get(reference, value) != value:
            self.close()
        self.secrets.add(reference, value, kept=kept, host_key=host_key)

    def close(self) -> None:
        """End all connections. The next request opens a new one."""
        self.secrets.questions.failure = None
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        self._end_forwards()
        closed, self._open = self._open, []
        if closed:
            self.since = time.time()
        for pooled in closed:
            pooled.connection.close()

    def end(self) -> None:
        """End all connections, and open no more."""
        self._has_ended = True
        self.close()

    async def _add(self) -> PooledConnection:
        """Open one more connection. Concurrent callers share the attempt; a canceled caller does not end it.

        The attempt continues while the server's question is open, which is raised as SecretNeeded.
        """
        questions = self.secrets.questions
        if questions.is_unattended and self._attempt is None:
            raise questions.error(self._login, login_command(self._login))
        if questions.failure is not None and self._attempt is None:
            raise questions.failure.with_traceback(None)
        if self._attempt is None and not self._has_ended:
            self._attempt = asyncio.create_task(self._connect())
            self._attempt.add_done_callback(self._attempt_ended)
        attempt = self._attempt
        if attempt is not None:
            question = asyncio.create_task(questions.is_open.wait())
            try:
                await asyncio.wait({attempt, question}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                question.cancel()
            if not attempt.done():
                raise questions.error(self._login, login_command(self._login))
        if attempt is None or attempt.cancelled():
            raise lost(self._login, asyncssh.ConnectionLost("it was closed"))
        return attempt.result()

    async def _connect(self) -> PooledConnection:
        ended: list[PooledConnection] = []
        self.secrets.questions.were_asked = False
        with trace.Call(trace.SSH, (), login=self._login.all_words, log_start=True) as call:
            try:
                connection = await connect(self._login, self.secrets, lambda error: self._ended(ended, error))
            except TargetUnreachable as error:
                self.secrets.questions.login_failed(error, login_command(self._login))
                raise
            call.end(None, note="connected")
        added = PooledConnection(connection, self._close_idle)
        ended.append(added)
        if not self._open:
            self.since = time.time()
        self._open.append(added)
        return added

    def _close_idle(self, idle: PooledConnection) -> None:
        """Close an idle connection, except for the first."""
        if idle in self._open[1:]:
            self._open.remove(idle)
            idle.connection.close()

    def _attempt_ended(self, attempt: asyncio.Task[PooledConnection]) -> None:
        if self._attempt is attempt:
            self._attempt = None
        if not attempt.cancelled():
            attempt.exception()

    def _end_forwards(self) -> None:
        for path, listener in self._forwards.items():
            listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._paths.forwarded(self._login, path))
        self._forwards.clear()

    def _ended(self, ended: list[PooledConnection], error: Exception | None) -> None:
        for pooled in ended:
            pooled.loss = error or asyncssh.ConnectionLost("it was closed")
        was_first = bool(self._open) and self._open[0] in ended
        self._open = [pooled for pooled in self._open if pooled not in ended]
        if was_first:
            self._end_forwards()
        if not self._open:
            self.since = time.time()


async def _listen_at(
    connection: asyncssh.SSHClientConnection, here: int, address: str, port: int
) -> asyncssh.SSHListener:
    try:
        return await connection.forward_local_port(LOOPBACK, here, address, port)
    except OSError:  # the port is in use, or only root may use it
        return await connection.forward_local_port(LOOPBACK, 0, address, port)


def _server_facts(connection: asyncssh.SSHClientConnection) -> dict[str, str]:
    """Return facts about an open connection.

    They are `server` (SSH version), `peer` (IP address), `username`, `cipher`, and `host_key` (fingerprint).
    """
    names = ("server_version", "peername", "username", "send_cipher")
    version, peer, username, cipher = (connection.get_extra_info(name) for name in names)
    return {
        "server": str(version or ""),
        "peer": str(peer[0]) if isinstance(peer, tuple) else "",
        "username": str(username or ""),
        "cipher": str(cipher or ""),
        "host_key": host_key_of(connection),
    }


def _no_programs(login: wire.Login, reason: str) -> LoginRefused:
    short = short_name(reason, LONGEST_REASON)
    return LoginRefused(
        f"{login.label}: the login works, but no program can be started{f': {short}' if short else ''}",
        remedy="Check that the account has a shell that runs commands, that its start-up files do not exit, wait or "
        f"print endlessly, and that MaxSessions in sshd_config is not 0. To test the login, run "
        f"`ssh {login.ssh_words} true`.",
    )


def lost(login: wire.Login, error: Exception) -> ConnectionLost:
    """Convert an error of asyncssh or of the system to ConnectionLost."""
    complaint = short_name(getattr(error, "reason", "") or str(error), LONGEST_REASON) or type(error).__name__
    return ConnectionLost(
        f"{login.label}: the connection was lost: {complaint}", remedy="Try again. Runs on the machine continue."
    )


def _quietly(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Start a task whose exception does not need to be retrieved."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
