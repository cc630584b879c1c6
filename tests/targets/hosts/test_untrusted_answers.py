"""Answers of a machine that does not follow the protocol, and files that it cannot or need not send as they are."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.machines import Machine
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.numbers import whole_number
from tui_workbench.targets.hosts.fetching import fetch, unpack
from tui_workbench.targets.hosts.host import DEFAULT_TIMEOUT, Host, HostProcess, LocalHost
from tui_workbench.targets.hosts.process_io import ProcessIO

NO_NUMBERS = ["", "²", "1" * 6_000, "-1", "+1", "1_0", " 1", "1.0", "0x10", "٣", str(10**14), "nan", "1\0"]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_only_short_ascii_digits_are_a_number(text: str) -> None:
    assert whole_number(text, 1000) is None
    assert whole_number("1000", 1000) == 1000
    assert whole_number("1001", 1000) is None
    assert whole_number(b"007", 1000) == 7


@pytest.mark.parametrize("place", ["checksums", "unreadable", "size"])
@pytest.mark.parametrize("text", [text for text in NO_NUMBERS if text == text.strip()])
def test_answer_that_is_no_number_is_an_error(tmp_path: Path, text: str, place: str) -> None:
    answer = {"checksums": [text], "unreadable": ["0", "", text], "size": ["0", "", "0", "", text]}[place]
    (tmp_path / "answer").write_bytes("".join(f"{line}\n" for line in ["ready", *answer]).encode())

    class Answering(LocalHost):
        def open(self, argv: Sequence[str], *, timeout: float = DEFAULT_TIMEOUT) -> HostProcess:
            return super().open(["cat", str(tmp_path / "answer")], timeout=timeout)

    with pytest.raises(WorkbenchError, match="expected a number"):
        fetch(Answering(), str(tmp_path), str(tmp_path / "back"))


def archive_of(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in members:
            archive.addfile(member, io.BytesIO(data))
    made.seek(0)
    return made


def file_member(name: str, data: bytes = b"data") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    return member, data


def link_member(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member, b""


def test_link_with_the_name_of_a_file_is_skipped_and_named(tmp_path: Path) -> None:
    found = unpack(
        archive_of(file_member("ok.txt"), link_member("ok.txt", "x"), link_member("ok.txt/y", "x")), str(tmp_path)
    )
    assert sorted(found.skipped) == ["ok.txt", "ok.txt/y"]
    assert (tmp_path / "ok.txt").read_bytes() == b"data"


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), 1e300, -1e300])
def test_time_that_no_file_can_have_is_ignored(tmp_path: Path, moment: float) -> None:
    member, data = file_member("file")
    member.pax_headers = {"mtime": str(moment)}
    unpack(archive_of((member, data)), str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"data"


def folder_on(host: Host, machine: Machine, name: str) -> tuple[str, Path]:
    """Return a new folder in the home of the user on the machine, and its path on this machine."""
    here = machine.home() / name
    path = f"/{here.relative_to(machine.folder)}"
    here.mkdir()
    return path, here


def test_file_that_cannot_be_read_is_named(host: Host, gpubox: Machine, tmp_path: Path) -> None:
    path, here = folder_on(host, gpubox, f"unread-{tmp_path.name}")
    for name in ("ok.bin", "secret.bin", "dir/inner"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("data")
    (here / "secret.bin").chmod(0)
    (here / "dir").chmod(0)
    gpubox.run(["chown", "-R", "research:", path])
    report = fetch(host, path, str(tmp_path / "back"))
    assert sorted(report.skipped) == ["dir", "secret.bin"]
    assert (tmp_path / "back" / "ok.bin").read_text() == "data"


@pytest.mark.linux
def test_sparse_file_stays_sparse(host: Host, gpubox: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, here = folder_on(host, gpubox, f"sparse-{tmp_path.name}")
    size = 200 << 20
    with open(here / "map", "wb") as file:
        for start in (0, size // 3, size - 4):
            file.seek(start)
            file.write(b"page")
    gpubox.run(["chown", "-R", "research:", path])
    received = 0
    read = ProcessIO.read

    def counted(process: ProcessIO, number: int = 1 << 16) -> bytes:
        nonlocal received
        data = read(process, number)
        received += len(data)
        return data

    monkeypatch.setattr(ProcessIO, "read", counted)
    fetch(host, path, str(tmp_path / "back"))
    copy = tmp_path / "back" / "map"
    assert copy.read_bytes() == (here / "map").read_bytes()
    assert copy.stat().st_blocks * 512 < 8 << 20
    assert received < 8 << 20
    assert os.path.getsize(copy) == size
