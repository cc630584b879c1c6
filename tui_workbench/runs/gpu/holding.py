"""Which processes of a run were on a GPU when it was last looked at, as the run's controller has told them apart."""

from __future__ import annotations

import json
import os

from tui_workbench.runs.gpu.usage import OWN
from tui_workbench.runs.rundir import GPU_SAMPLES

_TAIL = 1 << 16


def own_processes(directory: str) -> frozenset[int]:
    """The process ids in the last sample of the run at a directory, as its machine counts them. Blocks."""
    try:
        with open(os.path.join(directory, GPU_SAMPLES), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            # The last part is no whole line, and the first need not be one.
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return frozenset()
    for line in reversed(lines):
        try:
            value = json.loads(line)
            if "d" in value:
                return frozenset(int(each[0]) for each in value.get("p", ()) if each[4:5] == [OWN])
        except (ValueError, TypeError, IndexError, RecursionError):
            continue
    return frozenset()
