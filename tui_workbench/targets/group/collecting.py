"""Join the outputs of the members of a group in the run's directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tui_workbench.core.files import make_folders, open_below, rename_below, unlink_below
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.group.merging import Merge
from tui_workbench.targets.hosts.supervisor import METRICS, OUTPUT, OUTPUTS

CHUNK = 1 << 20
"""Number of bytes that are compared at once."""


@contextlib.contextmanager
def merged_files(spec: RunSpec) -> Iterator[list[Merge]]:
    """Return the files of the run in which the lines of all members are merged."""
    with contextlib.ExitStack() as stack:
        names = [part.target.name for part in spec.parts]
        yield [stack.enter_context(Merge(spec.run_directory, names, name)) for name in (OUTPUT, METRICS)]


def join_files(spec: RunSpec) -> None:
    """Complete the merged files and join the outputs. Can be called again."""
    with merged_files(spec) as merges:
        for merge in merges:
            merge.finish()
    join_outputs(spec)


def join_outputs(spec: RunSpec) -> None:
    """Move the files in `outputs/` of all members to `outputs/` of the run.

    Rank 0 usually writes most files, so those of its member come first. A file that another member has written with the
    same name stays in `ranks/MEMBER/outputs/`. Can be called again: files that were fetched again are removed.
    """
    parts = sorted(spec.parts, key=lambda part: not os.path.exists(os.path.join(part.run_directory, "0.log")))
    for part in parts:
        for folder, folders, names in os.walk(os.path.join(part.run_directory, OUTPUTS), topdown=False):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                _move(spec, part, os.path.relpath(os.path.join(folder, name), part.run_directory))
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # not empty if files have stayed


def _move(spec: RunSpec, part: RunSpec, name: str) -> None:
    """Move a file of a part to the same place below the run's directory, unless something is there."""
    source = os.path.relpath(os.path.join(part.run_directory, name), spec.run_directory)
    with contextlib.suppress(OSError):
        make_folders(spec.run_directory, os.path.dirname(name))
        if not os.path.lexists(os.path.join(spec.run_directory, name)):
            rename_below(spec.run_directory, source, name)
        elif _is_same(spec.run_directory, source, name):
            unlink_below(spec.run_directory, source)


def _is_same(top: str, one: str, other: str) -> bool:
    """Return True if two files have the same modification time and content. Raises OSError, also for links."""
    with open(open_below(top, one), "rb") as first, open(open_below(top, other), "rb") as second:
        status, other_status = os.fstat(first.fileno()), os.fstat(second.fileno())
        if (status.st_size, status.st_mtime_ns) != (other_status.st_size, other_status.st_mtime_ns):
            return False
        # Two members can write files of the same size in the same second.
        while data := first.read(CHUNK):
            if data != second.read(CHUNK):
                return False
        return True
