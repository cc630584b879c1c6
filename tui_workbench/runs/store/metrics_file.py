"""The file of the values that a script logs: `metrics.jsonl`, or `metrics.jsonl.gz` for an ended run with many values.

`metrics.jsonl.gz` (gzip, RFC 1952) has the same content in about a quarter of the size. If both files exist, the
compressed one is complete, because it is written atomically and checked before the other is removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from tui_workbench.core.files import open_regular, replacing_below, unlink_below
from tui_workbench.runs.store.rundir import METRICS, METRICS_PACKED, ControllerLock, RunDirectory

COMPRESS_FROM = 10_000_000  # minimum size in bytes; smaller files stay readable with any program
FASTEST = 1  # a higher level saves a tenth of the space and takes two to three times as long
BLOCK = 1 << 20

GZIP = 16 + zlib.MAX_WBITS  # a value of `wbits` that selects the format of gzip
SIZE_LIMIT = 1 << 32  # gzip stores the size modulo this number


def is_packed(directory: str) -> bool:
    """Return True if the logged values of the run at `directory` are compressed."""
    return os.path.lexists(f"{directory}/{METRICS_PACKED}")


def size_of_metrics(directory: str) -> int:
    """Return the uncompressed size of the logged values, modulo 4 GiB; -1 without a file."""
    try:
        if not is_packed(directory):
            return os.stat(f"{directory}/{METRICS}").st_size % SIZE_LIMIT
        with open_regular(f"{directory}/{METRICS_PACKED}") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return -1


def metrics_blocks(directory: str) -> Iterator[bytes]:
    """Yield the logged values in blocks, uncompressed. Raises OSError, also for a damaged compressed file."""
    if not is_packed(directory):
        with open_regular(f"{directory}/{METRICS}") as file:
            while data := file.read(BLOCK):
                yield data
        return
    with open_regular(f"{directory}/{METRICS_PACKED}") as file:
        yield from _unpacked(file)


def pack(directory: RunDirectory) -> bool:
    """Compress the logged values of an ended run if there are many. Return True if it was done.

    A file that changes, or that a process can still write to, is not compressed. Raises OSError or WorkbenchError.
    """
    path = directory.file(METRICS)
    try:
        file = open_regular(path)
    except OSError:
        return False
    with file, contextlib.ExitStack() as lock:
        size = os.fstat(file.fileno()).st_size
        if size < COMPRESS_FROM or _has_writer(file):
            return False
        try:
            with replacing_below(directory.path, METRICS_PACKED, durable=True) as packed:
                _compress(file, packed)
                _lock_ended(directory, lock)  # another attempt cannot start while the lock is held
                if os.stat(path).st_size != size or _has_writer(file):
                    raise _StaysPlain
        except _StaysPlain:
            return False
        unlink_below(directory.path, METRICS)
    return True


def unpack(directory: str) -> None:
    """Restore `metrics.jsonl`, so that another attempt of the run can append to it. Raises OSError."""
    if is_packed(directory):
        with replacing_below(directory, METRICS, durable=True) as file:
            file.writelines(metrics_blocks(directory))
        unlink_below(directory, METRICS_PACKED)


class _StaysPlain(Exception):
    """The logged values must not be compressed now."""


def _lock_ended(directory: RunDirectory, stack: contextlib.ExitStack) -> None:
    """Lock an ended run until `stack` is closed."""
    lock = ControllerLock.acquire(directory)
    if lock is None:
        raise _StaysPlain
    stack.enter_context(lock)
    run = directory.run()
    if run.is_active or run.lacks_outputs:
        raise _StaysPlain


def _compress(source: BinaryIO, packed: BinaryIO) -> None:
    """Write the compressed content of `source`, and read it again to check it. Raises OSError if it is damaged."""
    compressor, size = zlib.compressobj(FASTEST, wbits=GZIP), 0
    while data := source.read(BLOCK):
        size += len(data)
        packed.write(compressor.compress(data))
    packed.write(compressor.flush())
    packed.flush()
    with open(os.dup(packed.fileno()), "rb") as file:
        file.seek(0)
        if sum(map(len, _unpacked(file))) != size:
            raise OSError(errno.EIO, "the compressed file is damaged", METRICS_PACKED)


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a compressed file in blocks of at most BLOCK bytes. Checks its checksum and its size."""
    decompressor = zlib.decompressobj(wbits=GZIP)
    try:
        while not decompressor.eof:
            data = decompressor.unconsumed_tail or file.read(BLOCK)
            found = decompressor.decompress(data, BLOCK)
            if not data and not found:
                raise OSError(errno.EIO, "the compressed file is incomplete", METRICS_PACKED)
            yield found
    except zlib.error as error:
        raise OSError(errno.EIO, f"the compressed file is damaged: {error}", METRICS_PACKED) from error


def _has_writer(file: BinaryIO) -> bool:
    """Return True if a process may have the file open for writing, or if the file system cannot tell.

    Processes that a script has started can log values after its end. The kernel grants a read lease only if no process
    has the file open for writing (fcntl(2)).
    """
    with contextlib.suppress(OSError):
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    return True
