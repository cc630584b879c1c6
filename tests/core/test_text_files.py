from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.support import ordinary_user
from tui_workbench.core import text_files
from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import FileChangedError, read_text_file, reread, save

if TYPE_CHECKING:
    from collections.abc import Iterator


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


class TestReading:
    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (b"", ""),
            (b"a\nb\n", "a\nb\n"),
            (b"a\nb", "a\nb"),
            (b"a\r\nb\r\n", "a\nb\n"),
            (b"a\r\nb", "a\nb"),
            (b"a\rb\r", "a\nb\n"),
            (b"a\r\nb\nc\r", "a\r\nb\nc\r"),
            (b"\xef\xbb\xbftype: local\r\n", "type: local\n"),
            (b"\xff\xfea\x00\r\x00\n\x00", "a\n"),
            (b"\xfe\xff\x00a\x00\n", "a\n"),
            ("größer\n🎉\n".encode(), "größer\n🎉\n"),
            (b"form\x0cfeed\x1b[31m\x85\n".replace(b"\x85", "\x85\u2028".encode()), "form\x0cfeed\x1b[31m\x85\u2028\n"),
        ],
    )
    def test_text_is_written_back_unchanged(self, tmp_path: Path, data: bytes, text: str) -> None:
        path = tmp_path / "file"
        path.write_bytes(data)
        file = read_text_file(str(path))
        assert file.text == text
        assert file.read_only == ""
        assert file.encode(file.text) == data

    @given(st.binary(max_size=60) | st.text(st.sampled_from("a: \n\r\t\ufeffé\u2028\x0c"), max_size=30).map(str.encode))
    def test_every_editable_file_is_written_back_unchanged(self, data: bytes) -> None:
        with temporary_file(data) as path:
            file = read_text_file(path)
        assert file.read_only or file.encode(file.text) == data

    def test_new_text_in_a_crlf_file_gets_crlf(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"a\r\nb")
        assert read_text_file(str(path)).encode("a\nnew\nb") == b"a\r\nnew\r\nb"

    def test_file_that_is_not_utf8_is_shown_read_only_as_latin_1(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"gr\xf6\xdfer\r\n")
        file = read_text_file(str(path))
        assert (file.text, file.encoding) == ("größer\n", "latin-1")
        assert "not UTF-8" in file.read_only
        with pytest.raises(StorageError, match="read-only") as raised:
            file.encode("x")
        assert raised.value.remedy == "Use another editor."

    def test_binary_file_is_shown_in_hexadecimal(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"\x7fELF\x00" + bytes(range(32, 64)))
        file = read_text_file(str(path))
        assert file.is_binary
        assert file.read_only
        assert (
            file.text.splitlines()[0] == "00000000  7f 45 4c 46 00 20 21 22  23 24 25 26 27 28 29 2a  .ELF. !\"#$%&'()*"
        )

    def test_large_file_is_cut_at_a_line_end(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"0123456\n" * 100)
        file = read_text_file(str(path), largest=799, head=20)
        assert file.text == "0123456\n0123456\n"
        assert file.too_large
        assert file.signature.size == 800
        assert "larger than" in file.read_only

    def test_file_of_exactly_the_size_limit_is_editable(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"0123456\n" * 100)
        assert not read_text_file(str(path), largest=800, head=20).read_only

    def test_file_without_write_permission_is_read_only(self) -> None:
        with ordinary_user() as folder:
            path = folder / "file"
            path.write_bytes(b"a\n")
            path.chmod(0o444)
            file = read_text_file(str(path))
            assert "permission" in file.read_only
            with pytest.raises(StorageError) as raised:
                file.encode("x")
            assert raised.value.remedy == "Change its permissions, or edit a copy."

    def test_missing_file_folder_and_pipe_are_reported(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for name, sentence in (("missing", "no such file"), (".", "this is a folder"), ("pipe", "not a regular file")):
            with pytest.raises(StorageError, match=sentence) as caught:
                read_text_file(str(tmp_path / name))
            assert caught.value.file == str(tmp_path / name)
            assert caught.value.remedy

    def test_unencodable_character_is_reported_with_its_position(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"a\r\n")
        with pytest.raises(StorageError, match=r"file:2:3: the character U\+D800 cannot be encoded in utf-8"):
            read_text_file(str(path)).encode("a\nbc\ud800d\n")


class TestSaving:
    def test_save_keeps_the_encoding_and_line_ends_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"\xef\xbb\xbfa\r\nb")
        saved = save(read_text_file(str(path)), "a\nnew\nb")
        assert path.read_bytes() == b"\xef\xbb\xbfa\r\nnew\r\nb"
        assert saved == read_text_file(str(path))

    def test_file_changed_on_disk_is_not_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        opened = read_text_file(str(path))
        path.write_bytes(b"theirs")
        with pytest.raises(FileChangedError) as caught:
            save(opened, "mine")
        assert caught.value.theirs.text == "theirs"
        assert path.read_bytes() == b"theirs"

    def test_touched_file_is_saved(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        opened = read_text_file(str(path))
        os.utime(path, (1, 1))
        save(opened, "mine")
        assert path.read_bytes() == b"mine"

    def test_deleted_file_is_created_again(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        opened = read_text_file(str(path))
        path.unlink()
        assert reread(opened) is None
        save(opened, "mine")
        assert path.read_bytes() == b"mine"

    def test_reread_distinguishes_new_content_from_a_new_date(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        opened = read_text_file(str(path))
        assert reread(opened) is opened
        os.utime(path, (1, 1))
        touched = reread(opened)
        assert touched
        assert touched.same_content(opened)
        assert touched.signature != opened.signature
        path.write_bytes(b"new")
        changed = reread(touched)
        assert changed
        assert changed.text == "new"

    def test_save_gives_up_on_a_locked_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        file = read_text_file(str(path))
        monkeypatch.setattr(text_files, "LOCK_SECONDS", 0.05)
        with text_files.locked([str(path)]), pytest.raises(StorageError, match="has locked this folder"):
            save(file, "new")
        assert save(file, "new").text == "new"

    def test_change_with_the_same_time_and_size_is_detected(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"one")
        file = read_text_file(str(path))
        path.write_bytes(b"two")
        os.utime(path, ns=(file.signature.mtime_ns, file.signature.mtime_ns))
        with pytest.raises(FileChangedError):
            save(file, "mine")
        assert path.read_bytes() == b"two"


@contextlib.contextmanager
def temporary_file(data: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
