"""Find and copy the artifacts of a run: files in `outputs`, `work`, `ranks`, `spark` and `stacks`, and its record.

An artifact is a regular file in the run directory; its name is the relative path. Links out of the run directory are
refused. A download writes only below the requested folder, writes files atomically, and replaces existing files only on
request.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping

from tui_workbench.core.errors import RunNotFound, StorageError, UsageError, storage_errors
from tui_workbench.core.files import open_regular, replacing
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import BYTES, meter, size_text
from tui_workbench.runs.snapshots.file_copy import copy_content
from tui_workbench.runs.store.attempts import FOLDER as ATTEMPTS
from tui_workbench.runs.store.logged import METRICS_COMPRESSED
from tui_workbench.runs.store.rundir import (
    CONTAINER_FILES,
    DIFF,
    EARLIER,
    EVENTS,
    LIVE,
    METRICS,
    NOTIFICATIONS,
    OUTPUT,
    OUTPUTS,
    PROVENANCE,
    RECORD,
    SHELL_COPY,
    STACKS,
    UNCHANGED,
    WORKING_COPY,
    RunDirectory,
)
from tui_workbench.targets.hosts.supervisor import GPU, RANKS, SPARK

RECORDS = (OUTPUT, EVENTS, RECORD, METRICS, METRICS_COMPRESSED, PROVENANCE, DIFF)

# The names that files of the record have in Azure ML Workbench.
ALIASES = {"driver_log": OUTPUT, "driver_log.txt": OUTPUT, "control_log": EVENTS, "control_log.txt": EVENTS}

PACKAGE_LINKS = "packages"
"""The folder in which sdk/workbench_packages.py makes links to packages of the working copy."""

_LOGS = (RANKS, SPARK, STACKS)
"""Folders whose files are artifacts, besides those of the script."""

_ARTIFACT_FOLDERS = (OUTPUTS, WORKING_COPY, *_LOGS)

# Folders in a run directory that the workbench creates.
_FOLDERS = frozenset((
    OUTPUTS, WORKING_COPY, UNCHANGED, EARLIER, ATTEMPTS, *_LOGS, GPU, NOTIFICATIONS, LIVE, SHELL_COPY, CONTAINER_FILES,
    PACKAGE_LINKS,
))  # fmt: skip

MOST_ATTACHMENTS = 10_000


def attachments(directory: str) -> list[str]:
    """Return the artifacts of the run at `directory`, with at most MOST_ATTACHMENTS files of the script.

    The order is: outputs, files outside `outputs/`, files of the record, output of ranks, event logs of Spark, stacks.
    """
    outputs = list(itertools.islice(files_below(directory, OUTPUTS), MOST_ATTACHMENTS))
    elsewhere = itertools.islice(files_outside_outputs(directory), MOST_ATTACHMENTS - len(outputs))
    records = (name for name in RECORDS if _is_regular(os.path.join(directory, name)))
    logs = (name for folder in _LOGS for name in sorted(files_below(directory, folder)))
    return [*sorted(outputs), *sorted(elsewhere), *records, *logs]


def files_outside_outputs(directory: str) -> Iterator[str]:
    """Yield the files in `work/` that an ended run changed or created; nothing for an active run."""
    if os.path.isdir(os.path.join(directory, WORKING_COPY)) and RunDirectory(directory).status().end:
        yield from written_files(directory)


def written_files(directory: str) -> Iterator[str]:
    """Yield the files in `work/` that a run changed or created. The script must have ended."""
    run = RunDirectory(directory)
    try:
        # Without git, the whole copy is kept, because it is the only snapshot.
        since = run.copied_at if run.read_record().snapshot == "copy" else -1
    except RunNotFound:
        since = -1
    for path in files_below(directory, WORKING_COPY):
        status = _status(os.path.join(directory, path))
        if status is not None and status.st_ctime_ns > since:
            yield path


def outside_outputs_text(directory: str) -> str:
    """Return a text such as `created 3 files (120 MB) outside outputs/`, or "" without such files."""
    sizes = _sizes(directory, files_outside_outputs(directory))
    if not sizes:
        return ""
    return f"created {counted(len(sizes), 'file')} ({size_text(sum(sizes))}) outside {OUTPUTS}/"


def outside_copy_text(directory: str) -> str:
    """Return a text about files that a run wrote into its run directory outside the working copy, or ""."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ""
    strays = [name for name in sorted(names) if name not in _FOLDERS and not name.endswith((".part", ".new"))]
    paths = [path for name in strays for path in files_below(directory, name)]
    if not paths:
        return ""
    size = sum(_sizes(directory, paths))
    folders = " and ".join(dict.fromkeys(f"../{path.split(os.sep)[0]}" for path in paths))
    return (
        f"the script wrote {size_text(size)} to {folders}, outside its working copy; the files are in {directory}. "
        "Use a path in the project, or an absolute path; for data that exists already, use `DataReferences`"
    )


def artifact_path(directory: str, name: str) -> str:
    """Return the real path of an artifact. Raises UsageError if the run has no such artifact."""
    name = ALIASES.get(name, name)
    root = os.path.realpath(directory)
    # Follow links first: a path out of the run directory begins with `..`, which is not the name of an artifact.
    path = os.path.realpath(os.path.join(root, name)) if "\0" not in name else root
    relative = os.path.relpath(path, root)
    first = relative.split(os.sep)[0]
    is_artifact = first in _ARTIFACT_FOLDERS or relative in RECORDS
    if not is_artifact or not _is_regular(path):
        run_id = os.path.basename(directory)
        raise UsageError(
            f"run {run_id} has no artifact {name!r}",
            remedy=f"`workbench-tui history info -r {run_id}` lists its artifacts under `attachments`.",
        )
    return path


def download(directory: str, destination: str, names: list[str], *, overwrite: bool = False) -> list[str]:
    """Copy artifacts (default: all) of the run at `directory` to the folder `destination`. Return the written paths.

    A name can also be a folder in `outputs/` or `work/`, or `ranks`, `spark` or `stacks`. Raises UsageError for unknown
    names, and without `overwrite` for existing files, before any file is written. Raises StorageError if a file cannot
    be read or written.
    """
    chosen = chosen_artifacts(directory, names) if names else attachments(directory)
    return copy_files({name: artifact_path(directory, name) for name in chosen}, destination, overwrite=overwrite)


def chosen_artifacts(directory: str, names: Iterable[str]) -> list[str]:
    """Return the names of artifacts. Folders are replaced by their files. Raises UsageError for unknown names."""
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
    """Copy files to relative paths in the folder `destination`, and return the written paths.

    Raises StorageError, and UsageError if a file exists and `overwrite` is not set.
    """
    targets = {name: target_below(destination, name) for name in sources}
    existing = next((path for path in targets.values() if os.path.lexists(path)), "")
    if existing and not overwrite:
        raise UsageError(
            f"{existing} already exists",
            remedy="Choose another folder, or remove the file. On the command line, `--overwrite` replaces it.",
        )
    with meter("copying", BYTES, sum(os.stat(path).st_size for path in sources.values())) as copying:
        copied = 0  # bytes of the complete files

        def update(size: int) -> None:
            copying.update(copied + size)

        for name, path in targets.items():
            copy_file(sources[name], path, update)
            copied += os.stat(path).st_size
    return list(targets.values())


def copy_file(source: str, destination: str, on_progress: Callable[[int], None] | None = None) -> None:
    """Copy a file atomically, with its mtime and execute permission.

    `on_progress` is called with the number of bytes copied so far. Raises StorageError.
    """
    with storage_errors("copy", destination):
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
        if os.path.isdir(destination) and not os.path.islink(destination):
            raise StorageError(
                "a folder already exists at this path", remedy="Move or rename the folder.", file=destination
            )
        with open_regular(source) as reading, replacing(destination) as writing:
            status = os.fstat(reading.fileno())
            copy_content(reading, writing, on_progress)
            os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            if status.st_mode & 0o100:
                own = os.fstat(writing.fileno()).st_mode
                os.chmod(writing.fileno(), stat.S_IMODE(own) | (status.st_mode & 0o111))


def is_folder(directory: str, name: str) -> bool:
    """Return True for a folder of artifacts, such as a folder in `outputs` or `ranks`. Links are not followed."""
    path = os.path.join(directory, name)
    whole = os.path.join(os.path.realpath(directory), name)
    is_artifact = name.split(os.sep)[0] in _ARTIFACT_FOLDERS
    return is_artifact and os.path.normpath(name) == name and os.path.realpath(path) == whole and os.path.isdir(path)


def target_below(destination: str, name: str) -> str:
    """Return the path of an artifact below `destination`. Raises UsageError if a link leads out of this folder."""
    path = os.path.join(destination, name)
    root = os.path.realpath(destination)
    folder = os.path.realpath(os.path.dirname(path))
    if folder != root and not folder.startswith(root.rstrip(os.sep) + os.sep):
        raise UsageError(
            f"{path} is outside {destination}, because of a symbolic link",
            remedy="Remove the link, or use another folder.",
        )
    return path


def files_below(directory: str, folder: str) -> Iterator[str]:
    """Yield the regular files below a folder of the run. Links are not followed."""
    for parent, folders, files in os.walk(os.path.join(directory, folder)):
        folders.sort()
        paths = (os.path.join(parent, name) for name in files)
        yield from (os.path.relpath(path, directory) for path in paths if _is_regular(path))


def _is_regular(path: str) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _sizes(directory: str, paths: Iterable[str]) -> list[int]:
    """Return the sizes of the files that still exist."""
    statuses = (_status(os.path.join(directory, path)) for path in paths)
    return [status.st_size for status in statuses if status is not None]


def _status(path: str) -> os.stat_result | None:
    """Return the status of a file, or None if it was removed in the meantime."""
    try:
        return os.lstat(path)
    except OSError:
        return None
