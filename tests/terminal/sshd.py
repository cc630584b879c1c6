"""A real SSH server on this machine, and a connection to it that is slow or breaks."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

from benchmarks.terminal import Terminal
from tests.conftest import require
from tests.machines import PATIENCE, make_key, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
"""


class Sshd:
    """The server. As a context manager, it ends the server and all sessions."""

    def __init__(self, folder: Path) -> None:
        self._program, self._client = require("sshd"), require("ssh")
        self.folder = folder
        self.port = free_port()
        for name in ("host_key", "key"):
            make_key(folder / name)
        configuration = folder / "sshd_config"
        configuration.write_text(_CONFIGURATION.format(port=self.port, folder=folder), encoding="utf-8")
        os.makedirs("/run/sshd", exist_ok=True) if os.geteuid() == 0 else None
        self._server = subprocess.Popen(
            [self._program, "-D", "-f", str(configuration)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        wait_for(lambda: _listens(self.port), "the SSH server to listen")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.break_connections()
        self._server.terminate()
        self._server.communicate()

    def break_connections(self) -> None:
        """Kill the server's side of every connection, which looks like a router that lost them."""
        for pid in descendants(self._server.pid, "sshd"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def command(self, argv: list[str], variables: Mapping[str, str], *, port: int | None = None) -> list[str]:
        """Return the command that starts the program on the server, in a new terminal."""
        options = ["UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=no", "LogLevel=ERROR", "IdentitiesOnly=yes"]
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *argv]
        return [
            self._client,
            "-F/dev/null",
            "-tt",
            "-i",
            str(self.folder / "key"),
            "-p",
            str(port or self.port),
            *(part for option in options for part in ("-o", option)),
            f"{getpass.getuser()}@127.0.0.1",
            shlex.join(words),
        ]

    def workbench(self, root: str, home: Path, *, port: int | None = None) -> Terminal:
        """Return the workbench on a project, over SSH, in a local terminal."""
        argv = [sys.executable, "-m", "tui_workbench", root]
        return Terminal(self.command(argv, {"HOME": str(home)}, port=port))


class SlowLine:
    """A proxy to a port that delays each byte by `delay` seconds in both directions."""

    def __init__(self, port: int, delay: float) -> None:
        self._target, self._delay = port, delay
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="slow line", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        # With their connections the tasks end by themselves.
        if tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=PATIENCE))
        self._loop.run_until_complete(server.wait_closed())
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, there_writer]
        for stream in (writer, there_writer):
            stream.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self._loop.call_later(self._delay, writer.write, data)
        self._loop.call_later(self._delay, writer.close)


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def descendants(pid: int, name: str) -> list[int]:
    """Return the descendants of this process with this program name (which depends on the version of sshd)."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(entry)}/stat", encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
            children.setdefault(int(rest.split()[1]), []).append((int(entry), head.partition("(")[2]))
    found, left = [], [pid]
    while left:
        for child, program in children.get(left.pop(), []):
            left.append(child)
            if program.startswith(name):
                found.append(child)
    return found


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
