"""A machine over SSH, for callers that know nothing of SSH: programs there have pipes here.

Nothing of the connection is in this process: it asks the link (`ssh_link`), which it starts when there is none. So any
number of processes share one connection, any of them may die or fork, and none of them loads an SSH library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tui_workbench.core import trace
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.locks import held, open_lock
from tui_workbench.core.processes import child_descriptor, start_detached
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, ConnectionLost, Host, HostProcess, SecretNeeded
from tui_workbench.targets.ssh import ssh_wire as wire

if TYPE_CHECKING:
    _Result = TypeVar("_Result")

START_ATTEMPTS = 5
"""A link may end itself in the moment in which we connect to it; the one after it is ours and fresh."""

START_PAUSE = 0.05
"""Seconds, times the number of attempts so far: a system that is short of something may not be in a moment."""

LINK_START_TIMEOUT = 30.0
"""Seconds for a new link to begin to answer: half a second, unless the machine has other things to do."""

AGENT_VARIABLE = "SSH_AUTH_SOCK"

SHORT_TIMEOUT = 10.0
"""Seconds for what the link answers by itself, without the machine."""


class SshHost(Host):
    """The machine of a login.

    `secrets` is asked for a secret by its reference when the link does not hold it; it answers None when it knows none.
    """

    is_local = False

    def __init__(self, login: wire.Login, secrets: Callable[[str], str | None] = lambda _reference: None) -> None:
        self.login = login
        self.label = login.label
        self._secrets = secrets
        self._home = ""

    @property
    def ssh_words(self) -> str:
        return self.login.all_words

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return self._with_secrets(lambda: self._open(argv, timeout))

    def forward(self, socket: str) -> str:
        reply = self._with_secrets(lambda: self._request({"op": wire.FORWARD, "path": socket}, DEFAULT_TIMEOUT))
        here: str = reply["socket"]
        return here

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
        """The link's `state` (up, connecting, down), `since` when (seconds since the epoch), `server`, `peer`, `shell`.

        The last is the seconds that starting a shell takes there.
        """
        return self._request({"op": wire.STATUS}, SHORT_TIMEOUT)

    def give_secret(self, reference: str, value: str, *, kept: bool = False) -> None:
        """Let the link remember a secret as long as it lives, in memory only.

        `kept` says that a keyring holds it as well: the link need not live on for it.
        """
        trace.hide((value,))
        self._request({"op": wire.SECRET, "reference": reference, "value": value, "kept": kept}, SHORT_TIMEOUT)

    def accept_host_key(self, fingerprint: str) -> None:
        """Accept the key with this fingerprint (`SHA256:...`) when the machine shows it at the next attempt.

        It is then kept in known_hosts; a key that differs from one on record is refused all the same.
        """
        self._request({"op": wire.ACCEPT, "fingerprint": fingerprint}, SHORT_TIMEOUT)

    def disconnect(self) -> None:
        """End the link and its connection, for everybody; whoever needs it next starts another."""
        paths = wire.LinkPaths(self.login)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(paths.socket)
            connection.settimeout(SHORT_TIMEOUT)
            wire.send(connection, {"op": wire.CLOSE})
            while wire.receive(connection) is not None:
                pass

    def _with_secrets(self, action: Callable[[], _Result]) -> _Result:
        """Do something that may need a secret; when it does and we know it, hand it over and do it again.

        When we do not, let the link see whether that is all there is in the way: nobody is to be asked for the password
        of a machine that does not answer, or that is another one.
        """
        given = set()
        while True:
            try:
                return action()
            except SecretNeeded as error:
                value = self._secrets(error.reference) if error.reference not in given else None
                if value is not None:
                    given.add(error.reference)
                    self.give_secret(error.reference, value, kept=True)
                elif error.host_verified:
                    raise
                else:
                    self._request({"op": wire.NO_SECRET, "reference": error.reference}, SHORT_TIMEOUT)

    def _open(self, argv: Sequence[str], timeout: float) -> SshProcess:
        call = trace.Call(trace.SSH, argv, login=self.ssh_words, log_start=True)
        with contextlib.ExitStack() as undo:
            try:
                command = "exec " + quote(argv)
                (their_in, stdin), (stdout, their_out), (stderr, their_err) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
                for descriptor in (stdin, stdout, stderr):
                    undo.callback(os.close, descriptor)
                theirs = (their_in, their_out, their_err)
                try:
                    connection = self._ask({"op": wire.EXEC, "command": command}, timeout, theirs)
                finally:
                    for descriptor in theirs:
                        os.close(descriptor)
                undo.pop_all()
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
        """Send a request to the link; started when there is none. The reply is awaited for `timeout` seconds."""
        connection = self._call(max(timeout, LINK_START_TIMEOUT))
        try:
            connection.settimeout(timeout)
            wire.send(connection, {**message, "agent": os.environ.get(AGENT_VARIABLE, "")}, descriptors)
        except OSError as error:
            connection.close()
            # Not sent again: it may have been read and carried out.
            raise ConnectionLost(
                f"{self.label}: the process that held the SSH connection has ended", remedy="Try again."
            ) from error
        return connection

    def _call(self, timeout: float) -> socket.socket:
        """A connection to a living link: one that has greeted us."""
        paths = wire.LinkPaths(self.login)
        why = ""
        for attempt in range(START_ATTEMPTS):
            time.sleep(START_PAUSE * attempt)
            connection = socket.socket(socket.AF_UNIX)
            try:
                if connection.connect_ex(paths.socket) != 0:
                    _start_link(self.login, paths)
                    connection.connect(paths.socket)
                connection.settimeout(timeout)
                if wire.receive(connection) is not None:
                    return connection
                why = "it has ended"
            except OSError as error:
                why = error.strerror or str(error)
            connection.close()
        why = _last_words(paths) or why
        raise ConnectionLost(
            f"{self.label}: the process that is to hold the SSH connection does not answer ({why})", remedy="Try again."
        )


class SshProcess(HostProcess):
    """A program on the other machine as a HostProcess."""

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
        if descriptor in self._open:
            self._open.discard(descriptor)
            os.close(descriptor)


def quote(argv: Sequence[str]) -> str:
    """An argument vector as one line for `sh`, in which `$n` is a line feed. Raises ConfigurationError for a NUL."""
    line = " ".join(shlex.quote(word) for word in argv)
    if "\0" in line:
        raise ConfigurationError("a NUL byte stands in a name or an argument", remedy="No program can be given one.")
    return line.replace("\n", "'\"$n\"'")


def _reply(connection: socket.socket, label: str) -> dict[str, Any]:
    """The next reply. Raises the error that it carries, TimeoutError as ConnectionLost too."""
    try:
        message = wire.receive(connection)
    except TimeoutError:
        seconds = connection.gettimeout() or 0.0
        raise ConnectionLost(f"{label}: no answer within {seconds:g} s", remedy="Try again.") from None
    except OSError:
        message = None
    if message is None:
        raise ConnectionLost(f"{label}: the process that held the SSH connection has ended", remedy="Try again.")
    if "error" in message:
        raise wire.error_from_message(message)
    return message


def _start_link(login: wire.Login, paths: wire.LinkPaths) -> None:
    """Start the link unless somebody else just did. Raises OSError.

    Its socket listens before it runs, so that nobody has to wait for it to appear.
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
            _spawn_link(login, paths, listener.fileno())


def _spawn_link(login: wire.Login, paths: wire.LinkPaths, listener: int) -> None:
    errors = os.open(paths.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    number = child_descriptor(listener)
    # -P: a json.py in the folder where the workbench was started must not become part of it.
    command = [
        sys.executable,
        "-P",
        "-m",
        "tui_workbench.targets.ssh.ssh_link",
        str(number),
        json.dumps(login._asdict()),
    ]
    try:
        start_detached(command, os.environ, errors=errors, passed=((listener, number),))
    finally:
        os.close(errors)


def _last_words(paths: wire.LinkPaths) -> str:
    try:
        with open(paths.errors, encoding="utf-8", errors="replace") as file:
            lines = file.read().strip().split("\n")
    except OSError:
        return ""
    return lines[-1]
