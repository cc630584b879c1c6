"""Open a port of a run (TensorBoard, Jupyter, or a port of the script), or start Jupyter on the files of a project.

The process that opens a port keeps it open; nothing is stored. Through a Unix socket, the user's other processes can
list and close the port. The socket is in the folder of the SSH connections, which only the user can enter.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core import trace
from tui_workbench.core.errors import UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import open_new
from tui_workbench.core.json_values import read_as
from tui_workbench.core.model import RunSpec
from tui_workbench.core.moments import utc
from tui_workbench.core.processes import clean_environment, find_program, is_alive, start_detached
from tui_workbench.core.waiting import wait_ready
from tui_workbench.projects.project import Project
from tui_workbench.runs.lifecycle.limits import label_of
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.hosts.host import PortForward
from tui_workbench.targets.hosts.serving import JUPYTER, LOOPBACK, PORTS, TENSORBOARD, Server, ServerPlace, local_port
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.ssh.ssh_wire import receive, runtime_directory, send

PORT = "port"
KINDS = (TENSORBOARD, JUPYTER, PORT)

ANSWER_SECONDS = 5.0
"""Time limit in seconds for an answer from another process of the workbench."""

LIST_SECONDS = 1.0
"""Time limit in seconds for each process to list its port. A process that is too slow, or suspended, is omitted."""

CLOSE_SECONDS = 30.0
"""Time limit in seconds for another process to close a port, whose server may need time to end."""

PAGE_SECONDS = 60.0
"""Seconds after which the file that redirects the browser to the URL is removed."""

_FOLDER = "ports"
NEW, PAGE = ".new", ".html"


class PortRecord(NamedTuple):
    """An open port. `url` contains the token of a server."""

    url: str
    port: int  # at the address of `url`
    kind: str
    leads_to: str  # the address and port on `machine`
    machine: str
    run_id: str  # "" for Jupyter on a project
    run_title: str  # such as `train.py [7]`, or the name of the project
    since: str

    @property
    def title(self) -> str:
        return f"port {self.port}" if self.kind == PORT else f"{self.kind} at port {self.port}"


class Destination(NamedTuple):
    """A port to open.

    It belongs to the machine or container of the run, or to a host that the machine of the run can reach.
    """

    port: int
    host: str = ""  # "" for the machine or container itself


def parse_destination(text: str) -> Destination:
    """Parse PORT or HOST:PORT. Raises UsageError."""
    host, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdigit()) or not 0 < int(number) < 1 << 16:
        raise UsageError(f"{text!r} is not a port", remedy="Give a number from 1 to 65535, or HOST:PORT.")
    host = host.strip("[]")
    try:
        is_host = host.isprintable() and (not host or bool(host.encode("idna")))
    except UnicodeError:
        is_host = False
    if not is_host:
        raise UsageError(
            f"invalid host name {host!r}", remedy="Correct the host name in HOST:PORT, for example node7:8088."
        )
    return Destination(int(number), host)


class PortOwner(NamedTuple):
    """The run or project for which a port is opened. The specification for a project has no run ID."""

    spec: RunSpec
    title: str
    has_ended: bool = False


def run_owner(directory: RunDirectory) -> PortOwner:
    """Return the port owner for a run. Raises RunNotFound, or ImportedRun if the run is not this user's own."""
    run = directory.own_record()
    return PortOwner(run.spec, label_of(run.spec, run.run_number), bool(directory.status().end))


def project_owner(project: Project, target: str = "", configuration: str = "") -> PortOwner:
    """Return the port owner for the files of a project, with the Python of a target or run configuration.

    The target executes scripts on this machine (see `notebooks.notebook_request`); the default is `local`. Raises
    ConfigurationError, or UsageError if the target needs a run configuration.
    """
    chosen = project.run_configuration(configuration) if configuration else None
    compute = project.target_of(chosen, target) if chosen is not None else project.target(target or "local")
    if chosen is None and compute.builds_environment:
        raise UsageError(
            f"the environment of target {compute.name} depends on the run configuration",
            remedy="Name a run configuration of this target: `workbench-tui notebook -c NAME`.",
        )
    return PortOwner(spec_of(compute, chosen), project.name)


class OpenPort:
    """A port that stays open until `close`, or until this process ends. `wait` returns when the port must be closed."""

    def __init__(self, owner: PortOwner, kind: str, destination: Destination | None = None) -> None:
        """Start the server of `kind`, or for PORT use `destination`, and forward the port if necessary.

        Raises WorkbenchError.
        """
        spec = owner.spec
        location = target_for(spec.target).server_place(spec)
        token = secrets.token_urlsafe(16)
        trace.hide((token,))  # before the first call that contains it
        self._callers: list[socket.socket] = []
        with contextlib.ExitStack() as undo:
            self._server: Server | None = None
            if destination is None:
                in_run = kind == JUPYTER and spec.starts_jupyter
                self._server = Server(location, kind, token, spec.run_directory, in_run=in_run)
                undo.callback(self._server.close)
                address, port, self.preferred_port = location.address, self._server.port, PORTS[kind]
            else:
                address, port = destination.host or location.address, destination.port
                self.preferred_port = local_port(port)
            self._forward = location.host.forward_port(address, port, self.preferred_port)
            if self._forward is None:
                if destination is not None and not destination.host and owner.has_ended:
                    # Another program of this machine may use the port now.
                    raise UsageError(
                        f"{owner.title} has ended, so its ports cannot be opened",
                        remedy=f"To open the port of another program of this machine, give its host: {address}:{port}.",
                    )
                _require_listener(address, port)
            else:
                undo.callback(self._forward.connection.close)
            self.record = _record(owner, kind, location, address, port, self._forward, token)
            self._path = os.path.join(_folder(), f"{os.getpid()}-{secrets.token_hex(4)}")
            self._asked = _listen(self._path, undo)
            self._undo = undo.pop_all()

    @property
    def stays_open(self) -> bool:
        """False if the URL leads directly to a port of the run, so that there is nothing to close."""
        return self._server is not None or self._forward is not None

    def wait(self) -> str:
        """Answer other processes until the port must be closed. Return the reason, or "" if a process requested it."""
        ends = {self._server.descriptor(): "the server has ended"} if self._server is not None else {}
        if self._forward is not None:
            ends[self._forward.connection.fileno()] = "the connection has ended"
        while True:
            ready = wait_ready([self._asked.fileno(), *ends])
            why = next((ends[descriptor] for descriptor in ready if descriptor in ends), "")
            if why or self._answer():
                return why

    def _answer(self) -> bool:
        """Send the record to a process. Return True if the process requests to close the port.

        `close` then ends the connection, which tells the process that the port is closed.
        """
        caller, _ = self._asked.accept()
        caller.settimeout(ANSWER_SECONDS)
        try:
            send(caller, self.record._asdict())
            is_closing = receive(caller) is not None
        except (OSError, ValueError):
            is_closing = False
        if is_closing:
            self._callers.append(caller)
        else:
            caller.close()
        return is_closing

    def close(self) -> None:
        """Stop forwarding the port, and end the server. The call can be repeated."""
        self._undo.close()
        for caller in self._callers:
            caller.close()

    def forget(self) -> None:
        """Remove the files of the port. Call this before the process ends, which closes the port."""
        _remove(self._path)
        _remove(self._path + PAGE)

    def show_in_browser(self) -> bool:
        """Open the browser. Return False if this machine has none. Raises StorageError.

        The browser opens a file that redirects to the URL. The URL is not an argument of the browser, because all users
        of the machine can read arguments.
        """
        if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return False
        path = self._path + PAGE
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={self.record.url}">'
        with storage_errors("write", path):
            with open_new(path) as file:
                file.write(text.encode("ascii"))
            self._undo.callback(_remove, path)
        timer = threading.Timer(PAGE_SECONDS, _remove, [path])
        timer.daemon = True
        timer.start()
        try:
            program = find_program("open" if sys.platform == "darwin" else "xdg-open")
            start_detached([program, f"file://{path}"], clean_environment(os.environ))
        except OSError:
            return False
        return True


def _require_listener(address: str, port: int) -> None:
    try:
        socket.create_connection((address, port), ANSWER_SECONDS).close()
    except OSError as error:
        raise WorkbenchError(
            f"cannot connect to {address}:{port}: {(error.strerror or str(error)).lower()}",
            remedy="Check the port, and that its program is running and listens on that address.",
        ) from error


def _record(
    owner: PortOwner, kind: str, location: ServerPlace, address: str, port: int, forward: PortForward | None, token: str
) -> PortRecord:
    here, number = (address, port) if forward is None else (LOOPBACK, forward.port)
    path = {TENSORBOARD: f"{token}/", JUPYTER: f"?token={token}"}.get(kind, "")
    host = f"[{here}]" if ":" in here else here
    url = f"http://{host}:{number}/{path}"
    leads_to, since = f"{address}:{port}", utc(time.time()) or ""
    return PortRecord(url, number, kind, leads_to, location.label, owner.spec.run_id, owner.title, since)


def _listen(path: str, undo: contextlib.ExitStack) -> socket.socket:
    """Create the socket through which other processes list and close the port. Raises StorageError."""
    listener = undo.enter_context(socket.socket(socket.AF_UNIX))
    with storage_errors("create", path):
        # The socket is renamed when it listens, because other processes remove sockets at which no process listens.
        listener.bind(path + NEW)
        listener.listen()
        os.rename(path + NEW, path)
        undo.callback(_remove, path)
    return listener


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _folder() -> str:
    path = os.path.join(runtime_directory(), _FOLDER)
    with storage_errors("create", path), contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return path


def open_ports() -> list[PortRecord]:
    """Return the open ports of the user, oldest first. Raises StorageError."""
    records = []
    for path in _paths():
        with contextlib.suppress(OSError, ValueError, TypeError), _call(path, LIST_SECONDS) as connection:
            records.append(_received(connection))
    return sorted(records, key=lambda record: (record.since, record.port))


def close_ports(name: str = "") -> Iterator[PortRecord]:
    """Close the open ports with this number or this URL, by default all, and yield each when it is closed.

    Ports of several containers can have the same number. Raises UsageError if there is no such port, and WorkbenchError
    if a process that may have this port does not answer.
    """
    closed, silent = 0, []
    for path in _paths():
        try:
            record = _close(path, name)
        except (ConnectionError, FileNotFoundError, ValueError, TypeError):
            continue  # the process has ended
        except OSError:
            silent.append(os.path.basename(path).partition("-")[0])
            continue
        if record is not None:
            closed += 1
            yield record
    if silent and not (name and closed):
        pids = " ".join(silent)
        raise WorkbenchError(
            f"ports are still open, because these processes do not answer: {pids}",
            remedy=f"If they are suspended, continue them: `kill -CONT {pids}`. Otherwise, end them: `kill {pids}`.",
        )
    if name and not closed:
        remedy = "`workbench-tui port list` lists the open ports."
        raise UsageError(f"no port {name!r} was opened by the workbench", remedy=remedy)


def _close(path: str, name: str) -> PortRecord | None:
    """Close the port of a process if `name` is its number, its URL or ""; otherwise, return None.

    Raises OSError, ValueError or TypeError.
    """
    with _call(path, ANSWER_SECONDS) as connection:
        record = _received(connection)
        if name not in ("", str(record.port), record.url):
            return None
        connection.settimeout(CLOSE_SECONDS)
        send(connection, {"close": record.url})
        with contextlib.suppress(ConnectionError):
            receive(connection)
        return record


def _paths() -> list[str]:
    """Return the paths of the sockets, and remove other files of processes that were killed. Raises StorageError."""
    folder, sockets = _folder(), []
    with storage_errors("read", folder):
        names = os.listdir(folder)
    for name in names:
        path = os.path.join(folder, name)
        if not name.endswith((NEW, PAGE)):
            sockets.append(path)
        elif not ((pid := name.partition("-")[0]).isdecimal() and is_alive(int(pid))):
            _remove(path)
    return sockets


def _call(path: str, seconds: float) -> socket.socket:
    """Connect to the process that keeps a port open; remove the socket of a process that was killed. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        if isinstance(error, ConnectionRefusedError):
            _remove(path)
            _remove(path + PAGE)
        raise
    return connection


def _received(connection: socket.socket) -> PortRecord:
    return read_as(PortRecord, receive(connection))
