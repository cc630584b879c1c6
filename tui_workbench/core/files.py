"""Read and write files: whole or not at all, and below folders whose content is not trusted.

`write_atomically` and `write_below` put a file in its place with one rename: the path holds all of the old bytes or all
of the new ones. `write_atomically` is for files of the user's own, where a symbolic link stays and its target is
written, and the data survives a loss of power.

A script, a container or an unpacked archive can put a link in the place of any file of a run. The functions `..._below`
take the folder (`top`, which must not be a link itself) and a relative name below it, open each part of the name
without following links, and work on the descriptor. A link in the way raises OSError with ELOOP or ENOTDIR; a pipe or
device in the place of a file raises OSError and blocks nobody. Everything that they make is the user's alone.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from tui_workbench.core.errors import storage_error

LARGEST = 4 << 20
"""Bytes of a file that is read as a whole: larger ones are not the workbench's. Parsed, JSON takes 25 times as much."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Buffer: TypeAlias = "bytes | array[float]"

_INFINITE = {"\ue000+": "1e999", "\ue000-": "-1e999"}
"""What stands for an infinity while JSON is made, and the number that every reader of JSON takes for one."""


class Signature(NamedTuple):
    """What tells one version of a file from the next without reading it."""

    mtime_ns: int
    size: int
    inode: int


def signature_of(status: os.stat_result) -> Signature:
    """The signature of a file with this status."""
    return Signature(status.st_mtime_ns, status.st_size, status.st_ino)


def signature(path: str) -> Signature | None:
    """The file's signature, or None when there is no such file.

    Raises StorageError when the file is there but may not be looked at.
    """
    try:
        return signature_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error("read", path, error) from error


def open_regular(path: str) -> BinaryIO:
    """Open the file at `path` for reading. Raises OSError, also when it is a link or no regular file."""
    return open(_regular(os.open(path, os.O_RDONLY | _FILE), path), "rb")


def read_regular(path: str, largest: int = LARGEST) -> bytes:
    """Return the content of the file at `path`. Raises OSError as `open_regular` does, and when it is too large."""
    with open_regular(path) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"it is larger than {largest >> 20} MiB", path)
    return data


def load_json(path: str) -> Any:
    """The JSON value in the file at `path`. Raises OSError, and ValueError when it is none or nested too deeply."""
    data = read_regular(path)
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def open_below(top: str, name: str, flags: int = os.O_RDONLY, mode: int = FILE_MODE) -> int:
    """Open a regular file and return its descriptor. Raise OSError."""
    with _parent(top, name) as (folder, base):
        descriptor = os.open(base, flags | _FILE, mode, dir_fd=folder)
    return _regular(descriptor, os.path.join(top, name))


def append_below(top: str, name: str, data: bytes, *, exclusive: bool = False) -> None:
    """Append to a file, which is made when it is missing; with `exclusive` it must be missing. Raise OSError."""
    descriptor = open_below(top, name, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else os.O_APPEND))
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def read_below(top: str, name: str, limit: int) -> bytes:
    """Return the first `limit` bytes of a file. Raise OSError."""
    with open(open_below(top, name), "rb") as file:
        return file.read(limit)


def write_below(
    top: str, name: str, data: bytes | Sequence[Buffer], *, durable: bool = False, exclusive: bool = False
) -> None:
    """Write a file, of one or several parts, all of it or nothing. Raise OSError.

    With `durable` it survives a loss of power from then on. With `exclusive` a file that is there stays, and raises
    FileExistsError.
    """
    with _parent(top, name) as (folder, base), _replacing(folder, base, durable=durable, exclusive=exclusive) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing_below(top: str, name: str, mode: int = FILE_MODE, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `name` below `top` when the context ends well. Raise OSError."""
    with _parent(top, name) as (folder, base), _replacing(folder, base, mode, durable=durable) as file:
        yield file


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o666, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the context ends well. Raise OSError."""
    directory, base = os.path.split(path)
    folder = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _replacing(folder, base, mode, durable=durable) as file:
            yield file
    finally:
        os.close(folder)


def write_if_changed(path: str, data: bytes, mode: int = 0o666) -> None:
    """Put `data` at `path`, with the folders above it, unless it is there already. Raise OSError."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read() == data:
            return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path, mode) as file:
        file.write(data)


def write_atomically(path: str, data: bytes, *, mode: int | None = None) -> Signature:
    """Put `data` at `path`, all of it or nothing, durably; a symbolic link stays and the file it leads to is written.

    An existing file keeps its permission bits and, where this user may set it, its owner; `mode` are permission bits to
    set instead (a new file without `mode` gets 0o666 less the umask). Returns the signature of the file as written.
    Other hard links to the file keep the old bytes.

    Raises StorageError when it could not be written (disk full, no permission, no such folder); the old file stands.
    """
    real = os.path.realpath(path)
    try:
        if os.path.isdir(real):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with replacing(real, durable=True) as file:
            _take_over_attributes(file.fileno(), real, mode)
            file.write(data)
            file.flush()
            # Renaming changes neither time, size nor inode, so this is the signature of what will stand at the path.
            written = signature_of(os.fstat(file.fileno()))
    except OSError as error:
        raise storage_error("write", path, error) from error
    return written


def make_folders(top: str, name: str, mode: int = FOLDER_MODE) -> None:
    """Make a folder with those above it below `top`; one that is there stays. Raise OSError."""
    os.close(open_folder(top, name, make=mode))


def rename_below(top: str, old: str, new: str) -> None:
    """Give a file or folder another name below `top`. Raise OSError."""
    with _parent(top, old) as (old_folder, old_base), _parent(top, new) as (new_folder, new_base):
        os.rename(old_base, new_base, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def unlink_below(top: str, name: str) -> None:
    """Remove a file or link. Raise OSError."""
    with _parent(top, name) as (folder, base):
        os.unlink(base, dir_fd=folder)


def remove_below(top: str, name: str) -> None:
    """Remove whatever has this name, a folder with its content, as far as that can be done.

    A link is removed, and what it leads to stays.
    """
    import shutil

    with contextlib.suppress(OSError), _parent(top, name) as (folder, base):
        if stat.S_ISDIR(os.lstat(base, dir_fd=folder).st_mode):
            # On a descriptor it follows no link, whatever changes meanwhile.
            shutil.rmtree(base, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(base, dir_fd=folder)


def is_folder_below(top: str, name: str) -> bool:
    """Return whether there is a folder of this name, reached through folders only."""
    try:
        os.close(open_folder(top, name))
    except OSError:
        return False
    return True


def open_folder(top: str, name: str = "", *, make: int = 0) -> int:
    """Open a folder and return its descriptor; with the mode `make`, make what is missing. Raise OSError."""
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
    """Write all bytes of `data` to a descriptor, however many calls that takes. Raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _regular(descriptor: int, path: str) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


@contextlib.contextmanager
def _replacing(
    folder: int, base: str, mode: int = FILE_MODE, *, durable: bool = False, exclusive: bool = False
) -> Iterator[BinaryIO]:
    """A new file in the folder, which gets its name when the context ends well; nothing is left of it otherwise."""
    temporary = f".workbench-{os.getpid()}-{os.urandom(6).hex()}.new"
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, mode, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        give = os.link if exclusive else os.rename
        give(temporary, base, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
    if durable:
        with contextlib.suppress(OSError):  # some file systems cannot do this for a folder
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
        # Only root gives files away; the content matters more than the owner.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) if mode is None else mode)


@contextlib.contextmanager
def _parent(top: str, name: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that holds `name`, and the last part of the name."""
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
        raise OSError(errno.EINVAL, "the name leads out of the folder", name)
    return parts


def json_text(value: Any) -> str:
    """The value as JSON that every reader takes.

    JSON has no word for NaN, so that is null; infinities are numbers that are too large.
    """
    text = json.dumps(_finite(value), indent=2)
    for mark, number in _INFINITE.items():
        text = text.replace(json.dumps(mark), number)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and value - value != 0:
        return None if value != value else "\ue000+" if value > 0 else "\ue000-"
    return value
