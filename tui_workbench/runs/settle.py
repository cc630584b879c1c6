"""What becomes of a run's working copy when the run has ended.

Everything that the run made is kept, only unchanged copies go.
"""

from __future__ import annotations

import contextlib
import os

from tui_workbench.runs.rundir import OUTPUTS


def settle_working_copy(working_copy: str, outputs: str, since: float) -> list[str]:
    """After the run: move `outputs/` out, drop files that the run left as they were, keep the rest.

    `since` is the moment (seconds since the epoch) after which the copy was complete: a file changed later is the
    run's. Returns the kept paths, relative to the copy.
    """
    produced = os.path.join(working_copy, OUTPUTS)
    if os.path.isdir(produced) and not os.path.islink(produced) and not os.path.lexists(outputs):
        os.rename(produced, outputs)
    kept: list[str] = []
    for folder, folders, files in os.walk(working_copy, topdown=False):
        for name in files + folders:
            path = os.path.join(folder, name)
            status = os.lstat(path) if os.path.lexists(path) else None
            if status is None or (name in folders and not os.path.islink(path)):
                continue
            untouched = os.path.islink(path) or max(status.st_mtime, status.st_ctime) <= since
            if untouched or "__pycache__" in folder:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            else:
                kept.append(os.path.relpath(path, working_copy))
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    return sorted(kept)
