"""A folder of a host copied here, each file checked against its checksum there.

What the archive says is not trusted: only files, folders and links that stay within the folder are made, links last, so
that nothing can be written through one. (The rules are those of tarfile's `data` filter, which Debian 12's Python does
not have.) Files that arrived before a link broke are not fetched again.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import shutil
import tarfile
import time
from typing import cast

from tui_workbench.errors import StorageError
from tui_workbench.progress import BYTES, meter
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.conversation import Conversation
from tui_workbench.targets.sending import NEAR_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Literal

    from tui_workbench.progress import Meter
    from tui_workbench.targets.host import Host

PARTIAL = ".part"
"""Ends the name of the folder that files arrive in."""

LARGEST_COUNT_OF_ATTEMPTS = 3
"""A file that is still being written has another checksum each time it is looked at."""

_CHUNK = 1 << 20
_KEEP = "surrogateescape"
"""Names whose bytes are no UTF-8 are kept as they are."""

# $1 the folder. Names travel as bytes with NULs between them; sha256sum escapes those that hold a line feed.
_SCRIPT = """\
export LC_ALL=C
echo ready
cd -- "$1" 2>/dev/null || { echo missing; exit; }
sums=$(find . -type f -exec sha256sum -- {} + 2>/dev/null)
printf '%s\\n' "${#sums}" "$sums" "$(du -sk . 2>/dev/null | cut -f1)"
read -r size pack || exit 9
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
    """Copy the folder `source` of the host to `destination` here; see `Host.fetch`."""
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
    shutil.rmtree(destination.rstrip("/") + PARTIAL, ignore_errors=True)


def _attempt(host: Host, source: str, partial: str) -> FetchReport | None:
    """Bring what is missing; None when a file is not what its checksum says."""
    begun = time.monotonic()
    with Conversation(host, ["sh", "-c", _SCRIPT, "sh", source]) as talk:
        talk.line()
        is_near = host.is_local or time.monotonic() - begun < NEAR_SECONDS
        size = talk.line()
        if size == "missing":
            raise StorageError(f"{host.label} has no folder {source}", remedy="It was removed there.")
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
            unpacked = _unpack(talk, partial, fetching, packed=not is_near)
        talk.finish()
    _remove_strangers(partial, sums, unpacked)
    if any(unpacked.checksums.get(name) != sums[name] for name in sums if name not in here):
        return None
    return FetchReport(len(sums), unpacked.size, tuple(unpacked.skipped))


class _Unpacked:
    """What an archive held: checksums of the files, links still to be made, folders, and names left out."""

    def __init__(self, fetching: Meter) -> None:
        self.fetching = fetching
        self.checksums: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.skipped: list[str] = []
        self.size = 0


def _unpack(talk: Conversation, folder: str, fetching: Meter, *, packed: bool) -> _Unpacked:
    found = _Unpacked(fetching)
    mode: Literal["r|gz", "r|"] = "r|gz" if packed else "r|"
    try:
        with tarfile.open(
            fileobj=cast("IO[bytes]", talk), mode=mode, encoding="utf-8", errors=_KEEP, bufsize=_CHUNK
        ) as archive:
            for member in archive:
                _take(archive, member, folder, found)
        _make_links(folder, found)
    except tarfile.TarError:
        talk.fail()
    except OSError as error:
        raise _cannot(folder, error) from error
    return found


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str, found: _Unpacked) -> None:
    name = posixpath.normpath(member.name)
    path = os.path.join(folder, name)
    if name == ".":
        return
    if not _is_within(name):
        found.skipped.append(member.name)
    elif member.isdir():
        os.makedirs(path, exist_ok=True)
        found.folders.add(name)
    elif member.issym() and _is_within(posixpath.join(posixpath.dirname(name), member.linkname)):
        found.links[name] = member.linkname
    elif member.isreg():
        data = archive.extractfile(member)
        assert data is not None
        os.makedirs(os.path.dirname(path), exist_ok=True)
        found.checksums[name] = _write(data, path, member, lambda size: found.fetching.update(found.size + size))
        found.size += member.size
    elif member.islnk() and posixpath.normpath(member.linkname) in found.checksums:
        original = posixpath.normpath(member.linkname)
        shutil.copy2(os.path.join(folder, original), path)
        found.checksums[name] = found.checksums[original]
    else:
        found.skipped.append(member.name)


def _is_within(name: str) -> bool:
    name = posixpath.normpath(name)
    return not name.startswith("/") and name != ".." and not name.startswith("../")


def _write(data: IO[bytes], path: str, member: tarfile.TarInfo, told: Callable[[int], None]) -> str:
    """Write one file, and tell how many bytes of it; gives its checksum."""
    checksum = hashlib.sha256()
    if os.path.lexists(path):
        os.unlink(path)
    mode = 0o755 if member.mode & 0o100 else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        while part := data.read(_CHUNK):
            checksum.update(part)
            told(file.tell())
            view = memoryview(part)
            while view:
                view = view[file.write(view) or 0 :]
    os.utime(path, (member.mtime, member.mtime))
    return checksum.hexdigest()


def _make_links(folder: str, found: _Unpacked) -> None:
    for name, target in found.links.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)
    # A link may lead out by way of another one, which the words of neither tell.
    inside = os.path.realpath(folder)
    for name in list(found.links):
        path = os.path.join(folder, name)
        if os.path.commonpath([os.path.realpath(path), inside]) != inside:
            os.unlink(path)
            del found.links[name]
            found.skipped.append(name)


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
        if _is_within(path):
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


def _remove_strangers(folder: str, sums: dict[str, str], unpacked: _Unpacked) -> None:
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
        os.makedirs(path, exist_ok=True)
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
