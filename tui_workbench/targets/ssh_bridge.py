"""A unix socket here that leads to one of the host's, by a program there for each call, where the server forwards none.

Hardened servers switch forwarding off (`DisableForwarding`, `AllowStreamLocalForwarding no`) and let programs run all
the same. The docker command can hand a connection of its engine to its stdin and stdout, as it does for contexts of its
own over SSH.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from typing import TYPE_CHECKING, cast

from tui_workbench.errors import TargetUnreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tui_workbench.targets.ssh_channel import Shell

_DIAL = "DOCKER_HOST=unix://%s exec docker system dial-stdio"


class Bridge:
    """Whoever connects to the socket that `open` makes speaks to the socket `there` of the host."""

    def __init__(self, there: str, open_shell: Callable[[], Awaitable[Shell]]) -> None:
        self._line = _DIAL % shlex.quote(there)
        self._open_shell = open_shell
        self._server: asyncio.Server | None = None
        self._calls: set[_Call] = set()

    async def open(self, here: str) -> None:
        """Listen. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(here)
        self._server = await asyncio.get_running_loop().create_unix_server(self._call, here)

    def close(self) -> None:
        """Let nobody connect any more, and hang up on who is."""
        if self._server is not None:
            self._server.close()
        for call in list(self._calls):
            call.close()

    def _call(self) -> _Call:
        return _Call(self._line, self._open_shell, self._calls)


class _Call(asyncio.Protocol):
    """One caller and its program, whose output it takes; the end of either is the end of the other."""

    def __init__(self, line: str, open_shell: Callable[[], Awaitable[Shell]], calls: set[_Call]) -> None:
        self._line = line
        self._open_shell = open_shell
        self._calls = calls
        self._shell: Shell | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The caller is there; what it says waits until the program does."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._calls.add(self)
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        try:
            shell = await self._open_shell()
            if self._transport.is_closing():
                shell.close()
                return
            self._shell = shell
            shell.join(self._line, self, _Nowhere(), self._transport)
            self._transport.resume_reading()
        except (TargetUnreachable, OSError):
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """From the caller."""
        if self._shell is not None:
            self._shell.send(data)

    def eof_received(self) -> bool:
        """The caller says no more, and listens."""
        if self._shell is not None:
            self._shell.send_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller has gone."""
        self._calls.discard(self)
        if self._shell is not None:
            self._shell.close()

    def pause_writing(self) -> None:
        """The caller takes no more for now."""
        if self._shell is not None:
            self._shell.hold(self)

    def resume_writing(self) -> None:
        """It does again."""
        if self._shell is not None:
            self._shell.let_go(self)

    def write(self, data: bytes) -> None:
        """From the program."""
        self._transport.write(data)

    def close(self) -> None:
        """The program has ended, or the bridge."""
        self._transport.close()


class _Nowhere:
    """What the program complains of; the caller sees that it has ended."""

    def write(self, data: bytes) -> None:
        """Drop it."""

    def close(self) -> None:
        """Nothing to do."""
