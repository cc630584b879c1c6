"""A machine that runs are executed on: this one, or one over SSH. Everything above it is the same for both.

One primitive differs between machines, `Host.open`: start a program there, with its three streams as file descriptors
here. Running, reading, copying there and back are written on it once. Programs are named by an argument vector, never
by a line for a shell; every call has a time limit or can be interrupted, and none returns half a result: it raises
TargetUnreachable.
"""

from __future__ import annotations

import abc
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core import trace
from tui_workbench.core.directories import user_data_directory
from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.processes import clean_environment
from tui_workbench.core.waiting import wait_ready

DEFAULT_TIMEOUT = 30.0
"""Seconds for a short command. A login on a loaded machine can take ten."""

SHELL = "/bin/sh"

READ_SIZE = 1 << 18
"""Bytes asked for at once: four times a pipe's default, so one read empties it."""

MOST_OUTPUT = 256 << 20
"""Bytes that `run` takes from one stream of a program: more than any answer has, less than memory has."""

_KILLED = frozenset((129, 137, 143))
"""Exit codes of programs that SIGHUP, SIGKILL or SIGTERM ended."""

_FOLLOW = """\
exec 3<&0
{ until [ -f "$2" ]; do sleep 0.05; done; exec tail -c "+$1" -f -- "$2"; } </dev/null 3<&- 2>/dev/null &
follower=$!
{ cat <&3; kill "$follower"; } >/dev/null 2>&1 &
exec 3<&-
wait "$follower"
"""
"""When the link breaks nobody is left to end `tail`, which notices nothing while the file is at rest; `cat` does."""


class ConnectionLost(TargetUnreachable):
    """The machine does not answer. A run that continues there has the state `unknown` until it answers again.

    `failed_check` names the failed check of the connection: `name`, `port`, `host key` or `login`.
    """

    def __init__(self, message: str, *, remedy: str = "", failed_check: str = "login") -> None:
        super().__init__(message, remedy=remedy)
        self.failed_check = failed_check


class LoginRefused(TargetUnreachable):
    """The machine answers but rejects the login. Trying again is useless until the user changes something."""

    permanent = True
    failed_check = "login"


class SecretNeeded(LoginRefused):
    """A password or passphrase is missing or wrong.

    `reference` names the secret for `SecretStore`; `prompt` is the question to show. `host_verified` is True when the
    machine answered with the right host key, so that only the secret is missing.
    """

    def __init__(
        self, message: str, *, reference: str, prompt: str, remedy: str = "", host_verified: bool = False
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.reference = reference
        self.prompt = prompt
        self.host_verified = host_verified


class HostKeyRefused(TargetUnreachable):
    """The machine's host key is unknown or has changed.

    `presented` is the fingerprint (`SHA256:...`) of the key that the machine showed. `known` are the fingerprints in
    known_hosts, empty for a machine that was never seen before.
    """

    permanent = True
    failed_check = "host key"

    def __init__(self, message: str, *, presented: str, known: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.presented = presented
        self.known = known


class Completed(NamedTuple):
    """A program that has ended: its exit code (128 + N for signal N) and what it wrote."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """What it wrote to stdout, without the last line end; bytes that are no UTF-8 survive as surrogates."""
        return self.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def complaint(self) -> str:
        """The last line of stderr, or the exit code when there is none: for an error message."""
        lines = self.stderr.decode("utf-8", "replace").strip().split("\n")
        return lines[-1].strip() or f"exit code {self.code}"


class Entry(NamedTuple):
    """One file or link of a tree that is to be copied. `identity` changes when the content does.

    `path` is relative and uses `/`; bytes that are no UTF-8 stand in it as surrogates. Folders are not listed: they
    are made as needed, and one that holds nothing any more is removed.
    """

    path: str
    identity: str  # the content's hash, or size and time of change; equal identities are equal content
    size: int = 0
    executable: bool = False
    link: str | None = None  # where a symbolic link leads; None for a file


class HostProcess(abc.ABC):
    """A program that runs on a host. The descriptors are blocking pipes and belong to this object."""

    stdin: int
    stdout: int
    stderr: int
    _call: trace.Call

    @abc.abstractmethod
    def close_stdin(self) -> None:
        """Let the program see the end of its input."""

    @abc.abstractmethod
    def wait(self, timeout: float | None = None) -> int:
        """The exit code, 128 + N for signal N. Raises TimeoutError, or TargetUnreachable when the link breaks."""

    @abc.abstractmethod
    def exit_descriptor(self) -> int:
        """A descriptor that becomes readable when `wait` would return (or raise) at once."""

    def trace_streams(self, stderr: bytes, sent: int = 0) -> None:
        """Note what it wrote to stderr and how many bytes it was given, for the trace of calls."""
        self._call.note_io(stderr, sent)

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of it: it is ended when it still runs, and the descriptors are closed."""


class Host(abc.ABC):
    """A machine. `label` is what to call it in a sentence; `is_local` tells this machine from all others.

    Safe to use from several threads at once.
    """

    label: str
    is_local: bool

    @property
    def ssh_words(self) -> str:
        """What `ssh` is called with to log in there, as words for a shell; "" for this machine."""
        return ""

    @property
    def shell_seconds(self) -> float:
        """How long starting a shell takes there, as far as that is known."""
        return 0.0

    @abc.abstractmethod
    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        """Start a program; returns within `timeout` seconds. A program that does not exist ends with code 127.

        Raises TargetUnreachable (one of the classes above, where they fit).
        """

    @abc.abstractmethod
    def forward(self, socket: str) -> str:
        """The path of a unix socket on this machine that leads to the host's one of this path.

        It stays good until the link breaks; ask again after that. Raises TargetUnreachable.
        """

    @abc.abstractmethod
    def home(self) -> str:
        """The folder on the host, this user's, that holds everything of ours there. It may not exist yet."""

    @abc.abstractmethod
    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        """Block while the machine cannot be reached but may come back.

        True when it answers; False when the descriptor `interrupted` became readable. Raises LoginRefused or
        HostKeyRefused when waiting is of no use.
        """

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Run a program to its end. Raises TargetUnreachable when it is killed or exceeds `timeout` seconds."""
        deadline = time.monotonic() + timeout
        process = self.open(argv, timeout=timeout)
        try:
            out, err = communicate(process, stdin, deadline)
            process.trace_streams(err, len(stdin))
            code = process.wait(max(0.0, deadline - time.monotonic()))
            self.refuse_killed(argv[0], code)
            return Completed(code, out, err)
        except TimeoutError:
            raise ConnectionLost(
                f"{self.label}: `{argv[0]}` did not end within {timeout:g} s",
                remedy="The machine may be overloaded; try again.",
            ) from None
        finally:
            process.close()

    def refuse_killed(self, program: str, code: int) -> None:
        """Raise ConnectionLost for a program on another machine that was killed: it can be run again.

        Nothing stands between a program on this machine and its caller, who judges the exit code.
        """
        if not self.is_local and code in _KILLED:
            raise ConnectionLost(
                f"{self.label}: `{program}` was killed there by signal {code - 128}", remedy="Try again."
            )

    def check(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Like `run`, and raises WorkbenchError with the program's complaint when it fails."""
        done = self.run(argv, stdin=stdin, timeout=timeout)
        if done.code != 0:
            raise WorkbenchError(f"{self.label}: {argv[0]} failed: {done.complaint}")
        return done

    def user_ids(self) -> tuple[int, int]:
        """User id and group id that programs have there."""
        user, group = self.check(["sh", "-c", "id -u; id -g"]).text.split("\n")
        return int(user), int(group)

    def read(self, path: str, offset: int = 0) -> HostProcess:
        """Follow a file: its bytes from `offset` arrive on the process's stdout as they are written, until closed.

        A file that is not there yet is waited for.
        """
        return self.open(["sh", "-c", _FOLLOW, "sh", str(offset + 1), path])


class LocalHost(Host):
    """The machine that this program runs on."""

    label = "this machine"
    is_local = True

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return LocalProcess(argv)

    def forward(self, socket: str) -> str:
        return socket

    def home(self) -> str:
        return user_data_directory()

    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        return True


class LocalProcess(HostProcess):
    """A program on this machine as a HostProcess, in a session of its own so that closing it ends its children too."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._call = trace.Call(trace.PROCESS, argv, log_start=True)
        # Through a shell, so that a program that does not exist ends with 127 and a complaint, as on any other host.
        self._process = subprocess.Popen(
            [SHELL, "-c", 'exec "$@"', "sh", *map(os.fsencode, argv)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(os.environ),
            start_new_session=True,
            bufsize=0,
        )
        self._streams = [
            stream for stream in (self._process.stdin, self._process.stdout, self._process.stderr) if stream
        ]
        self.stdin, self.stdout, self.stderr = (stream.fileno() for stream in self._streams)
        self._pidfd = -1

    def close_stdin(self) -> None:
        self._streams[0].close()

    def wait(self, timeout: float | None = None) -> int:
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        code = code if code >= 0 else 128 - code
        self._call.end(code)
        return code

    def exit_descriptor(self) -> int:
        if self._pidfd < 0:
            self._pidfd = os.pidfd_open(self._process.pid)
        return self._pidfd

    def close(self) -> None:
        if self._process.returncode is None and self._process.poll() is None:
            self._call.end(None, note="stopped")
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
            self._process.wait()
        self._call.end(self._process.returncode)
        for stream in self._streams:
            stream.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def communicate(process: HostProcess, stdin: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Feed a process and take what it writes until both streams end.

    Raises TimeoutError at `deadline`, a moment of the monotonic clock, and WorkbenchError for more than MOST_OUTPUT.
    """
    outputs: dict[int, list[bytes]] = {process.stdout: [], process.stderr: []}
    room = dict.fromkeys(outputs, MOST_OUTPUT)
    open_outputs = set(outputs)
    pending = memoryview(stdin)
    if pending:
        os.set_blocking(process.stdin, False)
    else:
        process.close_stdin()
    while open_outputs:
        writers = [process.stdin] if pending else []
        ready = wait_ready(open_outputs, writers, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        for descriptor in ready & open_outputs:
            data = os.read(descriptor, READ_SIZE)
            room[descriptor] -= len(data)
            if room[descriptor] < 0:
                raise WorkbenchError(
                    f"a program wrote more than {MOST_OUTPUT >> 20} MB, which is no answer",
                    remedy="Look for a start-up file or a wrapper there that writes without end.",
                )
            if data:
                outputs[descriptor].append(data)
            else:
                open_outputs.discard(descriptor)
        if pending and process.stdin in ready:
            try:
                pending = pending[os.write(process.stdin, pending) :]
            except BrokenPipeError:
                pending = pending[:0]  # it did not want to read to the end
            if not pending:
                process.close_stdin()
    return b"".join(outputs[process.stdout]), b"".join(outputs[process.stderr])
