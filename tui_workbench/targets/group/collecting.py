"""Join the outputs of the members of a group in the run's directory."""

from __future__ import annotations

import contextlib
import math
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
    """Yield a `Merge` for each file of the run that contains the lines of all members."""
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

    Of the files with the same name, the newest is moved, and the others stay in `ranks/MEMBER/outputs/`. Rank 0 usually
    writes most files, so its member comes first if several files are equally new. A file of an earlier attempt is
    replaced. Can be called again: files that were fetched again are removed.
    """
    parts = sorted(spec.parts, key=lambda part: not os.path.exists(os.path.join(part.run_directory, "0.log")))
    paths_by_name: dict[str, list[str]] = {}  # the files of the members, by their name in the run's directory
    for part in parts:
        for name in _files_of(part):
            paths_by_name.setdefault(name, []).append(os.path.join(part.run_directory, name))
    for name, paths in paths_by_name.items():
        for path in sorted(paths, key=_time, reverse=True):
            _move(spec, path, name)
    for part in parts:
        for folder, _, _ in os.walk(os.path.join(part.run_directory, OUTPUTS), topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # not empty if files have stayed


def _files_of(part: RunSpec) -> Iterator[str]:
    """Yield the files and links in `outputs/` of a part, relative to the directory of the part."""
    for folder, folders, names in os.walk(os.path.join(part.run_directory, OUTPUTS)):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            yield os.path.relpath(os.path.join(folder, name), part.run_directory)


def _move(spec: RunSpec, path: str, name: str) -> None:
    """Move a file of a part to its place in the run's directory if it is newer than the file there.

    Otherwise, remove the file if both are identical.
    """
    source = os.path.relpath(path, spec.run_directory)
    with contextlib.suppress(OSError):
        make_folders(spec.run_directory, os.path.dirname(name))
        if _time(path) > _time(os.path.join(spec.run_directory, name)):
            rename_below(spec.run_directory, source, name)
        elif _is_same(spec.run_directory, source, name):
            unlink_below(spec.run_directory, source)


def _time(path: str) -> float:
    """Return the modification time of a file in nanoseconds, or minus infinity if the file does not exist."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return -math.inf


def _is_same(top: str, path: str, other_path: str) -> bool:
    """Return True if two files have the same modification time and content. Raises OSError, also for links."""
    with open(open_below(top, path), "rb") as first, open(open_below(top, other_path), "rb") as second:
        status, other_status = os.fstat(first.fileno()), os.fstat(second.fileno())
        if (status.st_size, status.st_mtime_ns) != (other_status.st_size, other_status.st_mtime_ns):
            return False
        # Two members can write files of the same size in the same second.
        while data := first.read(CHUNK):
            if data != second.read(CHUNK):
                return False
        return True
