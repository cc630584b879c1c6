"""A machine that executes runs: this machine, or a machine over SSH.

The main primitive is `Host.open`, which starts a program whose standard streams are file descriptors on this machine.
Most other methods are built on it. Programs are argument vectors, never lines for a shell. Calls have a time limit or
can be interrupted, and raise TargetUnreachable rather than return an incomplete result.
"""

from __future__ import annotations

import abc
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.core import trace
from tui_workbench.core.directories import user_data_directory
from tui_workbench.core.errors import StorageError, TargetUnreachable, WorkbenchError
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.processes import clean_environment
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.core.waiting import BackgroundCall, wait_ready

if TYPE_CHECKING:
    import socket

DEFAULT_TIMEOUT = 30.0
"""Time limit in seconds for a short command. A login on a busy machine can take ten seconds."""

SHELL = "/bin/sh"

READ_SIZE = 1 << 18
"""Bytes per read, four times the default capacity of a pipe."""

MOST_OUTPUT = 256 << 20
"""Maximum number of bytes that `run` reads from one stream, to limit the use of memory."""

_KILLED = frozenset((129, 137, 143))
"""Exit codes after SIGHUP, SIGKILL and SIGTERM."""

_FOLLOW = shell_script("targets/hosts/scripts/follow_file.sh")


class ConnectionLost(TargetUnreachable):
    """The machine does not answer. A run on the machine has the state `unknown` until the machine answers again.

    `failed_check` names the failed check of the connection: `name`, `port`, `host key` or `login`.
    """

    def __init__(self, message: str, *, remedy: str = "", failed_check: str = "login") -> None:
        super().__init__(message, remedy=remedy)
        self.failed_check = failed_check


class LoginRefused(TargetUnreachable):
    """The machine answers but rejects the login. Another attempt is useless until the user corrects the login."""

    permanent = True
    failed_check = "login"

    def __init__(self, message: str, *, remedy: str = "", offers_password: bool = False) -> None:
        """`offers_password` is True if the machine refused the keys, but accepts a password."""
        super().__init__(message, remedy=remedy)
        self.offers_password = offers_password


class SecretNeeded(LoginRefused):
    """A password or passphrase is missing or wrong, or the server asks a question, such as for a second factor.

    `reference` names the secret for `SecretStore`; `prompt` is the question to show. `host_verified` is True if the
    machine showed the expected host key, so that only the secret is missing. The answer to a question is given like a
    secret, but never stored; with `is_visible`, it may be shown while the user types it.
    """

    def __init__(
        self,
        message: str,
        *,
        reference: str,
        prompt: str,
        remedy: str = "",
        host_verified: bool = False,
        is_question: bool = False,
        is_visible: bool = False,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.is_question = is_question
        self.is_visible = is_visible
        self.reference = reference
        self.prompt = prompt
        self.host_verified = host_verified

    def explain(self, reason: str) -> None:
        """Add the reason why a stored secret was not used."""
        self.message = f"{self.message}: {reason}"
        self.prompt = f"{self.prompt} ({reason})"


class StoredSecret(NamedTuple):
    """A secret that was stored for a login.

    With `refusal`, the reason, it was stored for something else, so `value` is empty.
    """

    value: str = ""
    host_key: str = ""  # the fingerprint of the host key that may get the secret; "" for any key in known_hosts
    refusal: str = ""
    bind: Callable[[str], object] | None = None
    """Call this with the fingerprint of the host key after a login. None if the secret is bound already."""


class HostKeyRefused(TargetUnreachable):
    """The machine's host key is unknown or has changed.

    `presented` is the fingerprint (`SHA256:...`) of the key that the machine showed. `known` has the keys of the
    machine in known_hosts, each as fingerprint, file and line; it is empty for a machine that was never seen before.
    """

    permanent = True
    failed_check = "host key"

    def __init__(self, message: str, *, presented: str, known: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.presented = presented
        self.known = known


class Completed(NamedTuple):
    """The exit code of a program (128 + N for signal N) and its output."""

    code: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """The output on stdout without the last line ending. Invalid UTF-8 becomes surrogates."""
        return self.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def complaint(self) -> str:
        """The last line of stderr that is not in a Java stack trace, or the exit code, for an error message."""
        lines = self.stderr.decode("utf-8", "replace").strip().split("\n")
        messages = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
        return messages[-1].strip() or f"exit code {self.code}"


class Entry(NamedTuple):
    """A file or link of a tree to copy. Folders are not listed: they are created as needed and removed if empty."""

    path: str  # relative, with `/`; invalid UTF-8 as surrogates
    identity: str  # the content's hash, or size and modification time; equal identities mean equal content
    size: int = 0  # only for plans: `sync` measures the files that it sends
    executable: bool = False
    link: str | None = None  # the target of a symbolic link; None for a file


class PortForward(NamedTuple):
    """A loopback port of this machine that leads to a port of a host, until the connection is lost.

    `connection` becomes readable when the forward has ended. Closing it ends the forward.
    """

    port: int
    connection: socket.socket


class HostProcess(abc.ABC):
    """A running program on a host. The descriptors are blocking pipes that this object owns."""

    stdin: int
    stdout: int
    stderr: int
    _call: trace.Call

    @abc.abstractmethod
    def close_stdin(self) -> None:
        """Signal the end of input to the program."""

    @abc.abstractmethod
    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, 128 + N for signal N.

        Raises TimeoutError, or TargetUnreachable if the connection is lost.
        """

    @abc.abstractmethod
    def exit_descriptor(self) -> int:
        """Return a descriptor that becomes readable when `wait` would not block."""

    def trace_streams(self, stderr: bytes, sent: int = 0) -> None:
        """Record stderr and the number of bytes sent to stdin in the trace of calls."""
        self._call.note_io(stderr, sent)

    @abc.abstractmethod
    def close(self) -> None:
        """End the program if it is still running, and close the descriptors."""


class Host(abc.ABC):
    """A machine. `label` is its name in messages. All methods are thread-safe."""

    label: str
    is_local: bool

    @property
    def ssh_words(self) -> str:
        """The arguments of `ssh` for a login on this host, quoted for a shell; "" for this machine."""
        return ""

    @property
    def shell_seconds(self) -> float:
        """The time that starting a shell takes, in seconds; 0.0 if it is not known."""
        return 0.0

    @abc.abstractmethod
    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        """Start a program within `timeout` seconds. A missing program exits with code 127. Raises TargetUnreachable."""

    @abc.abstractmethod
    def forward(self, path: str) -> str:
        """Return the path of a local unix socket that is connected to the unix socket `path` of the host.

        The result is valid until the connection is lost; then call this method again. Raises TargetUnreachable.
        """

    @abc.abstractmethod
    def forward_port(self, address: str, port: int, here: int) -> PortForward | None:
        """Forward the port `here` of this machine, or a free one if it is in use, to a port that the host can reach.

        Returns None if no forward is needed, because the host is this machine. Raises TargetUnreachable, and
        WorkbenchError if nothing listens there or if the host forbids it.
        """

    @abc.abstractmethod
    def home(self) -> str:
        """Return the folder for the workbench's files on the host; it may not exist yet. Raises WorkbenchError."""

    @abc.abstractmethod
    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        """Wait until the machine answers. Return False if the descriptor `interrupted` becomes readable first.

        Raises LoginRefused or HostKeyRefused if waiting is useless.
        """

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Run a program to its end, and return its exit code and output.

        Raises TargetUnreachable if the connection is lost, if the program takes longer than `timeout` seconds, or if it
        is killed on another machine. Raises WorkbenchError if the program writes more than MOST_OUTPUT bytes.
        """
        deadline = time.monotonic() + timeout
        process = self.open(argv, timeout=timeout)
        try:
            out, err = communicate(process, stdin, deadline, f"{self.label}: `{argv[0]}`")
            process.trace_streams(err, len(stdin))
            code = process.wait(max(0.0, deadline - time.monotonic()))
            self.refuse_killed(argv[0], code)
            return Completed(code, out, err)
        except TimeoutError:
            raise ConnectionLost(
                f"{self.label}: `{argv[0]}` did not end within {timeout:g} s",
                remedy="Check the load and the disks of that machine, then try again.",
            ) from None
        finally:
            process.close()

    def refuse_killed(self, program: str, code: int) -> None:
        """Raise ConnectionLost if a program on another machine was killed, so that the caller tries again."""
        if not self.is_local and code in _KILLED:
            raise ConnectionLost(
                f"{self.label}: `{program}` was killed by signal {code - 128}",
                remedy="Try again. If it is killed again, check the memory and the process limits of that machine.",
            )

    def check(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> Completed:
        """Run a program as `run` does. Raises WorkbenchError with its error output if its exit code is not 0."""
        done = self.run(argv, stdin=stdin, timeout=timeout)
        if done.code != 0:
            remedy = f"Check the disk space and your permissions on that machine, and that `{argv[0]}` works there."
            raise WorkbenchError(f"{self.label}: `{argv[0]}` failed: {done.complaint}", remedy=remedy)
        return done

    def user_ids(self) -> tuple[int, int]:
        """Return the user ID and group ID of programs on the host."""
        text = self.check(["sh", "-c", "id -u; id -g"]).text
        ids = [whole_number(line) for line in text.split("\n")]
        if len(ids) != 2 or ids[0] is None or ids[1] is None:
            remedy = "Check that `id -u` prints a number in an SSH login on that machine."
            raise WorkbenchError(f"{self.label}: `id` printed {text[:80]!r}, expected two numbers", remedy=remedy)
        return ids[0], ids[1]

    def read(self, path: str, offset: int = 0) -> HostProcess:
        """Start a process that follows a file and writes its bytes from `offset` (the first is 0) to stdout.

        The file may not exist yet. The process continues until it is closed.
        """
        return self.open(["sh", "-c", _FOLLOW, "sh", str(offset + 1), path])


class LocalHost(Host):
    """The machine on which the workbench runs."""

    label = "this machine"
    is_local = True

    def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
        return LocalProcess(argv)

    def forward(self, path: str) -> str:
        return path

    def forward_port(self, address: str, port: int, here: int) -> PortForward | None:
        return None

    def home(self) -> str:
        return user_data_directory()

    def wait_until_reachable(self, interrupted: int = -1) -> bool:
        return True


class LocalProcess(HostProcess):
    """A program on this machine, in a new session, so that `close` also ends its children."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._call = trace.Call(trace.PROCESS, argv, log_start=True)
        # A shell starts the program, so that a missing program causes code 127 and a message, as on any other host.
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
        self._waiting: BackgroundCall | None = None

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
        if self._waiting is None:
            self._waiting = BackgroundCall(self._process.wait)
        return self._waiting.descriptor

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
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None


def is_disk_full(errors: str) -> bool:
    """Return True if the error output of a program says that the disk or the user's quota is full."""
    return "No space left" in errors or "quota exceeded" in errors.lower()


def disk_full(label: str, message: str, clean: str = "`workbench-tui experiment clean`") -> StorageError:
    """Return the error for a full disk. `message` says what failed, and `clean` is the command that frees space."""
    return StorageError(
        f"the disk of {label} is full, or your quota is used up: {message}",
        remedy=f"Run {clean} to remove files of old runs. `df -h` and `quota` on that machine show what is full.",
    )


def communicate(process: HostProcess, stdin: bytes, deadline: float, program: str = "a program") -> tuple[bytes, bytes]:
    """Write `stdin` to a process, read its output until both streams end, and return stdout and stderr.

    Raises TimeoutError at `deadline` (monotonic clock). Raises WorkbenchError, which names `program`, if a stream has
    more than MOST_OUTPUT bytes.
    """
    outputs: dict[int, list[bytes]] = {process.stdout: [], process.stderr: []}
    room = dict.fromkeys(outputs, MOST_OUTPUT)
    open_outputs = set(outputs)
    pending = memoryview(stdin)
    # Both directions at once: the program may write more than a pipe holds before it has read all its input.
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
                    f"{program} wrote more than {MOST_OUTPUT >> 20} MiB of output",
                    remedy="Check your shell's start-up files there: a program that they start may print endlessly.",
                )
            if data:
                outputs[descriptor].append(data)
            else:
                open_outputs.discard(descriptor)
        if pending and process.stdin in ready:
            try:
                pending = pending[os.write(process.stdin, pending) :]
            except BrokenPipeError:
                pending = pending[:0]  # the program closed its input
            if not pending:
                process.close_stdin()
    return b"".join(outputs[process.stdout]), b"".join(outputs[process.stderr])
