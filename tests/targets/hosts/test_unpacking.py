"""Unpacking archives that are not trusted."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from tui_workbench.targets.hosts.fetching import unpack


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid = kind, link, mode, 12345, 12345
    info.size = 5 if kind == tarfile.REGTYPE else 0
    return info


def archive(*members: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info in members:
            tar.addfile(info, io.BytesIO(b"bytes") if info.isreg() else None)
    return buffer.getvalue()


def unpacked(tmp_path: Path, *members: tarfile.TarInfo) -> tuple[Path, list[str]]:
    place = tmp_path / "in" / "outputs"
    place.parent.mkdir()
    (tmp_path / "precious").write_text("mine")
    found = unpack(io.BytesIO(archive(member("outputs", tarfile.DIRTYPE, mode=0o755), *members)), str(place.parent))
    assert (tmp_path / "precious").read_text() == "mine"
    assert os.listdir(place.parent) == ["outputs"]
    return place, found.skipped


def test_unpack_creates_files_folders_and_links(tmp_path: Path) -> None:
    place, left_out = unpacked(
        tmp_path,
        member("outputs/a", tarfile.DIRTYPE, mode=0o555),
        member("outputs/a/model.pt", mode=0o4777),
        member("outputs/link", tarfile.SYMTYPE, "a/model.pt"),
        member("outputs/hard", tarfile.LNKTYPE, "outputs/a/model.pt"),
    )
    assert left_out == []
    assert (place / "a" / "model.pt").read_bytes() == b"bytes"
    assert (place / "link").read_bytes() == (place / "hard").read_bytes() == b"bytes"
    status = (place / "a" / "model.pt").stat()
    assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
    assert status.st_mode & 0o7022 == 0


@pytest.mark.parametrize(
    "outside",
    [
        member("outputs/../../precious"),
        member("../precious"),
        member("/tmp/escaped-absolute"),
        member("outputs/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("outputs/link", tarfile.SYMTYPE, "../../../precious"),
        member("outputs/hard", tarfile.LNKTYPE, "../../precious"),
        member("outputs/hard", tarfile.LNKTYPE, "/etc/passwd"),
        member("outputs/pipe", tarfile.FIFOTYPE),
        member("outputs/device", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name} {info.linkname}".strip(),
)
def test_members_that_leave_the_folder_are_skipped_and_named(tmp_path: Path, outside: tarfile.TarInfo) -> None:
    place, left_out = unpacked(tmp_path, outside, member("outputs/kept"))
    assert left_out == [outside.name]
    assert os.listdir(place) == ["kept"]


def test_member_below_a_link_stays_inside(tmp_path: Path) -> None:
    place, _ = unpacked(
        tmp_path,
        member("outputs/way", tarfile.SYMTYPE, "../.."),
        member("outputs/way/precious"),
        member("outputs/kept"),
    )
    assert (place / "kept").read_bytes() == b"bytes"


def test_repeated_link_stays_inside(tmp_path: Path) -> None:
    place, _ = unpacked(tmp_path, member("outputs/door", tarfile.SYMTYPE, "."), member("outputs/kept"))
    assert (place / "door").resolve() == place
    (tmp_path / "outside").mkdir()
    members = (
        member("door", tarfile.SYMTYPE, "."),
        member("door", tarfile.SYMTYPE, "../outside"),
        member("door/file"),
    )
    assert "door" in unpack(io.BytesIO(archive(*members)), str(place)).skipped
    assert list((tmp_path / "outside").iterdir()) == []


class Endless:
    """A header, then a block without end. Counts the bytes that were read."""

    def __init__(self, header: bytes, block: bytes) -> None:
        self._bytes = header + block * 2048
        self._block = block
        self.read_bytes = 0

    def read(self, size: int) -> bytes:
        self.read_bytes += size
        if self.read_bytes > 100 << 20:
            raise MemoryError("the reader does not stop")
        if len(self._bytes) < size:
            self._bytes += self._block * (size // 512 + 1)
        data, self._bytes = self._bytes[:size], self._bytes[size:]
        return data


def headers_without_end(kind: bytes) -> Endless:
    info = tarfile.TarInfo("name")
    info.type, info.size = kind, 1 << 40
    if kind != tarfile.GNUTYPE_SPARSE:
        return Endless(info.tobuf(tarfile.GNU_FORMAT), b"x" * 512)
    # The bytes 482 of the header and 504 of each following block say that more blocks follow.
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:483] = b"0" * 96 + b"\1"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return Endless(bytes(header), b"0" * 504 + b"\1" + b"\0" * 7)


KINDS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_headers_of_any_size_are_refused(tmp_path: Path, kind: bytes) -> None:
    stream = headers_without_end(kind)
    with pytest.raises(tarfile.ReadError, match="bytes of headers"):
        unpack(stream, str(tmp_path))
    assert stream.read_bytes < 8 << 20
    assert os.listdir(tmp_path) == []


def test_headers_after_a_member_with_a_huge_hole_are_limited(tmp_path: Path) -> None:
    info = tarfile.TarInfo("hole")
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1"}
    info.pax_headers |= {"GNU.sparse.size": str(1 << 50), "GNU.sparse.name": "hole"}
    info.size = 1
    hole = info.tobuf(tarfile.PAX_FORMAT) + b"x" + b"\0" * 511
    stream = headers_without_end(tarfile.XHDTYPE)
    with pytest.raises(tarfile.ReadError, match="bytes of headers"):
        unpack(Endless(hole + stream.read(512), b"x" * 512), str(tmp_path), is_wanted=lambda member: False)


@pytest.mark.slow
def test_map_of_holes_of_any_size_is_refused(tmp_path: Path) -> None:
    # In format 1.0, the map is at the beginning of the data.
    info = tarfile.TarInfo("hole")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
    info.size = 1 << 40
    stream = Endless(info.tobuf(tarfile.PAX_FORMAT) + b"9" * 9 + b"\n", b"1\n" * 256)
    with pytest.raises(tarfile.ReadError, match="bytes of headers"):
        unpack(stream, str(tmp_path))
    assert stream.read_bytes < 8 << 20


def test_compressed_headers_of_any_size_are_refused(tmp_path: Path) -> None:
    header = headers_without_end(tarfile.XHDTYPE).read(64 << 20)
    with pytest.raises(tarfile.ReadError, match="bytes of headers"):
        unpack(io.BytesIO(gzip.compress(header, 1)), str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_compressed_archive_is_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(archive(member("a"), member("b")))
    unpack(io.BytesIO(packed), str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    with pytest.raises(EOFError):
        unpack(io.BytesIO(packed[:-20]), str(tmp_path))


def test_long_names_are_unpacked(tmp_path: Path) -> None:
    name = "/".join(["outputs", "n" * 200, "m" * 200])
    place, left_out = unpacked(tmp_path, member(f"outputs/{'n' * 200}", tarfile.DIRTYPE, mode=0o755), member(name))
    assert left_out == []
    assert (place / ("n" * 200) / ("m" * 200)).read_bytes() == b"bytes"
