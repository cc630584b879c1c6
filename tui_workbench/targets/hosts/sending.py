"""Send a folder to a host: only changed files, in one stream.

The host stores a manifest beside the folder, with the path and identity of each sent file, and the output of `find`
after the last transfer. If both are as expected, one round trip shows that all files are up to date. A file is up to
date if it has the wanted identity and an unchanged line in the output of `find`. Changes that were made to the folder
on the host are therefore found and undone. If the folder has not changed, only the changes of the manifest are
transferred. The host needs only standard tools; gzip is optional.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import posixpath
import secrets
import tarfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from tui_workbench.core.errors import StorageError, storage_error
from tui_workbench.core.files import open_regular
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import BYTES, meter, size_text
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.manifest import (
    FileList,
    ManifestCopy,
    digest_of,
    entry_of,
    identity_of,
    manifest,
    parsed,
    records_of,
    split,
)
from tui_workbench.targets.hosts.process_io import ProcessIO

if TYPE_CHECKING:
    Progress = Callable[[int, int], None]

BATCH_SECONDS = 20.0
"""Seconds after which a stream ends and the manifest is written. A lost connection wastes at most this time."""

UPDATE_SECONDS = 1.0
"""Seconds between two progress lines."""

NAMED_FILES = 1_000
"""Maximum number of sent files for which the host does not list the whole folder again."""

SHOWN_FILES = 3
"""Number of largest files that a plan names."""

LARGEST_MANIFEST = 1 << 30
"""Maximum size in bytes of a list of files that the host answers."""

_CHUNK = 1 << 18
_PACKING_LEVEL = 1
_ACTION = "copy files to"

_RECEIVE = shell_script("targets/hosts/scripts/receive_folder.sh")


class SyncReport(NamedTuple):
    """The result of a sync."""

    changed: int = 0  # files sent
    deleted: int = 0  # files removed
    size: int = 0  # bytes of the files sent
    sent: int = 0  # bytes transferred

    @property
    def text(self) -> str:
        removed = f", {counted(self.deleted, 'file')} removed" if self.deleted else ""
        if not self.changed:
            return f"nothing to send{removed}"
        return f"sent {counted(self.changed, 'file')}, {size_text(self.size)}{removed}"


@contextlib.contextmanager
def report_sending(line: Callable[[str], None]) -> Iterator[Progress]:
    """Yield a function that shows the progress of sending, and calls `line` about it at most once per second."""
    last = time.monotonic()
    with meter("sending", BYTES) as sending:

        def update(done: int, size: int) -> None:
            nonlocal last
            sending.update(done, size)
            if time.monotonic() - last >= UPDATE_SECONDS:
                last = time.monotonic()
                line(f"  sent {size_text(done)} of {size_text(size)}, {100 * done // max(size, 1)} %")

        yield update


class _Present(NamedTuple):
    """The files that the host has listed in the folder."""

    folders: set[str]
    others: set[str]  # files and links


class _Held(NamedTuple):
    """The content of the folder on the host."""

    records: set[bytes]  # the records of the manifest for files that are unchanged since they were sent
    present: _Present | None = None  # None if the folder has exactly the files of the records


def sync(
    host: Host,
    files: FileList | Callable[[], FileList],
    source: str,
    destination: str,
    progress: Progress | None = None,
    *,
    packed: bool | None = None,
    manifest_copy: str = "",
) -> SyncReport:
    """Make the folder `destination` on the host contain exactly `files`, read from `source`.

    If `files` is a function, it is called while the host lists its own files. `progress` is called with the number of
    bytes sent so far and the total. `packed` turns compression on or off; if it is None, the response time of the host
    decides. `manifest_copy` is the file on this machine for a copy of the manifest. Raises WorkbenchError, such as
    TargetUnreachable.
    """
    copy = ManifestCopy(manifest_copy)
    report = SyncReport()
    while True:
        word = secrets.token_hex(8)
        digest = digest_of(files.manifest) if isinstance(files, FileList) else ""
        with ProcessIO(host, ["sh", "-c", _RECEIVE, "sh", destination, word, digest], _ACTION) as process:
            is_near = process.wait_for_start()
            if not isinstance(files, FileList):
                files = files()
                process.write(f"{digest_of(files.manifest)}\n".encode())
            answer = process.line()
            if answer == "same":
                return report
            held = _read_held(process, answer, copy)
            # If the host cannot list its files, the next batch would begin with the same files again.
            seconds = BATCH_SECONDS if held.records or not report.changed else math.inf
            batch = _Batch(files, held, source, posixpath.basename(destination), word, seconds)
            is_packed = (not is_near if packed is None else packed) and _can_pack(answer)
            _send(process, batch, packed=is_packed, progress=progress)
        report = SyncReport(
            report.changed + len(batch.sent),
            report.deleted + len(batch.superfluous),
            report.size + sum(entry.size for entry in batch.sent),
            report.sent + process.written,
        )
        if len(batch.sent) == len(batch.missing):
            copy.write(files.manifest)
            return report


class Difference(NamedTuple):
    """The files that a sync would send and remove."""

    missing: tuple[Entry, ...]
    superfluous: tuple[str, ...]

    @property
    def text(self) -> str:
        """A phrase for a plan, with the number of files, their size and the largest of them."""
        removed = f", {counted(len(self.superfluous), 'file')} removed" if self.superfluous else ""
        if not self.missing:
            return f"no files{removed or ' (all are up to date)'}"
        largest = sorted(self.missing, key=lambda entry: -entry.size)[:SHOWN_FILES]
        named = ", ".join(f"{entry.path} {size_text(entry.size)}" for entry in largest if entry.size)
        text = f"{counted(len(self.missing), 'file')}, {size_text(sum(entry.size for entry in self.missing))}"
        return f"{text}{f' (largest: {named})' if named else ''}{removed}"


def difference(host: Host, listing: Sequence[Entry], destination: str) -> Difference:
    """Return the files that `sync` would send and remove.

    Creates the folder, but sends no files. Raises the errors of `sync`.
    """
    files = FileList.of(listing)
    command = ["sh", "-c", _RECEIVE, "sh", destination, "new", digest_of(files.manifest)]
    with ProcessIO(host, command, _ACTION) as process:
        process.line()
        answer = process.line()
        if answer == "same":
            return Difference((), ())
        batch = _Batch(files, _read_held(process, answer, ManifestCopy()), "", "", "", 0.0)
    entries = {entry.path: entry for entry in listing}
    return Difference(tuple(entries[entry.path] for entry in batch.missing), tuple(batch.superfluous))


def _can_pack(answer: str) -> bool:
    return answer.endswith(" gzip")


def _read_held(process: ProcessIO, answer: str, copy: ManifestCopy) -> _Held:
    if answer.startswith("edited"):
        data = copy.read(process.line())
        if data is None:
            process.write(b"manifest\n")
            size = process.number(LARGEST_MANIFEST)
            data = process.gzip() if _can_pack(answer) else process.take(size)
        return _Held(split(data))
    sizes = [process.number(LARGEST_MANIFEST) for _ in range(3)]
    data = process.gzip() if _can_pack(answer) else process.take(sum(sizes))
    second = sizes[0] + sizes[1]
    before, present = _facts(data[sizes[0] : second]), _facts(data[second:])
    folders = {path for path, facts in present.items() if facts.startswith("d")}
    unchanged = {
        path: identity
        for path, identity in parsed(split(data[: sizes[0]])).items()
        if path in present and present[path] == before.get(path)
    }
    return _Held(set(records_of(unchanged)), _Present(folders, present.keys() - folders))


def _send(process: ProcessIO, batch: _Batch, *, packed: bool, progress: Progress | None) -> None:
    deletions = b"".join(b"./" + os.fsencode(path) + b"\0" for path in batch.superfluous)
    process.write(f"{'gzip' if packed else 'cat'} {len(deletions)}\n".encode() + deletions)
    sender = _Sender(process, sum(entry.size for entry in batch.missing), progress, packed=packed)
    tar = tarfile.TarFile(
        fileobj=cast("IO[bytes]", sender), mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8",
        errors="surrogateescape", copybufsize=_CHUNK,
    )  # fmt: skip
    batch.write(tar)
    tar.close()
    sender.flush()
    process.close_input()
    if process.line() != "done":
        process.fail()


class _Sender:
    """A file object that sends a stream of about `size` bytes, compressed if `packed`."""

    def __init__(self, process: ProcessIO, size: int, progress: Progress | None, *, packed: bool) -> None:
        self._process = process
        self._size = size
        self._progress = progress
        self._packed = packed
        self._buffer = bytearray()
        self._taken = 0

    def tell(self) -> int:
        return self._taken

    def write(self, data: bytes) -> int:
        """Write to the buffer, which is sent when it is full."""
        self._buffer += data
        self._taken += len(data)
        if len(self._buffer) >= _CHUNK:
            self.flush()
        return len(data)

    def flush(self) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        # Compress only while the connection is busy anyway.
        level = 0 if self._process.is_writable else _PACKING_LEVEL
        self._process.write(_pack(data, level) if self._packed else data)
        if self._progress is not None:
            self._progress(min(self._taken, self._size), self._size)


class _Batch:
    """The files to send and to remove. `write` sends files for `seconds`, then the manifest or its changes."""

    def __init__(self, files: FileList, held: _Held, source: str, name: str, word: str, seconds: float) -> None:
        records = split(files.manifest)
        self._unwanted = parsed(held.records - records)
        missing = [entry_of(*record) for record in sorted(parsed(records - held.records).items())]
        self.missing = [_measured(entry, source) if source else entry for entry in missing]
        removed = self._unwanted.keys() - files.identities.keys()
        present = held.present or _Present(_folders_of(removed), removed)  # their folders may be superfluous too
        self.superfluous = _superfluous(files.identities, present)
        self.sent: list[Entry] = []
        self._held = held
        self._source = source
        self._name = name
        self._word = word
        self._seconds = seconds

    def write(self, tar: tarfile.TarFile) -> None:
        """Write the files to an archive. Raises StorageError if a file cannot be read."""
        end = time.monotonic() + self._seconds
        for entry in self.missing:
            self._add(tar, entry)
            self.sent.append(entry)
            if time.monotonic() > end:
                break
        for kind, data in {**self._manifest_files(), **self._touched()}.items():
            header = tarfile.TarInfo(f"{self._name}.{kind}.{self._word}")
            header.size = len(data)
            tar.addfile(header, io.BytesIO(data))

    def _add(self, tar: tarfile.TarFile, entry: Entry) -> None:
        header = tarfile.TarInfo(f"{self._name}/{entry.path}")
        if entry.link is not None:
            header.type, header.linkname = tarfile.SYMTYPE, entry.link
            tar.addfile(header)
            return
        path = os.path.join(self._source, entry.path)
        try:
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                header.size, header.mtime = status.st_size, int(status.st_mtime)
                header.mode = 0o755 if entry.executable else 0o644
                tar.addfile(header, file)
        except OSError as error:
            if error.strerror is None:
                raise StorageError(
                    "the file shrank while it was being sent",
                    remedy="Wait until no program writes to the file, then submit the run again.",
                    file=path,
                ) from error
            raise storage_error("send", path, error) from error

    def _manifest_files(self) -> dict[str, bytes]:
        """Return the records to remove and those to add, or the whole manifest; see receive_folder.sh."""
        sent = {entry.path: identity_of(entry) for entry in self.sent}
        missing = {entry.path for entry in self.missing}
        # A file that was not sent yet stays unchanged until the next batch.
        stale = {path: identity for path, identity in self._unwanted.items() if path in sent or path not in missing}
        if self._held.present is None:
            return {"stale": manifest(records_of(stale)), "added": manifest(records_of(sent))}
        return {"manifest": manifest(self._held.records.difference(records_of(stale)).union(records_of(sent)))}

    def _touched(self) -> dict[str, bytes]:
        """Return the names of the sent files and their folders, if they are few; see receive_folder.sh."""
        if len(self.sent) > NAMED_FILES:
            return {}
        paths = [entry.path for entry in self.sent]
        return {"touched": b"".join(b"./" + os.fsencode(path) + b"\0" for path in {*paths, *_folders_of(paths)})}


def _measured(entry: Entry, source: str) -> Entry:
    """Return the entry with the current size of its file, for the progress."""
    try:
        return entry._replace(size=0 if entry.link is not None else os.lstat(os.path.join(source, entry.path)).st_size)
    except OSError:
        return entry  # sending reports the error


def _superfluous(identities: Mapping[str, str], present: _Present) -> list[str]:
    """Return the files and folders to remove before unpacking, without the content of removed folders."""
    # Finding the folders of all wanted files takes long, and usually none is superfluous.
    folders = present.folders - _folders_of(identities) if present.folders else set()
    wrong = (present.others - identities.keys()) | folders
    return sorted(path for path in wrong if not any(parent in wrong for parent in _parents(path)))


def _folders_of(paths: Iterable[str]) -> set[str]:
    folders = {posixpath.dirname(path) for path in paths}
    return {parent for path in folders for parent in (path, *_parents(path)) if parent}


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _facts(data: bytes) -> dict[str, str]:
    """Return the facts of each file and folder by its path, from the output of `look`."""
    records = (os.fsdecode(record).partition("/") for record in data.split(b"\0"))
    return {path: facts for facts, _, path in records if path}


def _pack(data: bytes, level: int) -> bytes:
    """Return one member of a gzip stream. Members may have different levels; level 0 does not compress."""
    packer = zlib.compressobj(level, wbits=31)
    return packer.compress(data) + packer.flush()
