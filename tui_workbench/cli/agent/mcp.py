"""`mcp`: serve tools for coding agents, on stdin and stdout or on a Unix socket that only this user can use.

Each connection to the socket gets its own process of `workbench-tui mcp`, whose stdin and stdout are the connection.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator

from tui_workbench.cli.shared.output import notify
from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.installation import extra_command
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.limits import load_limits

_CREDENTIALS = "3i"  # `struct ucred` of Linux: process, user and group

MOST_CONNECTIONS = 16
"""Maximum number of connections at the same time. Others are closed at once."""

configure_mcp = options(
    PROJECT,
    option("--socket", metavar="PATH", default="", help="serve agents on this Unix socket instead of on stdin"),
    epilog="""\
A coding agent starts this command and calls its tools with the Model Context
Protocol. The limits in ~/.config/workbench-tui/agents.yaml apply to the runs
that agents start; a run that exceeds them waits for your approval. Without this
file, every run waits. `workbench-tui agent list` lists the requests.""",
)


def run_mcp(arguments: argparse.Namespace) -> int:
    """Serve until the agent closes stdin; with `--socket`, until interrupted.

    Raises UsageError if the extra `agents` is not installed.
    """
    project = Project.find(arguments.project)
    load_limits()
    try:
        from tui_workbench.cli.agent.server import serve  # imports the libraries of the extra `agents`
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`mcp` needs the package {error.name}, which is not installed",
            remedy=f"Install it: `{extra_command('agents')}`.",
        ) from error
    if arguments.socket:
        listen(arguments.socket, project.root)
    if sys.stdin.isatty():
        notify("this command waits for a coding agent, which starts it with a pipe; Ctrl-C ends it")
    serve(project)
    return 0


def listen(path: str, root: str) -> None:
    """Serve the project at `root` on a socket at `path` until interrupted or terminated, and then end all connections.

    Raises UsageError or StorageError.
    """
    # With -P, a json.py in the current folder does not shadow the standard library's.
    command = [sys.executable, "-P", "-m", "tui_workbench", "mcp", "--project", root]
    children: list[subprocess.Popen[bytes]] = []
    # SIGTERM raises KeyboardInterrupt like Ctrl-C, so that the connections end and the socket is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _listener(os.path.abspath(path)) as listener:
            notify(f"agents can connect to {path}; Ctrl-C ends the server")
            while True:
                connection, _ = listener.accept()
                # `poll` also collects the exit codes of ended processes, which would remain as zombies.
                children[:] = [child for child in children if child.poll() is None]
                with connection:
                    if len(children) < MOST_CONNECTIONS and _is_own(connection):
                        # The process inherits the connection; this process closes its own copy.
                        files = connection.fileno()
                        children.append(subprocess.Popen(command, stdin=files, stdout=files))
    finally:
        for child in children:
            child.terminate()


@contextlib.contextmanager
def _listener(path: str) -> Iterator[socket.socket]:
    """Listen on a socket at `path`, and remove the socket at the end."""
    folder = os.path.dirname(path)
    with storage_errors("create", path), socket.socket(socket.AF_UNIX) as listener:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # `lstat` refuses a link, which could lead to another folder later.
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise UsageError(
                f"other users could replace the socket in {folder}",
                remedy="Choose a folder that does not exist, or one that only you can access (`chmod 700 FOLDER`).",
            )
        if os.path.lexists(path):
            _remove_unused(path)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen()
        try:
            yield listener
        finally:
            os.unlink(path)


def _remove_unused(path: str) -> None:
    """Remove the socket of a killed server. Raises UsageError if a server uses it, or if the file is not a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:  # no process listens, or the file is not a socket
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)
                return
    raise UsageError(
        f"{path} is not a socket, or another server uses it", remedy="Choose another path, or end that server."
    )


def _is_own(connection: socket.socket) -> bool:
    """Return False if a process of another user has opened the connection.

    Only Linux reports the user. On other systems, the permissions of the folder keep other users out.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    return bool(struct.unpack(_CREDENTIALS, data)[1] == os.geteuid())
