"""The text of a configuration file, and places in it.

Invariant: a file that cannot be configuration (a folder, a pipe, more than a megabyte, not text) is refused with one
clear error before anything parses it. Bytes are the business of `tui_workbench.files`, which writes unedited text back
exactly.
"""

from __future__ import annotations

from bisect import bisect_right

from tui_workbench.errors import ConfigurationError, StorageError
from tui_workbench.files import TextFile, read_text_file

MAX_BYTES = 1_000_000
"""The largest real file known has 3 kB; a megabyte is a mistake or an attack, and parsing 10 MB would take a second."""


class Lines:
    """Turns an offset into a text into a line and a column, both counted from 1, as editors count them."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._starts = [0]
        find = text.find
        at = find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = find("\n", at + 1)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at `offset`; an offset past the end gives the end."""
        offset = min(max(offset, 0), self._length)
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def start(self, line: int) -> int:
        """Offset of the first character of `line`; a line past the end gives the last line's."""
        return self._starts[min(max(line, 1), len(self._starts)) - 1]

    def __len__(self) -> int:
        return len(self._starts)


def read(path: str) -> TextFile:
    """The file at `path`, its text with line feeds (or, when line ends are mixed, as they are).

    Raises ConfigurationError: there is no such file, it may not be read, is no regular file, too large, or not text.
    """
    try:
        file = read_text_file(path, largest=MAX_BYTES, head=0)
    except StorageError as error:
        raise ConfigurationError(error.message, remedy=error.remedy, file=path) from error
    if file.too_large:
        refuse_size(file.signature.size, path)
    if file.encoding in ("", "latin-1"):
        raise _not_text(path)
    return file


def refuse_size(size: int, path: str = "") -> None:
    """Raises ConfigurationError when `size` (bytes or characters) is more than a configuration file can have."""
    if size > MAX_BYTES:
        raise ConfigurationError(
            f"{size:,} bytes are too many for a configuration file (at most {MAX_BYTES:,})",
            remedy="Put a real configuration file in its place.",
            file=path,
        )


def _not_text(path: str) -> ConfigurationError:
    """The error for a file that is not UTF-8, at its first bad byte."""
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES)
    try:
        data.decode("utf-8")
        offset = data.find(0)
    except UnicodeDecodeError as error:
        offset = error.start
    before = data[: max(offset, 0)].decode("utf-8", "replace")
    line, column = Lines(before).place(len(before))
    found = f"the byte 0x{data[offset]:02x}" if 0 <= offset < len(data) else "it"
    return ConfigurationError(
        f"{found} is not UTF-8 text", remedy="Save the file as UTF-8.", file=path, line=line, column=column
    )
