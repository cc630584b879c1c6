"""Add to a working copy the files that are not in the snapshot, and list the files to send to another machine.

The added files are copies of ignored files, and links to data. Through its working copy, a run can only change declared
data of the project.

To detect changes, a file in git is identified by its object ID, and an ignored file by mtime and size. Links to data in
the project, and ignored files with the name of a secrets file, are not sent.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from tui_workbench.config.schema.data_references import KEY, NO_DATA, data_in_project
from tui_workbench.config.secret_values import copy_for_snapshot
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.files import leads_through_folders, open_regular, remove_below, write_below
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.projects.project import state_of_run
from tui_workbench.runs.snapshots.contents import SNAPSHOT_FILE_BYTES
from tui_workbench.runs.snapshots.file_copy import clone_file, copy_file
from tui_workbench.runs.snapshots.project_files import Item, Kind, project_files
from tui_workbench.runs.snapshots.snapshot_view import EXECUTABLE, LINK, snapshot_entries
from tui_workbench.runs.store.rundir import OUTPUTS, Record
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.manifest import FileList, file_identity, identity_of

_GONE = frozenset((errno.ENOENT, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ELOOP))


def clone_files(root: str, working_copy: str, paths: Iterable[tuple[str, bool]], before_ns: int) -> list[str]:
    """Clone files of the project, given as path and executable flag, and return the paths that were not cloned.

    A file is not cloned if its blocks cannot be shared, or if it may have changed since `before_ns`, a time of the file
    system's clock before git read the files.
    """
    left: list[str] = []
    for path, executable in paths:
        source, copy = os.path.join(root, path), os.path.join(working_copy, path)
        try:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            is_cloned = clone_file(source, copy, 0o777 if executable else 0o666)
            # Compare the time after the copy, so that a change during the copy is detected.
            if is_cloned and os.lstat(source).st_ctime_ns < before_ns:
                continue
        except OSError:
            pass
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(copy)
        left.append(path)
    return left


def fill(root: str, working_copy: str, items: Iterable[Item]) -> None:
    """Add `items` to `working_copy`: create folders, copy ignored files and links, and link data.

    A file or folder of the snapshot is only replaced by a link to data. Raises OSError if the copy cannot be written,
    and ConfigurationError if a link to data is impossible.
    """
    blocked: set[str] = set()
    copied = 0
    with meter("copying", BYTES) as copying:
        for item in items:
            copy = os.path.join(working_copy, item.path)
            parent = os.path.dirname(item.path)
            if parent in blocked:
                blocked.add(item.path)
            elif item.kind == Kind.LINKED:
                _link_data(working_copy, item.path, item.data)
            elif item.is_folder:
                try:
                    os.mkdir(copy)
                except FileExistsError:
                    if os.path.islink(copy) or not os.path.isdir(copy):
                        blocked.add(item.path)  # a file or link has this path
            elif item.kind == Kind.COPIED and not os.path.lexists(copy):
                _copy(root, working_copy, item)
                copied += item.status.st_size if item.status is not None else 0
                copying.update(copied)


def _copy(root: str, working_copy: str, item: Item) -> None:
    source, copy = os.path.join(root, item.path), os.path.join(working_copy, item.path)
    try:
        if item.is_link:
            os.symlink(os.readlink(source), copy)
            redirect_link(root, working_copy, item.path)
        elif (data := copy_for_snapshot(root, item.path, store=True)) is not None:
            write_below(working_copy, item.path, data)
        else:
            copy_file(source, copy)
    except OSError as error:
        # Ignore files that were removed, locked or replaced after they were listed.
        if error.filename != source or error.errno not in _GONE:
            raise


def _link_data(working_copy: str, path: str, data: str) -> None:
    if not leads_through_folders(working_copy, path):
        raise ConfigurationError(
            f"{KEY}: a run cannot have a link at {path!r}, because a parent of this path is a link or a file in the "
            "snapshot",
            remedy="Declare the parent as data, or submit the project as a new run.",
        )
    copy = os.path.join(working_copy, path)
    remove_below(working_copy, path)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    os.symlink(data, copy)


def redirect_link(root: str, working_copy: str, path: str) -> None:
    """Correct the target of a link that was copied to the working copy.

    A link within the project then points into the working copy. A link out of the project points to the same file.
    """
    link, folder = os.path.join(working_copy, path), os.path.dirname(path)
    target = os.readlink(link)
    destination = os.path.join(root, folder, target)
    whole = os.path.normpath(destination)
    inside = _inside(root, whole) or (_inside(root, os.path.realpath(whole)) if os.path.lexists(whole) else "")
    if inside:
        # The link is correct if its target is relative and does not leave the project on the way.
        is_correct = not os.path.isabs(target) and not _leads_out(os.path.normpath(os.path.join(folder, target)))
        destination = os.path.relpath(inside, folder or os.curdir)
    else:
        is_correct = os.path.isabs(target)
    if not is_correct:
        os.unlink(link)
        os.symlink(destination, link)


def _inside(root: str, path: str) -> str:
    """Return a path relative to the project, or "" if it is outside."""
    relatives = (os.path.relpath(path, folder) for folder in (root, os.path.realpath(root)))
    return next((relative for relative in relatives if not _leads_out(relative)), "")


def _leads_out(path: str) -> bool:
    return path == os.pardir or path.startswith(os.pardir + os.sep)


def files_of_run(record: Record, *, changed_since: int = 0) -> FileList:
    """Return the files and links in the working copy of a run that are sent to a target.

    For a run that is started again, `changed_since` is the time after which earlier attempts changed files of the
    snapshot and made outputs, in nanoseconds of the file system's clock. Raises StorageError.
    """
    spec = record.spec
    data = data_in_project(spec.project_root, spec.run_configuration.data_references)
    identities: dict[str, str] = {}  # by path
    links: dict[str, Entry | None] = {}
    state_directory = state_of_run(spec.run_directory)
    # Git takes seconds to find the sizes of 100,000 files. `sync` measures those that it sends.
    snapshot = snapshot_entries(state_directory, record.commit_id) if record.snapshot == "git" else ()
    for path, (mode, _, name) in snapshot:
        copy = os.path.join(spec.working_directory, path)
        if changed_since and os.path.lexists(copy) and os.lstat(copy).st_ctime_ns > changed_since:
            continue
        if data and any(f"{path}/".startswith(f"{data_path}/") for data_path in data):
            continue
        if mode == LINK:
            links[path] = _link(spec, path, name)
        else:
            identities[path] = file_identity(name, executable=mode == EXECUTABLE)
    others = list(links.values())
    for path in paths_below(spec.working_directory, except_for="" if changed_since else OUTPUTS):
        if path not in identities and path not in links and not is_secret_file(path):
            status = os.lstat(os.path.join(spec.working_directory, path))
            if path in data:
                others.append(Entry(path, f"link-{data[path]}", link=data[path]))
            else:
                others.append(_link(spec, path, "link") if stat.S_ISLNK(status.st_mode) else _entry(path, status))
    identities.update((entry.path, identity_of(entry)) for entry in others if entry is not None)
    return FileList.with_identities(identities)


def files_of_project(root: str, data: Mapping[str, str] = NO_DATA) -> list[Entry]:
    """Return the files and links of the project that a run submitted now would send to a target."""
    entries = []
    for item in project_files(root, data):
        path, status = os.path.join(root, item.path), item.status
        if item.kind == Kind.LINKED:
            entries.append(Entry(item.path, f"link-{item.data}", link=item.data))
        if item.kind not in (Kind.SNAPSHOT, Kind.COPIED) or item.is_folder or status is None:
            continue
        if item.kind == Kind.COPIED and is_secret_file(item.path):
            continue
        if item.kind == Kind.SNAPSHOT and status.st_size > SNAPSHOT_FILE_BYTES:
            continue  # such a file is not part of a snapshot, and is slow to read
        if item.is_link:
            entries.append(Entry(item.path, f"link-{os.readlink(path)}", link=os.readlink(path)))
        else:
            name = _blob_name(path, status.st_size) if item.kind == Kind.SNAPSHOT else ""
            entries.append(_entry(item.path, status, name))
    return entries


def _blob_name(path: str, size: int) -> str:
    """Return the object ID in git of the content of a file; `size` is its size in bytes. Raises OSError."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with open_regular(path) as file:
        while data := file.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def _entry(path: str, status: os.stat_result, name: str = "") -> Entry:
    identity = name or f"{status.st_mtime_ns}-{status.st_size}"
    return Entry(path, identity, status.st_size, executable=bool(status.st_mode & 0o100))


def paths_below(root: str, *, except_for: str = "") -> Iterator[str]:
    """Yield the relative paths of files and links below `root`, except for those in its folder `except_for`.

    Folders that cannot be read are left out.
    """
    prefixes = [""]
    while prefixes:
        prefix = prefixes.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(root, prefix)) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield path
                elif path != except_for:
                    prefixes.append(path + os.sep)


def _link(spec: RunSpec, path: str, name: str) -> Entry | None:
    """Return a link of the working copy, or None if it points into the project, which is not on the other machine."""
    try:
        target = os.readlink(os.path.join(spec.working_directory, path))
    except OSError:
        return None
    is_in_project = os.path.isabs(target) and f"{target}/".startswith(f"{spec.project_root}/")
    return None if is_in_project else Entry(path, f"{name}-{target}", link=target)
