"""Run external programs: look them up, start them, and note every call in the trace.

The current folder and a project hold files of other people, so a program never comes from there: the search path is
`PATH` without its empty and relative entries and without folders inside a project.

`start_detached` is for children that nobody waits for: supervising shells, controllers and links, which outlive this
process. They have a session of their own and none of our descriptors, so that whoever waits for the end of a pipe, or
for a lock that we inherited, does not wait for them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tui_workbench.core import trace
from tui_workbench.core.directories import project_above

_PLAIN_SIGNALS = tuple(signal.valid_signals())
"""What they find as they would under a shell: Python ignores SIGPIPE, a controller SIGHUP."""

_children: set[int] = set()


def find_program(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of a program; a name that is a path stays as it is.

    Raise FileNotFoundError when the search path does not hold it.
    """
    if os.sep in name:
        return name
    path = shutil.which(name, path=os.pathsep.join(search_folders(environment.get("PATH", os.defpath))))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return path


def has_program(name: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the search path holds a program."""
    try:
        return bool(find_program(name, environment))
    except FileNotFoundError:
        return False


def search_folders(path: str) -> list[str]:
    """Return the entries of a `PATH` that programs may come from."""
    folders = (folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    return [folder for folder in folders if not project_above(os.path.realpath(folder))]


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program that looks for others by itself: `PATH` names trusted folders only."""
    path = os.pathsep.join(search_folders(environment.get("PATH", os.defpath)))
    return {**environment, "PATH": path or os.defpath}


def run(
    command: Sequence[str],
    *,
    kind: str = trace.PROCESS,
    folder: str = "",
    environment: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    fed: bytes = b"",
    output: int | None = subprocess.PIPE,
    timeout: float | None = None,
    lasts: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, and note the call in the trace.

    The program is looked up by `find_program`; it stands in `folder`, reads `fed`, and writes to `output`: pipes, whose
    content the result has; `subprocess.DEVNULL`; or with None to the terminal, from which it then also reads.
    `variables` are those of `environment` that the trace shows. A call that `lasts` is noted when it begins, too.

    Raises OSError when the program cannot be started, and subprocess.TimeoutExpired after `timeout` seconds.
    """
    with trace.Call(kind, command, folder=folder, variables=variables, fed=len(fed), lasts=lasts) as call:
        done = subprocess.run(
            command,
            executable=find_program(command[0]),
            input=fed or None,
            stdin=subprocess.DEVNULL if not fed and output is not None else None,
            stdout=output,
            stderr=output,
            cwd=folder or None,
            env=environment,
            timeout=timeout,
            check=False,
        )
        call.end(done.returncode, done.stderr or b"")
    return done


def start_detached(
    command: list[str], environment: Mapping[str, str], *, errors: int = -1, passed: Sequence[tuple[int, int]] = ()
) -> int:
    """Start a program that outlives this process, and `adopt` it; `command[0]` is its path. Returns its process id.

    It reads nothing and writes nowhere, but for stderr where `errors` is a descriptor. `passed` are descriptors that it
    gets: the number here, the number there. Raises OSError.
    """
    null = os.open(os.devnull, os.O_RDWR)
    call = trace.Call(trace.PROCESS, command, variables=trace.differing(environment))
    try:
        streams = ((null, 0), (null, 1), (errors if errors >= 0 else null, 2))
        known = {number for _, number in (*streams, *passed)}
        pid = os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, here, there) for here, there in (*streams, *passed)),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited() if number not in known),
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


def number_for(descriptor: int) -> int:
    """The number that a child is to get a descriptor under.

    Another one than here, so that the child's is made for it alone: one that all children inherit would go to those of
    other threads as well.
    """
    return 3 if descriptor != 3 else 4


def _inherited() -> list[int]:
    """The descriptors that a child of this process would get: those that it got itself, as Python gives on no other."""
    found = []
    with contextlib.suppress(OSError):
        for number in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):  # the one that listed them is closed
                if number > 2 and os.get_inheritable(number):
                    found.append(number)
    return found


def adopt(pid: int) -> None:
    """Note a child that nobody waits for; `reap` will."""
    reap()
    _children.add(pid)


def reap() -> None:
    """Let go of those that have ended, so that a long-lived screen leaves no zombies behind."""
    for pid in list(_children):
        with contextlib.suppress(ChildProcessError):
            if not os.waitpid(pid, os.WNOHANG)[0]:
                continue
        _children.discard(pid)
