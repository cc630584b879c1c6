"""Unpacking archives that are not trusted."""

from __future__ import annotations

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
    """A header, then bytes without end. Counts the bytes that were read."""

    def __init__(self, header: bytes) -> None:
        self._header = header
        self.read_bytes = 0

    def read(self, size: int) -> bytes:
        self.read_bytes += size
        if self.read_bytes > 100 << 20:
            raise MemoryError("the reader does not stop")
        data, self._header = self._header[:size], self._header[size:]
        return data + b"x" * (size - len(data))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_header_of_any_size_is_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("name")
    info.type, info.size = kind, 1 << 40
    stream = Endless(info.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(tarfile.ReadError):
        unpack(stream, str(tmp_path))
    assert stream.read_bytes < 1 << 20
    assert os.listdir(tmp_path) == []


def test_long_names_are_unpacked(tmp_path: Path) -> None:
    name = "/".join(["outputs", "n" * 200, "m" * 200])
    place, left_out = unpacked(tmp_path, member(f"outputs/{'n' * 200}", tarfile.DIRTYPE, mode=0o755), member(name))
    assert left_out == []
    assert (place / ("n" * 200) / ("m" * 200)).read_bytes() == b"bytes"
