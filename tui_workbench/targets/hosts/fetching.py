"""Copy folders from a host, verify the checksums of the files, and unpack untrusted archives.

A repeated fetch skips the files that have already arrived. Unpacking creates only files, folders and links that stay
within the folder. Links are created last, so that no file is written through a link. (tarfile's `data` filter has
similar rules, but the Python of Debian 12 does not have this filter.)
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import posixpath
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Container
from typing import IO, NamedTuple, Protocol, cast

from tui_workbench.core.errors import StorageError, storage_errors
from tui_workbench.core.files import (
    FOLDER_MODE,
    merge_below,
    open_new,
    open_regular,
    remove_below,
    rename_below,
    unlink_below,
)
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.process_io import ProcessIO

_CHUNK = 1 << 20


class Stream(Protocol):
    """A readable stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, or `b""` at the end."""


class Unpacked:
    """The content of an unpacked archive."""

    def __init__(self, folder: str, on_progress: Callable[[int], None] = lambda size: None) -> None:
        """`on_progress` is called with the number of bytes written so far."""
        self.folder = folder
        self.on_progress = on_progress
        self.checksums: dict[str, str] = {}
        """The SHA-256 checksums of the files, by name."""

        self.links: dict[str, str] = {}
        """The targets of the links, by name."""

        self.skipped: list[str] = []
        """The names of members that were not unpacked."""

        self.size = 0

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack a member. Links are created later, by `make_links`.

        Raises StorageError if the file system does not distinguish the name from that of another file.
        """
        name = posixpath.normpath(member.name)
        path = os.path.join(self.folder, name)
        if name == ".":
            return
        if not is_within(name):
            self.skipped.append(member.name)
        elif member.isdir():
            os.makedirs(path, exist_ok=True)
        elif member.issym() and is_within(posixpath.join(posixpath.dirname(name), member.linkname)):
            self.links[name] = member.linkname
        elif member.isreg():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._refuse_other_file(name)
            self.checksums[name] = self._write(cast("IO[bytes]", archive.extractfile(member)), path, member)
            self.size += member.size
        elif member.islnk() and posixpath.normpath(member.linkname) in self.checksums:
            original = posixpath.normpath(member.linkname)
            self._refuse_other_file(name)
            shutil.copy2(os.path.join(self.folder, original), path)
            self.checksums[name] = self.checksums[original]
        else:
            self.skipped.append(member.name)

    def _refuse_other_file(self, name: str) -> None:
        path = os.path.join(self.folder, name)
        if name not in self.checksums and os.path.lexists(path):  # such as `a.txt` for `A.txt`
            raise StorageError(
                f"cannot store {name}: the file system here does not distinguish this name from that of another file",
                remedy="Both files are unchanged on the machine of the run. Rename one of them there, then run "
                "`workbench-tui experiment collect`.",
                file=path,
            )

    def _write(self, data: IO[bytes], path: str, member: tarfile.TarInfo) -> str:
        checksum = hashlib.sha256()
        if os.path.lexists(path):  # the archive contains the name twice; the last content counts
            os.unlink(path)
        mode = 0o700 if member.mode & 0o100 else 0o600
        with open_new(path, mode) as file:
            while part := data.read(_CHUNK):
                checksum.update(part)
                if part.strip(b"\0"):
                    file.write(part)
                else:
                    file.seek(len(part), os.SEEK_CUR)  # a hole stays a hole
                self.on_progress(self.size + file.tell())
            file.truncate()
        with contextlib.suppress(ValueError, OverflowError, OSError):  # the time can be any number
            os.utime(path, (member.mtime, member.mtime))
        return checksum.hexdigest()

    def make_links(self) -> None:
        """Create the links, then remove those that leave the folder through another link."""
        for name, target in list(self.links.items()):
            path = os.path.join(self.folder, name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(target, path)
            except (FileExistsError, NotADirectoryError):  # another member of the archive has this name
                del self.links[name]
                self.skipped.append(name)
        inside = os.path.realpath(self.folder)
        for name in list(self.links):
            path = os.path.join(self.folder, name)
            if os.path.commonpath([os.path.realpath(path), inside]) != inside:
                os.unlink(path)
                del self.links[name]
                self.skipped.append(name)


LARGEST_HEADER = 1 << 20
"""Maximum size in bytes of the headers of a member; the tarfile module reads them as a whole."""

_GZIP = b"\x1f\x8b"
"""The first bytes of a file that gzip has compressed (RFC 1952)."""


class _Rest:
    """A stream whose first bytes were read already."""

    def __init__(self, first: bytes, stream: Stream) -> None:
        self._first, self._stream = first, stream

    def read(self, size: int) -> bytes:
        first, self._first = self._first[:size], self._first[size:]
        return first or self._stream.read(size)


class _Archive:
    """The uncompressed bytes of a stream, of which only an allowed number can be read.

    Limiting what tarfile reads does not depend on its methods, of which other versions of Python call others.
    """

    def __init__(self, stream: Stream) -> None:
        first = stream.read(1)
        first += stream.read(1) if first else b""
        rest = _Rest(first, stream)
        self._stream: Stream = gzip.GzipFile(fileobj=cast("IO[bytes]", rest)) if first == _GZIP else rest
        self.allow(0)

    def allow(self, size: int) -> None:
        """Allow `size` bytes of data and the headers after them. tarfile reads up to a chunk ahead."""
        self._allowed = size + LARGEST_HEADER + 2 * _CHUNK

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes. Raises tarfile.ReadError if these are not allowed, OSError and EOFError."""
        data = self._stream.read(size)
        self._allowed -= len(data)
        if self._allowed < 0:
            raise tarfile.ReadError(f"a member of the archive has more than {LARGEST_HEADER} bytes of headers")
        return data


def unpack(
    stream: Stream,
    folder: str,
    on_progress: Callable[[int], None] = lambda size: None,
    is_wanted: Callable[[tarfile.TarInfo], bool] = lambda member: True,
) -> Unpacked:
    """Unpack the wanted members of a tar archive into an existing folder, which has no files with their names.

    Raises tarfile.TarError, EOFError, zlib.error, OSError or StorageError.
    """
    unpacked = Unpacked(folder, on_progress)
    source = _Archive(stream)
    with tarfile.open(
        fileobj=cast("IO[bytes]", source), mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=_CHUNK
    ) as archive:
        for member in archive:
            # Not the size of the member, which says nothing about the bytes in the archive if it has holes.
            source.allow(archive.offset - member.offset_data)
            if is_wanted(member):
                unpacked.add(archive, member)
    unpacked.make_links()
    return unpacked


def is_within(name: str) -> bool:
    """Return True if a path is relative and stays within its folder. Links are not resolved."""
    name = posixpath.normpath(name)
    return not name.startswith("/") and name != ".." and not name.startswith("../")


PARTIAL = ".part"
"""Suffix of the folder for incoming files."""

NAMED_FILES = 1_000
"""If a run has made at most this number of files, their names are sent, so that the host searches only once."""

LARGEST_LIST = 1 << 28
"""Maximum size in bytes of the list of checksums, enough for two million files."""

LARGEST_TOTAL = 1 << 40
"""Maximum size of the files in KiB."""

_DAMAGES = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError)
"""Errors of reading an archive that is damaged, or was made to attack its readers."""

MAX_ATTEMPTS = 3
"""Maximum number of attempts. A file that is still being written has a different checksum each time."""

_SEND = shell_script("targets/hosts/scripts/send_folder.sh")


class FetchReport(NamedTuple):
    """The result of a fetch.

    `skipped` lists entries that lead out of the folder, entries other than files, folders and links, and those that the
    user of the machine cannot read.
    """

    files: int = 0  # in the folder
    size: int = 0  # bytes that the last attempt has fetched
    skipped: tuple[str, ...] = ()


def fetch(
    host: Host, source: str, destination: str, is_kept: Callable[[str], bool] = lambda name: False, *, since: str = ""
) -> FetchReport:
    """Copy the folder `source` of the host to `destination`, which is changed only when all files have arrived.

    Files of `destination` that are not copied are removed, unless `is_kept` returns True for their relative path. With
    `since`, the name of a file beside `source`, only files and links that were changed after this file was made are
    copied, without Python bytecode and empty folders. If `destination` is then empty, it is removed. Raises
    WorkbenchError, such as TargetUnreachable or StorageError.
    """
    partial = destination.rstrip("/") + PARTIAL
    for _ in range(MAX_ATTEMPTS):
        _make_folder(partial)
        report = _attempt(host, source, partial, since)
        if report is not None:
            _replace(partial, destination, is_kept)
            if since:
                with contextlib.suppress(OSError):  # it has files
                    os.rmdir(destination)
            return report
    raise StorageError(
        f"{source} on {host.label} changed during the copy",
        remedy="Stop the program that writes to that folder, then run `workbench-tui experiment collect`. The files "
        "copied so far are kept.",
        file=partial,
    )


def forget_partial(destination: str) -> None:
    """Remove the files of an incomplete fetch."""
    partial = destination.rstrip("/") + PARTIAL
    remove_below(os.path.dirname(partial), os.path.basename(partial))


def _attempt(host: Host, source: str, partial: str, since: str) -> FetchReport | None:
    """Fetch the missing files, and return the result, or None if the checksum of a file is wrong.

    Raises the errors of `fetch`.
    """
    with ProcessIO(host, ["sh", "-c", _SEND, "sh", source, since], "copy files from") as process:
        is_near = process.wait_for_start()
        answer = process.line()
        if answer == "missing":
            raise StorageError(
                f"{source} does not exist on {host.label}", remedy="Submit the run again to create its files."
            )
        if answer == "link":
            raise StorageError(
                f"{source} on {host.label} is a symbolic link, which is not followed",
                remedy="On that machine, replace the link with the folder that it points to, then run `workbench-tui "
                "experiment collect`.",
            )
        sums = _checksums(process.take(process.number_in(answer, LARGEST_LIST) + 1))
        refused = process.take(process.number(LARGEST_LIST) + 1).decode("utf-8", "surrogateescape").split("\n")
        kilobytes = process.number(LARGEST_TOTAL)
        # The names in the folder, because a file system may find `A.txt` under the name `a.txt` too.
        here = {name for name in _paths(partial) & sums.keys() if _checksum(os.path.join(partial, name)) == sums[name]}
        names = b"".join(b"./" + os.fsencode(name) + b"\0" for name in sums if name not in here)
        is_named = bool(here) or (bool(since) and len(sums) <= NAMED_FILES)
        process.write(f"{len(names) if is_named else 'all'} {'cat' if is_near else 'gzip -1'}\n".encode())
        process.write(names if is_named else b"")
        process.close_input()
        size_here = sum(os.path.getsize(os.path.join(partial, name)) for name in here)
        total = max(0, (kilobytes << 10) - size_here)
        with meter("fetching", BYTES, total) as fetching, storage_errors("write", partial, exact=True):
            _remove_stale(partial, here)
            try:
                # A file that was created after the listing has no checksum to verify.
                unpacked = unpack(process, partial, fetching.update, lambda member: _is_listed(member, sums))
            except _DAMAGES:
                process.fail()
        process.finish()
    if any(unpacked.checksums.get(name) != sums[name] for name in sums if name not in here):
        return None
    unread = [posixpath.normpath(name) for name in refused if name]
    return FetchReport(len(sums), unpacked.size, (*unpacked.skipped, *unread))


_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.*)", re.DOTALL)
_ESCAPED = {b"\\n": b"\n", b"\\\\": b"\\", b"\\r": b"\r"}


def _checksums(data: bytes) -> dict[str, str]:
    """Return the checksums of the files within the folder, by name, from the output of sha256sum."""
    checksums = {}
    for line in data.split(b"\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        escaped, checksum, name = match.groups()
        if escaped:
            name = re.sub(rb"\\.", lambda pair: _ESCAPED.get(pair[0], pair[0]), name)
        path = posixpath.normpath(os.fsdecode(name))
        if is_within(path):
            checksums[path] = checksum.decode()
    return checksums


def _checksum(path: str) -> str:
    try:
        if os.path.islink(path):
            return ""
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _is_listed(member: tarfile.TarInfo, sums: dict[str, str]) -> bool:
    return posixpath.normpath(member.name) in sums or not (member.isreg() or member.islnk())


def _remove_stale(folder: str, current: Container[str]) -> None:
    """Remove the files that are not in `current`, and empty folders."""
    for name in _paths(folder):
        if name not in current:
            unlink_below(folder, name)
    for parent, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(parent, name))


def _paths(folder: str) -> set[str]:
    """Return the relative paths of the files and links below a folder."""
    paths: set[str] = set()
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        paths.update(os.path.relpath(os.path.join(parent, name), folder) for name in (*names, *links))
    return paths


def _make_folder(path: str) -> None:
    """Create the folder for incoming files, and remove the links of an earlier attempt."""
    with storage_errors("write", path, exact=True):
        if os.path.islink(path):
            os.unlink(path)
        os.makedirs(path, FOLDER_MODE, exist_ok=True)
        for parent, folders, files in os.walk(path):
            for name in folders + files:
                if os.path.islink(os.path.join(parent, name)):
                    os.unlink(os.path.join(parent, name))


def _replace(partial: str, destination: str, is_kept: Callable[[str], bool]) -> None:
    """Move the complete folder to `destination`, and remove all files there that are neither new nor to be kept.

    New files survive a power failure.
    """
    folder, base = os.path.split(destination.rstrip("/"))
    with storage_errors("write", destination, exact=True):
        new = _paths(partial)
        if new:
            os.sync()
        if os.path.isdir(destination) and not os.path.islink(destination):
            kept = {name for name in _paths(destination) if is_kept(name)}
            _remove_stale(destination, kept | new)
        try:
            rename_below(folder or ".", base + PARTIAL, base)  # in one step, if `destination` has no files
        except OSError:
            merge_below(folder or ".", base + PARTIAL, base)
        if new:
            os.sync()
