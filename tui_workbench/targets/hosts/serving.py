"""TensorBoard and Jupyter servers for a run, executed on the machine or in the container of the run.

A server ends when its standard input ends, which happens when the workbench or the connection ends, even if the
workbench is killed. The first line of the input is the token, which appears in no argument list and no log. On this
machine, a private file that leads the browser to the server contains the token for a minute.
"""

from __future__ import annotations

import contextlib
import os
import re
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
"""Time limit in seconds for a server to listen. TensorBoard takes ten seconds on a busy machine with a slow disk."""

END_SECONDS = 10.0
"""Time limit in seconds for a server to end after its input has ended. Then the server is killed."""

CONNECT_SECONDS = 30
"""Time limit in seconds for the script of a run of `notebook` to listen."""

_MISSING, _GONE, _TAKEN, _LISTENS = "missing", "gone", "taken", "listens"

_REPLY = re.compile(rb"listens ([0-9]{1,5})\n")
_LONGEST_REPLY = 1024

# Arguments: server, address, preferred port (0 for any), and folders, of which the first that exists is used. The reply
# is one line on stdout. The current folder is removed from the path, so that no module of the project is imported. The
# token is the prefix of all paths of TensorBoard, which has no login. Command-line options of Jupyter take precedence
# over the user's configuration, which may turn off the token; here they are arguments of a function, which no other
# user sees.
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
    os._exit(0)

def own_port():
    # Another program may listen at a port that was free before. It must not get the token.
    for name in os.listdir("/dev/fd"):
        try:
            candidate = socket.socket(fileno=int(name))
        except OSError:
            continue
        try:
            if candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and candidate.getsockname()[0] == address:
                return candidate.getsockname()[1]
        except OSError:
            pass
        finally:
            candidate.detach()

def report():
    number = own_port()
    while not number:
        time.sleep(0.05)
        number = own_port()
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    reply.write("{_LISTENS} %d\\n" % number)
    reply.flush()

def refuse(why):
    reply.write(why + "\\n")
    reply.flush()
    sys.exit(1)

def load(*names):
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] != name.split(".")[0]:
                raise
    refuse("{_MISSING}")

def tensorboard(folder):
    program = load("tensorboard.program")
    for number in (port, 0):
        board = program.TensorBoard()
        options = ["--logdir", folder, "--host", address, "--port", str(number), "--path_prefix", "/" + token]
        board.configure(["tensorboard"] + options)
        # Its data server would serve the files without the token. Old versions have no such option.
        board.flags.load_fast = "false"
        try:
            board.launch()
            break
        except program.TensorBoardServerException:
            if not number:
                raise
    report()
    threading.Event().wait()

def jupyter(folder):
    module = load("jupyterlab.labapp", "notebook.app", "notebook.notebookapp", "jupyter_server.serverapp")
    options = ["--no-browser", "--allow-root", "--ip=" + address, "--port=%d" % port]
    options += ["--%s.token=%s" % (name, token) for name in ("IdentityProvider", "ServerApp", "NotebookApp")]
    os.chdir(folder)
    kind = module.main.__self__
    if hasattr(kind, "initialize_server"):
        app = kind.initialize_server(options)
    else:
        app = kind.instance()
        app.initialize(options)
    # Only now, because `initialize` listens on ports for a moment to find a free one.
    threading.Thread(target=report, daemon=True).start()
    app.start()

threading.Thread(target=end_with_input, daemon=True).start()
folder = next(filter(os.path.isdir, folders), None) or refuse("{_GONE}")
dict({TENSORBOARD}=tensorboard, {JUPYTER}=jupyter)[kind](folder)
"""


# Arguments: the folder of the socket of a run of `notebook`, and arguments for Python, which the script of the run
# executes with the standard streams of this program; see sdk/workbench_jupyter.py. The script may still be starting.
IN_RUN = f"""\
import array, json, os, socket, sys, time
os.chdir(sys.argv[1])
asked = socket.socket(socket.AF_UNIX)
for left in range({CONNECT_SECONDS * 10}, -1, -1):
    try:
        asked.connect("{JUPYTER}")
        break
    except FileNotFoundError:
        time.sleep(0.1)
    except ConnectionRefusedError:
        left = 0
    if not left:
        print("{_TAKEN}", flush=True)
        sys.exit(1)
streams = array.array("i", (0, 1, 2))
words = json.dumps(sys.argv[2:]).encode() + b"\\n"
sent = asked.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
asked.sendall(words[sent:])
asked.recv(1)
"""


def local_port(port: int) -> int:
    """Return the preferred port of this machine that leads to `port`. Only root may listen on a port below 1024."""
    return port if port >= 1024 else port + 8000


class ServerPlace(NamedTuple):
    """The machine or container in which servers for a run are started."""

    host: Host
    label: str  # for messages, such as `the container on gpubox`
    address: str = LOOPBACK  # the address of the run, as its host sees it
    python: tuple[str, ...] = ()  # the command of the run's interpreter
    logs: tuple[str, ...] = ()  # folders with the files of the run; the first that exists is used
    folders: tuple[str, ...] = ()  # the working directory of the script, and folders to use if it does not exist
    install: str = ""  # how to install a missing PACKAGE in the environment of the run
    socket_folder: str = ""  # see `run_environment.script_command`


class Server:
    """A server that was started for a run; `port` is its port at `ServerPlace.address`."""

    def __init__(self, place: ServerPlace, kind: str, token: str, run_directory: str, *, in_run: bool = False) -> None:
        """Start a server, and wait until it listens. `run_directory` is on this machine.

        With `in_run`, the script of the run starts the server, as a process of the run. Raises WorkbenchError.
        """
        folders = place.logs if kind == TENSORBOARD else place.folders
        # On another machine, any free port is used: several users may start servers there, and the port is forwarded.
        port = PORTS[kind] if place.host.is_local else 0
        arguments = (kind, place.address, str(port), *folders)
        self._place, self._kind, self._run_directory, self._errors = place, kind, run_directory, b""
        words = ["-c", PROGRAM, *arguments]
        if in_run:
            words = ["-c", IN_RUN, place.socket_folder, *words]
        self._process = place.host.open([*place.python, *words])
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
        reply = self._reply()
        match = _REPLY.fullmatch(reply)
        if match and 0 < (port := int(match[1])) < 1 << 16:
            return port
        raise self._error(reply.decode("ascii", "replace").strip(), token)

    def _error(self, reply: str, token: str) -> WorkbenchError:
        if reply == _GONE:
            return WorkbenchError(
                f"{self._place.label}: the files of the run were removed, or the run has not started",
                remedy="If the run has not started, wait until it is running. The files of an ended run are in the "
                f"folder {self._run_directory} on this machine.",
            )
        if reply == _TAKEN:
            return WorkbenchError(
                f"{self._place.label}: the run has not started, or its Jupyter was already opened",
                remedy="`workbench-tui port list` lists the open ports. If Jupyter has ended, its run ends too: start "
                "`workbench-tui notebook` again.",
            )
        if reply == _MISSING:
            package = PACKAGES[self._kind]
            command = self._place.install.replace("PACKAGE", package)
            return ConfigurationError(
                f"{package} is not installed in the environment of runs ({self._place.label})",
                remedy=f"Install it: {command}",
            )
        last = self._errors.decode("utf-8", "replace").strip().split("\n")[-1].replace(token, "***")
        return WorkbenchError(
            f"{self._place.label}: {self._kind} did not start: {last or 'no message'}",
            remedy=f"Check that {self._kind} starts there, and that its version supports the run's Python version.",
        )

    def _reply(self) -> bytes:
        """Return the first line on stdout; b"" if the program ends first. Raises WorkbenchError after START_SECONDS."""
        deadline, line = time.monotonic() + START_SECONDS, b""
        watched = {self._process.stdout, self._process.stderr}
        while watched and not line.endswith(b"\n") and len(line) < _LONGEST_REPLY:
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
        return line
