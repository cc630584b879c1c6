"""Copy the new bytes of the files of many runs from their host with one request.

The files are in the folder of each run in `runs/` in the host's home.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.mirror import MOST_BYTES, SHARES, append_at, fetch_parts


class Part(NamedTuple):
    """A range of bytes of a remote file that the local copy lacks."""

    run_id: str
    directory: str  # of the run, on this machine
    name: str
    start: int
    size: int


def missing_parts(run_id: str, directory: str, sizes: Mapping[str, int]) -> list[Part]:
    """Return the parts that the copies in a run's directory lack, given the sizes of the files."""
    parts = []
    for name, size in sizes.items():
        try:
            known = os.lstat(os.path.join(directory, name)).st_size
        except OSError:
            known = 0
        if size > known:
            parts.append(Part(run_id, directory, name, known, size - known))
    return parts


def fetch(host: Host, parts: Iterable[Part]) -> dict[Part, bytes]:
    """Return the bytes of the parts, at most MOST_BYTES in total.

    A large part can be incomplete. A part is left out if the maximum is reached, or if its file is missing or has
    shrunk. Raises TargetUnreachable.
    """
    wanted = _limited(list(parts))
    found = _request(host, wanted)
    if found is None and len(wanted) > 1:
        # A file was replaced meanwhile. Fetch each file separately.
        single = {part: _request(host, [part]) for part in wanted}
        return {part: data[part] for part, data in single.items() if data is not None}
    return found or {}


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
    wanted = [(f"{part.run_id}/{part.name}", part.start, part.size) for part in parts]
    found = fetch_parts(host, f"{host.home()}/runs", wanted)
    return dict(zip(parts, found, strict=True)) if found is not None else None
