"""Files of the project on disk: unedited text writes back byte for byte, and no reader ever sees half a file.

The invariants: `file.encode(file.text)` equals the bytes that were read, for every file that may be edited; and after
`write_atomically` returns or raises, the path holds all of the old bytes or all of the new, also after a power cut.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from tui_workbench.errors import StorageError

LARGEST_EDITABLE = 2 * 1024 * 1024
"""Bytes. Above this a file is shown in part and not edited: every key would cost more than a frame."""

HEAD_OF_LARGE = 256 * 1024
"""Bytes shown of a file that is too large: some 5,000 lines, which open at once."""

HEAD_OF_BINARY = 4 * 1024
"""Bytes of a binary file that are shown in hexadecimal: enough to recognise it."""

_BOMS = (("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"))


class Signature(NamedTuple):
    """What tells one version of a file from the next without reading it."""

    mtime_ns: int
    size: int
    inode: int


class TextFile(NamedTuple):
    """One version of a file, as read.

    Line ends that are all alike are line feeds in `text`; mixed ones stand there as they are.
    """

    path: str
    text: str
    signature: Signature
    encoding: str = "utf-8"  # utf-8, utf-16-le, utf-16-be, latin-1 (read-only), or "" for a binary file
    newline: str = "\n"  # what every line ends with; "" when they are mixed: then `text` holds them as they are
    has_bom: bool = False
    is_binary: bool = False
    too_large: bool = False
    read_only: str = ""  # why it cannot be edited, as a clause; "" when it can

    def same_content(self, other: TextFile) -> bool:
        """True when both versions hold the same bytes, whenever they were written."""
        mine = (self.text, self.encoding, self.newline, self.has_bom, self.is_binary, self.too_large)
        return mine == (other.text, other.encoding, other.newline, other.has_bom, other.is_binary, other.too_large)

    def encode(self, text: str) -> bytes:
        """The bytes of `text` in this file's encoding, line ends and BOM.

        Raises StorageError when the file is read-only or a character of `text` has no form in its encoding.
        """
        if self.read_only:
            raise StorageError(f"this file is read-only here: {self.read_only}", file=self.path)
        native = text if self.newline in ("", "\n") else text.replace("\n", self.newline)
        try:
            data = native.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise _does_not_encode(self, text) from error
        return (_bom(self.encoding) + data) if self.has_bom else data


class FileChangedError(StorageError):
    """The file on disk is no longer the version that was edited; `theirs` is what stands there now."""

    def __init__(self, theirs: TextFile) -> None:
        super().__init__(
            "it changed on disk since it was opened", remedy="Choose which version to keep.", file=theirs.path
        )
        self.theirs = theirs


def signature(path: str) -> Signature | None:
    """The file's signature, or None when there is no such file.

    Raises StorageError when the file is there but may not be looked at.
    """
    try:
        return _signature_of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _cannot(path, "read", error) from error


def read_text_file(path: str, *, largest: int = LARGEST_EDITABLE, head: int = HEAD_OF_LARGE) -> TextFile:
    """Read a file to be shown or edited. Of one above `largest` bytes only the first `head` bytes are read.

    Raises StorageError when there is no such file, it may not be read, or it is a folder, pipe or device.
    """
    try:
        data, found, allowed = _read(path, largest, head)
    except OSError as error:
        raise _cannot(path, "read", error) from error
    if b"\0" in data and not data.startswith(tuple(bom for name, bom in _BOMS if name.startswith("utf-16"))):
        return TextFile(
            path,
            _hexadecimal(data[:HEAD_OF_BINARY]),
            found,
            encoding="",
            is_binary=True,
            too_large=found.size > largest,
            read_only="it is binary",
        )
    if found.size > largest:
        data = data[: data.rfind(b"\n") + 1] or data
        file = _decode(path, data, found, lenient=True)
        return file._replace(too_large=True, read_only=f"it is larger than {_in_megabytes(largest)}")
    file = _decode(path, data, found)
    if not file.read_only and not allowed:
        file = file._replace(read_only="its permissions do not let you write it")
    return file


def reread(file: TextFile) -> TextFile | None:
    """The file as it stands on disk now, or None when it is gone. Cheap when its signature is as it was.

    Raises StorageError when it is there but cannot be read.
    """
    now = signature(file.path)
    if now is None or now == file.signature:
        return file if now else None
    current = read_text_file(file.path)
    if current.same_content(file):
        return file._replace(signature=current.signature, read_only=current.read_only)
    return current


def save(file: TextFile, text: str) -> TextFile:
    """Write `text` in place of the version `file`; gives the version that now stands on disk.

    A file that was deleted meanwhile is written anew. Raises FileChangedError when another version stands on disk
    (nothing is written then), and StorageError as `TextFile.encode` and `write_atomically` do.
    """
    data = file.encode(text)
    current = reread(file)
    if current is not None and not current.same_content(file):
        raise FileChangedError(current)
    return file._replace(text=text, signature=write_atomically(file.path, data))


def write_atomically(path: str, data: bytes, *, mode: int | None = None) -> Signature:
    """Put `data` at `path`, all of it or nothing, durably; a symbolic link stays and the file it leads to is written.

    An existing file keeps its permission bits and, where this user may set it, its owner; `mode` are permission bits to
    set instead (a new file without `mode` gets 0o666 less the umask). Returns the signature of the file as written.
    Other hard links to the file keep the old bytes.

    Raises StorageError when it could not be written (disk full, no permission, no such folder); the old file stands.
    """
    real = os.path.realpath(path)
    directory = os.path.dirname(real)
    temporary = os.path.join(directory, f".workbench-{os.getpid()}-{os.urandom(6).hex()}.tmp")
    try:
        if os.path.isdir(real):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            written = _write_whole(descriptor, data, real, mode)
        finally:
            os.close(descriptor)
        os.replace(temporary, real)
    except OSError as error:
        _remove_quietly(temporary)
        raise _cannot(path, "write", error) from error
    except BaseException:
        _remove_quietly(temporary)
        raise
    _sync_directory(directory)
    return written


def _write_whole(descriptor: int, data: bytes, real: str, mode: int | None) -> Signature:
    _take_over_attributes(descriptor, real, mode)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
    # Renaming changes neither time, size nor inode, so this is the signature of what will stand at the path.
    return _signature_of(os.fstat(descriptor))


def _take_over_attributes(descriptor: int, real: str, mode: int | None) -> None:
    try:
        old = os.stat(real)
    except FileNotFoundError:
        if mode is not None:
            os.fchmod(descriptor, mode)
        return
    own = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            pass  # Only root gives files away; the content matters more than the owner.
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) if mode is None else mode)


def _sync_directory(directory: str) -> None:
    # The file is in place by now; some network file systems cannot sync a directory, and nothing is left to undo.
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _read(path: str, largest: int, head: int) -> tuple[bytes, Signature, bool]:
    # Without O_NONBLOCK a named pipe would hold the thread until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise StorageError(
                "this is no regular file", remedy="Pipes, sockets and devices cannot be opened.", file=path
            )
        found = _signature_of(status)
        wanted = head if found.size > largest else largest + 1
        parts = []
        while wanted > 0 and (part := os.read(descriptor, min(wanted, 1 << 20))):
            parts.append(part)
            wanted -= len(part)
    finally:
        os.close(descriptor)
    data = b"".join(parts)
    # /proc and growing files report a smaller size than they deliver.
    found = found._replace(size=max(found.size, len(data))) if len(data) > largest else found
    allowed = os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return data, found, allowed


def _decode(path: str, data: bytes, found: Signature, *, lenient: bool = False) -> TextFile:
    encoding, bom = next(((name, mark) for name, mark in _BOMS if data.startswith(mark)), ("utf-8", b""))
    body = data[len(bom) :]
    read_only = ""
    try:
        text = body.decode(encoding, "replace" if lenient else "strict")
    except UnicodeDecodeError:
        text, encoding, bom = data.decode("latin-1"), "latin-1", b""
        read_only = "it is not UTF-8 (shown as Latin-1)"
    newline = _newline_of(text)
    if newline not in ("", "\n"):
        text = text.replace(newline, "\n")
    file = TextFile(path, text, found, encoding, newline, has_bom=bool(bom), read_only=read_only)
    if not lenient and not read_only and file.encode(text) != data:
        return file._replace(read_only=f"its {encoding} would not write back as it is")
    return file


def _newline_of(text: str) -> str:
    pairs = text.count("\r\n")
    returns = text.count("\r") - pairs
    feeds = text.count("\n") - pairs
    if not returns and not pairs:
        return "\n"
    if pairs and not returns and not feeds:
        return "\r\n"
    if returns and not pairs and not feeds:
        return "\r"
    return ""


def _bom(encoding: str) -> bytes:
    return next(mark for name, mark in _BOMS if name == encoding)


def _signature_of(status: os.stat_result) -> Signature:
    return Signature(status.st_mtime_ns, status.st_size, status.st_ino)


def _hexadecimal(data: bytes) -> str:
    """Offset, sixteen bytes, and those of them that are ASCII: the form every hex viewer uses."""
    lines = []
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{offset:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {shown}")
    return "\n".join(lines)


def _in_megabytes(size: int) -> str:
    return f"{size / (1024 * 1024):.0f} MB"


def _does_not_encode(file: TextFile, text: str) -> StorageError:
    # Every supported encoding is a Unicode one, so a lone surrogate is all that can have no form.
    position = next(index for index, character in enumerate(text) if "\ud800" <= character <= "\udfff")
    start_of_line = text.rfind("\n", 0, position) + 1
    return StorageError(
        f"the character U+{ord(text[position]):04X} has no form in {file.encoding}",
        remedy="Remove it and save again.",
        file=file.path,
        line=text.count("\n", 0, position) + 1,
        column=position - start_of_line + 1,
    )


_REMEDIES = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again; the old file is unharmed."),
    errno.EDQUOT: ("your disk quota is used up", "Free some space and try again; the old file is unharmed."),
    errno.EROFS: ("the file system is read-only", "Copy the project to a place where you may write."),
    errno.EACCES: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.EPERM: ("permission denied", "Check the permissions of the file and of its folder."),
    errno.ENOENT: ("no such file or folder", "Check the name and that its folder exists."),
    errno.ENOTDIR: ("a part of its path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("this is a folder", "Name a file in it."),
    errno.ELOOP: ("its symbolic links lead in a circle", "Correct the link."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name."),
    errno.EMFILE: ("too many files are open", "Close some and try again."),
}


def _cannot(path: str, action: str, error: OSError) -> StorageError:
    reason = (error.strerror or str(error)).lower()
    cause, remedy = _REMEDIES.get(error.errno or 0, (reason, "The disk or the connection to it may have failed."))
    return StorageError(f"cannot {action} it: {cause}", remedy=remedy, file=path)
