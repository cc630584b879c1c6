"""Programs on another machine, each on an SSH channel that is connected to pipes of this machine.

A channel starts as a `Shell` that waits for one command line. Starting a shell takes a round trip and the time that
`.bashrc` takes, so spare shells are kept. The output of start-up files is dropped. The program that the command line
starts then has the channel to itself: its streams are bytes, and its exit code is the channel's.

`Bridge` replaces the forwarding of a unix socket on servers that forbid it (`DisableForwarding`,
`AllowStreamLocalForwarding no`). Each connection starts `docker system dial-stdio`, which connects its stdin and stdout
to the socket of the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Awaitable, Callable
from signal import Signals
from typing import Any, Protocol, cast

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.targets.ssh.library import asyncssh

READY = b"workbench-tui ready\n"
SHELL_COMMAND = (
    "exec /bin/sh -c 'echo workbench-tui ready; echo workbench-tui ready >&2; "
    'n=$(echo; echo x); n=${n%x}; IFS= read -r l && eval "$l"\''
)
"""The command works in bash, zsh, fish and csh, because they do not interpret any of the characters inside the quotes.

`read` reads single bytes from a pipe, so the program's input starts exactly after the line. `$n` is a line feed.
"""

MOST_NOISE = 1 << 20
"""Maximum output of start-up files, in bytes."""

START_SECONDS = 25.0
"""Time limit for start-up files, a little shorter than the time limit for starting a program."""

_KEPT_NOISE = 1 << 12


class NoShell(Exception):
    """The login does not start a shell. The text is the reason, such as the last line of its output, or ""."""


class Sink(Protocol):
    """The receiver of an output stream. A full receiver calls `Shell.pause`, and later `Shell.resume`."""

    def write(self, data: bytes) -> None:
        """Write output of the program."""

    def close(self) -> None:
        """Signal the end of output."""


class Shell(asyncssh.SSHClientSession[bytes]):
    """One channel: a waiting shell, and after `run` the program. `ended` holds the program's exit code or the error."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()
        self.ended.add_done_callback(_consume)
        self.ready.add_done_callback(_consume)
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._noise = {False: bytearray(), True: bytearray()}
        self._noise_left = MOST_NOISE
        self.seconds = 0.0
        """Seconds that starting the shell took, including its start-up files."""
        self._outputs: dict[bool, Sink] = {}
        self._input: asyncio.ReadTransport | None = None
        self._full: set[Sink] = set()
        self._resuming = False
        self._code: int | None = None

    @classmethod
    async def open(cls, connection: asyncssh.SSHClientConnection) -> Shell:
        """Start a shell that waits for its command line. Raises NoShell, asyncssh.Error or OSError."""
        begun = time.monotonic()
        channel, session = await connection.create_session(cls, SHELL_COMMAND, encoding=None)
        shell = cast(Shell, session)
        shell._channel = channel
        try:
            await asyncio.wait_for(shell.ready, START_SECONDS)
        except TimeoutError:
            shell.close()
            raise NoShell(f"the shell's start-up files did not end within {START_SECONDS:g} s") from None
        shell.seconds = time.monotonic() - begun
        return shell

    @property
    def is_usable(self) -> bool:
        """False once the channel has ended."""
        return not self.ended.done()

    async def run(self, line: str, stdin: int, stdout: int, stderr: int) -> None:
        """Start the program of `line` with these descriptors, which this object then owns."""
        self.start(line, await _output(self, stdout), await _output(self, stderr))
        loop = asyncio.get_running_loop()
        self._input, _ = await loop.connect_read_pipe(lambda: _Input(self), os.fdopen(stdin, "rb", 0))

    def start(self, line: str, stdout: Sink, stderr: Sink, stdin: asyncio.ReadTransport | None = None) -> None:
        """Start the program of `line`. `stdin` is paused while the program reads slower than `send` writes.

        The streams are closed when the program ends.
        """
        assert self._channel is not None
        self._noise = {False: bytearray(), True: bytearray()}
        self._outputs = {False: stdout, True: stderr}
        self._input = stdin
        self._channel.write(os.fsencode(line) + b"\n")

    def send(self, data: bytes) -> None:
        """Write to the program's input, unless it has ended."""
        with contextlib.suppress(OSError):
            if self._channel is not None:
                self._channel.write(data)

    def send_eof(self) -> None:
        """Signal the end of input to the program."""
        with contextlib.suppress(OSError):
            if self._channel is not None:
                self._channel.write_eof()

    def close(self) -> None:
        """End the program, if it is still running, and the channel. Output that has arrived is still delivered."""
        if self._channel is None or self.ended.done():
            return
        with contextlib.suppress(OSError):
            self._channel.send_signal("KILL")  # closing the channel would not end a silent program
        self._channel.close()

    # Called by asyncssh.

    def data_received(self, data: bytes, datatype: int | None) -> None:
        is_error = datatype is not None
        if self._outputs:
            self._outputs[is_error].write(data)
            return
        self._noise_left -= len(data)
        if self._noise_left < 0:
            self._give_up()
            return
        noise = self._noise[is_error]
        noise += data
        del noise[:-_KEPT_NOISE]
        if all(noise.endswith(READY) for noise in self._noise.values()) and not self.ready.done():
            self.ready.set_result(None)

    def exit_status_received(self, status: int) -> None:
        self._code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._code = 128 + Signals.__members__.get(f"SIG{signal}", Signals.SIGKILL).value

    def eof_received(self) -> bool:
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        error = exc or asyncssh.ConnectionLost("the channel was closed")
        if not self.ready.done():
            self.ready.set_exception(exc or NoShell(self._last_line()))
        if self._input is not None:
            self._input.close()
        for output in self._outputs.values():
            output.close()
        if not self.ended.done():
            if self._code is None:
                self.ended.set_exception(error)
            else:
                self.ended.set_result(self._code)

    def _give_up(self) -> None:
        if not self.ready.done():
            self.ready.set_exception(NoShell(f"the shell's start-up files print more than {MOST_NOISE >> 20} MiB"))
        self.close()

    def _last_line(self) -> str:
        """Return the last line of stderr, or of stdout, before the shell ended."""
        out, err = (noise.decode("utf-8", "replace").strip() for noise in self._noise.values())
        return (err or out).rpartition("\n")[2].strip()

    def pause_writing(self) -> None:
        if self._input is not None:
            self._input.pause_reading()

    def resume_writing(self) -> None:
        if self._input is not None:
            self._input.resume_reading()

    # Called by the pipes.

    def pause(self, output: Sink) -> None:
        """Stop reading from the channel while an output is full. The SSH window then blocks the program."""
        if not self._full and not self._resuming and self._channel is not None and self.is_usable:
            self._channel.pause_reading()
        self._full.add(output)

    def resume(self, output: Sink) -> None:
        """Mark an output as not full; read from the channel again when no output is full."""
        self._full.discard(output)
        if self._full or self._resuming or self._channel is None or not self.is_usable:
            return
        # asyncssh opens the whole SSH window when it delivers the first part of the data that it holds. It must
        # therefore deliver all of it: otherwise, the rest of the data would stay, and grow by a window each time.
        self._resuming = True
        try:
            self._channel.resume_reading()
        finally:
            self._resuming = False
        if self._full and self.is_usable:
            self._channel.pause_reading()


class _Output(asyncio.BaseProtocol):
    """A protocol that copies an output stream of the program to a pipe."""

    transport: asyncio.WriteTransport

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self._shell.pause(self)

    def resume_writing(self) -> None:
        self._shell.resume(self)

    def close(self) -> None:
        self.transport.close()


class _Input(asyncio.Protocol):
    """Copies a pipe to the program's input."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def data_received(self, data: bytes) -> None:
        self._shell.send(data)

    def eof_received(self) -> bool:
        self._shell.send_eof()
        return True  # the other end may still read


async def _output(shell: Shell, descriptor: int) -> _Output:
    output = _Output(shell)
    pipe = os.fdopen(descriptor, "wb", 0)
    output.transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: output, pipe)
    return output


def _consume(future: asyncio.Future[Any]) -> None:
    # asyncio reports exceptions that are never retrieved.
    if not future.cancelled():
        future.exception()


class Bridge:
    """A local unix socket that is connected to the socket `there` of the host."""

    def __init__(self, there: str, open_shell: Callable[[], Awaitable[Shell]]) -> None:
        self.line = f"DOCKER_HOST=unix://{shlex.quote(there)} exec docker system dial-stdio"
        self.open_shell = open_shell
        self.calls: set[_Call] = set()
        self._server: asyncio.Server | None = None

    async def open(self, here: str) -> None:
        """Listen on the local socket `here`. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(here)
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _Call(self), here)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for call in list(self.calls):
            call.close()


class _Call(_Output, _Input):
    """One connection and its program. When one ends, the other is ended."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._hang_up: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = caller = cast(asyncio.Transport, transport)
        caller.pause_reading()
        self._bridge.calls.add(self)
        self._starting = asyncio.create_task(self._start(caller))

    async def _start(self, caller: asyncio.Transport) -> None:
        try:
            self._shell = await self._bridge.open_shell()
            if caller.is_closing():  # it disconnected while the shell was being started
                self._shell.close()
                return
            self._hang_up = self._shell.close
            self._shell.start(self._bridge.line, self, _Discard(), caller)
            caller.resume_reading()
        except (TargetUnreachable, OSError):
            caller.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._bridge.calls.discard(self)
        self._hang_up()


class _Discard:
    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass
