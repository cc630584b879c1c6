"""The registry of this user's own runs and sweeps: what tells them from those that came with a project's files.

A project may be prepared by anybody, so nothing inside it can tell whether a run may be executed. The registry lies in
the user's state directory. `submit` writes one small entry before the run directory gets its name, and so does a sweep.

A record (run.json, or a sweep's file) is this user's own only if it is the very file that was registered: at the same
place, in the same folder (inode), the same file (inode, time of change and digest), owned by this user, and reached
without following a link. A copy, an unpacked archive or a changed record has no entry. A run without one is imported:
it can be read, but nothing starts, continues, cancels or concludes it until the user asks for that one run.

Device numbers are not compared: those of network file systems and removable disks change with each mount.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from hashlib import blake2b
from typing import NamedTuple

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.files import open_folder, open_regular, write_below

FOLDER = "registry"
"""The folder of the registry in the user's state directory."""

LARGEST_RECORD = 64 << 20
"""Bytes; a larger record is not one of ours."""

_LARGEST_ENTRY = 64 << 10
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK


class Entry(NamedTuple):
    """The identity of a registered record. `record` is 0 while its folder is being built."""

    path: str
    folder: int  # inode
    record: int = 0  # inode
    changed: int = 0  # time of the last change in nanoseconds, which no program can set
    digest: str = ""


def claim(folder: str, path: str) -> None:
    """Note that `folder` is being built by this user, to become the folder of the record `path`. Raises OSError."""
    path = _resolved(path)
    _write(path, Entry(path, os.lstat(folder).st_ino))


def is_claimed(folder: str, path: str) -> bool:
    """True if `folder` is one that this user began to build for the record `path`."""
    known = _read_entry(_entry_path(_resolved(path)))
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return known is not None and is_ours and status.st_ino == known.folder


def register(record: str, path: str = "") -> None:
    """Note that the file `record` is this user's own; `path` is where it is about to be. Raises OSError."""
    path = _resolved(path or record)
    _write(path, _identify(record, path)[0])


def own_record(path: str) -> bytes | None:
    """The content of the record at `path`; None if it is not this user's own."""
    path = _resolved(path)
    known = _read_entry(_entry_path(path))
    try:
        found, data = _identify(path, path) if known is not None else (None, None)
    except OSError:
        return None
    return data if found == known else None


def forget(path: str) -> None:
    """Remove the entry of the record at `path`, if there is one."""
    with contextlib.suppress(OSError):
        os.unlink(_entry_path(_resolved(path)))


def prune(runs_directory: str) -> None:
    """Remove the entries of runs in `runs_directory` that are not there any more."""
    folder, parent = registry(), os.path.realpath(runs_directory)
    try:
        present = set(os.listdir(parent))
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        run_id = name.rpartition(".")[0]
        known = _read_entry(os.path.join(folder, name)) if run_id not in present else None
        if known is not None and os.path.dirname(os.path.dirname(known.path)) == parent:
            forget(known.path)


def has_other(path: str) -> bool:
    """True if this user has an own run of the same id as that of the record `path` in another place."""
    path = _resolved(path)
    run_id = os.path.basename(os.path.dirname(path))
    try:
        names = [name for name in os.listdir(registry()) if name.rpartition(".")[0] == run_id]
    except OSError:
        return False
    entries = (_read_entry(os.path.join(registry(), name)) for name in names)
    return any(known is not None and known.path != path and own_record(known.path) for known in entries)


def registry() -> str:
    """The folder of the registry, whether or not it is there."""
    return os.path.join(user_state_directory(), FOLDER)


def _resolved(path: str) -> str:
    """The record's path with the links on the way to its folder resolved; neither the folder nor it may be one."""
    folder, name = os.path.split(os.path.abspath(path))
    parent, folder_name = os.path.split(folder)
    return os.path.join(os.path.realpath(parent), folder_name, name)


def _entry_path(path: str) -> str:
    # For people and for `prune`: the folder's name is that of the run.
    key = blake2b(os.fsencode(path), digest_size=8).hexdigest()
    return os.path.join(registry(), f"{os.path.basename(os.path.dirname(path))}.{key}")


def _write(path: str, entry: Entry) -> None:
    folder, name = os.path.split(_entry_path(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_below(folder, name, json.dumps(entry._asdict()).encode())


def _read_entry(place: str) -> Entry | None:
    """The entry at `place`; None unless this user alone can have written it."""
    try:
        with open_regular(place) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
            return Entry(**json.loads(file.read(_LARGEST_ENTRY)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _identify(record: str, path: str) -> tuple[Entry, bytes]:
    """The identity that the file `record` has under the name `path`, and its content. Raises OSError."""
    parent, name = os.path.split(record)
    folder = open_folder(parent)
    try:
        with open(name, "rb", opener=lambda name, flags: os.open(name, flags | _SAFE, dir_fd=folder)) as file:
            about, status = os.fstat(folder), os.fstat(file.fileno())
            is_ours = about.st_uid == status.st_uid == os.geteuid()
            if not is_ours or not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_RECORD:
                raise PermissionError(f"{record} is not a file of this user")
            data = file.read()
    finally:
        os.close(folder)
    return Entry(path, about.st_ino, status.st_ino, status.st_ctime_ns, blake2b(data).hexdigest()), data
