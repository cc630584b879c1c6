"""Children of this process that nobody waits for: supervising shells and controllers, which live on without us."""

from __future__ import annotations

import os

_children: set[int] = set()


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
