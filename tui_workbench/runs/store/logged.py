"""The lines that a script has logged: `metrics.jsonl`, or `metrics.jsonl.gz` after the end of a large run.

`compress` replaces the first file by the second, and `restore` does the reverse before another attempt. Each file
appears only when it is complete, and then the other is removed. If both exist, because a process was killed in between,
the longer content is valid. The next call of either function completes the replacement.

The comment in the header of the gzip file is the size of the content in bytes. The size at the end of a gzip file is
only known modulo 4 GiB.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from tui_workbench.core import locks
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import open_below, open_regular, remove_below, replacing_below, unlink_below
from tui_workbench.core.holes import end_of_hole
from tui_workbench.runs.store.rundir import METRICS, RunDirectory

METRICS_COMPRESSED = f"{METRICS}.gz"

LARGE = 16 << 20  # minimum number of bytes to compress; smaller files stay readable for people

FAULTS = (OSError, EOFError, zlib.error)
"""Errors of reading the lines; a damaged gzip file causes all of them."""

_TEMPORARY = f"{METRICS}.new"
_LEVEL = 1  # level 6 takes three times as long and saves 10 %
_BLOCK = 1 << 20
_BUFFERED = 64 << 20  # more than the number of bytes of which zlib may not have written anything yet
_HEADER = b"\x1f\x8b\x08\x10\0\0\0\0\0\xff"  # gzip with a comment, of no time and no system
_LONGEST_COMMENT = 20
_HIGHEST_RATIO = 100  # of the sizes; deflate permits 1,000, with which a small file could block its readers for long


class Logged(NamedTuple):
    """The opened lines of a run. To seek in a compressed file, the bytes before the new offset are decompressed."""

    file: BinaryIO
    size: int  # number of bytes of the lines
    is_compressed: bool = False


@contextlib.contextmanager
def open_logged(directory: str) -> Iterator[Logged]:
    """Open the lines of the run at `directory`. Raises OSError if both files are missing.

    Reading the lines can raise FAULTS.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(2):  # `restore` may replace the second file by the first between the two calls
            files = (_plain(directory, stack), _compressed(directory, stack))
            existing = [logged for logged in files if logged is not None]
            if existing:
                yield max(existing, key=lambda logged: logged.size)
                return
        raise FileNotFoundError(f"{directory}/{METRICS}")


def blocks(logged: Logged, block: int) -> Iterator[bytes]:
    """Yield the bytes of the lines, at most `block` at once. A NUL byte replaces a large hole. Raises FAULTS."""
    offset = 0
    while offset < logged.size:
        end = offset if logged.is_compressed else end_of_hole(logged.file.fileno(), offset, logged.size)
        if end > offset:
            offset = logged.file.seek(end)
            yield b"\0"
        data = logged.file.read(min(block, logged.size - offset))
        offset += len(data)
        if not data:
            return
        yield data


def logged_size(directory: str) -> int:
    """Return the number of bytes of the lines of a run, or -1 if both files are missing."""
    with contextlib.suppress(OSError), open_logged(directory) as logged:
        return logged.size
    return -1


def _plain(directory: str, stack: contextlib.ExitStack) -> Logged | None:
    with contextlib.suppress(OSError):
        file = stack.enter_context(open_regular(f"{directory}/{METRICS}"))
        return Logged(file, os.fstat(file.fileno()).st_size)
    return None


def _compressed(directory: str, stack: contextlib.ExitStack) -> Logged | None:
    with contextlib.suppress(OSError):
        file = stack.enter_context(open_regular(f"{directory}/{METRICS_COMPRESSED}"))
        head = file.read(len(_HEADER) + _LONGEST_COMMENT)
        comment, _, rest = head[len(_HEADER) :].partition(b"\0")
        most = _HIGHEST_RATIO * os.fstat(file.fileno()).st_size
        if head.startswith(_HEADER) and comment.isdigit() and rest and int(comment) <= most:
            file.seek(0)
            lines = stack.enter_context(gzip.GzipFile(fileobj=file))
            return Logged(cast(BinaryIO, lines), int(comment), is_compressed=True)
    return None


def compress(directory: RunDirectory) -> None:
    """Compress the lines of an ended run if they are many. Raises OSError.

    While some files of the run are on another machine, nothing is done: fetching the lines continues at the size of
    `metrics.jsonl`.
    """
    path = directory.path
    with contextlib.suppress(FileNotFoundError), open(open_below(path, METRICS, os.O_RDWR), "rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size < LARGE or not locks.try_lock(file.fileno()):  # `restore` waits for the lock
            return
        status = directory.status()
        if not status.end or status.lacks_outputs:
            return
        with replacing_below(path, METRICS_COMPRESSED, durable=True, temporary=_TEMPORARY) as compressed:
            is_readable = _compress(file, before.st_size, compressed)
        now = os.lstat(directory.file(METRICS))
        if is_readable and (now.st_dev, now.st_ino, now.st_size) == (before.st_dev, before.st_ino, before.st_size):
            unlink_below(path, METRICS)
        else:
            unlink_below(path, METRICS_COMPRESSED)  # for example, a process that has survived its run has logged more


def _compress(file: BinaryIO, size: int, compressed: BinaryIO) -> bool:
    """Return False, and stop early, if the lines become so small that readers refuse them."""
    deflate = zlib.compressobj(_LEVEL, wbits=-zlib.MAX_WBITS)
    checksum, left = 0, size
    compressed.write(_HEADER + b"%d\0" % size)
    while data := file.read(min(_BLOCK, left)):
        left -= len(data)
        checksum = zlib.crc32(data, checksum)
        compressed.write(deflate.compress(data))
        if size - left > _BUFFERED + _HIGHEST_RATIO * compressed.tell():
            return False
    compressed.write(deflate.flush() + struct.pack("<LL", checksum, size % (1 << 32)))
    return size <= _HIGHEST_RATIO * compressed.tell()


def restore(directory: RunDirectory) -> None:
    """Replace the compressed lines by `metrics.jsonl`, to which another attempt of the run appends lines.

    Call this after the attempt is recorded. Raises StorageError.
    """
    path = directory.path
    with storage_errors("restore", directory.file(METRICS)):
        with contextlib.suppress(FileNotFoundError), locks.held(open_below(path, METRICS, os.O_RDWR)):
            pass  # `compress`, which may have begun before the attempt, has ended, and does not begin again
        with contextlib.suppress(FileNotFoundError), open_logged(path) as logged:
            if logged.is_compressed:
                with replacing_below(path, METRICS, durable=True, temporary=_TEMPORARY) as restored:
                    _decompress(logged.file, restored)
                    # Lines that a process has logged after the end of its run
                    with contextlib.suppress(FileNotFoundError), open_regular(directory.file(METRICS)) as late:
                        shutil.copyfileobj(late, restored)
            remove_below(path, METRICS_COMPRESSED)


def _decompress(compressed: BinaryIO, restored: BinaryIO) -> None:
    try:
        shutil.copyfileobj(compressed, restored, _BLOCK)
    except (EOFError, zlib.error) as error:
        raise OSError(f"{METRICS_COMPRESSED} is damaged") from error
