"""Which files the project's ignore files exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.ui.ignored import Ignored

if TYPE_CHECKING:
    from pathlib import Path


def test_both_ignore_files_of_the_root_count(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# comment\noutputs/\n*.pt\n!keep.pt\n")
    (tmp_path / ".amlignore").write_text("\ufeffdata\n")
    ignored = Ignored.read(str(tmp_path))
    assert ignored.holds("outputs", is_folder=True)
    assert not ignored.holds("outputs", is_folder=False)
    assert ignored.holds("deep/model.pt", is_folder=False)
    assert not ignored.holds("keep.pt", is_folder=False)
    assert ignored.holds("data", is_folder=True)
    assert not ignored.holds("train.py", is_folder=False)


def test_without_ignore_files_nothing_is_excluded(tmp_path: Path) -> None:
    ignored = Ignored.read(str(tmp_path))
    assert not ignored.holds("anything", is_folder=False)
    assert ignored == Ignored()


def test_a_file_of_comments_excludes_nothing_and_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("# nothing\n\n")
    assert not Ignored.read(str(tmp_path)).holds("x", is_folder=False)
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\nx\n")
    assert Ignored.read(str(tmp_path)).holds("x", is_folder=False)
