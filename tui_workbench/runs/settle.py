"""What becomes of a run's working copy when the run has ended.

Everything that the run made or changed is kept; only what is still as the snapshot holds it may go.
"""

from __future__ import annotations

import os

from tui_workbench.runs.rundir import OUTPUTS

CACHE = "__pycache__"


def settle_working_copy(working_copy: str, outputs: str, since_ns: int, *, drop_unchanged: bool = True) -> list[str]:
    """After the run: move `outputs/` out, drop files that the run left as they were, keep the rest.

    `since_ns` is the moment (file system time, nanoseconds) at which the copy was complete: whatever was changed,
    renamed or linked later is the run's. Without `drop_unchanged` nothing is dropped but bytecode. Returns the kept
    paths of the run, relative to the copy. Can be called again after it was interrupted.
    """
    _move_outputs(os.path.join(working_copy, OUTPUTS), outputs)
    kept: list[str] = []
    for folder, folders, files in os.walk(working_copy, topdown=False):
        is_cache = os.path.basename(folder) == CACHE
        for name in files + folders:
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
                if name in folders and not os.path.islink(path):
                    continue
                # Not the time of modification: that one can be set to anything, and copying does set it.
                unchanged = status.st_ctime_ns <= since_ns
                if is_cache or (unchanged and drop_unchanged):
                    os.unlink(path)
                elif not unchanged:
                    kept.append(os.path.relpath(path, working_copy))
            except OSError:
                continue  # removed meanwhile, or in a folder that the run made read-only: it stays
        if drop_unchanged or is_cache:
            try:
                os.rmdir(folder)
            except OSError:
                continue  # something is kept in it
    return sorted(kept)


def _move_outputs(produced: str, outputs: str) -> None:
    """Give the run its `outputs/`, an empty one when the script removed it. A link in its place is kept as it is."""
    if os.path.isdir(produced) and not os.path.islink(produced) and not os.path.lexists(outputs):
        os.rename(produced, outputs)
    os.makedirs(outputs, exist_ok=True)
