from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.ui.files.file_tree import is_ignored, read_ignore_files

if TYPE_CHECKING:
    from pathlib import Path


def test_both_ignore_files_of_the_root_count(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# comment\noutputs/\n*.pt\n!keep.pt\n")
    (tmp_path / ".amlignore").write_text("\ufeffdata\n")
    files, problem = read_ignore_files(str(tmp_path))
    assert not problem
    assert is_ignored("outputs", files, is_folder=True)
    assert is_ignored("outputs/model.txt", files, is_folder=False)
    assert not is_ignored("outputs", files, is_folder=False)
    assert is_ignored("deep/model.pt", files, is_folder=False)
    assert not is_ignored("keep.pt", files, is_folder=False)
    assert is_ignored("data", files, is_folder=True)
    assert not is_ignored("train.py", files, is_folder=False)


def test_without_ignore_files_nothing_is_excluded(tmp_path: Path) -> None:
    assert not is_ignored("anything", read_ignore_files(str(tmp_path))[0], is_folder=False)


def test_comments_and_binary_bytes_exclude_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# nothing\n\n")
    assert not is_ignored("x", read_ignore_files(str(tmp_path))[0], is_folder=False)
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\nx\n")
    assert is_ignored("x", read_ignore_files(str(tmp_path))[0], is_folder=False)


def test_unusable_ignore_file_is_a_problem_and_not_an_error(tmp_path: Path) -> None:
    (tmp_path / ".amlignore").write_text("data\n")
    with (tmp_path / ".gitignore").open("wb") as file:
        file.truncate(5 << 20)
    files, problem = read_ignore_files(str(tmp_path))
    assert is_ignored("data", files, is_folder=True)
    assert problem == ".gitignore: cannot use this ignore file: it is larger than 4 MiB"
