from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest

from tests.conftest import missing
from tests.core.support import ordinary_user
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import replacing, replacing_below, signature, write_atomically, write_if_changed
from tui_workbench.core.system import unnamed_file
from tui_workbench.core.text_files import read_text_file

if TYPE_CHECKING:
    from collections.abc import Iterator


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


class TestSignature:
    def test_version_is_none_without_a_file_and_new_after_a_write(self, tmp_path: Path) -> None:
        path = str(tmp_path / "file")
        assert signature(path) is None
        assert signature(path + "/below-a-missing-one") is None
        first = write_atomically(path, b"one")
        assert signature(path) == first == read_text_file(path).signature
        second = write_atomically(path, b"two")
        assert signature(path) == second != first


class TestWriting:
    def test_write_leaves_only_the_file_with_its_bytes(self, tmp_path: Path) -> None:
        write_atomically(str(tmp_path / "file"), b"new")
        assert (tmp_path / "file").read_bytes() == b"new"
        assert names_in(tmp_path) == ["file"]

    def test_permission_bits_are_kept_or_set(self, tmp_path: Path) -> None:
        path = tmp_path / "run.sh"
        path.write_bytes(b"old")
        path.chmod(0o750)
        write_atomically(str(path), b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o750
        write_atomically(str(path), b"new", mode=0o600)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_new_file_gets_bits_of_the_umask_or_given_bits(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            write_atomically(str(tmp_path / "plain"), b"")
            write_atomically(str(tmp_path / "secret"), b"", mode=0o600)
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600

    @pytest.mark.system
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_root_keeps_the_owner_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        os.chown(path, 12345, 23456)
        write_atomically(str(path), b"new")
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)

    def test_symbolic_link_is_kept_and_its_file_written(self, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        real = tmp_path / "elsewhere" / "file"
        real.write_bytes(b"old")
        link = tmp_path / "link"
        link.symlink_to("elsewhere/file")
        write_atomically(str(link), b"new")
        assert link.is_symlink()
        assert real.read_bytes() == b"new"
        assert names_in(tmp_path / "elsewhere") == ["file"]

    def test_failed_write_names_the_cause_and_keeps_the_file(self, tmp_path: Path) -> None:
        for name, sentence in (
            ("missing/file", "no such file or folder"),
            (".", "this is a folder"),
            ("x" * 300, "the name or the path is too long"),
        ):
            with pytest.raises(StorageError, match=sentence) as caught:
                write_atomically(str(tmp_path / name), b"new")
            assert caught.value.remedy
        assert names_in(tmp_path) == []

    def test_folder_without_permission_is_reported(self) -> None:
        with ordinary_user() as folder:
            (folder / "file").write_bytes(b"old")
            folder.chmod(0o555)
            with pytest.raises(StorageError, match="permission denied"):
                write_atomically(str(folder / "file"), b"new")
            assert (folder / "file").read_bytes() == b"old"
            folder.chmod(0o755)

    @pytest.mark.system
    @pytest.mark.linux("mounts a file system")
    def test_full_disk_is_reported_and_keeps_the_file(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk") as disk:
            path = disk / "file"
            path.write_bytes(b"old")
            with pytest.raises(StorageError, match="the disk is full"):
                write_atomically(str(path), b"x" * 1_000_000)
            assert path.read_bytes() == b"old"
            assert names_in(disk) == ["file"]

    @pytest.mark.system
    @pytest.mark.linux("mounts a file system")
    def test_read_only_file_system_is_reported(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk") as disk:
            (disk / "file").write_bytes(b"old")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            with pytest.raises(StorageError, match="read-only"):
                write_atomically(str(disk / "file"), b"new")
            assert (disk / "file").read_bytes() == b"old"


class TestReplacing:
    def test_file_is_replaced_at_the_end_of_the_context(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        with replacing(str(path), 0o600) as file:
            file.write(b"new")
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert names_in(tmp_path) == ["file"]

    def test_failure_leaves_only_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")

        def fail(file: BinaryIO) -> None:
            file.write(b"new")
            raise KeyError

        for writing in (replacing(str(path)), replacing_below(str(tmp_path), "file")):
            with pytest.raises(KeyError), writing as file:
                fail(file)
        assert path.read_bytes() == b"old"
        assert names_in(tmp_path) == ["file"]

    def test_unchanged_file_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "file"
        write_if_changed(str(path), b"text")
        first = signature(str(path))
        write_if_changed(str(path), b"text")
        assert signature(str(path)) == first
        write_if_changed(str(path), b"other")
        assert path.read_bytes() == b"other"


@contextlib.contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    at.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(at)], capture_output=True)
    if mounted.returncode:
        missing("mounting a small disk needs root")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.parametrize("has_flag", [True, False])
def test_an_unnamed_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_flag: bool) -> None:
    if not has_flag:  # as on other systems than Linux
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    first, second = unnamed_file(str(tmp_path)), unnamed_file(str(tmp_path))
    try:
        assert os.write(first, b"text") == os.fstat(first).st_size
        assert os.fstat(second).st_size == len(os.listdir(tmp_path)) == 0
    finally:
        os.close(first)
        os.close(second)
