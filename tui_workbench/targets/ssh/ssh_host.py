"""A Host that is reached over SSH.

The link process (`ssh_link`), started on demand, holds the connections of all logins. All processes of the user share
it. They may end or fork at any time, and do not load an SSH library.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tui_workbench.core import trace
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.files import read_end
from tui_workbench.core.locks import held, open_lock
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.processes import child_descriptor, start_detached
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import (
    DEFAULT_TIMEOUT,
    ConnectionLost,
    Host,
    HostProcess,
    PortForward,
    SecretNeeded,
    StoredSecret,
)
from tui_workbench.targets.ssh import ssh_wire as wire

if TYPE_CHECKING:
    _Result = TypeVar("_Result")

START_ATTEMPTS = 5
"""Maximum number of attempts to connect to a link, which may end meanwhile, or may lack resources for a moment."""

START_PAUSE = 0.05
"""Seconds before the next attempt, times the number of attempts so far."""

LINK_START_TIMEOUT = 30.0
"""Time limit in seconds for a new link to answer. It takes half a second unless this machine is busy."""

SHORT_TIMEOUT = 10.0
"""Time limit in seconds for requests that the link answers without contacting the machine."""


_AGAIN = "Try again: the workbench then opens a new connection. Runs on the machine continue."


class SshHost(Host):
    """The machine of a login. `secrets` returns a stored secret that the link lacks, by its reference, or None."""

    is_local = False

    def __init__(
        self, login: wire.Login, secrets: Callable[[str], StoredSecret | None] = lambda _reference: None
    ) -> None:
        self.login = login
        self.label = login.label
        self._secrets = secrets
        self._is_recorded = False
        self._home = ""

    @classmethod
    def of(cls, target: ComputeTarget, secrets: Callable[[str], StoredSecret | None]) -> SshHost:
        """Return the machine of a remote target."""
        return cls(wire.login_of(target), secrets)

    @property
    def ssh_words(self) -> str:
        return self.login.all_words

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return self._with_secrets(lambda: self._open(argv, timeout))

    def forward(self, path: str) -> str:
        reply = self._with_secrets(lambda: self._request({"op": wire.FORWARD, "path": path}, DEFAULT_TIMEOUT))
        here: str = reply["socket"]
        return here

    def forward_port(self, address: str, port: int, here: int) -> PortForward | None:
        return self._with_secrets(lambda: self._forward_port(address, port, here))

    def _forward_port(self, address: str, port: int, here: int) -> PortForward:
        message = {"op": wire.FORWARD_PORT, "address": address, "port": port, "here": here}
        connection = self._ask(message, DEFAULT_TIMEOUT)
        try:
            reply = _reply(connection, self.label)
            if "refused" in reply:
                raise _port_refused(self.label, address, port, reply)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(None)
        return PortForward(reply["port"], connection)

    def home(self) -> str:
        if not self._home:
            self._home = self.check(["sh", "-c", 'printf %s "$HOME"']).text + "/.workbench-tui"
        return self._home

    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        def wait() -> bool:
            with self._ask({"op": wire.WAIT}, SHORT_TIMEOUT) as connection:
                watched = [connection.fileno()] + ([interrupted] if interrupted >= 0 else [])
                if interrupted in wait_ready(watched):
                    return False
                _reply(connection, self.label)
                return True

        return self._with_secrets(wait)

    @property
    def shell_seconds(self) -> float:
        return float(self.status().get("shell", 0.0))

    def status(self) -> dict[str, Any]:
        """Return facts about the connection: `state` (up, connecting, down), `since` (epoch), `server`, `peer`, ..."""
        return self._request({"op": wire.STATUS}, SHORT_TIMEOUT)

    def give_secret(self, reference: str, value: str, *, kept: bool = False, host_key: str = "") -> None:
        """Give a secret to the link, which keeps it in memory.

        `kept` is True if it is in a keyring as well. `host_key` is the fingerprint of the host key that may get it; ""
        for the key that the machine shows at the next login.
        """
        trace.hide((value,))
        given = {"reference": reference, "value": value, "kept": kept, "host_key": host_key}
        self._request({"op": wire.SECRET, **given}, SHORT_TIMEOUT)

    def attend(self) -> None:
        """Tell the link that a user can answer the questions of the server, such as for a second factor.

        After a login that failed after a question, the link does not connect again before this.
        """
        self._request({"op": wire.ATTEND}, SHORT_TIMEOUT)

    def accept_host_key(self, fingerprint: str) -> None:
        """Accept an unknown host key with this fingerprint (`SHA256:...`) at the next attempt.

        The link then adds it to known_hosts. A changed key is still refused.
        """
        self._request({"op": wire.ACCEPT, "fingerprint": fingerprint}, SHORT_TIMEOUT)

    def disconnect(self, *, keep_secrets: bool = False) -> None:
        """End the connections of this login for all processes, and forget its secrets. The next request logs in."""
        paths = wire.LinkPaths()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(paths.socket)
            connection.settimeout(SHORT_TIMEOUT)
            wire.send(connection, self._addressed({"op": wire.CLOSE, "keep_secrets": keep_secrets}))
            # After the greeting and the reply, the link hangs up. Then the connections are closed.
            while wire.receive(connection) is not None:
                pass

    def _with_secrets(self, action: Callable[[], _Result]) -> _Result:
        """Call `action`; if it needs a secret, give the secret to the link and call it again.

        If the secret is unknown, the link first checks that the machine answers with the right host key. Therefore
        the user is not asked for the password of an unreachable or wrong machine.
        """
        given: dict[str, StoredSecret] = {}
        while True:
            try:
                result = action()
            except SecretNeeded as error:
                stored = self._secrets(error.reference) if error.reference not in given else None
                if stored is not None:
                    given[error.reference] = stored
                if stored is not None and not stored.refusal:
                    self.give_secret(error.reference, stored.value, kept=True, host_key=stored.host_key)
                elif error.host_verified:
                    if error.reference in given and (refusal := given[error.reference].refusal):
                        error.explain(refusal)
                    raise
                else:
                    self._request({"op": wire.NO_SECRET, "reference": error.reference}, SHORT_TIMEOUT)
            else:
                for bind in filter(None, (stored.bind for stored in given.values())):
                    bind(str(self.status().get("host_key", "")))
                return result

    def _open(self, argv: Sequence[str], timeout: float) -> SshProcess:
        call = trace.Call(trace.SSH, argv, login=self.ssh_words, log_start=True)
        with contextlib.ExitStack() as undo:
            try:
                command = "exec " + quote(argv)
                (their_in, stdin), (stdout, their_out), (stderr, their_err) = (os.pipe() for _ in range(3))
                for descriptor in (stdin, stdout, stderr):
                    undo.callback(os.close, descriptor)
                theirs = (their_in, their_out, their_err)
                try:
                    connection = self._ask({"op": wire.EXEC, "command": command}, timeout, theirs)
                finally:
                    # The link has its own copies. While these are open, the output of the program has no end.
                    for descriptor in theirs:
                        os.close(descriptor)
                undo.pop_all()  # the process owns the other ends from here on
                process = SshProcess(self.label, connection, (stdin, stdout, stderr), call)
                undo.callback(process.close)
                _reply(connection, self.label)
            except WorkbenchError as error:
                call.end(None, error=str(error))
                raise
            connection.settimeout(None)
            undo.pop_all()
        return process

    def _request(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        with self._ask(message, timeout) as connection:
            return _reply(connection, self.label)

    def _ask(self, message: dict[str, Any], timeout: float, descriptors: Sequence[int] = ()) -> socket.socket:
        """Send a request to the link. The returned socket, on which the reply arrives, has the given timeout."""
        if message["op"] in wire.CONNECTING and not self._is_recorded:
            # Whatever only looks has called `contacts.require_contacted` before.
            contacts.record_login(self.login.address, self.login.username)
            self._is_recorded = True
        connection = self._call(max(timeout, LINK_START_TIMEOUT))
        try:
            connection.settimeout(timeout)
            wire.send(connection, self._addressed(message), descriptors)
        except OSError as error:
            connection.close()
            # The request is not repeated, because the link may have executed it.
            raise ConnectionLost(
                f"{self.label}: the process that held the SSH connection has ended", remedy=_AGAIN
            ) from error
        return connection

    def _addressed(self, message: dict[str, Any]) -> dict[str, Any]:
        return {**message, "login": self.login, "agent": os.environ.get(wire.AGENT_VARIABLE, "")}

    def _call(self, timeout: float) -> socket.socket:
        """Connect to the link, after starting it if needed, and wait for its greeting."""
        paths = wire.LinkPaths()
        reason = ""
        for attempt in range(START_ATTEMPTS):
            time.sleep(START_PAUSE * attempt)
            connection = socket.socket(socket.AF_UNIX)
            try:
                if connection.connect_ex(paths.socket) != 0:
                    _start_link(paths)
                    connection.connect(paths.socket)
                connection.settimeout(timeout)
                # A link that is ending may accept a connection, but sends no greeting. Then start another link.
                if wire.receive(connection) is not None:
                    return connection
                reason = "it has ended"
            except OSError as error:
                reason = error.strerror or str(error)
            connection.close()
        reason = _last_error(paths) or reason
        raise ConnectionLost(
            f"{self.label}: the process that holds the SSH connection does not answer ({reason})",
            remedy=f"Check the error in {paths.errors}, then try again.",
        )


class SshProcess(HostProcess):
    """A program on another machine."""

    def __init__(self, label: str, connection: socket.socket, streams: tuple[int, int, int], call: trace.Call) -> None:
        self.stdin, self.stdout, self.stderr = streams
        self._call = call
        self._label = label
        self._connection = connection
        self._code: int | None = None
        self._open = set(streams)

    def close_stdin(self) -> None:
        self._close(self.stdin)

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            if not wait_ready([self._connection.fileno()], timeout=timeout):
                raise TimeoutError
            try:
                self._code = int(_reply(self._connection, self._label)["exit"])
            except WorkbenchError as error:
                self._call.end(None, error=str(error))
                raise
            self._call.end(self._code)
        return self._code

    def exit_descriptor(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._call.end(None, note="stopped")
        self._connection.close()
        for descriptor in list(self._open):
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        # Only once: another file may have the same number by now.
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)


def quote(argv: Sequence[str]) -> str:
    """Return an argument vector as one line for `sh`, with `$n` for line feeds. Raises ConfigurationError for NUL."""
    line = " ".join(shlex.quote(word) for word in argv)
    if "\0" in line:
        raise ConfigurationError(
            "a name or an argument contains a NUL character",
            remedy="Remove the NUL character from the target or the run configuration; YAML writes it as `\\0`.",
        )
    return line.replace("\n", "'\"$n\"'")


def _reply(connection: socket.socket, label: str) -> dict[str, Any]:
    """Read the next reply. Raises the error in it, or ConnectionLost."""
    try:
        message = wire.receive(connection)
    except TimeoutError:
        seconds = connection.gettimeout() or 0.0
        raise ConnectionLost(
            f"{label}: no answer within {seconds:g} s",
            remedy="Check the network and the load of that machine, then try again.",
        ) from None
    except OSError:
        message = None
    if message is None:
        raise ConnectionLost(f"{label}: the process that held the SSH connection has ended", remedy=_AGAIN)
    if "error" in message:
        raise wire.error_from_message(message)
    return message


def _port_refused(label: str, address: str, port: int, reply: dict[str, Any]) -> WorkbenchError:
    if reply["forbidden"]:
        return WorkbenchError(
            f"{label}: the SSH server forbids forwarding to {address}:{port}",
            remedy="Ask an administrator to allow it in the sshd_config of that machine (`AllowTcpForwarding yes`, "
            "`PermitOpen`).",
        )
    return WorkbenchError(
        f"{label}: cannot connect to {address}:{port} from there: {reply['refused'].lower()}",
        remedy="Check the port, and that its program is running and listens on that address.",
    )


def _start_link(paths: wire.LinkPaths) -> None:
    """Start the link, unless another process has just started it. Raises OSError.

    The socket listens before the link runs, so that clients can connect immediately.
    """
    with held(open_lock(paths.lock)):
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(paths.socket) == 0:
                return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(paths.socket)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(paths.socket)
            listener.listen(128)
            _spawn_link(paths, listener.fileno())


def _spawn_link(paths: wire.LinkPaths, listener: int) -> None:
    errors = os.open(paths.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    number = child_descriptor(listener)
    # -P: do not import modules from the current folder.
    module = "tui_workbench.targets.ssh.ssh_link"
    command = [sys.executable, "-P", "-m", module, str(number)]
    try:
        start_detached(command, os.environ, errors=errors, passed=((listener, number),))
    finally:
        os.close(errors)


def _last_error(paths: wire.LinkPaths) -> str:
    try:
        return read_end(paths.errors, 4096).decode("utf-8", "replace").strip().split("\n")[-1]
    except OSError:
        return ""
