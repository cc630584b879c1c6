"""Write files atomically, and access files in folders with untrusted content.

`write_atomically` and `write_below` replace a file by renaming a new one: a reader sees either the old or the new
content. `write_atomically` is for the user's files: it follows a symbolic link, and the data survives a power failure.

A script, a container or an archive can replace any file of a run with a link. The functions `..._below` therefore take
a folder `top`, which must not be a link, and a relative name. They open each part of the name without following links.
They raise OSError for a link (ELOOP or ENOTDIR), and for a pipe or device, without blocking. Only the user can access
the files and folders that these functions create.

All other modules open files with the functions of this module: `open_regular` for a file that others may have replaced
by a link, and `open_file` for a file that may be the user's own link, such as a configuration file. Both refuse pipes,
sockets and devices, which can block or never end. `read_regular` and `read_file` read a whole file up to a size limit.
`tests/bounded_reading.py` checks this.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from io import BufferedReader, BufferedWriter
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from tui_workbench.core.errors import storage_error
from tui_workbench.core.json_values import parse_json

LARGEST = 4 << 20
"""Maximum size in bytes of a file that is read as a whole. Parsed JSON can need 25 times as much memory."""

LARGEST_RECORD = 64 << 20
"""Maximum size in bytes of the `run.json` of a run that this user submitted on this machine."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Opening a pipe without O_NONBLOCK waits for its other end. With it, the call returns, and `_regular` refuses the pipe.
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Buffer: TypeAlias = "bytes | array[float]"


class Signature(NamedTuple):
    """The metadata that identifies a version of a file."""

    mtime_ns: int
    size: int
    inode: int


def signature_of(status: os.stat_result) -> Signature:
    """Return the signature of a file, given the result of `os.stat`."""
    return Signature(status.st_mtime_ns, status.st_size, status.st_ino)


def signature(path: str) -> Signature | None:
    """Return the signature of a file, or None if it does not exist. Raises StorageError if it is not accessible."""
    try:
        return signature_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error("read", path, error) from error


def open_regular(path: str) -> BufferedReader:
    """Open a regular file for reading. Raises OSError, also for a link, pipe, socket or device."""
    return open(_regular(os.open(path, os.O_RDONLY | _FILE), path), "rb")


def open_file(path: str) -> BufferedReader:
    """Open a regular file, or a link to one, for reading. Raises OSError, also for a pipe, socket or device."""
    return open(_regular(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), path), "rb")


def open_new(path: str, mode: int = FILE_MODE) -> BufferedWriter:
    """Create a file for writing. Raises OSError, also if there is a file or link at the path."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, mode), "wb")


def read_regular(path: str, largest: int = LARGEST) -> bytes:
    """Return the content of a file. Raises OSError as `open_regular` does, and for more than `largest` bytes."""
    with open_regular(path) as file:
        return _content(file, path, largest)


def read_file(path: str, largest: int = LARGEST) -> bytes:
    """Return the content of a file. Raises OSError as `open_file` does, and for more than `largest` bytes."""
    with open_file(path) as file:
        return _content(file, path, largest)


def _content(file: BinaryIO, path: str, largest: int) -> bytes:
    # The size that the system reports is not used: it is 0 for files in /proc, and other files can grow.
    data = file.read(largest + 1)
    if len(data) > largest:
        size = f"{largest >> 20} MiB" if largest >> 20 else f"{largest >> 10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {size}", path)
    return data


def read_end(path: str, size: int) -> bytes:
    """Return the last `size` bytes of a file. Raises OSError as `open_regular` does."""
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size))
        return file.read(size)


def load_json(path: str) -> Any:
    """Return the JSON value in a file. Raises OSError, and ValueError as `parse_json` does."""
    return parse_json(read_regular(path))


def open_below(top: str, name: str, flags: int = os.O_RDONLY, mode: int = FILE_MODE) -> int:
    """Open a regular file and return its descriptor. Raises OSError."""
    with _parent(top, name) as (folder, base):
        descriptor = os.open(base, flags | _FILE, mode, dir_fd=folder)
    return _regular(descriptor, os.path.join(top, name))


def append_below(top: str, name: str, data: bytes, *, exclusive: bool = False) -> None:
    """Append to a file, and create it if necessary. With `exclusive`, the file must not exist. Raises OSError."""
    descriptor = open_below(top, name, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_APPEND))
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def read_below(top: str, name: str, limit: int) -> bytes:
    """Return the first `limit` bytes of a file. Raises OSError."""
    with open(open_below(top, name), "rb") as file:
        return file.read(limit)


def write_below(
    top: str, name: str, data: bytes | Sequence[Buffer], *, durable: bool = False, exclusive: bool = False
) -> None:
    """Write a file atomically. `data` is the content, or a sequence of its parts. Raises OSError.

    With `durable`, the data survives a power failure. With `exclusive`, FileExistsError is raised if the file exists.
    """
    with _parent(top, name) as (folder, base), _replacing(folder, base, durable=durable, exclusive=exclusive) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing_below(
    top: str, name: str, mode: int = FILE_MODE, *, durable: bool = False, temporary: str = ""
) -> Iterator[BinaryIO]:
    """Open a new file, which replaces `name` below `top` unless the context raises an exception. Raises OSError.

    Pass the name of the temporary file if it can be large and only one process writes it: if this process is killed,
    the next call replaces the file.
    """
    with (
        _parent(top, name) as (folder, base),
        _replacing(folder, base, mode, durable=durable, temporary=temporary) as file,
    ):
        yield file


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o666, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a new file, which replaces `path` unless the context raises an exception. Raises OSError."""
    directory, base = os.path.split(path)
    folder = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _replacing(folder, base, mode, durable=durable) as file:
            yield file
    finally:
        os.close(folder)


def write_if_changed(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write `data` to `path`, unless the file already has this content. Missing parent folders are created.

    Raises OSError.
    """
    with contextlib.suppress(OSError):
        if read_file(path, len(data)) == data:
            return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path, mode) as file:
        file.write(data)


def write_atomically(path: str, data: bytes, *, mode: int | None = None) -> Signature:
    """Write `data` to `path` atomically and durably; a symbolic link is followed. Return the signature of the file.

    An existing file keeps its owner if possible, and its permissions unless `mode` is given. Other hard links to the
    file keep the old content. If the file cannot be written, StorageError is raised and the old file is kept.
    """
    real = os.path.realpath(path)
    try:
        if os.path.isdir(real):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with replacing(real, durable=True) as file:
            _take_over_attributes(file.fileno(), real, mode)
            file.write(data)
            file.flush()
            # The rename does not change the signature.
            written = signature_of(os.fstat(file.fileno()))
    except OSError as error:
        raise storage_error("write", path, error) from error
    return written


def make_folders(top: str, name: str, mode: int = FOLDER_MODE) -> None:
    """Create the folder `name` below `top`, and its parents, unless they exist. Raises OSError."""
    os.close(open_folder(top, name, make=mode))


def rename_below(top: str, old: str, new: str) -> None:
    """Rename a file or folder below `top`. Raises OSError."""
    with _parent(top, old) as (old_folder, old_base), _parent(top, new) as (new_folder, new_base):
        os.rename(old_base, new_base, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def merge_below(top: str, old: str, new: str) -> None:
    """Move a file or folder below `top`. Folders are merged; anything else at the new place is replaced.

    After an interruption, every file is at its old or its new place, and the call can be repeated. Raises OSError.
    """
    with _parent(top, old) as (old_folder, old_base), _parent(top, new) as (new_folder, new_base):
        _merge(old_folder, old_base, new_folder, new_base)


def _merge(old_folder: int, old: str, new_folder: int, new: str) -> None:
    import shutil

    try:
        replaced = os.lstat(new, dir_fd=new_folder).st_mode
    except FileNotFoundError:
        replaced = 0
    if not stat.S_ISDIR(os.lstat(old, dir_fd=old_folder).st_mode):
        if stat.S_ISDIR(replaced):
            shutil.rmtree(new, dir_fd=new_folder)
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
        return
    if not stat.S_ISDIR(replaced):
        if replaced:
            os.unlink(new, dir_fd=new_folder)
        os.mkdir(new, FOLDER_MODE, dir_fd=new_folder)
    with _folder(old_folder, old) as source, _folder(new_folder, new) as destination:
        with contextlib.suppress(PermissionError):
            os.fchmod(source, FOLDER_MODE)  # files cannot be moved out of a read-only folder
        for name in os.listdir(source):
            _merge(source, name, destination, name)
    os.rmdir(old, dir_fd=old_folder)  # fails if files were added to the folder in the meantime


@contextlib.contextmanager
def _folder(parent: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def leads_through_folders(root: str, path: str) -> bool:
    """Return False if a parent of `path` below `root` is a file or a link."""
    folder = os.path.dirname(path)
    while folder:
        whole = os.path.join(root, folder)
        if os.path.lexists(whole) and (os.path.islink(whole) or not os.path.isdir(whole)):
            return False
        folder = os.path.dirname(folder)
    return True


def unlink_below(top: str, name: str) -> None:
    """Remove a file or link. Raises OSError."""
    with _parent(top, name) as (folder, base):
        os.unlink(base, dir_fd=folder)


def remove_below(top: str, name: str) -> None:
    """Remove a file, a link, or a folder with its content. Links are not followed, and errors are ignored."""
    import shutil

    with contextlib.suppress(OSError), _parent(top, name) as (folder, base):
        if stat.S_ISDIR(os.lstat(base, dir_fd=folder).st_mode):
            # With dir_fd, rmtree follows no links.
            shutil.rmtree(base, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(base, dir_fd=folder)


def delete_below(top: str, name: str) -> None:
    """Delete a file, a link, or a folder with its content, even if it has read-only folders or is nested very deeply.

    Links are not followed, and mounted file systems are not entered. The call can be repeated after an
    interruption. Raises OSError; `remove_below` ignores errors instead.
    """
    with _parent(top, name) as (parent, base):
        if not _is_folder(parent, base):
            os.unlink(base, dir_fd=parent)
            return
        with _folder(parent, base) as folder:
            _empty(folder)
        os.rmdir(base, dir_fd=parent)


def _empty(top: int) -> None:
    """Delete the content of an open folder.

    Each inner folder is first moved to `top`. This needs no recursion and no open file per level. For a mount
    point, it fails before anything on the mounted file system is deleted.
    """
    while names := os.listdir(top):
        for name in names:
            if not _is_folder(top, name):
                os.unlink(name, dir_fd=top)
                continue
            moved = _moved(top, name, top)
            with _folder(top, moved) as folder:
                for inner in os.listdir(folder):
                    if _is_folder(folder, inner):
                        _moved(folder, inner, top)
                    else:
                        os.unlink(inner, dir_fd=folder)
            os.rmdir(moved, dir_fd=top)


def _moved(parent: int, name: str, top: int) -> str:
    """Move a folder to a new name in `top`, and return this name."""
    moved = f".workbench-{os.urandom(8).hex()}.deleted"
    os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
    return moved


def _is_folder(parent: int, name: str) -> bool:
    """Return True for a folder, and give its owner all permissions, which are necessary to move or empty it."""
    mode = os.lstat(name, dir_fd=parent).st_mode
    if not stat.S_ISDIR(mode):
        return False
    if mode & FOLDER_MODE != FOLDER_MODE:
        # Some systems, and Linux without /proc, cannot change permissions without following links.
        with contextlib.suppress(PermissionError, NotImplementedError, ValueError):
            os.chmod(name, FOLDER_MODE, dir_fd=parent, follow_symlinks=False)
    return True


def raise_error(error: OSError) -> None:
    """Raise `error`. If this function is the `onerror` of `os.fwalk`, folders that cannot be read are not skipped."""
    raise error


def folder_size(path: str) -> int:
    """Return the disk space that the files in a folder use, in bytes. Links are not followed.

    A file with several hard links counts once, and an unreadable folder counts as empty.
    """
    size, seen = 0, set()
    folders = [] if os.path.islink(path) else [path]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif status.st_nlink == 1 or (status.st_dev, status.st_ino) not in seen:
                    seen.add((status.st_dev, status.st_ino))
                    size += status.st_blocks * 512  # the unit of st_blocks, whatever the block size is
    return size


def is_folder_below(top: str, name: str) -> bool:
    """Return True if a folder exists, without following links."""
    try:
        os.close(open_folder(top, name))
    except OSError:
        return False
    return True


def open_folder(top: str, name: str = "", *, make: int = 0) -> int:
    """Open a folder and return its descriptor; with `make`, create missing folders with this mode. Raises OSError."""
    # Each folder is opened relative to the one before it, so that no folder can become a link in between.
    descriptor = os.open(top, _FOLDER)
    for part in _parts(name):
        above = descriptor
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, make, dir_fd=above)
            descriptor = os.open(part, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` to a descriptor. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _regular(descriptor: int, path: str) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


@contextlib.contextmanager
def _replacing(
    folder: int,
    base: str,
    mode: int = FILE_MODE,
    *,
    durable: bool = False,
    exclusive: bool = False,
    temporary: str = "",
) -> Iterator[BinaryIO]:
    """Open a new file, and rename it to `base` at the end; if the context raises an exception, remove it."""
    if temporary:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
    else:
        temporary = f".workbench-{os.getpid()}-{os.urandom(6).hex()}.new"
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        # A rename replaces an existing file, and a hard link fails if there is one.
        give = os.link if exclusive else os.rename
        give(temporary, base, src_dir_fd=folder, dst_dir_fd=folder)
    finally:  # a rename has already removed the temporary name
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
    if durable:
        # The data of the file is stored, and its new name only when the folder is stored too.
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(folder)


def _take_over_attributes(descriptor: int, real: str, mode: int | None) -> None:
    try:
        old = os.stat(real)
    except FileNotFoundError:
        if mode is not None:
            os.fchmod(descriptor, mode)
        return
    own = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
        # Only root can change the owner. Without this right, write the file anyway.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) if mode is None else mode)


@contextlib.contextmanager
def _parent(top: str, name: str) -> Iterator[tuple[int, str]]:
    """Open the parent folder of `name`; yield its descriptor and the last part of the name. Raises OSError."""
    *folders, base = _parts(name) or [""]
    if not base:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.path.join(top, name))
    descriptor = open_folder(top, "/".join(folders))
    try:
        yield descriptor, base
    finally:
        os.close(descriptor)


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise OSError(errno.EINVAL, "the path is outside the folder", name)
    return parts
