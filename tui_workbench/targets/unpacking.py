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
                try:
                    archive.extract(member, temporary, filter="data")
                except tarfile.FilterError:
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
