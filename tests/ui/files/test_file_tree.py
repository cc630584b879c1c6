from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tui_workbench.ui.files import file_tree
from tui_workbench.ui.files.file_tree import FileTree, Listing, read_folder, scripts_among, walk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with nested folders and hidden files."""
    for name in ("aml_config/local.compute", "data/raw/a.csv", "train.py", "README.md", ".gitignore", "Zeta.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name in (".git", ".workbench", "__pycache__"):
        (tmp_path / name).mkdir()
    (tmp_path / "old.pyc").write_text("")
    return tmp_path


def fill(tree: FileTree) -> None:
    while unread := tree.to_read():
        for folder in unread:
            tree.accept(folder, read_folder(tree.root, folder))


def shown(tree: FileTree) -> list[str]:
    """Return the visible lines, indented by depth."""
    return ["  " * row.depth + (row.entry.name if row.entry else f"! {row.error}") for row in tree.rows()]


def test_folders_come_first_and_case_is_ignored(root: Path) -> None:
    names = [entry.name for entry in read_folder(str(root), "").entries]
    assert names == ["aml_config", "data", ".gitignore", "README.md", "train.py", "Zeta.py"]


def test_only_open_folders_are_read(root: Path) -> None:
    tree = FileTree(str(root))
    assert tree.to_read() == ["", "aml_config"]
    fill(tree)
    assert shown(tree) == [
        "aml_config",
        "  local.compute",
        "data",
        ".gitignore",
        "README.md",
        "train.py",
        "Zeta.py",
    ]


def test_reopened_folder_keeps_its_open_subfolders(root: Path) -> None:
    tree = FileTree(str(root))
    tree.toggle("data")
    tree.toggle("data/raw")
    fill(tree)
    assert "    a.csv" in shown(tree)
    tree.toggle("data")
    assert "    a.csv" not in shown(tree)
    assert tree.shown_folders() == ["", "aml_config"]
    tree.toggle("data")
    assert "    a.csv" in shown(tree)


def test_removed_folder_is_not_shown(root: Path) -> None:
    tree = FileTree(str(root))
    tree.toggle("data")
    fill(tree)
    os.rename(root / "data", root.parent / f"{root.name}-moved")
    tree.accept("", read_folder(str(root), ""))
    assert "data" not in tree.shown_folders()
    assert "data" not in shown(tree)


def test_unchanged_listing_is_not_accepted(root: Path) -> None:
    tree = FileTree(str(root))
    assert tree.accept("", read_folder(str(root), ""))
    assert not tree.accept("", read_folder(str(root), ""))
    (root / "new.py").write_text("")
    assert tree.accept("", read_folder(str(root), ""))


def test_unreadable_folder_shows_its_error(root: Path) -> None:
    tree = FileTree(str(root))
    fill(tree)
    tree.toggle("data")
    tree.accept("data", read_folder(str(root), "no such folder"))
    assert "  ! No such file or directory" in shown(tree)


def test_entries_are_found_by_path(root: Path) -> None:
    tree = FileTree(str(root))
    fill(tree)
    entry = tree.entry("aml_config/local.compute")
    assert entry is not None
    assert not entry.is_folder
    assert tree.entry("aml_config/none") is None
    assert tree.entry("never/read") is None


def test_walk_finds_all_files_sorted_by_depth(root: Path) -> None:
    environment = root / "venv"
    environment.mkdir()
    (environment / "pyvenv.cfg").write_text("")
    (environment / "site.py").write_text("")
    (root / "loop").symlink_to(root, target_is_directory=True)
    assert walk(str(root)) == [
        ".gitignore",
        "README.md",
        "train.py",
        "Zeta.py",
        "aml_config/local.compute",
        "data/raw/a.csv",
    ]


def test_walk_can_be_canceled(root: Path) -> None:
    assert walk(str(root), lambda: True) == []


def test_walk_ends_at_its_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "WALK_LIMIT", 2)
    assert len(walk(str(root))) == 2


def test_links_are_followed(root: Path) -> None:
    (root / "to_folder").symlink_to(root / "data", target_is_directory=True)
    (root / "to_nothing").symlink_to(root / "nothing")
    kinds = {entry.name: entry.is_folder for entry in read_folder(str(root), "").entries}
    assert kinds["to_folder"]
    assert not kinds["to_nothing"]


def test_scripts_are_python_files() -> None:
    assert scripts_among(["a.py", "b.txt", "c/d.py", "e.pyi", "f.ipynb"]) == ["a.py", "c/d.py", "f.ipynb"]


def test_unread_folder_is_empty() -> None:
    tree = FileTree("/nowhere")
    assert shown(tree) == []
    tree.accept("", Listing())
    assert shown(tree) == []
