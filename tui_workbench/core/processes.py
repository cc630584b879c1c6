"""Run external programs: look them up, start them, and log every call in the trace.

The current folder and projects may contain untrusted files. Programs are therefore not started from there: the search
path is `PATH` without empty and relative entries and without folders inside a project.

`start_detached` starts children that outlive this process, such as supervising shells, controllers and SSH links. They
get a new session and inherit only the descriptors in `passed`, so that they keep no other pipe or lock open.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO

from tui_workbench.core import system, trace
from tui_workbench.core.directories import project_above
from tui_workbench.core.waiting import wait_ready

_PLAIN_SIGNALS = tuple(signal.valid_signals())
"""Signals to reset in a detached program, because Python ignores SIGPIPE and a controller ignores SIGHUP."""

_DELAYED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)  # by `uninterrupted`

MOST_OUTPUT = 256 << 20
"""Maximum number of bytes of stdout, and of stderr, of a program. A list of a million files has less."""

_READ_SIZE = 1 << 16

REPORT_SECONDS = 0.25  # interval between calls to `on_written`

_children: set[int] = set()


def find_program(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of a program; a name with a slash is returned unchanged.

    Raises FileNotFoundError if the program is not on the search path.
    """
    if os.sep in name:
        return name
    path = find_executable(name, search_folders(environment.get("PATH", os.defpath)))
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return path


def find_executable(name: str, folders: Iterable[str]) -> str:
    """Return the path of the first executable file of this name in the folders, or ""."""
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def has_program(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return True if a program is on the search path, or if `name` contains a slash."""
    try:
        return bool(find_program(name, environment))
    except FileNotFoundError:
        return False


def search_folders(path: str) -> list[str]:
    """Return the absolute folders of a `PATH` that are not inside a project."""
    folders = (folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    return [folder for folder in folders if not project_above(os.path.realpath(folder))]


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with only the folders of `search_folders` in `PATH`."""
    path = os.pathsep.join(search_folders(environment.get("PATH", os.defpath)))
    return {**environment, "PATH": path or os.defpath}


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay the handlers of SIGINT, SIGHUP and SIGTERM, which may raise exceptions, until the end of this context.

    Has no effect on signals without a handler, and in threads other than the main thread, which executes all handlers.
    """
    arrived: list[signal.Signals] = []
    before = {number: handler for number in _DELAYED if callable(handler := signal.getsignal(number))}
    try:
        # A signal mask does not help, because it applies to one thread and another thread would get the signal.
        for number in before:
            signal.signal(number, lambda number, _: arrived.append(signal.Signals(number)))
    except ValueError:
        yield  # this is not the main thread
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(arrived):
            before[number](number, None)


def run(
    command: Sequence[str],
    *,
    kind: str = trace.PROCESS,
    folder: str = "",
    environment: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    input: bytes = b"",
    output: int | None = subprocess.PIPE,
    passed: Sequence[int] = (),
    timeout: float | None = None,
    largest: int = MOST_OUTPUT,
    on_written: Callable[[int], object] | None = None,
    on_errors: Callable[[bytes], object] | None = None,
    new_session: bool = False,
    log_start: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program, wait for its end, and log the call in the trace.

    Args:
        command: The argument vector; the program is looked up by `find_program`.
        kind: The kind of the call in the trace.
        folder: The working directory.
        environment: The environment; None for that of this process.
        variables: The environment variables that the trace records.
        input: The bytes for stdin.
        output: PIPE to return stdout and stderr, DEVNULL, or None to connect the program to the terminal.
        passed: Descriptors that the program inherits.
        timeout: The maximum time in seconds; then, subprocess.TimeoutExpired is raised.
        largest: The maximum number of bytes of stdout, and of stderr; then, the program is killed.
        on_written: For programs that do not report their progress: called every REPORT_SECONDS with the number of
            bytes that the program has written. If it is given, `timeout` has no effect.
        on_errors: Like `on_written`, but called with the whole stderr so far. An exception kills the program.
        new_session: Start the program in a new session: it has no terminal where it could ask a question, and is
            killed with its child processes.
        log_start: Also log the start.

    Raises OSError if the program cannot be started, or writes too much.

    """
    with trace.Call(kind, command, folder=folder, variables=variables, input=len(input), log_start=log_start) as call:
        with contextlib.ExitStack() as started:
            # A handler of a signal must not raise an exception while only Popen knows the process.
            with uninterrupted():
                process = subprocess.Popen(
                    command,
                    executable=find_program(command[0]),
                    stdin=subprocess.PIPE if input else subprocess.DEVNULL if output is not None else None,
                    stdout=output,
                    stderr=output,
                    cwd=folder or None,
                    env=environment,
                    pass_fds=passed,
                    start_new_session=new_session,
                )
                started.enter_context(process)
                started.enter_context(_killed_after_error(process, is_leader=new_session))
            report = _report(process.pid, on_written, on_errors) if on_written or on_errors else None
            out, err = _communicate(process, input, None if report else timeout, report, largest)
        call.end(process.returncode, err or b"")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _report(
    pid: int, on_written: Callable[[int], object] | None, on_errors: Callable[[bytes], object] | None
) -> Callable[[bytes], None]:
    def report(errors: bytes) -> None:
        if on_written is not None:
            on_written(system.bytes_written(pid))
        if on_errors is not None:
            on_errors(errors)

    return report


def _communicate(
    process: subprocess.Popen[bytes],
    data: bytes,
    timeout: float | None,
    report: Callable[[bytes], None] | None,
    most: int,
) -> tuple[bytes, bytes]:
    """Write the input, and return stdout and stderr. `report` is called every REPORT_SECONDS with stderr so far.

    Raises OSError for more than `most` bytes of a stream, and subprocess.TimeoutExpired.
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    # The program may stop reading until its output is read, so a thread writes the input.
    stdin, process.stdin = process.stdin, None
    feeding = threading.Thread(target=_write, args=(stdin, data), name="write the input of a program", daemon=True)
    if stdin is not None:
        feeding.start()
    outputs = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
    unread, reported = set(outputs), time.monotonic()
    # A program can close its output long before it ends, and a child of it can keep the output open.
    while unread or process.poll() is None:
        now = time.monotonic()
        if now > deadline:
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0)
        if report is not None and now - reported >= REPORT_SECONDS:
            report(bytes(outputs[process.stderr.fileno()]) if process.stderr is not None else b"")
            reported = now
        pause = REPORT_SECONDS if report is not None else deadline - now
        for descriptor in wait_ready(unread, timeout=None if pause == math.inf else pause) if unread else ():
            if not _receive(descriptor, outputs[descriptor], process, most):
                unread.discard(descriptor)
        if not unread:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(None if pause == math.inf else pause)
    if stdin is not None:
        feeding.join()
    streams = (process.stdout, process.stderr)
    out, err = (bytes(outputs[stream.fileno()]) if stream is not None else b"" for stream in streams)
    return out, err


def _receive(descriptor: int, output: bytearray, process: subprocess.Popen[bytes], most: int) -> bool:
    """Read a part of an output. Return False at its end. Raises OSError if the output is too large."""
    data = os.read(descriptor, _READ_SIZE)
    output += data
    if len(output) > most:
        words = process.args if isinstance(process.args, Sequence) else [process.args]
        program = os.path.basename(str(words[0]))
        raise OSError(errno.EFBIG, f"`{program}` wrote more than {most >> 20} MiB of output")
    return bool(data)


@contextlib.contextmanager
def _killed_after_error(process: subprocess.Popen[bytes], *, is_leader: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # Until `poll` has collected the exit code, the process ID is not given to another process or group.
        if is_leader and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        raise


def _write(stdin: IO[bytes] | None, data: bytes | None) -> None:
    if stdin is not None:
        with contextlib.suppress(BrokenPipeError), stdin:
            stdin.write(data or b"")


def start_detached(
    command: list[str], environment: Mapping[str, str], *, errors: int = -1, passed: Sequence[tuple[int, int]] = ()
) -> int:
    """Start a program that outlives this process, `adopt` it, and return its process ID.

    `command[0]` is a path. The standard streams are /dev/null, except that stderr is the descriptor `errors` if given.
    `passed` contains pairs of a descriptor and its number in the child. Raises OSError.
    """
    null = os.open(os.devnull, os.O_RDWR)
    call = trace.Call(trace.PROCESS, command, variables=trace.changed_variables(environment))
    try:
        streams = ((null, 0), (null, 1), (errors if errors >= 0 else null, 2))
        used = {number for _, number in (*streams, *passed)}
        pid = os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, own, child) for own, child in (*streams, *passed)),
                # `posix_spawn` closes no other descriptors. Without this, the child would hold locks and pipes open.
                *((os.POSIX_SPAWN_CLOSE, number) for number in system.inheritable_descriptors() if number not in used),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_PLAIN_SIGNALS,
        )
        call.end(None, note="started")
    except OSError as error:
        call.end(None, error=error.strerror or str(error))
        raise
    finally:
        os.close(null)
    adopt(pid)
    return pid


def child_descriptor(descriptor: int) -> int:
    """Return the number that a descriptor gets in a child.

    It must differ from the number in this process. Otherwise the descriptor would have to be inheritable, and children
    that other threads start would inherit it too.
    """
    return 3 if descriptor != 3 else 4


def is_alive(pid: int) -> bool:
    """Return True if a process has this ID. The process may belong to another user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0


def adopt(pid: int) -> None:
    """Register a child for `reap`."""
    reap()
    _children.add(pid)


def reap() -> None:
    """Collect adopted children that have ended, so that no zombies are left."""
    for pid in list(_children):
        with contextlib.suppress(ChildProcessError):
            if not os.waitpid(pid, os.WNOHANG)[0]:
                continue
        _children.discard(pid)
