"""Open ports of a run: TensorBoard, Jupyter, or a port of the script, reached at the loopback address of this machine.

The process that opens a port keeps it open; nothing is stored. It answers other processes of the user on a Unix socket
in the folder of the SSH connections, which only the user can enter, so that they can list its ports and close them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
import webbrowser
from typing import Any, NamedTuple

from tui_workbench.core import trace
from tui_workbench.core.errors import UsageError, WorkbenchError, storage_errors
from tui_workbench.core.waiting import wait_ready
from tui_workbench.runs.store.history_record import utc
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.hosts.host import PortForward
from tui_workbench.targets.hosts.serving import JUPYTER, LOOPBACK, PORTS, TENSORBOARD, Server, ServerPlace, local_port
from tui_workbench.targets.ssh.ssh_wire import receive, runtime_directory, send

PORT = "port"
KINDS = (TENSORBOARD, JUPYTER, PORT)

ANSWER_SECONDS = 5.0
"""Time limit for an answer from another process of the workbench."""

CLOSE_SECONDS = 30.0
"""Time limit for another process to close a port, whose server may need time to end."""

_FOLDER = "ports"
NEW, PAGE = ".new", ".html"


class PortRecord(NamedTuple):
    """An open port. `url` contains the token of a server."""

    url: str
    port: int  # at the address of `url`
    kind: str
    leads_to: str  # the address and port on `machine`
    machine: str
    run_id: str
    since: str


class Destination(NamedTuple):
    """A port to open: of the machine or container of the run, or of a host that the machine can reach."""

    port: int
    host: str = ""  # "" for the machine or container itself


def parse_destination(text: str) -> Destination:
    """Parse PORT or HOST:PORT. Raises UsageError."""
    host, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdigit()) or not 0 < int(number) < 1 << 16:
        raise UsageError(f"{text!r} is not a port", remedy="Give a number from 1 to 65535, or HOST:PORT.")
    return Destination(int(number), host.strip("[]"))


class OpenPort:
    """A port that this process keeps open until `close`, until another process closes it, or until it ends itself."""

    def __init__(self, directory: RunDirectory, kind: str, destination: Destination | None = None) -> None:
        """Start a server if needed, and forward its port. `destination` is only for PORT. Raises WorkbenchError."""
        spec = directory.own_record().spec
        place = target_for(spec.target).server_place(spec)
        token = secrets.token_urlsafe(16)
        trace.hide((token,))
        self._callers: list[socket.socket] = []
        with contextlib.ExitStack() as undo:
            self._server = Server(place, kind, token) if destination is None else None
            if self._server is not None:
                undo.callback(self._server.close)
            address, port = _end_of(place, destination, self._server)
            self.wanted = PORTS[kind] if destination is None else local_port(port)
            self._forward = place.host.forward_port(address, port, self.wanted)
            if self._forward is None:
                _require_listener(address, port)
            if self._forward is not None:
                undo.callback(self._forward.connection.close)
            self.record = _record(directory.run_id, kind, place, address, port, self._forward, token)
            self._path = os.path.join(_folder(), f"{os.getpid()}-{secrets.token_hex(4)}")
            self._asked = _listen(self._path, undo)
            self._undo = undo.pop_all()

    @property
    def stays_open(self) -> bool:
        """False if the address is that of the run itself, so that there is nothing to close."""
        return self._server is not None or self._forward is not None

    def wait(self) -> str:
        """Answer other processes until the port is closed. Return the reason if it was closed by no process, or ""."""
        ends = {self._server.descriptor(): "the server has ended"} if self._server is not None else {}
        if self._forward is not None:
            ends[self._forward.connection.fileno()] = "the connection has ended"
        while True:
            ready = wait_ready([self._asked.fileno(), *ends])
            why = next((ends[each] for each in ready if each in ends), "")
            if why or self._answer():
                return why

    def _answer(self) -> bool:
        """Answer a process; return True if it wants to close the port. The answer comes when the port is closed."""
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
        """End the forward and the server. Can be called again."""
        self._undo.close()
        for caller in self._callers:
            caller.close()

    def show_in_browser(self) -> bool:
        """Open the browser. Return False if this machine has none.

        The browser gets a file that leads to the URL, because all users of the machine can read its arguments.
        """
        if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return False
        path = self._path + PAGE
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={self.record.url}">'
        with storage_errors("write", path):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(text)
            self._undo.callback(_remove, path)
        return webbrowser.open(f"file://{path}")


def _end_of(place: ServerPlace, destination: Destination | None, server: Server | None) -> tuple[str, int]:
    if destination is not None:
        return destination.host or place.address, destination.port
    assert server is not None
    return place.address, server.port


def _require_listener(address: str, port: int) -> None:
    try:
        socket.create_connection((address, port), ANSWER_SECONDS).close()
    except OSError as error:
        raise WorkbenchError(
            f"cannot connect to {address}:{port}: {(error.strerror or str(error)).lower()}",
            remedy="Check the port, and that its program is running and listens at that address.",
        ) from error


def _record(
    run_id: str, kind: str, place: ServerPlace, address: str, port: int, forward: PortForward | None, token: str
) -> PortRecord:
    here, number = (address, port) if forward is None else (LOOPBACK, forward.port)
    path = {TENSORBOARD: f"{token}/", JUPYTER: f"?token={token}"}.get(kind, "")
    host = f"[{here}]" if ":" in here else here
    url = f"http://{host}:{number}/{path}"
    return PortRecord(url, number, kind, f"{address}:{port}", place.label, run_id, utc(time.time()) or "")


def _listen(path: str, undo: contextlib.ExitStack) -> socket.socket:
    """Listen for processes that list or close ports. Raises StorageError."""
    listener = undo.enter_context(socket.socket(socket.AF_UNIX))
    with storage_errors("create", path):
        # Renamed when it listens, because other processes remove sockets at which no process listens.
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
    found = []
    for path in _paths():
        with contextlib.suppress(OSError, ValueError, TypeError), _call(path) as connection:
            found.append(_received(connection))
    return sorted(found, key=lambda record: (record.since, record.port))


def close_ports(name: str) -> list[PortRecord]:
    """Close the open ports with this number or this URL, and wait until their servers have ended.

    Ports of several containers can have the same number. Raises UsageError if there is no such port.
    """
    closed = []
    for path in _paths():
        with contextlib.suppress(ConnectionError, ValueError, TypeError), _call(path) as connection:
            record = _received(connection)
            if name in (str(record.port), record.url):
                connection.settimeout(CLOSE_SECONDS)
                send(connection, {"close": name})
                with contextlib.suppress(TimeoutError):
                    receive(connection)
                closed.append(record)
    if not closed:
        remedy = "`workbench-tui port list` lists the open ports."
        raise UsageError(f"no port {name!r} was opened by the workbench", remedy=remedy)
    return closed


def _paths() -> list[str]:
    folder = _folder()
    with storage_errors("read", folder):
        return [os.path.join(folder, name) for name in os.listdir(folder) if not name.endswith((NEW, PAGE))]


def _call(path: str) -> socket.socket:
    """Connect to the process that keeps a port open; remove the socket of a process that was killed. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_SECONDS)
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
    message: dict[str, Any] = receive(connection) or {}
    return PortRecord(**message)
