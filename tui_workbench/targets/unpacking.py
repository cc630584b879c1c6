"""Archives of others are unpacked so that nothing in them can reach outside of the folder they are unpacked into."""

from __future__ import annotations

import os
import shutil
import tarfile

from tui_workbench.errors import StorageError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Stream:
    """Chunks of bytes as a file that tarfile can read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def unpack(chunks: Iterator[bytes], name: str, destination: str) -> list[str]:
    """Put the folder `name` of a tar archive at `destination`, which is replaced when all of it has arrived.

    Returns the members that were left out: links that lead outside, devices. Raises StorageError.
    """
    temporary = f"{destination}.new"
    shutil.rmtree(temporary, ignore_errors=True)
    left_out = []
    try:
        os.mkdir(temporary)
        with tarfile.open(fileobj=_Stream(chunks), mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                if not _extract(archive, member, temporary):
                    left_out.append(member.name)
        shutil.rmtree(destination, ignore_errors=True)
        os.rename(os.path.join(temporary, name), destination)
    except (OSError, tarfile.TarError) as error:
        raise StorageError(
            f"cannot unpack what the run made: {error}", remedy="Free space and try again.", file=destination
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return left_out


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> bool:
    """Unpack one member; False when it is of a kind, or leads to a place, that has no business in `folder`."""
    if hasattr(tarfile, "data_filter"):
        try:
            archive.extract(member, folder, filter="data")
        except tarfile.FilterError:
            return False
        return True
    # Python before 3.11.4, which Debian 12 has, knows no filters.
    if not stays_inside(member, folder):
        return False
    member.name = member.name.lstrip("/")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    # Nothing for others to write, no set-user bits, and always enough for us to remove it again.
    member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
    archive.extract(member, folder)
    return True


def stays_inside(member: tarfile.TarInfo, folder: str) -> bool:
    """True when a member is a file, folder or link, and neither it nor what it links to lies outside of `folder`."""
    root = os.path.realpath(folder)
    place = os.path.join(root, member.name.lstrip("/"))
    wanted = [place]
    if member.issym():
        wanted.append(os.path.join(os.path.dirname(place), member.linkname))
    elif member.islnk():
        wanted.append(os.path.join(root, member.linkname))
    elif not (member.isreg() or member.isdir()):
        return False
    if os.path.isabs(member.linkname):
        return False
    # Resolved: an earlier member may be a link on the way.
    return all(os.path.commonpath([root, os.path.realpath(path)]) == root for path in wanted)
