"""A folder of a host copied here, each file checked against its checksum there.

Files that arrived before a link broke are not fetched again.

Archives of containers are unpacked here as well, so that nothing in them can reach outside of a folder. What an archive
says is not trusted: only files, folders and links that stay within the folder are made, links last, so that nothing can
be written through one. (The rules are those of tarfile's `data` filter, which Debian 12's Python does not have.)
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import shutil
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, NamedTuple, Protocol, cast

from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import FOLDER_MODE, remove_below
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.process_io import ProcessIO
from tui_workbench.targets.hosts.sending import NEAR_SECONDS

_CHUNK = 1 << 20


class Stream(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, and none at the end."""


@dataclass
class Unpacked:
    """What an archive held: checksums of the files, links, bytes, and the names of members that were left out."""

    folder: str
    told: Callable[[int], None] = lambda size: None  # is called with the bytes of files that were written so far
    checksums: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    size: int = 0

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack a member; links are made by `make_links`."""
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
            self.checksums[name] = self._write(cast("IO[bytes]", archive.extractfile(member)), path, member)
            self.size += member.size
        elif member.islnk() and posixpath.normpath(member.linkname) in self.checksums:
            original = posixpath.normpath(member.linkname)
            shutil.copy2(os.path.join(self.folder, original), path)
            self.checksums[name] = self.checksums[original]
        else:
            self.skipped.append(member.name)

    def _write(self, data: IO[bytes], path: str, member: tarfile.TarInfo) -> str:
        checksum = hashlib.sha256()
        if os.path.lexists(path):
            os.unlink(path)
        mode = 0o700 if member.mode & 0o100 else 0o600
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            while part := data.read(_CHUNK):
                checksum.update(part)
                file.write(part)
                self.told(self.size + file.tell())
        os.utime(path, (member.mtime, member.mtime))
        return checksum.hexdigest()

    def make_links(self) -> None:
        """Make the links; one that leads out by way of another, which the words of neither tell, goes again."""
        for name, target in self.links.items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        inside = os.path.realpath(self.folder)
        for name in list(self.links):
            path = os.path.join(self.folder, name)
            if os.path.commonpath([os.path.realpath(path), inside]) != inside:
                os.unlink(path)
                del self.links[name]
                self.skipped.append(name)


def unpack(
    stream: Stream,
    folder: str,
    told: Callable[[int], None] = lambda size: None,
    is_wanted: Callable[[tarfile.TarInfo], bool] = lambda member: True,
) -> Unpacked:
    """Unpack a tar archive into a folder that is there; other members than the wanted ones are passed over.

    Raises tarfile.TarError and OSError.
    """
    found = Unpacked(folder, told)
    with tarfile.open(
        fileobj=cast("IO[bytes]", stream), mode="r|*", encoding="utf-8", errors="surrogateescape", bufsize=_CHUNK
    ) as archive:
        for member in archive:
            if is_wanted(member):
                found.take(archive, member)
    found.make_links()
    return found


def is_within(name: str) -> bool:
    """Whether a relative path does not lead out of its folder by its words."""
    name = posixpath.normpath(name)
    return not name.startswith("/") and name != ".." and not name.startswith("../")


PARTIAL = ".part"
"""Ends the name of the folder that files arrive in."""

LARGEST_COUNT_OF_ATTEMPTS = 3
"""A file that is still being written has another checksum each time it is looked at."""

# $1 the folder. Names travel as bytes with NULs between them; sha256sum escapes those that hold a line feed.
_SCRIPT = """\
export LC_ALL=C
echo ready
[ ! -L "$1" ] || { echo link; exit; }
cd -P -- "${1%/*}" 2>/dev/null && above=$(pwd -P) && cd -P -- "./${1##*/}" 2>/dev/null || { echo missing; exit; }
[ "$(pwd -P)" = "${above%/}/${1##*/}" ] || { echo link; exit; }
sums=$(find . -type f -exec sha256sum -- {} + 2>/dev/null)
printf '%s\\n' "${#sums}" "$sums" "$(du -sk . 2>/dev/null | cut -f1)"
read -r size pack || exit 9
command -v "${pack%% *}" >/dev/null || pack=cat
if [ "$size" = all ]; then tar -cf - . | $pack
else { find . ! -type f -print0; head -c "$size"; } | tar -cf - --no-recursion --null -T - | $pack
fi
"""


class FetchReport(NamedTuple):
    """What a fetch brought.

    `skipped` names what was left out because it leads out of the folder or is neither file, folder nor link.
    """

    files: int = 0
    size: int = 0
    skipped: tuple[str, ...] = ()


def fetch(host: Host, source: str, destination: str) -> FetchReport:
    """Copy the folder `source` of the host to `destination` here, which is replaced when all of it has arrived.

    Raises TargetUnreachable or StorageError.
    """
    partial = destination.rstrip("/") + PARTIAL
    for _ in range(LARGEST_COUNT_OF_ATTEMPTS):
        _make_folder(partial)
        report = _attempt(host, source, partial)
        if report is not None:
            _replace(partial, destination)
            return report
    raise StorageError(
        f"{source} on {host.label} changes while it is copied",
        remedy="Something still writes there; what has arrived is kept.",
        file=partial,
    )


def forget_partial(destination: str) -> None:
    """Remove what has arrived of a folder that will not come any more."""
    partial = destination.rstrip("/") + PARTIAL
    remove_below(os.path.dirname(partial), os.path.basename(partial))


def _attempt(host: Host, source: str, partial: str) -> FetchReport | None:
    """Bring what is missing; None when a file is not what its checksum says."""
    begun = time.monotonic()
    with ProcessIO(host, ["sh", "-c", _SCRIPT, "sh", source]) as talk:
        talk.line()
        is_near = host.is_local or time.monotonic() - begun < NEAR_SECONDS
        size = talk.line()
        if size == "missing":
            raise StorageError(f"{host.label} has no folder {source}", remedy="It was removed there.")
        if size == "link":
            raise StorageError(f"{source} on {host.label} is a link, and links are not followed")
        sums = _checksums(talk.take(int(size) + 1))
        about = talk.line()
        here = {name for name, checksum in sums.items() if _checksum(os.path.join(partial, name)) == checksum}
        wanted = b"".join(b"./" + os.fsencode(name) + b"\0" for name in sums if name not in here)
        talk.write(f"{len(wanted) if here else 'all'} {'cat' if is_near else 'gzip -1'}\n".encode())
        talk.write(wanted if here else b"")
        talk.close_input()
        held = sum(os.path.getsize(os.path.join(partial, name)) for name in here)
        total = max(0, (int(about) << 10) - held) if about.isdigit() else 0
        with meter("fetching", BYTES, total) as fetching:
            try:
                unpacked = unpack(talk, partial, fetching.update)
            except tarfile.TarError:
                talk.fail()
            except OSError as error:
                raise _cannot(partial, error) from error
        talk.finish()
    _remove_strangers(partial, sums, unpacked)
    if any(unpacked.checksums.get(name) != sums[name] for name in sums if name not in here):
        return None
    return FetchReport(len(sums), unpacked.size, tuple(unpacked.skipped))


_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.*)", re.DOTALL)
_ESCAPED = {b"\\n": b"\n", b"\\\\": b"\\", b"\\r": b"\r"}


def _checksums(data: bytes) -> dict[str, str]:
    """Name and checksum of each line of sha256sum; of names that are within the folder."""
    found = {}
    for line in data.split(b"\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        escaped, checksum, name = match.groups()
        if escaped:
            name = re.sub(rb"\\.", lambda pair: _ESCAPED.get(pair[0], pair[0]), name)
        path = posixpath.normpath(os.fsdecode(name))
        if is_within(path):
            found[path] = checksum.decode()
    return found


def _checksum(path: str) -> str:
    try:
        if os.path.islink(path):
            return ""
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _remove_strangers(folder: str, sums: dict[str, str], unpacked: Unpacked) -> None:
    """Remove what an earlier attempt left and the host no longer has."""
    known = sums.keys() | unpacked.links.keys()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.relpath(path, folder) not in known:
                os.unlink(path)


def _make_folder(path: str) -> None:
    """Make the folder that files arrive in; of what an earlier attempt left there, links go (see the module's text)."""
    try:
        if os.path.islink(path):
            os.unlink(path)
        os.makedirs(path, FOLDER_MODE, exist_ok=True)
        for parent, folders, files in os.walk(path):
            for name in folders + files:
                if os.path.islink(os.path.join(parent, name)):
                    os.unlink(os.path.join(parent, name))
    except OSError as error:
        raise _cannot(path, error) from error


def _replace(partial: str, destination: str) -> None:
    """Give the complete folder its name, durably, in place of what stands there."""
    try:
        os.sync()
        if os.path.isdir(destination) and not os.path.islink(destination):
            shutil.rmtree(destination)
        os.rename(partial, destination)
        descriptor = os.open(os.path.dirname(destination) or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _cannot(destination, error) from error


def _cannot(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write it: {error.strerror or error}",
        remedy="Free space and make the folder writable; what has arrived is kept.",
        file=error.filename if isinstance(error.filename, str) else path,
    )
