"""The folders of the program's data and of the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

import tui_workbench
from tui_workbench.core import directories
from tui_workbench.core.errors import StorageError


def test_themes_and_sample_are_found_in_a_source_tree() -> None:
    root = Path(tui_workbench.__file__).parent.parent
    assert directories.packaged("themes") == str(root / "themes")
    assert directories.packaged("sample_project") == str(root / "sample_project")


def test_installed_wheel_contains_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, beside = tmp_path / "_data", tmp_path / "beside"
    for place in (inside, beside):
        (place / "themes").mkdir(parents=True)
    monkeypatch.setattr(directories, "DATA_PLACES", (str(inside), str(beside)))
    assert directories.packaged("themes") == str(inside / "themes")


def test_broken_installation_is_reported_with_a_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(directories, "DATA_PLACES", (str(tmp_path),))
    with pytest.raises(StorageError, match=r"'themes'.*Install the workbench again"):
        directories.packaged("themes")


@pytest.mark.parametrize(
    ("variable", "function", "default"),
    [
        ("XDG_CONFIG_HOME", directories.user_config_directory, ".config"),
        ("XDG_DATA_HOME", directories.user_data_directory, ".local/share"),
        ("XDG_STATE_HOME", directories.user_state_directory, ".local/state"),
        ("XDG_CACHE_HOME", directories.user_cache_directory, ".cache"),
    ],
)
def test_user_directories_follow_xdg(
    variable: str, function: object, default: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert callable(function)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/somewhere")
    assert function() == "/somewhere/workbench-tui"
    monkeypatch.setenv(variable, "relative/paths/are/ignored")
    assert function() == f"{tmp_path}/{default}/workbench-tui"
    monkeypatch.delenv(variable)
    assert function() == f"{tmp_path}/{default}/workbench-tui"


def test_user_themes_come_before_built_in_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert directories.theme_directories() == [
        str(tmp_path / "workbench-tui" / "themes"),
        directories.packaged("themes"),
    ]
