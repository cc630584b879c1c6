"""Keep the working copy of an ended run as a spare, from which the copy of the next run is made.

Creating or removing a folder of many files takes long. The spare is in the hidden repository, because files there are
this user's own, and containers cannot reach them. A script may have put anything into its copy. Therefore only files
whose content git has read, and which have not changed since, are reused. `tidy` removes everything else, and no link is
followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from tui_workbench.core import system
from tui_workbench.core.files import FOLDER_MODE, delete_below, make_folders, open_folder, raise_error, remove_below

SPARES = "spare"  # folder in the hidden repository
READY = "ready"  # the folder of the spare; only complete spares have this name
_ENDED, _REMOVED = "ended-", "removed-"
_PROBE = "unchanged.probe"  # empty folder, which is moved to find out whether a working copy can be moved


class Spare:
    """A folder with a working copy, and the git index of its files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.copy = os.path.join(folder, "work")
        self.index = os.path.join(folder, "index")


def ended_copy(repository: str, run_id: str) -> str:
    """Return the path to which the working copy of an ended run is moved. It has only unneeded files."""
    return os.path.join(repository, SPARES, _ENDED + run_id)


def ready(repository: str) -> Spare:
    """Return the spare of a project, which may not exist."""
    return Spare(os.path.join(repository, SPARES, READY))


def claimed(repository: str) -> Spare:
    """Return the spare that is being made or used. The caller holds the lock of the repository."""
    return Spare(os.path.join(repository, SPARES, "claimed"))


@contextlib.contextmanager
def _opened(spares: str) -> Iterator[int]:
    """Open the folder of the spares. Raises OSError, also for a link and for a folder of another user."""
    descriptor = open_folder(spares)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder belongs to another user", spares)
        yield descriptor
    finally:
        os.close(descriptor)


def can_move(folder: str, path: str) -> bool:
    """Return True if `move` can move a folder in `folder` to `path`. It cannot if they are on different mounts."""
    try:
        make_folders(folder, _PROBE)
        moved = _discarded(os.path.dirname(path))
        move(folder, _PROBE, moved)
        os.rmdir(moved)
    except OSError:
        remove_below(folder, _PROBE)
        return False
    return True


def move(folder: str, name: str, path: str) -> None:
    """Move the folder `name` in `folder` to `path` in the folder of the spares, which is created. Raises OSError."""
    spares, new = os.path.split(path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(spares, FOLDER_MODE)
    source = open_folder(folder)
    try:
        with _opened(spares) as destination:
            os.rename(name, new, src_dir_fd=source, dst_dir_fd=destination)
    finally:
        os.close(source)


def discard(path: str) -> None:
    """Rename a folder, so that `remove_discarded` removes it. It must not be used any more.

    A missing folder is ignored. Raises OSError, also if the folder of the spares is a link or belongs to another user.
    """
    spares, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError), _opened(spares) as folder:
        os.rename(name, os.path.basename(_discarded(spares)), src_dir_fd=folder, dst_dir_fd=folder)


def _discarded(spares: str) -> str:
    return os.path.join(spares, f"{_REMOVED}{os.urandom(8).hex()}")


def remove_discarded(repository: str) -> None:
    """Remove the discarded folders, which can take minutes. Errors are ignored, and the next call tries again."""
    spares = os.path.join(repository, SPARES)
    names: list[str] = []
    with contextlib.suppress(OSError), _opened(spares) as folder:
        names = os.listdir(folder)
    for name in names:
        if name.startswith(_REMOVED):
            with contextlib.suppress(OSError):
                delete_below(spares, name)


def discard_unused(repository: str) -> None:
    """Discard everything but the spare. The caller holds the lock of the repository, so nothing else is in use.

    Raises OSError, as `discard` does, and if the folder of the spares is missing.
    """
    spares = os.path.join(repository, SPARES)
    with _opened(spares) as folder:
        names = os.listdir(folder)
    for name in names:
        if name != READY and not name.startswith(_REMOVED):
            discard(os.path.join(spares, name))


class _Attributes(NamedTuple):
    mode: int
    user: int
    group: int
    extended: dict[str, bytes]


def _attributes(descriptor: int) -> _Attributes:
    status = os.fstat(descriptor)
    return _Attributes(status.st_mode, status.st_uid, status.st_gid, system.extended_attributes(descriptor))


def keep_unchanged(spare: Spare, files: Collection[str], since_ns: int) -> None:
    """Remove everything from the copy of an ended run except for those of `files` that are as git has made them.

    Files that were changed after `since_ns` (nanoseconds of the file system's clock) are removed. A change of the
    content, the permissions, other attributes or the number of hard links counts. So are files with other permissions
    than new ones, and everything that `tidy` removes. Raises OSError.
    """
    new = _new_attributes(spare)
    modes = {stat.S_IFREG | new.mode & 0o666, stat.S_IFREG | new.mode & 0o777, stat.S_IFLNK | 0o777}

    def is_unchanged(name: str, folder: int) -> bool:
        status = os.lstat(name, dir_fd=folder)
        return status.st_ctime_ns <= since_ns and status.st_mode in modes

    _set_permissions(spare.copy, new.mode & 0o7777)  # the copy of a run is private
    _remove_others(spare, files, new, is_unchanged)


def tidy(spare: Spare, files: Collection[str]) -> None:
    """Remove everything from the copy except for `files` and their folders; folders are discarded.

    Folders with other permissions or attributes than new ones are removed too. Git compares the files. Raises OSError,
    also if new folders have other permissions now than when the spare was made.
    """
    _remove_others(spare, files, _new_attributes(spare), lambda _name, _folder: True)
    _set_permissions(spare.copy, 0o700)


def _set_permissions(path: str, mode: int) -> None:
    folder = open_folder(path)
    try:
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _remove_others(spare: Spare, files: Collection[str], new: _Attributes, is_kept: Callable[[str, int], bool]) -> None:
    """Remove what is not one of `files` or one of their folders, and files for which `is_kept` returns False."""
    kept, folders = set(files), _folders_of(files)
    top = open_folder(spare.copy)
    try:
        if _attributes(top) != new:
            raise OSError(errno.EPERM, "the folder has other attributes than a new folder", spare.copy)
        for parent, inner, names, descriptor in os.fwalk(os.curdir, dir_fd=top, onerror=raise_error):
            start = f"{parent}/"[2:]
            for name in names:
                if start + name not in kept or not is_kept(name, descriptor):
                    os.unlink(name, dir_fd=descriptor)
            for name in list(inner):  # `fwalk` only enters the folders that stay in `inner`
                if not (start + name in folders and _is_like(new, name, descriptor)):
                    inner.remove(name)
                    os.rename(name, _discarded(os.path.dirname(spare.folder)), src_dir_fd=descriptor)
    finally:
        os.close(top)


def _folders_of(files: Iterable[str]) -> set[str]:
    """Return the folders that contain the files, including their parents."""
    folders: set[str] = set()
    for path in {path.rpartition(os.sep)[0] for path in files}:
        while path and path not in folders:
            folders.add(path)
            path = path.rpartition(os.sep)[0]
    return folders


def _is_like(expected: _Attributes, name: str, parent: int) -> bool:
    """Return True for a folder with these attributes, and False for any other folder and for a link to a folder."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
        return False
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        return _attributes(folder) == expected
    finally:
        os.close(folder)


def _new_attributes(spare: Spare) -> _Attributes:
    """Return the attributes of a folder that is created now, which depend on the umask and on the parent folder."""
    probe = os.path.join(spare.folder, "new")
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(probe)
    os.mkdir(probe)
    folder = open_folder(probe)
    try:
        return _attributes(folder)
    finally:
        os.close(folder)
        os.rmdir(probe)
