from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.errors import StorageError
from tui_workbench.ui.session_state import Values, load_session, recent_projects, save_session, session_path

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def test_saved_session_is_restored(project: Project) -> None:
    save_session(project.root, {"screen": {"active": "log", "zoomed": True, "lists": 400}, "tabs": [{"path": "/a"}]})
    values, trouble = load_session(project.root)
    assert trouble is None
    assert values.part("screen").text("active") == "log"
    assert values.part("screen").flag("zoomed")
    assert values.part("screen").number("lists") == 400
    assert [tab.text("path") for tab in values.parts("tabs")] == ["/a"]


def test_session_file_is_private(project: Project, home: Path) -> None:
    save_session(project.root, {})
    path = Path(session_path(project.root))
    assert path.is_relative_to(home / ".local" / "state")
    assert path.stat().st_mode & 0o777 == 0o600


def test_projects_of_the_same_name_have_separate_sessions(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "project", tmp_path / "other" / "project"
    for root in (one, other):
        root.mkdir(parents=True)
    save_session(str(one), {"screen": {"active": "log"}})
    assert not load_session(str(other))[0].part("screen")


def test_linked_project_has_the_same_session(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project.root)
    save_session(project.root, {"run": "x"})
    assert load_session(str(link))[0].text("run") == "x"


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"schema": "1"}', b"\xff\xfe", b"[" * 100_000], ids=lambda data: ascii(data[:8])
)
def test_damaged_file_is_reported_and_ignored(project: Project, damaged: bytes) -> None:
    save_session(project.root, {})
    Path(session_path(project.root)).write_bytes(damaged)
    values, trouble = load_session(project.root)
    assert not values
    assert trouble is not None
    assert "damaged" in str(trouble)
    assert trouble.remedy


def test_file_of_a_later_version_is_not_changed(project: Project) -> None:
    save_session(project.root, {})
    path = Path(session_path(project.root))
    path.write_text(json.dumps({**json.loads(path.read_text("ascii")), "schema": 99}), "ascii")
    assert "later version" in str(load_session(project.root)[1])


def test_values_of_another_type_are_missing() -> None:
    values = Values({"text": 1, "number": "1", "flag": 1, "texts": ["a", 2], "parts": [{"a": 1}, 3], "part": []})
    assert values.text("text") == ""
    assert values.number("number") == 0
    assert not values.flag("flag")
    assert values.texts("texts") == ("a",)
    assert [bool(part) for part in values.parts("parts")] == [True, False]
    assert not values.part("part")
    assert Values({"number": -3}).number("number") == 0
    assert Values({"number": True}).number("number") == 0


def test_unwritable_folder_is_reported_with_a_remedy(project: Project, home: Path) -> None:
    (home / ".local").write_text("in the way", "ascii")
    with pytest.raises(StorageError) as raised:
        save_session(project.root, {})
    assert str(home) in str(raised.value)
    assert raised.value.remedy


def test_project_folder_is_not_changed(project: Project) -> None:
    before = sorted(os.listdir(project.root))
    save_session(project.root, {"run": "x"})
    assert sorted(os.listdir(project.root)) == before


def test_recent_projects_are_listed_newest_first(tmp_path: Path) -> None:
    assert recent_projects() == []
    for number, name in enumerate(("old", "new", "broken")):
        root = str(tmp_path / name)
        save_session(root, {})
        os.utime(session_path(root), (number, number))
    Path(session_path(str(tmp_path / "broken"))).write_text("{")
    assert recent_projects() == [(str(tmp_path / "new"), 1), (str(tmp_path / "old"), 0)]
