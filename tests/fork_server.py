"""Run the command line in a forked process instead of a new interpreter.

Starting Python and importing the package takes most of the time of a short command. The server imports both once and
forks for each command, which gets its own arguments, environment, folder, file mode mask and standard streams.

Run as a script, this module is the server; imported, it is the client.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import tui_workbench.__main__ as program
from tui_workbench import cli

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LARGEST_REQUEST = 1 << 20

_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_")
"""Beginnings of the names of variables that the interpreter reads when it starts."""

_SLOW_TO_IMPORT = "theme"
"""The module of commands that needs Textual, which most commands do without."""


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


_BASE = dict(os.environ)


class Client:
    """The connection to a server, which ends when the connection is closed."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # Pipes, as a command has them: the interpreter sets its streams up when it starts.
            self._server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_BASE,
            )

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._server.communicate()

    def run(
        self, arguments: Sequence[bytes], folder: str, environment: Mapping[str, str], patience: float
    ) -> tuple[int, bytes, bytes]:
        """Run a command to its end: exit code, stdout and stderr."""
        mask = os.umask(0)
        os.umask(mask)
        request = {
            "arguments": [os.fsdecode(argument) for argument in arguments],
            "folder": folder,
            "environment": dict(environment),
            "mask": mask,
        }
        pipes = [os.pipe() for _ in range(3)]
        try:
            message = json.dumps(request).encode()
            socket.send_fds(self._socket, [message], [writing for _, writing in pipes])
        finally:
            for _, writing in pipes:
                os.close(writing)
        state, out, err = _read_all([reading for reading, _ in pipes], patience)
        return int(state.split()[1]), out, err


def _read_all(descriptors: list[int], patience: float) -> list[bytes]:
    """Read pipes to their ends. The first names the process, which is ended when its time is over."""
    deadline = time.monotonic() + patience
    found = dict.fromkeys(descriptors, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    os.kill(int(found[descriptors[0]].split()[0]), signal.SIGKILL)
                    raise TimeoutError(f"the command did not end in {patience:g} s: {list(found.values())}")
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    found[key.fd] += data
                    if not data:
                        selector.unregister(key.fd)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    return list(found.values())


@functools.cache
def _client() -> Client:
    client = Client()
    atexit.register(client.close)
    return client


def can_run(environment: Mapping[str, str]) -> bool:
    """Tell whether a command with this environment behaves in a forked process as in an interpreter of its own."""
    return hasattr(os, "pidfd_open") and _read_at_start(environment) == _read_at_start(_BASE)


def run(
    arguments: Sequence[bytes], folder: str, environment: Mapping[str, str], patience: float
) -> tuple[int, bytes, bytes]:
    """Run a command to its end: exit code, stdout and stderr."""
    return _client().run(arguments, folder, environment, patience)


def _serve(control: socket.socket) -> None:
    """Fork for each request, and report how each command ended, until the client is gone."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    selector.unregister(key.fd)
                    _report_end(key.fd, *key.data)
                    continue
                message, streams, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 3)
                if not message:
                    return
                pid = _start(json.loads(message), streams)
                os.write(streams[0], b"%d " % pid)
                os.close(streams[1])
                os.close(streams[2])
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, streams[0]))


def _report_end(process: int, pid: int, state: int) -> None:
    os.close(process)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(state, b"%d" % code)
    os.close(state)


def _start(request: dict[str, Any], streams: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _become(request, streams)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the command that was asked for."""
    os.dup2(streams[1], 1)
    os.dup2(streams[2], 2)
    os.closerange(3, 256)
    os.chdir(request["folder"])
    os.umask(request["mask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["workbench-tui", *request["arguments"]]
    program.main()
    raise AssertionError("the program ends its process itself")


def main() -> None:
    """Import what commands need, and serve."""
    for module in sorted({command.module for command in cli.COMMANDS} - {_SLOW_TO_IMPORT}):
        importlib.import_module(f"tui_workbench.cli.{module}")
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        _serve(control)


if __name__ == "__main__":
    main()
