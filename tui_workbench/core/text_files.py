"""Read, show and edit text files.

For every editable file, `file.encode(file.text)` equals the bytes that were read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError, storage_error
from tui_workbench.core.files import Signature, open_file, signature, signature_of, write_atomically

LARGEST_EDITABLE = 2 * 1024 * 1024
"""Maximum size of an editable file in bytes. In a larger file, a key press would take longer than a frame."""

HEAD_OF_LARGE = 256 * 1024
"""Number of bytes of a larger file that are shown."""

HEAD_OF_BINARY = 4 * 1024
"""Number of bytes of a binary file that are shown, in hexadecimal."""

LOCK_SECONDS = 10.0
"""Maximum time to wait for another write in the same folder, in seconds."""

_NO_PERMISSION = "you do not have permission to write it"
_BOMS = (("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff"))


class TextFile(NamedTuple):
    """A version of a file. In `text`, line endings are converted to line feeds, unless the file mixes them."""

    path: str
    text: str
    signature: Signature
    encoding: str = "utf-8"  # utf-8, utf-16-le, utf-16-be, latin-1 (read-only), or "" for a binary file
    newline: str = "\n"  # line ending of all lines; "" if they are mixed
    has_bom: bool = False
    is_binary: bool = False
    too_large: bool = False
    read_only: str = ""  # the reason why the file cannot be edited, as a clause

    def same_content(self, other: TextFile) -> bool:
        """Return True if both versions have the same bytes."""
        mine = (self.text, self.encoding, self.newline, self.has_bom, self.is_binary, self.too_large)
        return mine == (other.text, other.encoding, other.newline, other.has_bom, other.is_binary, other.too_large)

    def encode(self, text: str) -> bytes:
        """Encode `text` with the encoding, line endings and BOM of this file.

        Raises StorageError if the file is read-only, or the encoding has no code for a character.
        """
        if self.read_only:
            raise StorageError(
                f"this file is read-only: {self.read_only}",
                remedy="Change its permissions, or edit a copy."
                if self.read_only == _NO_PERMISSION
                else "Use another editor.",
                file=self.path,
            )
        native = text if self.newline in ("", "\n") else text.replace("\n", self.newline)
        try:
            data = native.encode(self.encoding)
        except UnicodeEncodeError as error:
            # Only lone surrogates cannot be encoded, because all supported encodings are Unicode.
            at = next(index for index, character in enumerate(text) if "\ud800" <= character <= "\udfff")
            line, column = line_and_column(text, at)
            message = f"the character U+{ord(text[at]):04X} cannot be encoded in {self.encoding}"
            remedy = "Remove the character and save again."
            raise StorageError(message, remedy=remedy, file=self.path, line=line, column=column) from error
        return dict(_BOMS)[self.encoding] + data if self.has_bom else data


class FileChangedError(StorageError):
    """The file changed on disk since it was read; `theirs` is the version on disk."""

    def __init__(self, theirs: TextFile) -> None:
        message = "the file has changed on disk since it was opened"
        super().__init__(message, remedy="Choose which version to keep.", file=theirs.path)
        self.theirs = theirs


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of the character at `offset`, both from 1."""
    offset = min(max(offset, 0), len(text))
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def read_text_file(path: str, *, largest: int = LARGEST_EDITABLE, head: int = HEAD_OF_LARGE) -> TextFile:
    """Return a file to show or edit. If the file has more than `largest` bytes, read only the first `head` bytes.

    Raises StorageError if the file does not exist, cannot be read, or is a folder, pipe or device.
    """
    try:
        data, version, allowed = _read(path, largest, head)
    except OSError as error:
        raise storage_error("read", path, error) from error
    if b"\0" in data and not data.startswith(tuple(bom for name, bom in _BOMS if name.startswith("utf-16"))):
        shown, too_large = _hexadecimal(data[:HEAD_OF_BINARY]), version.size > largest
        return TextFile(path, shown, version, "", is_binary=True, too_large=too_large, read_only="it is binary")
    if version.size > largest:
        data = data[: data.rfind(b"\n") + 1] or data
        file = _decode(path, data, version, lenient=True)
        return file._replace(too_large=True, read_only=f"it is larger than {largest >> 20} MiB")
    file = _decode(path, data, version)
    if not file.read_only and not allowed:
        file = file._replace(read_only=_NO_PERMISSION)
    return file


def reread(file: TextFile) -> TextFile | None:
    """Return the current version of a file, or None if it was deleted. This is fast if the file has not changed.

    Raises StorageError if it cannot be read.
    """
    now = signature(file.path)
    if now is None or now == file.signature:
        return file if now else None
    current = read_text_file(file.path)
    if current.same_content(file):
        return file._replace(signature=current.signature, read_only=current.read_only)
    return current


def save(file: TextFile, text: str) -> TextFile:
    """Replace the content of `file` with `text`, and return the new version. A deleted file is created again.

    Raises FileChangedError if the file changed on disk, and the errors of `TextFile.encode` and `write_atomically`.
    """
    data = file.encode(text)
    with locked([file.path]):
        # Compare the content, because two writes within one clock tick can have the same signature.
        current = read_text_file(file.path) if signature(file.path) is not None else None
        if current is not None and not current.same_content(file):
            raise FileChangedError(current)
        return file._replace(text=text, signature=write_atomically(file.path, data))


@contextlib.contextmanager
def locked(paths: Iterable[str]) -> Iterator[None]:
    """Prevent other writers from changing files between a check of their content and a write.

    The folders of the files get advisory locks. Missing folders, and folders on file systems without locks, are not
    locked. Raises StorageError if another program holds a lock for longer than LOCK_SECONDS.
    """
    with contextlib.ExitStack() as held:
        # The order prevents a deadlock between two writers.
        for folder in sorted({os.path.dirname(os.path.realpath(path)) for path in paths}):
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                continue
            with contextlib.suppress(OSError):  # a file system without locks
                held.enter_context(locks.held(descriptor, _patience(folder)))
        yield


def _patience(folder: str) -> Callable[[], None]:
    deadline = time.monotonic() + LOCK_SECONDS

    def pause() -> None:
        if time.monotonic() > deadline:
            message = "another program has locked this folder"
            raise StorageError(message, remedy="Wait until that program has finished, then try again.", file=folder)
        time.sleep(0.005)

    return pause


def _read(path: str, largest: int, head: int) -> tuple[bytes, Signature, bool]:
    try:
        with open_file(path) as file:
            version = signature_of(os.fstat(file.fileno()))
            data = file.read(head if version.size > largest else largest + 1)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENXIO):  # ENXIO: a socket
            raise
        remedy = "Choose a regular file: pipes, sockets and devices cannot be opened."
        raise StorageError("this is not a regular file", remedy=remedy, file=path) from error
    # Files in /proc and growing files can contain more bytes than their reported size.
    version = version._replace(size=max(version.size, len(data))) if len(data) > largest else version
    allowed = os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
    return data, version, allowed


def _decode(path: str, data: bytes, version: Signature, *, lenient: bool = False) -> TextFile:
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
    file = TextFile(path, text, version, encoding, newline, has_bom=bool(bom), read_only=read_only)
    if not lenient and not read_only and file.encode(text) != data:
        return file._replace(read_only=f"its {encoding} text cannot be written back unchanged")
    return file


def _newline_of(text: str) -> str:
    ends = set(re.findall("\r\n|\r|\n", text)) or {"\n"}
    return ends.pop() if len(ends) == 1 else ""


def _hexadecimal(data: bytes) -> str:
    """Return a hex dump: each line has an offset, sixteen bytes and their ASCII characters."""
    lines = []
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{offset:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {shown}")
    return "\n".join(lines)
