"""What a run left, as artifacts: `outputs/...` and the files of its record, named relative to the run's directory.

An artifact is a regular file inside of the run's directory, whatever links say; a download puts it below the folder
that was asked for and nowhere else, whole or not at all, and never onto a file that nobody wanted replaced.
"""

from __future__ import annotations

import os
import stat
from functools import partial

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.progress import BYTES, meter
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.regular import open_regular
from tui_workbench.runs.rundir import EVENTS, OUTPUT, OUTPUTS, RECORD, WORKING_COPY, storage_error
from tui_workbench.targets.torchrun import RANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui_workbench.progress import Meter

RECORDS = (OUTPUT, EVENTS, RECORD, "metrics.jsonl", "provenance.json", "git.diff")
"""Files of the run's record that are worth having."""

ALIASES = {"driver_log": OUTPUT, "driver_log.txt": OUTPUT, "control_log": EVENTS, "control_log.txt": EVENTS}
"""The original's names for them."""

MOST_ATTACHMENTS = 10_000
_CHUNK = 1 << 20


def attachments(directory: str) -> list[str]:
    """The artifacts of the run at `directory`, at most MOST_ATTACHMENTS: outputs, record, output of ranks."""
    found: list[str] = []
    for path in files_below(directory, OUTPUTS):
        if len(found) == MOST_ATTACHMENTS:
            break
        found.append(path)
    records = (name for name in RECORDS if _is_regular(os.path.join(directory, name)))
    return [*sorted(found), *records, *sorted(files_below(directory, RANKS))]


def artifact_path(directory: str, name: str) -> str:
    """The file of an artifact, as a path that holds no link. Raises UsageError when the run has none of this name."""
    name = ALIASES.get(name, name)
    root = os.path.realpath(directory)
    path = os.path.realpath(os.path.join(root, name)) if "\0" not in name else root
    relative = os.path.relpath(path, root)
    first = relative.split(os.sep)[0]
    known = first in (OUTPUTS, WORKING_COPY, RANKS) or relative in RECORDS
    if not known or not _is_regular(path):
        raise UsageError(
            f"the run {os.path.basename(directory)} has no artifact {name!r}",
            remedy="`history info` lists its attachments.",
        )
    return path


def download(directory: str, destination: str, names: list[str], *, overwrite: bool = False) -> list[str]:
    """Copy artifacts of the run at `directory` into the folder `destination`, all of them when none is named.

    A name may be that of a folder in `outputs/`, or `ranks`. Returns the paths that were written. Raises UsageError for
    a name that is none, and when a file is there already and `overwrite` is not set (nothing is written then);
    StorageError when a file cannot be read or written.
    """
    chosen = _chosen(directory, names)
    targets = {name: _target(destination, name) for name in chosen}
    if not overwrite:
        for path in targets.values():
            if os.path.lexists(path):
                raise UsageError(f"{path} is there already", remedy="Give --overwrite to replace it.")
    sources = {name: artifact_path(directory, name) for name in targets}
    with meter("copying", BYTES, sum(os.stat(path).st_size for path in sources.values())) as copying:
        copied = 0
        for name, path in targets.items():
            copy_file(sources[name], path, partial(_told, copying, copied))
            copied += os.stat(path).st_size
    return list(targets.values())


def _told(copying: Meter, before: int, size: int) -> None:
    copying.update(before + size)


def copy_file(source: str, destination: str, told: Callable[[int], None] | None = None) -> None:
    """Copy a file with its time and whether it can be executed; the destination is there whole, or as it was.

    Raises StorageError.
    """
    temporary = os.path.join(os.path.dirname(destination), f".part-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
        if os.path.isdir(destination) and not os.path.islink(destination):
            raise StorageError("there is a folder in its place", remedy="Move it away.", file=destination)
        with open_regular(source) as reading, open(temporary, "xb") as writing:
            found = os.fstat(reading.fileno())
            while data := reading.read(_CHUNK):
                writing.write(data)
                if told is not None:
                    told(writing.tell())
        os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns))
        if found.st_mode & 0o100:
            os.chmod(temporary, stat.S_IMODE(os.stat(temporary).st_mode) | (found.st_mode & 0o111))
        os.replace(temporary, destination)
    except OSError as error:
        raise storage_error("copy", destination, error) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _chosen(directory: str, names: list[str]) -> list[str]:
    if not names:
        return attachments(directory)
    chosen: list[str] = []
    for given in names:
        name = ALIASES.get(given, given)
        folder = os.path.normpath(name)
        inside = folder in (OUTPUTS, RANKS) or folder.startswith(OUTPUTS + os.sep)
        if inside and os.path.isdir(os.path.join(directory, folder)):
            chosen += sorted(files_below(directory, folder))
        else:
            artifact_path(directory, name)
            chosen.append(os.path.normpath(name))
    return list(dict.fromkeys(chosen))


def _target(destination: str, name: str) -> str:
    """Where an artifact goes. Raises UsageError when a link in the destination would lead it elsewhere."""
    path = os.path.join(destination, name)
    root = os.path.realpath(destination)
    folder = os.path.realpath(os.path.dirname(path))
    if folder != root and not folder.startswith(root.rstrip(os.sep) + os.sep):
        raise UsageError(
            f"{path} would lie outside of {destination}", remedy="Remove the link, or name another folder."
        )
    return path


def files_below(directory: str, folder: str) -> Iterator[str]:
    """The regular files below a folder of the run, links not followed."""
    for place, folders, files in os.walk(os.path.join(directory, folder)):
        folders.sort()
        for name in files:
            path = os.path.join(place, name)
            if _is_regular(path):
                yield os.path.relpath(path, directory)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
