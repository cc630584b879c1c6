"""Run commands of the workbench without starting an interpreter for each.

A server process imports the command line once and forks a process for each command. Such a process has its own
folder, environment, streams and exit code, and takes a fifth of the time.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AT_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ")
"""Prefixes of variables that the interpreter reads only when it starts, so a forked process ignores changes."""


class CommandServer:
    """A server process. It runs one command at a time."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                # As the installed command: the folder of this file is not searched for modules.
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def run(
        self, arguments: Sequence[str], folder: str, environment: Mapping[str, str], out: int, err: int, seconds: float
    ) -> int:
        """Run a command that writes to the two descriptors. Return its exit code, negative for a signal."""
        request = json.dumps([arguments, folder, dict(environment)]).encode()
        with tempfile.TemporaryFile() as file:
            file.write(request)
            file.seek(0)
            self._ours.settimeout(seconds)
            socket.send_fds(self._ours, [b"r"], [file.fileno(), out, err])
            return int(self._ours.recv(16))

    def close(self) -> None:
        """End the server, and the command that it runs."""
        self._ours.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_idle: list[CommandServer] = []


def run_command(
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    out: IO[bytes],
    err: IO[bytes],
    seconds: float,
) -> int:
    """Run a command on a server that is idle, otherwise on a new one. Return its exit code."""
    server = _idle.pop() if _idle else CommandServer()
    try:
        code = server.run(arguments, folder, environment, out.fileno(), err.fileno(), seconds)
    except BaseException:
        server.close()
        raise
    _idle.append(server)
    return code


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return True if the variables that the interpreter reads at its start are those of this process."""
    return _at_start(environment) == _AT_OUR_START


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


_AT_OUR_START = _at_start(os.environ)


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().close()


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request until the connection ends."""
    from tui_workbench import __main__, cli

    for module in (*(f"tui_workbench.cli.{command.module}" for command in cli.COMMANDS), "importlib.metadata", "yaml"):
        importlib.import_module(module)
    # Otherwise, the garbage collector of each process would inspect all imported modules.
    gc.freeze()
    while True:
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        if not files:
            return
        child = os.fork()
        if child == 0:
            with open(files[0], "rb") as file:
                arguments, folder, environment = json.load(file)
            os.dup2(files[1], 1)
            os.dup2(files[2], 2)
            connection.close()
            os.closerange(3, 3 + max(files))
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.argv[1:] = arguments
            __main__.main()
        for descriptor in files:
            os.close(descriptor)
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
