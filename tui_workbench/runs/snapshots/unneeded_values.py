"""Remove the stored values of secret variables that no snapshot and no file of a project refers to any more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tui_workbench.config.secret_values import numbers_in, remove_unneeded
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.files import LARGEST, read_below
from tui_workbench.projects.project import RUN_CONFIGURATION_SUFFIX, STATE_DIRECTORY, Project, state_elsewhere
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.snapshot_view import IMPORTED_PREFIX
from tui_workbench.runs.store.ownership import PURGED_PREFIX
from tui_workbench.runs.store.rundir import WORKING_COPY


def remove_unneeded_values(project: Project, store: SnapshotStore) -> None:
    """Remove the values that were stored for runs of the project, and that no remaining run or file needs.

    If some snapshots cannot be searched, for example without git, all values stay. Raises StorageError or OSError.
    """
    if not store.available or not store.repository.is_own:
        return
    if _has_other_snapshots(project):
        return
    with store.repository.exclusive():  # no snapshot is taken meanwhile, which may refer to a value again
        needed = {number for data in (*_files(project), _in_snapshots(store)) for number in numbers_in(data)}
        remove_unneeded(project.root, needed)


def _has_other_snapshots(project: Project) -> bool:
    """Return True if there are snapshots of the project in other repositories.

    An imported repository may be the user's own, from a backup. A read-only project has its snapshots elsewhere.
    """
    state_directories = {os.path.join(project.root, STATE_DIRECTORY), state_elsewhere(project.root)}
    others = state_directories - {project.state_directory}
    return any(map(os.path.lexists, others)) or any(
        name.startswith(IMPORTED_PREFIX) for name in os.listdir(project.state_directory)
    )


def _files(project: Project) -> Iterator[bytes]:
    """Yield the run configurations of the project, and those in the working copies of its runs."""
    runs = [name for name in os.listdir(project.runs_directory) if not name.startswith(PURGED_PREFIX)]
    copies = (os.path.join(project.runs_directory, name, WORKING_COPY) for name in runs)
    for root in (project.root, *copies):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(os.path.join(root, CONFIG_DIRECTORY)):
                # A link or a large file is not a run configuration.
                with contextlib.suppress(OSError):
                    if name.endswith(RUN_CONFIGURATION_SUFFIX):
                        yield read_below(os.path.join(root, CONFIG_DIRECTORY), name, LARGEST)


def _in_snapshots(store: SnapshotStore) -> bytes:
    """Return the content of all versions of all run configurations in the snapshots."""
    listed = store.repository.git("rev-list", "--objects", "--all", "--", CONFIG_DIRECTORY).splitlines()
    names = [line.split(" ", 1)[0] for line in listed if line.endswith(RUN_CONFIGURATION_SUFFIX)]
    sizes = store.repository.git("cat-file", "--batch-check", input=_lines(names)).splitlines()
    small = [name for name, kind, size in map(str.split, sizes) if kind == "blob" and int(size) <= LARGEST]
    return store.repository.git("cat-file", "--batch", input=_lines(small)).encode("utf-8", "surrogateescape")


def _lines(names: list[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
