"""The manifest of a folder on a host: a record for each file and link that was sent, with its identity and its path.

A record is `IDENTITY/PATH` and ends with NUL. The records are sorted by their bytes, so that the host can change a
manifest with `comm` and `sort`. This machine keeps a copy of the last manifest, so that only changes are transferred.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tui_workbench.core.files import read_regular, write_below
from tui_workbench.targets.hosts.host import Entry

LARGEST = 128 << 20  # maximum size of a copy in bytes


def identity_of(entry: Entry) -> str:
    """Return the identity of a file or link, including its type. It contains no "/"."""
    if entry.link is None:
        return file_identity(entry.identity, executable=entry.executable)
    return "l " + entry.link.replace("%", "%25").replace("/", "%2F")


def file_identity(identity: str, *, executable: bool) -> str:
    """Return the identity of a file, including its type; `identity` is that of its content, as in `Entry`."""
    return f"{'x' if executable else 'f'} {identity}"


def entry_of(path: str, identity: str) -> Entry:
    """Return the file or link of a record."""
    kind, _, rest = identity.partition(" ")
    if kind == "l":
        return Entry(path, "", link=rest.replace("%2F", "/").replace("%25", "%"))
    return Entry(path, rest, executable=kind == "x")


def records_of(identities: Mapping[str, str]) -> list[bytes]:
    """Return the records of paths with their identities, without the NUL."""
    text = "\0".join(f"{identity}/{path}" for path, identity in identities.items())
    return os.fsencode(text).split(b"\0") if text else []


def manifest(records: Iterable[bytes]) -> bytes:
    """Return the manifest with these records."""
    return b"\0".join([*sorted(records), b""])


class FileList(NamedTuple):
    """All files and links that a folder must contain."""

    identities: dict[str, str]  # by path
    manifest: bytes

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> FileList:
        return cls.with_identities({entry.path: identity_of(entry) for entry in entries})

    @classmethod
    def with_identities(cls, identities: dict[str, str]) -> FileList:
        return cls(identities, manifest(records_of(identities)))


def split(data: bytes) -> set[bytes]:
    """Return the records in a manifest. Records without "/", of earlier versions, are left out."""
    return {record for record in data.split(b"\0") if b"/" in record}


def parsed(records: Iterable[bytes]) -> dict[str, str]:
    """Return the identities in records by path."""
    parts = (os.fsdecode(record).partition("/") for record in records)
    return {path: identity for identity, _, path in parts}


def digest_of(data: bytes) -> str:
    """Return the SHA-256 digest of a manifest, which `sha256sum` prints too."""
    return hashlib.sha256(data).hexdigest()


class ManifestCopy:
    """A file on this machine for a copy of the last manifest. With an empty path, nothing is kept."""

    def __init__(self, path: str = "") -> None:
        self._path = path

    def read(self, expected: str) -> bytes | None:
        """Return the copy if it has the digest `expected`, otherwise None."""
        data = None
        if self._path:
            with contextlib.suppress(OSError):
                data = read_regular(self._path, LARGEST)
        return data if data is not None and digest_of(data) == expected else None

    def write(self, data: bytes) -> None:
        """Replace the copy. If that fails, the next transfer takes longer."""
        if self._path:
            with contextlib.suppress(OSError):
                write_below(*os.path.split(self._path), data)
