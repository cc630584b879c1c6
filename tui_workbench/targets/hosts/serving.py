"""TensorBoard and Jupyter servers for a run, executed where the run is.

The life of a server is bound to its standard input: it ends when the input ends, which happens when the workbench or
the connection ends, even if the workbench is killed. The first line of the input is the token. It is in no argument
list, no file and no log of the workbench.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import READ_SIZE, Host

TENSORBOARD, JUPYTER = "tensorboard", "jupyter"

PORTS = {TENSORBOARD: 6006, JUPYTER: 8888}
"""The default port of each server. If it is in use, another port is chosen."""

PACKAGES = {TENSORBOARD: "tensorboard", JUPYTER: "jupyterlab"}
"""The package to install for each server."""

LOOPBACK = "127.0.0.1"

START_SECONDS = 120.0
"""Time limit for a server to listen. TensorBoard takes ten seconds on a busy machine with a slow disk."""

END_SECONDS = 10.0
"""Time limit for a server to end after its input has ended. Then it is killed."""

_MISSING, _LISTENS = "missing", "listens"

# Arguments: server, address, preferred port, and folders, of which the first that exists is used. The reply is one line
# on stdout. The current folder is removed from the path, so that no module of the project is imported. The token is the
# prefix of all paths of TensorBoard, which has no login. Command-line options of Jupyter take precedence over the
# user's configuration, which may turn off the token; here they are arguments of a function, which no other user sees.
PROGRAM = f"""\
import sys
sys.path = [folder for folder in sys.path if folder]
import importlib, os, signal, socket, threading, time
kind, address, port, folders = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
life, reply = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "w")
nothing = os.open(os.devnull, os.O_RDWR)
os.dup2(nothing, 0)
os.dup2(2, 1)
token = life.readline().decode("ascii").strip()

def end_with_input():
    while life.read(1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
    os._exit(1)

def free_port(wanted):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, wanted))
        except OSError:
            return free_port(0)
        return probe.getsockname()[1]

def report():
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    reply.write("{_LISTENS} %d\\n" % port)
    reply.flush()

def load(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] != name.split(".")[0]:
                raise
    reply.write("{_MISSING}\\n")
    reply.flush()
    sys.exit(1)

def tensorboard(folder):
    board = load("tensorboard.program").TensorBoard()
    options = ["--logdir", folder, "--host", address, "--port", str(port), "--path_prefix", "/" + token]
    board.configure(["tensorboard"] + options)
    board.launch()
    report()
    threading.Event().wait()

def jupyter(folder):
    module = load("jupyterlab.labapp", "notebook.app", "notebook.notebookapp", "jupyter_server.serverapp")
    options = ["--no-browser", "--allow-root", "--ip=" + address, "--port=%d" % port, "--port-retries=0"]
    options += ["--%s.token=%s" % (name, token) for name in ("IdentityProvider", "ServerApp", "NotebookApp")]
    os.chdir(folder)
    threading.Thread(target=report, daemon=True).start()
    module.main(options)

threading.Thread(target=end_with_input, daemon=True).start()
port = free_port(port)
servers = dict({TENSORBOARD}=tensorboard, {JUPYTER}=jupyter)
servers[kind](next(filter(os.path.isdir, folders)))
"""


def local_port(port: int) -> int:
    """Return the preferred port of this machine that leads to `port`. Only root may listen on a port below 1024."""
    return port if port >= 1024 else port + 8000


class ServerPlace(NamedTuple):
    """Where servers for a run are started, and how a port there is reached."""

    host: Host
    label: str  # for messages, such as `the container on gpubox`
    address: str = LOOPBACK  # the address of the run, as its host sees it
    python: tuple[str, ...] = ()  # the command of the run's interpreter
    logs: tuple[str, ...] = ()  # folders with the files of the run; the first that exists is used
    folders: tuple[str, ...] = ()  # the working directory of the script, and folders to use if it does not exist
    install: str = ""  # how to install a missing PACKAGE in the environment of the run


class Server:
    """A server that was started for a run; `port` is its port at `ServerPlace.address`."""

    def __init__(self, place: ServerPlace, kind: str, token: str) -> None:
        """Start a server, and wait until it listens. Raises WorkbenchError."""
        folders = place.logs if kind == TENSORBOARD else place.folders
        arguments = (kind, place.address, str(PORTS[kind]), *folders)
        self._place, self._kind, self._errors = place, kind, b""
        self._process = place.host.open([*place.python, "-c", PROGRAM, *arguments])
        try:
            self.port = self._start(token)
        except BaseException:
            self.close()
            raise

    def descriptor(self) -> int:
        """Return a descriptor that becomes readable when the server has ended."""
        return self._process.exit_descriptor()

    def close(self) -> None:
        """End the server, and kill it if that takes too long."""
        with contextlib.suppress(OSError):
            self._process.close_stdin()
        with contextlib.suppress(TimeoutError, WorkbenchError):
            self._process.wait(END_SECONDS)
        self._process.close()

    def _start(self, token: str) -> int:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin, f"{token}\n".encode("ascii"))
        line = self._reply()
        if line == _MISSING:
            package = PACKAGES[self._kind]
            command = self._place.install.replace("PACKAGE", package)
            raise ConfigurationError(
                f"{package} is not installed in the environment of the run ({self._place.label})",
                remedy=f"Install it: {command}",
            )
        if not line.startswith(_LISTENS):
            last = self._errors.decode("utf-8", "replace").strip().split("\n")[-1].replace(token, "***")
            raise WorkbenchError(
                f"{self._place.label}: {self._kind} did not start: {last or 'no message'}",
                remedy="Check that it starts there, and that its version supports the run's Python version.",
            )
        return int(line.split()[1])

    def _reply(self) -> str:
        """Return the first line on stdout; "" if the program ends first. Raises WorkbenchError after START_SECONDS."""
        deadline, line = time.monotonic() + START_SECONDS, b""
        watched = {self._process.stdout, self._process.stderr}
        while watched and not line.endswith(b"\n"):
            ready = wait_ready(watched, timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                raise WorkbenchError(
                    f"{self._place.label}: {self._kind} did not start within {START_SECONDS:g} s",
                    remedy="Check the load and the disks of that machine, then try again.",
                )
            for descriptor in ready:
                data = os.read(descriptor, READ_SIZE)
                if not data:
                    watched.discard(descriptor)
                elif descriptor == self._process.stdout:
                    line += data
                else:
                    self._errors = (self._errors + data)[-READ_SIZE:]
        return line.decode("ascii", "replace").strip()
