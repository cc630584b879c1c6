"""The registry of this user's own runs and sweeps. Other runs came with the files of a project.

Another user may have prepared a project, so its files must not determine whether a run may be executed. The registry is
in the user's state directory. `submit` and sweeps add an entry before they rename a new run directory.

A record (run.json, or the file of a sweep) is this user's own only if it is the registered file: it has the same path,
folder (inode), inode, ctime and digest, belongs to this user, and is reached without following a link. Copies, unpacked
archives and modified records have no valid entry. Such runs are imported: they can be read, but not started, resumed or
canceled until the user takes them over.

Device numbers are not compared, because network file systems and removable disks get a new number with each mount.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from hashlib import blake2b
from typing import NamedTuple

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.files import LARGEST_RECORD, open_folder, open_regular, write_below
from tui_workbench.core.json_values import parse_json

FOLDER = "registry"  # in the user's state directory
BUILDING_PREFIX = ".new-"  # prefix of folders of runs that are being created
DELETED_PREFIX = ".deleted-"  # prefix of folders of runs in the trash
PURGED_PREFIX = ".purged-"  # prefix of folders of runs whose content is being deleted

_LARGEST_ENTRY = 64 << 10
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK


class Entry(NamedTuple):
    """The identity of a registered record. `record` is 0 while its folder is being created."""

    path: str
    folder: int  # inode
    record: int = 0  # inode
    changed: int = 0  # ctime in nanoseconds; programs cannot set it
    digest: str = ""


def claim(folder: str, path: str) -> None:
    """Register that this user is creating `folder`, which will contain the record `path`. Raises OSError."""
    path = _resolved(path)
    _write(path, Entry(path, os.lstat(folder).st_ino))


def is_claimed(folder: str, path: str) -> bool:
    """Return True if this user registered `folder` with `claim` for the record `path`."""
    entry = _read_entry(_entry_path(_resolved(path)))
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return entry is not None and is_ours and status.st_ino == entry.folder


def register(record: str, path: str = "") -> None:
    """Register the file `record` as this user's own, for its future path `path` (default: `record`). Raises OSError."""
    path = _resolved(path or record)
    _write(path, _identify(record, path)[0])


def own_record(path: str, moved: str = "") -> bytes | None:
    """Return the content of the record at `path`, or None if the record is not this user's own.

    `moved` is the current path of the record if its folder was renamed.
    """
    path = _resolved(path)
    entry = _read_entry(_entry_path(path))
    try:
        identity, data = _identify(moved or path, path) if entry is not None else (None, None)
    except OSError:
        return None
    return data if identity == entry else None


def forget(path: str) -> None:
    """Remove the entry of the record at `path`, if any."""
    with contextlib.suppress(OSError):
        os.unlink(_entry_path(_resolved(path)))


def prune(runs_directory: str) -> None:
    """Remove the entries of runs in `runs_directory` that no longer exist."""
    folder, parent = registry(), os.path.realpath(runs_directory)
    try:
        present = set(os.listdir(parent))
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        run_id = name.rpartition(".")[0]
        entry = _read_entry(os.path.join(folder, name)) if run_id not in present else None
        if entry is None or os.path.dirname(os.path.dirname(entry.path)) != parent:
            continue
        with contextlib.suppress(OSError):
            if PURGED_PREFIX + run_id not in present and not has_folder(parent, run_id):
                forget(entry.path)


def has_folder(runs_directory: str, run_id: str) -> bool:
    """Return True if the run exists, is being created or is in the trash. Raises OSError."""
    # The last name is checked twice: another process may be creating, deleting or restoring the run by a rename.
    names = (BUILDING_PREFIX + run_id, run_id, DELETED_PREFIX + run_id, run_id)
    folder = open_folder(runs_directory)
    try:
        return any(_exists(name, folder) for name in names)
    finally:
        os.close(folder)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def has_other(path: str) -> bool:
    """Return True if this user has another run with the same ID as the run of the record `path`."""
    path = _resolved(path)
    run_id = os.path.basename(os.path.dirname(path))
    try:
        names = [name for name in os.listdir(registry()) if name.rpartition(".")[0] == run_id]
    except OSError:
        return False
    entries = (_read_entry(os.path.join(registry(), name)) for name in names)
    return any(entry is not None and entry.path != path and own_record(entry.path) for entry in entries)


def registry() -> str:
    """Return the folder of the registry, which may not exist."""
    return os.path.join(user_state_directory(), FOLDER)


def _resolved(path: str) -> str:
    """Resolve links above the folder of the record. The folder and the record must not be links."""
    folder, name = os.path.split(os.path.abspath(path))
    parent, folder_name = os.path.split(folder)
    return os.path.join(os.path.realpath(parent), folder_name, name)


def _entry_path(path: str) -> str:
    # The name of the run's folder makes entries readable, and `prune` uses it.
    key = blake2b(os.fsencode(path), digest_size=8).hexdigest()
    return os.path.join(registry(), f"{os.path.basename(os.path.dirname(path))}.{key}")


def _write(path: str, entry: Entry) -> None:
    folder, name = os.path.split(_entry_path(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_below(folder, name, json.dumps(entry._asdict()).encode())


def _read_entry(path: str) -> Entry | None:
    """Read an entry. Return None if the entry is invalid, or if another user may have written it."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            return Entry(**parse_json(file.read(_LARGEST_ENTRY), bits=64))  # an inode can have 64 bits
    except (OSError, ValueError, TypeError):
        return None


def _identify(record: str, path: str) -> tuple[Entry, bytes]:
    """Return the identity and content of the file `record`, for an entry with this path. Raises OSError."""
    parent, name = os.path.split(record)
    folder = open_folder(parent)
    try:
        with open(name, "rb", opener=lambda file_name, flags: os.open(file_name, flags | _SAFE, dir_fd=folder)) as file:
            folder_status, status = os.fstat(folder), os.fstat(file.fileno())
            is_ours = folder_status.st_uid == status.st_uid == os.geteuid()
            if not is_ours or not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_RECORD:
                raise PermissionError(f"{record} is not a file of this user")
            data = file.read(LARGEST_RECORD)
    finally:
        os.close(folder)
    return Entry(path, folder_status.st_ino, status.st_ino, status.st_ctime_ns, blake2b(data).hexdigest()), data
