"""Copying a folder from a host."""

from __future__ import annotations

import os
import subprocess
import tarfile
import unicodedata
from typing import TYPE_CHECKING

import pytest

from tests.case_folding import case_folding_disk
from tests.conftest import require
from tests.waiting import wait_until
from tui_workbench.core.errors import StorageError
from tui_workbench.targets.hosts import fetching, process_io
from tui_workbench.targets.hosts.fetching import Unpacked, fetch
from tui_workbench.targets.hosts.host import ConnectionLost, Host, LocalHost
from tui_workbench.targets.hosts.process_io import ProcessIO

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.machines import Machine


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.ssh)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Host, str, Path]:
    """Return a host, a folder on it with the files of a run, and the path of this folder on this machine."""
    if request.param == "local":
        host: Host = LocalHost()
        path = here = tmp_path / "outputs"
    else:
        host = request.getfixturevalue("host")
        gpubox: Machine = request.getfixturevalue("gpubox")
        name = f"fetch-{tmp_path.name}"
        here = gpubox.home() / name
        path = gpubox.home().relative_to(gpubox.folder) / name
    (here / "checkpoints").mkdir(parents=True)
    (here / "empty").mkdir()
    (here / "model.bin").write_bytes(os.urandom(300_000))
    (here / "checkpoints" / "1").write_bytes(b"one")
    (here / "run.sh").write_text("#!/bin/sh\n")
    (here / "run.sh").chmod(0o755)
    (here / "latest").symlink_to("checkpoints/1")
    return host, str(path) if request.param == "local" else f"/{path}", here


def test_fetch_copies_files_folders_and_links(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    report = fetch(host, path, str(tmp_path / "back"))
    assert (report.files, report.size, report.skipped) == (3, 300_013, ())
    assert _same(here, tmp_path / "back")
    assert os.access(tmp_path / "back" / "run.sh", os.X_OK)
    assert not (tmp_path / "back.part").exists()


@pytest.mark.parametrize("most", [0, 1_000])
@pytest.mark.parametrize("made", ["nothing", "file", "link", "file and link", "file named other"])
def test_only_what_was_made_later_is_fetched(
    place: tuple[Host, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, most: int
) -> None:
    monkeypatch.setattr(fetching, "NAMED_FILES", most)
    host, path, here = place
    marker, probe = here.parent / f"{here.name}.placed", here.parent / f"{here.name}.probe"
    marker.touch()

    def has_ticked() -> bool:
        probe.touch()
        return probe.stat().st_mtime_ns > marker.stat().st_mtime_ns

    wait_until(has_ticked, "a tick of the clock")
    expected = set()
    if made.startswith("file"):
        expected.add("checkpoints/other" if made == "file named other" else "checkpoints/2")
        (here / "checkpoints" / "__pycache__").mkdir()
        for name in (*expected, "checkpoints/__pycache__/train.pyc"):
            (here / name).write_bytes(b"two")
    if made.endswith("link"):
        expected.add("newest")
        (here / "newest").symlink_to("checkpoints/2")
    report = fetch(host, path, str(tmp_path / "back"), since=marker.name)
    back = tmp_path / "back"
    fetched = [each for each in back.rglob("*") if each.is_symlink() or each.is_file()]
    assert {os.path.relpath(each, back) for each in fetched} == expected
    assert report.files == len(expected - {"newest"})
    assert back.exists() == bool(expected)


@pytest.mark.system
@pytest.mark.linux("mounts a file system")
def test_names_that_the_file_system_does_not_distinguish_are_refused(tmp_path: Path) -> None:
    there = tmp_path / "outputs"
    there.mkdir()
    (there / "Loss.csv").write_text("upper case")
    (there / "loss.csv").write_text("lower case")
    with case_folding_disk(tmp_path) as disk:
        for _ in range(2):  # an incomplete first attempt does not hide the problem
            with pytest.raises(StorageError, match=r"cannot store [Ll]oss.csv: .* does not distinguish") as caught:
                fetch(LocalHost(), str(there), str(disk / "back"))
            assert "Rename one of them there" in caught.value.remedy
            assert not (disk / "back").exists()
        (there / "Loss.csv").rename(there / "first.csv")
        assert fetch(LocalHost(), str(there), str(disk / "back")).files == 2
        assert (disk / "back" / "first.csv").read_text() == "upper case"
        assert (disk / "back" / "loss.csv").read_text() == "lower case"


@pytest.mark.system
@pytest.mark.linux("mounts a file system")
def test_complete_fetch_to_a_file_system_that_changes_names(tmp_path: Path) -> None:
    there = tmp_path / "outputs"
    there.mkdir()
    (there / "Model.bin").write_bytes(b"new")
    with case_folding_disk(tmp_path) as disk:
        (disk / "back.part").mkdir()
        (disk / "back.part" / "Model.bin").write_bytes(b"new")  # of an interrupted attempt, now named model.bin
        fetch(LocalHost(), str(there), str(disk / "back"))
        assert (disk / "back" / "Model.bin").read_bytes() == b"new"


def test_both_forms_of_an_accent_are_fetched(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    names = [unicodedata.normalize(form, "\u00e9t\u00e9.csv") for form in ("NFC", "NFD")]
    for name in names:
        (here / name).write_text(name)
    for _ in range(2):
        fetch(host, path, str(tmp_path / "back"))
        assert _same(here, tmp_path / "back")


@pytest.mark.parametrize("already", [False, True])
def test_distant_host_sends_compressed(
    place: tuple[Host, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, already: bool
) -> None:
    host, path, here = place
    monkeypatch.setattr(process_io, "NEAR_SECONDS", -1.0)
    monkeypatch.setattr(type(host), "is_local", False)
    if already:  # an earlier attempt was cut off
        (tmp_path / "back.part").mkdir()
        (tmp_path / "back.part" / "model.bin").write_bytes((here / "model.bin").read_bytes())
    assert fetch(host, path, str(tmp_path / "back")).size == (13 if already else 300_013)
    assert _same(here, tmp_path / "back")


def test_existing_destination_is_replaced(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "old").write_text("old")
    fetch(host, path, str(tmp_path / "back"))
    assert _same(here, tmp_path / "back")


def test_unusual_names_are_preserved(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    for name in [b" ", b"a\nb", b"\\", b"\\n", b"$(x)", b"-rf", b"\xff", b"x" * 255, "ä€".encode()]:
        with open(os.path.join(os.fsencode(here), name), "wb") as file:
            file.write(name)
    assert fetch(host, path, str(tmp_path / "back")).files == 3 + 9
    assert _same(here, tmp_path / "back")


def test_empty_folder_is_fetched(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, _ = place
    assert fetch(host, f"{path}/empty", str(tmp_path / "back")).files == 0
    assert list((tmp_path / "back").iterdir()) == []


def test_missing_folder_is_an_error(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, _ = place
    with pytest.raises(StorageError, match="does not exist on"):
        fetch(host, f"{path}/nowhere", str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()


def test_hard_links_become_separate_files(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    os.link(here / "model.bin", here / "second name")
    assert fetch(host, path, str(tmp_path / "back")).files == 4
    assert _same(here, tmp_path / "back")


def test_special_files_are_skipped_and_named(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    os.mkfifo(here / "pipe")
    (here / "absolute").symlink_to("/etc/passwd")
    (here / "outside").symlink_to("../../secret")
    report = fetch(host, path, str(tmp_path / "back"))
    assert sorted(name.removeprefix("./") for name in report.skipped) == ["absolute", "outside", "pipe"]
    for name in ("absolute", "outside", "pipe"):
        assert not os.path.lexists(tmp_path / "back" / name)


def test_links_that_escape_only_in_combination_are_skipped(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    (here / "deep" / "down").mkdir(parents=True)
    (here / "deep" / "up").symlink_to("..")  # the folder itself
    (here / "through").symlink_to("deep/up/../outside")  # by the words of it: deep/outside
    report = fetch(host, path, str(tmp_path / "back"))
    assert report.skipped == ("through",)
    assert (tmp_path / "back" / "deep" / "up").is_symlink()


def test_repeated_fetch_skips_files_that_have_arrived(
    place: tuple[Host, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, path, here = place
    original, taken = Unpacked.add, []

    def take(self: Unpacked, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        original(self, archive, member)
        if member.isreg():
            taken.append(member.name)
            if len(taken) == 2:
                raise ConnectionLost("cut")

    monkeypatch.setattr(Unpacked, "add", take)
    with pytest.raises(ConnectionLost):
        fetch(host, path, str(tmp_path / "back"))
    first = list(taken)
    fetch(host, path, str(tmp_path / "back"))
    assert len(taken) == 3
    assert taken[2] not in first
    assert _same(here, tmp_path / "back")


def test_fetch_replaces_files_and_folders_of_an_attempt(place: tuple[Host, str, Path], tmp_path: Path) -> None:
    host, path, here = place
    partial = tmp_path / "back.part"
    (partial / "model.bin").mkdir(parents=True)
    (partial / "model.bin" / "old").write_bytes(b"old")
    (partial / "checkpoints").write_bytes(b"old")
    fetch(host, path, str(tmp_path / "back"))
    assert _same(here, tmp_path / "back")


def test_file_that_keeps_changing_is_an_error(
    place: tuple[Host, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, path, here = place

    class ChangingIO(ProcessIO):
        """Changes the file before its checksum is read, and again before it is copied."""

        def __init__(self, host: Host, argv: Sequence[str], action: str) -> None:
            (here / "model.bin").write_bytes(os.urandom(1000))
            super().__init__(host, argv, action)

        def write(self, data: bytes) -> None:
            (here / "model.bin").write_bytes(os.urandom(1000))
            super().write(data)

    monkeypatch.setattr(fetching, "ProcessIO", ChangingIO)
    with pytest.raises(StorageError, match="changed during the copy"):
        fetch(host, path, str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()


def _same(one: Path, other: Path) -> bool:
    command = [require("diff"), "-r", "--no-dereference", str(one), str(other)]
    return subprocess.run(command, check=False).returncode == 0
