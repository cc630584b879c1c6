"""A folder kept on a host exactly as a listing says: only what changed travels, in one stream.

Beside the folder the host keeps a manifest, the path and identity of each file that was sent, and what `find` said of
the folder when that was written. As long as both are as expected, one round trip tells that nothing is to be done. A
file counts as held when its identity is the wanted one and `find` says of it what it said then; so whatever was
changed, removed or added there is put right. Nothing is installed there: the shell, find and tar do it, and
gzip where there is one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from tui_workbench.core.errors import StorageError
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.targets.hosts.host import Entry, Host
from tui_workbench.targets.hosts.process_io import ProcessIO

if TYPE_CHECKING:
    Progress = Callable[[int, int], None]

NEAR_SECONDS = 0.015
"""A host that answers sooner is on this network: packing would cost more time there than it saves."""

BATCH_SECONDS = 20.0
"""What one stream may take before what has arrived is made sure of: a broken link costs no more than this."""

UPDATE_SECONDS = 1.0
"""Between two lines that say how far a sync is."""

SHOWN_FILES = 3
"""How many of the largest files a plan names."""

_CHUNK = 1 << 18
_PACKING_LEVEL = 1

# $1 the folder, $2 the digest of the wanted manifest. A host whose find knows no -printf has everything sent again, and
# one without gzip is sent what it is, unpacked. What is to be removed is a list that has to be there whole. An attempt
# whose connection broke may still be at work, so each has names of its own for what it writes besides.
_SCRIPT = """\
tree=$1 wanted=$2 base=${1##*/}
umask 022
mkdir -p -- "$tree" && cd -- "$tree/.." || exit
now=$base.now.$$ gone=$base.gone.$$ pack=cat
trap 'rm -f -- "$now" "$gone"' EXIT
command -v gzip >/dev/null && pack='gzip -1'
look() { find "./$base" -mindepth 1 -printf '%P\\0%y %s %T@ %C@ %m\\0' 2>/dev/null || :; }
echo ready
look >"$now" && touch -- "$base.manifest" "$base.found" || exit
if [ -s "$now" ] && cmp -s -- "$now" "$base.found" && [ "$(sha256sum <"$base.manifest")" = "$wanted  -" ]
then echo same; exit; fi
echo "differs ${pack%% *}"
wc -c <"$base.manifest"; wc -c <"$base.found"; wc -c <"$now"
cat -- "$base.manifest" "$base.found" "$now" | $pack
read -r unpack deletions || exit 9
if [ "$deletions" != 0 ]; then
    head -c "$deletions" >"$gone" && [ "$(wc -c <"$gone")" -eq "$deletions" ] || exit 9
    (cd -- "$base" && xargs -0 rm -rf -- <"../$gone") || exit
fi
[ -s "$now" ] || rm -rf -- "$base"
if [ "$unpack" = gzip ]; then unpack='gzip -dc'; fi
$unpack | tar -xf - || exit
look >"$base.found" && mv -f -- "$base.manifest.new" "$base.manifest" && echo done
"""


class SyncReport(NamedTuple):
    """What a sync did: files sent and removed, the bytes of those sent, and the bytes that travelled."""

    changed: int = 0
    deleted: int = 0
    size: int = 0
    sent: int = 0

    @property
    def text(self) -> str:
        """What was done, for a log."""
        removed = f", {_number(self.deleted)} removed" if self.deleted else ""
        if not self.changed:
            return f"nothing to send{removed}"
        return f"sent {_number(self.changed)}, {_bytes(self.size)}{removed}"


@contextlib.contextmanager
def report_sending(line: Callable[[str], None]) -> Iterator[Progress]:
    """A progress that tells in a line, now and then, how far it is; small sends are over before the first.

    Whoever shows progress is told of it all the time.
    """
    last = time.monotonic()
    with meter("sending", BYTES) as sending:

        def told(done: int, size: int) -> None:
            nonlocal last
            sending.update(done, size)
            if time.monotonic() - last >= UPDATE_SECONDS:
                last = time.monotonic()
                line(f"  sent {_bytes(done)} of {_bytes(size)}, {100 * done // max(size, 1)} %")

        yield told


class _Held(NamedTuple):
    """What the host holds: identities of the files that are as they were sent, and all that there is."""

    identities: dict[str, str]
    folders: set[str]
    others: set[str]


def sync(
    host: Host,
    listing: Sequence[Entry],
    source: str,
    destination: str,
    progress: Progress | None = None,
    *,
    packed: bool | None = None,
) -> SyncReport:
    """Make the folder `destination` on the host hold exactly the files of `listing`, taken from `source` here.

    `progress` is called with bytes sent and bytes to send. `packed` says whether to compress; None leaves it
    to how far away the host is. Raises TargetUnreachable or StorageError.
    """
    wanted = {entry.path: entry for entry in listing}
    digest = _digest(wanted)
    report = SyncReport()
    while True:
        begun = time.monotonic()
        with ProcessIO(host, ["sh", "-c", _SCRIPT, "sh", destination, digest]) as talk:
            talk.line()
            is_near = host.is_local or time.monotonic() - begun < NEAR_SECONDS
            said = talk.line()
            if said == "same":
                return report
            held = _read_held(talk, packed=_can_pack(said))
            batch = _Batch(wanted, held, source, posixpath.basename(destination))
            wants_packed = not is_near if packed is None else packed
            _send(talk, batch, packed=wants_packed and _can_pack(said), progress=progress)
        report = SyncReport(
            report.changed + len(batch.sent),
            report.deleted + len(batch.superfluous),
            report.size + sum(entry.size for entry in batch.sent),
            report.sent + talk.written,
        )
        if len(batch.sent) == len(batch.missing):
            return report


class Difference(NamedTuple):
    """What a sync would do now."""

    missing: tuple[Entry, ...]
    superfluous: tuple[str, ...]

    @property
    def text(self) -> str:
        """Count, bytes and the largest files, for a plan."""
        if not self.missing:
            removed = f"nothing, {_number(len(self.superfluous))} removed"
            return removed if self.superfluous else "nothing, it holds it all"
        largest = sorted(self.missing, key=lambda entry: -entry.size)[:SHOWN_FILES]
        named = ", ".join(f"{entry.path} {_bytes(entry.size)}" for entry in largest if entry.size)
        text = f"{_number(len(self.missing))}, {_bytes(sum(entry.size for entry in self.missing))}"
        text += f" (largest: {named})" if named else ""
        return f"{text}, {_number(len(self.superfluous))} removed" if self.superfluous else text


def difference(host: Host, listing: Sequence[Entry], destination: str) -> Difference:
    """What `sync` would send and remove. One round trip; changes nothing but an empty folder. Raises the same."""
    wanted = {entry.path: entry for entry in listing}
    with ProcessIO(host, ["sh", "-c", _SCRIPT, "sh", destination, _digest(wanted)]) as talk:
        talk.line()
        said = talk.line()
        if said == "same":
            return Difference((), ())
        batch = _Batch(wanted, _read_held(talk, packed=_can_pack(said)), "", "")
        return Difference(tuple(batch.missing), tuple(batch.superfluous))


def _number(files: int) -> str:
    return f"{files:,} file{'s' if files != 1 else ''}"


def _bytes(size: int) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size = round(size / 1000)
    return f"{size:,} GB"


def _digest(wanted: dict[str, Entry]) -> str:
    return hashlib.sha256(_manifest({path: _identity(entry) for path, entry in wanted.items()})).hexdigest()


def _can_pack(said: str) -> bool:
    return said.endswith(" gzip")


def _read_held(talk: ProcessIO, *, packed: bool) -> _Held:
    sizes = [int(talk.line()) for _ in range(3)]
    data = talk.gzip() if packed else talk.take(sum(sizes))
    first, second = sizes[0], sizes[0] + sizes[1]
    before, present = _pairs(data[first:second]), _pairs(data[second:])
    folders = {path for path, facts in present.items() if facts.startswith("d")}
    identities = {
        path: identity
        for path, identity in _pairs(data[:first]).items()
        if path in present and present[path] == before.get(path)
    }
    return _Held(identities, folders, present.keys() - folders)


def _send(talk: ProcessIO, batch: _Batch, *, packed: bool, progress: Progress | None) -> None:
    deletions = b"".join(b"./" + os.fsencode(path) + b"\0" for path in batch.superfluous)
    talk.write(f"{'gzip' if packed else 'cat'} {len(deletions)}\n".encode() + deletions)
    sender = _Sender(talk, sum(entry.size for entry in batch.missing), progress, packed=packed)
    tar = tarfile.TarFile(
        fileobj=cast("IO[bytes]", sender), mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8",
        errors="surrogateescape", copybufsize=_CHUNK,
    )  # fmt: skip
    batch.write(tar)
    tar.close()
    sender.flush()
    talk.close_input()
    if talk.line() != "done":
        talk.fail()


class _Sender:
    """Takes the pieces of a stream of about `size` bytes, packs them where they are to be, and sends them."""

    def __init__(self, talk: ProcessIO, size: int, progress: Progress | None, *, packed: bool) -> None:
        self._talk = talk
        self._size = size
        self._progress = progress
        self._packed = packed
        self._buffer = bytearray()
        self._taken = 0

    def tell(self) -> int:
        """Bytes that were taken."""
        return self._taken

    def write(self, data: bytes) -> int:
        """Take a piece."""
        self._buffer += data
        self._taken += len(data)
        if len(self._buffer) >= _CHUNK:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what was taken."""
        data = bytes(self._buffer)
        self._buffer.clear()
        # While the link takes all it is given, packing would only delay it; when it does not, there is time to pack.
        level = 0 if self._talk.is_hungry else _PACKING_LEVEL
        self._talk.write(_pack(data, level) if self._packed else data)
        if self._progress is not None:
            self._progress(min(self._taken, self._size), self._size)


class _Batch:
    """What is missing, or as much of it as goes in BATCH_SECONDS, and the manifest then."""

    def __init__(self, wanted: dict[str, Entry], held: _Held, source: str, name: str) -> None:
        self.missing = [entry for entry in wanted.values() if held.identities.get(entry.path) != _identity(entry)]
        self.superfluous = _superfluous(wanted, held)
        self.sent: list[Entry] = []
        self._held = held
        self._source = source
        self._name = name

    def write(self, tar: tarfile.TarFile) -> None:
        """Write it into an archive. Raises StorageError when a file cannot be read."""
        end = time.monotonic() + BATCH_SECONDS
        for entry in self.missing:
            self._add(tar, entry)
            self.sent.append(entry)
            if time.monotonic() > end:
                break
        manifest = self._manifest()
        header = tarfile.TarInfo(f"{self._name}.manifest.new")
        header.size = len(manifest)
        tar.addfile(header, io.BytesIO(manifest))

    def _add(self, tar: tarfile.TarFile, entry: Entry) -> None:
        header = tarfile.TarInfo(f"{self._name}/{entry.path}")
        if entry.link is not None:
            header.type, header.linkname = tarfile.SYMTYPE, entry.link
            tar.addfile(header)
            return
        path = os.path.join(self._source, entry.path)
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                header.size, header.mtime = status.st_size, int(status.st_mtime)
                header.mode = 0o755 if entry.executable else 0o644
                tar.addfile(header, file)
        except OSError as error:
            if error.strerror is None:
                raise StorageError("it was cut short while it was sent", remedy="Run again.", file=path) from error
            raise StorageError(f"cannot send it: {error.strerror}", remedy="Make it readable.", file=path) from error

    def _manifest(self) -> bytes:
        gone = set(self.superfluous)
        kept = {
            path: identity
            for path, identity in self._held.identities.items()
            if path not in gone and not any(parent in gone for parent in _parents(path))
        }
        return _manifest({**kept, **{entry.path: _identity(entry) for entry in self.sent}})


def _superfluous(wanted: dict[str, Entry], held: _Held) -> list[str]:
    """What must go before anything is unpacked; of a folder that goes, only itself."""
    folders = {parent for path in wanted for parent in _parents(path)}
    wrong = (held.others - wanted.keys()) | (held.folders - folders)
    return sorted(path for path in wrong if not any(parent in wrong for parent in _parents(path)))


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _identity(entry: Entry) -> str:
    """What stands in the manifest: the content, and what else of a file is kept."""
    if entry.link is not None:
        return f"l {entry.link}"
    return f"{'x' if entry.executable else 'f'} {entry.identity}"


def _manifest(identities: dict[str, str]) -> bytes:
    return b"".join(
        os.fsencode(path) + b"\0" + os.fsencode(identity) + b"\0" for path, identity in sorted(identities.items())
    )


def _pairs(data: bytes) -> dict[str, str]:
    words = [os.fsdecode(word) for word in data.split(b"\0")[:-1]]
    return dict(zip(words[::2], words[1::2], strict=True))


def _pack(data: bytes, level: int) -> bytes:
    """One member of a gzip stream, whose members may each be packed as hard as there is time for; 0 just wraps."""
    packer = zlib.compressobj(level, wbits=31)
    return packer.compress(data) + packer.flush()
