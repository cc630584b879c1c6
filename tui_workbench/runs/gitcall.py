"""A call of git for a snapshot: written into the trace of calls, and told how far it is when it takes long.

git says nothing while it takes in a large file; what it has written so far is all that can be seen of it from outside.
"""

from __future__ import annotations

import subprocess

from tui_workbench import trace
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PATIENCE = 1.0
"""Seconds after which it is told how far it is."""

LOOK_SECONDS = 0.25


def run_git(
    command: Sequence[str], folder: str, environment: Mapping[str, str], text: str, passed: Sequence[int]
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end; it reads `text` and inherits the descriptors `passed`. Raises OSError."""
    own = {name: value for name, value in environment.items() if name.startswith("GIT_")}
    data = text.encode("utf-8", "surrogateescape")
    with (
        trace.Call(trace.GIT, command, folder=folder, variables=own, fed=text) as call,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
        ) as process,
    ):
        try:
            out, err = _communicate(process, data)
        except BaseException:
            process.kill()
            raise
        call.end(process.returncode, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _communicate(process: subprocess.Popen[bytes], data: bytes) -> tuple[bytes, bytes]:
    try:
        return process.communicate(data, PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    from tui_workbench.progress import BYTES, meter

    with meter("snapshot", BYTES) as taking:
        while True:
            try:
                return process.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                taking.update(_written(process.pid))


def _written(pid: int) -> int:
    """Bytes that a process has written; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("wchar")), 0)
    except (OSError, ValueError, IndexError):
        return 0
