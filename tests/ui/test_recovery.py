from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.errors import StorageError
from tui_workbench.core.text_files import read_text_file
from tui_workbench.ui.recovery import Recovery, Unsaved

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

GONE = """
import json, sys
from tui_workbench.core.text_files import read_text_file
from tui_workbench.ui.recovery import Recovery, Unsaved
root, path, text = json.load(sys.stdin)
Recovery(root).keep({path: Unsaved(read_text_file(path), text)})
"""


@pytest.fixture
def script(project: Project) -> str:
    return str(Path(project.root) / "hello.py")


def leave_behind(project: Project, path: str, text: str) -> None:
    """Simulate a process that ended with this unsaved text."""
    told = json.dumps([project.root, path, text])
    subprocess.run([sys.executable, "-c", GONE], input=told.encode("ascii"), check=True)


def unsaved(path: str, text: str) -> dict[str, Unsaved]:
    return {path: Unsaved(read_text_file(path), text)}


def kept(project: Project) -> list[Path]:
    return sorted(Path(Recovery(project.root).base).rglob("*"))


@pytest.mark.parametrize("text", ["x = 1\n", "", "ü 中\r\n", "\udc80 alone", "a\0b"], ids=ascii)
def test_kept_text_is_restored_unchanged(project: Project, script: str, text: str) -> None:
    leave_behind(project, script, text)
    (found,), errors = Recovery(project.root).take_over()
    assert not errors
    assert found.text == text
    assert found.file == read_text_file(script)


def test_recovery_files_are_private(project: Project, script: str) -> None:
    recovery = Recovery(project.root)
    recovery.keep(unsaved(script, "secret"))
    assert [path.stat().st_mode & 0o077 for path in kept(project)] == [0] * len(kept(project))
    recovery.close()


def test_texts_of_a_live_process_are_not_taken_over(project: Project, script: str) -> None:
    living = Recovery(project.root)
    living.keep(unsaved(script, "mine"))
    other = Recovery(project.root)
    assert other.take_over() == ([], [])
    other.delete_taken()
    living.keep(unsaved(script, "still mine"))
    living.close()


def test_taken_texts_stay_until_they_are_deleted(project: Project, script: str) -> None:
    leave_behind(project, script, "left")
    first = Recovery(project.root)
    first.take_over()
    assert Recovery(project.root).take_over()[0] == []
    assert any(path.suffix == ".json" for path in kept(project))
    first.delete_taken()
    assert kept(project) == []


def test_texts_of_several_processes_come_oldest_first(project: Project, script: str) -> None:
    for text in ("first", "second"):
        leave_behind(project, script, text)
    assert [found.text for found in Recovery(project.root).take_over()[0]] == ["first", "second"]


def test_dropped_text_is_deleted(project: Project, script: str) -> None:
    recovery = Recovery(project.root)
    recovery.keep(unsaved(script, "edited"))
    recovery.drop({script})
    assert not any(path.suffix == ".json" for path in kept(project))
    recovery.close()


def test_close_deletes_all_texts(project: Project, script: str) -> None:
    recovery = Recovery(project.root)
    recovery.keep(unsaved(script, "edited"))
    recovery.close()
    assert kept(project) == []


def test_keeping_a_text_again_replaces_it(project: Project, script: str) -> None:
    recovery = Recovery(project.root)
    for text in ("one", "two"):
        recovery.keep(unsaved(script, text))
    (file,) = (path for path in kept(project) if path.suffix == ".json")
    assert json.loads(file.read_text("ascii"))["text"] == "two"
    recovery.close()


DAMAGED, LATER = "the file is damaged", "a later version of workbench-tui wrote it"


@pytest.mark.parametrize(
    ("damaged", "why"),
    [(b"", DAMAGED), (b"{}", DAMAGED), (b"[1]", DAMAGED), (b'{"schema": 1, "text": "x"}', DAMAGED),
     (b'{"schema": 2}', LATER)],
    ids=ascii,
)  # fmt: skip
def test_damaged_file_is_renamed_and_reported_once(project: Project, script: str, damaged: bytes, why: str) -> None:
    leave_behind(project, script, "left")
    next(path for path in kept(project) if path.suffix == ".json").write_bytes(damaged)
    first = Recovery(project.root)
    found, errors = first.take_over()
    assert found == []
    assert [Path(str(error.file)).read_bytes() for error in errors] == [damaged]
    assert errors[0].message == f"cannot read a recovery file for unsaved edits: {why}"
    first.delete_taken()
    assert Recovery(project.root).take_over() == ([], [])
    assert any(path.name.endswith(".unreadable") for path in kept(project))


def test_damaged_file_that_cannot_be_renamed_is_named(project: Project, script: str) -> None:
    leave_behind(project, script, "left")
    damaged = next(path for path in kept(project) if path.suffix == ".json")
    damaged.write_bytes(b"{}")
    damaged.with_name(f"{damaged.name}.unreadable").mkdir()
    _, (error,) = Recovery(project.root).take_over()
    assert error.file == str(damaged)


def test_unwritable_folder_is_reported(project: Project, script: str, home: Path) -> None:
    (home / ".local").write_text("in the way", "ascii")
    with pytest.raises(StorageError) as raised:
        Recovery(project.root).keep(unsaved(script, "x"))
    assert "save often" in raised.value.remedy
