"""Copy new bytes of files of many runs from the login node, with one request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tui_workbench.config.schema.slurm_options import requested_gpus
from tui_workbench.core import locks
from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import open_below, write_all
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.listing import Files, list_once

MOST_BYTES = 8 << 20
"""Bytes per request. If there are more, the next request follows at once."""

SHARES = 8
"""A file gets at most this fraction of a request, unless it is the only one."""

# $1: the folder of all runs, then path, first byte (from 1) and count of each part.
_PARTS = """\
cd -- "$1" || exit
shift
while [ $# -gt 2 ]; do
    [ -L "$1" ] || tail -c "+$2" -- "$1" | head -c "$3"
    shift 3
done
"""


class Part(NamedTuple):
    """A range of bytes of a remote file that the local copy lacks."""

    run_id: str
    directory: str  # of the run, here
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


def fetch(host: LoginHost, parts: Iterable[Part]) -> dict[Part, bytes]:
    """Return the bytes of parts: the beginning of a large part, and none of a file that has shrunk.

    Raises TargetUnreachable.
    """
    wanted = _limited(list(parts))
    found = _request(host, wanted)
    if found is None and len(wanted) > 1:
        # A file was replaced meanwhile: the others do not depend on it.
        single = {part: _request(host, [part]) for part in wanted}
        return {part: data[part] for part, data in single.items() if data is not None}
    return found or {}


def append(part: Part, data: bytes) -> None:
    """Append bytes to the copy of a file, unless another process has already appended them. Raises StorageError."""
    path = os.path.join(part.directory, part.name)
    with (
        storage_errors("write", path),
        locks.held(open_below(part.directory, part.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)) as descriptor,
    ):
        if os.fstat(descriptor).st_size == part.start:
            write_all(descriptor, data)


def _limited(parts: Sequence[Part]) -> list[Part]:
    most = MOST_BYTES if len(parts) == 1 else MOST_BYTES // SHARES
    room, limited = MOST_BYTES, []
    for part in parts:
        size = min(part.size, most, room)
        if size:
            limited.append(part._replace(size=size))
            room -= size
    return limited


def _request(host: LoginHost, parts: Sequence[Part]) -> dict[Part, bytes] | None:
    """Return the bytes of parts; None if a file is missing or has shrunk."""
    words = [word for part in parts for word in (f"{part.run_id}/{part.name}", str(part.start + 1), str(part.size))]
    data = host.ask(_PARTS, f"{host.home()}/runs", *words).stdout
    if len(data) != sum(part.size for part in parts):
        return None
    found, position = {}, 0
    for part in parts:
        found[part] = data[position : position + part.size]
        position += part.size
    return found


def drain(host: LoginHost, spec: RunSpec) -> Files:
    """Copy the rest of the files of a run that has ended, and return their listing.

    Raises TargetUnreachable or StorageError.
    """
    files = list_once(host, [spec.run_id]).get(spec.run_id, Files())
    while parts := missing_parts(spec.run_id, spec.run_directory, files.sizes):
        found = fetch(host, parts)
        if not found:
            break  # the script has replaced the files
        for part, data in found.items():
            append(part, data)
    if requested_gpus(spec.slurm) != 0:
        LiveFiles(host, f"{host.home()}/runs/{spec.run_id}", spec.run_directory).fetch_all()
    return files
