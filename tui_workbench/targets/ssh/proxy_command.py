"""The ProxyCommand of a host: a program whose stdin and stdout are the connection.

As in `ssh`, the user's shell executes it. Its stderr is not part of the connection: if the connection fails, the last
line of stderr is the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

from tui_workbench.core import trace
from tui_workbench.targets.hosts.host import SHELL
from tui_workbench.targets.ssh.ssh_wire import environment_with

_LONGEST_STDERR = 4 << 10
_END_SECONDS = 1.0
"""Time limit in seconds to read the rest of stderr after a connection has failed."""


class ProxyCommand:
    """A running ProxyCommand. `connection` is the socket that leads to the host."""

    def __init__(self, process: asyncio.subprocess.Process, connection: socket.socket) -> None:
        self.connection = connection
        self._process = process
        self._stderr = b""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: str, agent: str) -> ProxyCommand:
        """Start a command with the socket of an SSH agent, or "". Raises OSError."""
        words = [os.environ.get("SHELL") or SHELL, "-c", command]
        ours, theirs = socket.socketpair()
        # The end of the command must be closed here, so that the connection ends with the command.
        with trace.Call(trace.PROCESS, words) as call, contextlib.closing(theirs):
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=asyncio.subprocess.PIPE,
                    env=environment_with(agent),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
            call.end(None, note="started")
        return cls(process, ours)

    async def _read(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while data := await stderr.read(_LONGEST_STDERR):
            self._stderr = (self._stderr + data)[-_LONGEST_STDERR:]
        await self._process.wait()

    async def complaint(self) -> str:
        """Return the last line of stderr or the exit code after a failure; "" if the command is still running."""
        await asyncio.wait({self._reading}, timeout=_END_SECONDS)
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        if lines:
            return lines[-1].strip()
        code = self._process.returncode
        return "" if code is None else f"it ended with exit code {code}" if code else "it ended"

    def close(self) -> None:
        """End the command and its child processes."""
        self.connection.close()
        # `ssh` ends the command with SIGHUP too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGHUP)
