"""Children of this process that nobody waits for: supervising shells, controllers and links, which live on without us.

They have a session of their own and none of our descriptors: whoever waits for the end of a pipe or for a lock that we
only inherited does not wait for them.
"""

from __future__ import annotations

import os
import signal

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN_SIGNALS = tuple(signal.valid_signals())
"""What they find as they would under a shell: Python ignores SIGPIPE, a controller SIGHUP."""

_children: set[int] = set()


def start_detached(
    command: list[str],
    environment: Mapping[str, str],
    *,
    errors: int = -1,
    passed: Sequence[tuple[int, int]] = (),
) -> int:
    """Start a program that outlives this process, and `adopt` it; `command[0]` is its path. Returns its process id.

    It reads nothing and writes nowhere, but for stderr where `errors` is a descriptor. `passed` are descriptors that it
    gets: the number here, the number there. Raises OSError.
    """
    from tui_workbench import trace

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
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    return [number for number in found if number > 2 and _is_inheritable(number)]


def _is_inheritable(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False  # the one that listed them


def adopt(pid: int) -> None:
    """Note a child that nobody waits for; `reap` will."""
    reap()
    _children.add(pid)


def reap() -> None:
    """Let go of those that have ended, so that a long-lived screen leaves no zombies behind."""
    for pid in list(_children):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _children.discard(pid)
        except ChildProcessError:
            _children.discard(pid)
