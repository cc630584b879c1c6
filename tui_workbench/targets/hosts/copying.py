"""Copy the new bytes of files that grow on a host: any number of byte ranges with one request.

The size of a copy on this machine is the only state, so any process can continue, and no byte is lost or repeated.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core import locks
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import make_folders, open_below, write_all
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host

MOST_BYTES = 8 << 20
"""Maximum number of bytes per command. If there are more, the next command follows immediately."""

SHARES = 8
"""A command fetches at most MOST_BYTES / SHARES of one file, so that a rank's long log does not delay other files."""

_READ_PARTS = shell_script("targets/hosts/scripts/read_parts.sh")


class Part(NamedTuple):
    """A range of bytes of a remote file that the local copy lacks.

    The file is in the folder of the run in `runs/` in the host's home.
    """

    run_id: str
    directory: str  # of the run, on this machine
    name: str
    start: int
    size: int


def copied_size(path: str) -> int:
    """Return the size of a copy in bytes; 0 if it does not exist."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def missing_parts(run_id: str, directory: str, sizes: Mapping[str, int]) -> list[Part]:
    """Return the parts that the copies in a run's directory lack, given the sizes of the files."""
    parts = []
    for name, size in sizes.items():
        copied = copied_size(os.path.join(directory, name))
        if size > copied:
            parts.append(Part(run_id, directory, name, copied, size - copied))
    return parts


def fetch(host: Host, parts: Iterable[Part]) -> dict[Part, bytes]:
    """Return the bytes of the parts, at most MOST_BYTES in total.

    A large part can be incomplete. A part is left out if the maximum is reached, or if its file is missing or has
    shrunk. Raises TargetUnreachable.
    """
    limited = _limited(list(parts))
    fetched = _request(host, limited)
    if fetched is None and len(limited) > 1:
        # A file was replaced meanwhile. Fetch each file separately.
        single = {part: _request(host, [part]) for part in limited}
        return {part: data[part] for part, data in single.items() if data is not None}
    return fetched or {}


def append(part: Part, data: bytes, *, is_patient: bool = True) -> bool:
    """Append bytes to the copy of a file, as `append_at` does. Raises StorageError."""
    return append_at(part.directory, part.name, part.start, data, is_patient=is_patient)


def _limited(parts: Sequence[Part]) -> list[Part]:
    most = MOST_BYTES if len(parts) == 1 else MOST_BYTES // SHARES
    room, limited = MOST_BYTES, []
    for part in sorted(parts, key=lambda part: part.size):  # so that long logs do not delay others
        size = min(part.size, most, room)
        if size:
            limited.append(part._replace(size=size))
            room -= size
    return limited


def _request(host: Host, parts: Sequence[Part]) -> dict[Part, bytes] | None:
    """Return the bytes of parts; None if a file is missing or has shrunk."""
    ranges = [(f"{part.run_id}/{part.name}", part.start, part.size) for part in parts]
    contents = fetch_parts(host, f"{host.home()}/runs", ranges)
    return dict(zip(parts, contents, strict=True)) if contents is not None else None


def fetch_parts(host: Host, folder: str, parts: Sequence[tuple[str, int, int]]) -> list[bytes] | None:
    """Return the bytes of parts (path, first byte, size) of files in a folder; None if a file is missing or shorter.

    Raises TargetUnreachable.
    """
    arguments = [text for path, start, size in parts for text in (path, str(start + 1), str(size))]
    data = io.BytesIO(host.run(["sh", "-c", _READ_PARTS, "sh", folder, *arguments]).stdout)
    contents = [data.read(size) for _, _, size in parts]
    is_complete = all(len(content) == size for content, (_, _, size) in zip(contents, parts, strict=True))
    return contents if is_complete and not data.read() else None


def append_at(directory: str, name: str, start: int, data: bytes, *, is_patient: bool = True) -> bool:
    """Append bytes to a file of size `start`, unless another process has done so meanwhile.

    Wait while another process copies the file; without `is_patient`, return False instead. Raises StorageError.
    """
    with storage_errors("write", os.path.join(directory, name)):
        make_folders(directory, os.path.dirname(name))
        descriptor = open_below(directory, name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            if is_patient:
                locks.lock(descriptor)
            elif not locks.try_lock(descriptor):
                return False
            if os.fstat(descriptor).st_size == start:
                write_all(descriptor, data)
            return True
        finally:
            os.close(descriptor)
