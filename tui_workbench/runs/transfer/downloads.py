"""What a run left, as artifacts: `outputs/...`, `work/...` and its record's files, named relative to its directory.

An artifact is a regular file inside of the run's directory, whatever links say; a download puts it below the folder
that was asked for and nowhere else, whole or not at all, and never onto a file that nobody wanted replaced.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from tui_workbench.core.errors import RunNotFound, StorageError, UsageError, storage_errors
from tui_workbench.core.files import open_regular, replacing
from tui_workbench.core.progress import BYTES, Meter, meter, size_text
from tui_workbench.runs.snapshots.file_copy import copy_content
from tui_workbench.runs.store.rundir import (
    CONTAINER_FILES,
    DIFF,
    EVENTS,
    LIVE,
    METRICS,
    OUTPUT,
    OUTPUTS,
    PROVENANCE,
    RECORD,
    SHELL_COPY,
    WORKING_COPY,
    RunDirectory,
)
from tui_workbench.targets.hosts.supervisor import RANKS

RECORDS = (OUTPUT, EVENTS, RECORD, METRICS, PROVENANCE, DIFF)
"""Files of the run's record that are worth having."""

ALIASES = {"driver_log": OUTPUT, "driver_log.txt": OUTPUT, "control_log": EVENTS, "control_log.txt": EVENTS}
"""The original's names for them."""

_FOLDERS = frozenset((OUTPUTS, WORKING_COPY, RANKS, LIVE, SHELL_COPY, CONTAINER_FILES))
"""Folders in a run's directory that are the workbench's own."""

MOST_ATTACHMENTS = 10_000


def attachments(directory: str) -> list[str]:
    """The artifacts of the run at `directory`, at most MOST_ATTACHMENTS of them made by the run.

    First its outputs, then what it made or changed elsewhere in its copy, its record, and the output of ranks.
    """
    outputs = list(itertools.islice(files_below(directory, OUTPUTS), MOST_ATTACHMENTS))
    elsewhere = itertools.islice(made_elsewhere(directory), MOST_ATTACHMENTS - len(outputs))
    records = (name for name in RECORDS if _is_regular(os.path.join(directory, name)))
    return [*sorted(outputs), *sorted(elsewhere), *records, *sorted(files_below(directory, RANKS))]


def made_elsewhere(directory: str) -> Iterator[str]:
    """The files in `work/` that the run at `directory` made or changed; none while it goes on."""
    if os.path.isdir(os.path.join(directory, WORKING_COPY)) and RunDirectory(directory).status().end:
        yield from files_made(directory)


def files_made(directory: str) -> Iterator[str]:
    """The same for a run whose script has ended."""
    run = RunDirectory(directory)
    try:
        # Without git the whole copy is kept: it is all that remembers the code that ran.
        since = run.copied_at if run.read_record().snapshot == "copy" else -1
    except RunNotFound:
        since = -1
    for path in files_below(directory, WORKING_COPY):
        if os.lstat(os.path.join(directory, path)).st_ctime_ns > since:
            yield path


def made_elsewhere_text(directory: str) -> str:
    """`created 3 files (120 MB) outside outputs/`; "" when the run created none."""
    sizes = [os.lstat(os.path.join(directory, path)).st_size for path in made_elsewhere(directory)]
    if not sizes:
        return ""
    return f"created {len(sizes):,} file{'s' if len(sizes) > 1 else ''} ({size_text(sum(sizes))}) outside {OUTPUTS}/"


def beside_copy_text(directory: str) -> str:
    """That the run wrote to a relative path out of its copy, into the run's directory; "" when it did not."""
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ""
    strays = [name for name in names if name not in _FOLDERS and not name.endswith((".part", ".new"))]
    sizes = [
        os.lstat(os.path.join(directory, path)).st_size for name in strays for path in files_below(directory, name)
    ]
    if not sizes:
        return ""
    return (
        f"it wrote {size_text(sum(sizes))} to ../{strays[0]}, outside of its copy of the project; it is in "
        f"{os.path.join(directory, strays[0])}. Use a path in the project, or an absolute path"
    )


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

    A name may be that of a folder in `outputs/` or `work/`, or `ranks`. Returns the paths that were written. Raises
    UsageError for a name that is none, and when a file is there already and `overwrite` is not set (nothing is written
    then); StorageError when a file cannot be read or written.
    """
    chosen = chosen_artifacts(directory, names) if names else attachments(directory)
    return copy_files({name: artifact_path(directory, name) for name in chosen}, destination, overwrite=overwrite)


def chosen_artifacts(directory: str, names: Iterable[str]) -> list[str]:
    """The artifacts that are named, with those in folders that are. Raises UsageError for a name that is none."""
    chosen: list[str] = []
    for given in names:
        name = os.path.normpath(ALIASES.get(given, given))
        if is_folder(directory, name):
            chosen += sorted(files_below(directory, name))
        else:
            artifact_path(directory, name)
            chosen.append(name)
    return list(dict.fromkeys(chosen))


def copy_files(sources: Mapping[str, str], destination: str, *, overwrite: bool) -> list[str]:
    """Copy files, each to a relative path in the folder `destination`; the paths that were written.

    Raises UsageError when one is there already and `overwrite` is not set, and StorageError.
    """
    targets = {name: target_below(destination, name) for name in sources}
    there = next((path for path in targets.values() if os.path.lexists(path)), "")
    if there and not overwrite:
        raise UsageError(f"{there} is there already", remedy="Give --overwrite to replace it.")
    with meter("copying", BYTES, sum(os.stat(path).st_size for path in sources.values())) as copying:
        copied = 0
        for name, path in targets.items():
            copy_file(sources[name], path, partial(_tell, copying, copied))
            copied += os.stat(path).st_size
    return list(targets.values())


def _tell(copying: Meter, before: int, size: int) -> None:
    copying.update(before + size)


def copy_file(source: str, destination: str, told: Callable[[int], None] | None = None) -> None:
    """Copy a file with its time and whether it can be executed; the destination is there whole, or as it was.

    `told` is called with the bytes that are done. Raises StorageError.
    """
    with storage_errors("copy", destination):
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
        if os.path.isdir(destination) and not os.path.islink(destination):
            raise StorageError("there is a folder in its place", remedy="Move it away.", file=destination)
        with open_regular(source) as reading, replacing(destination) as writing:
            found = os.fstat(reading.fileno())
            copy_content(reading.fileno(), writing.fileno(), told)
            os.utime(writing.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))
            if found.st_mode & 0o100:
                own = os.fstat(writing.fileno()).st_mode
                os.chmod(writing.fileno(), stat.S_IMODE(own) | (found.st_mode & 0o111))


def is_folder(directory: str, name: str) -> bool:
    """True for a folder of artifacts: `outputs`, `work`, `ranks`, or one below. Links are not followed."""
    path = os.path.join(directory, name)
    whole = os.path.join(os.path.realpath(directory), name)
    known = name.split(os.sep)[0] in (OUTPUTS, WORKING_COPY, RANKS)
    return known and os.path.normpath(name) == name and os.path.realpath(path) == whole and os.path.isdir(path)


def target_below(destination: str, name: str) -> str:
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
        paths = (os.path.join(place, name) for name in files)
        yield from (os.path.relpath(path, directory) for path in paths if _is_regular(path))


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
