from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, screen_of
from tests.ui.waiting import until
from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.ui.main import external_editor
from tui_workbench.ui.main.external_editor import Edit, command_for, copy_to_read, editor_of, remove_copy

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def test_visual_has_priority_over_editor() -> None:
    assert editor_of({"VISUAL": "code --new-window", "EDITOR": "vi"}) == ["code", "--new-window"]
    assert editor_of({"VISUAL": "", "EDITOR": "'/opt/my editor/vim' -n"}) == ["/opt/my editor/vim", "-n"]


@pytest.mark.parametrize("environment", [{}, {"EDITOR": " "}, {"EDITOR": "'vim"}], ids=["none", "blank", "quote"])
def test_missing_editor_error_explains_how_to_set_it(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError) as raised:
        editor_of(environment)
    assert "export EDITOR=vim" in raised.value.remedy


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        ("vim", ["vim", "+call cursor(12,5)", "/a b.py"]),
        ("/usr/bin/nvim -n", ["/usr/bin/nvim", "-n", "+call cursor(12,5)", "/a b.py"]),
        ("vi", ["vi", "+12", "/a b.py"]),
        ("nano", ["nano", "+12,5", "/a b.py"]),
        ("emacs -nw", ["emacs", "-nw", "+12:5", "/a b.py"]),
        ("emacsclient -t", ["emacsclient", "-t", "+12:5", "/a b.py"]),
        ("kak", ["kak", "+12:5", "/a b.py"]),
        ("micro", ["micro", "+12:5", "/a b.py"]),
        ("hx", ["hx", "/a b.py:12:5"]),
        ("helix", ["helix", "/a b.py:12:5"]),
        ("code", ["code", "--wait", "--goto", "/a b.py:12:5"]),
        ("code -w", ["code", "-w", "--goto", "/a b.py:12:5"]),
        ("subl", ["subl", "--wait", "/a b.py:12:5"]),
        ("kate", ["kate", "--line", "12", "--column", "5", "/a b.py"]),
        ("wordpad", ["wordpad", "/a b.py"]),
    ],
)
def test_known_editors_get_line_and_column(editor: str, command: list[str]) -> None:
    assert command_for(editor_of({"EDITOR": editor}), Edit("/a b.py", 12, 5)) == command


def test_editor_without_a_place_gets_only_the_file() -> None:
    assert command_for(["vim"], Edit("/a.py")) == ["vim", "/a.py"]
    assert command_for(["code"], Edit("/a.py")) == ["code", "--wait", "/a.py"]


def test_copy_is_read_only_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"a\xff\n")
    copy = Path(copy_to_read(str(log)))
    assert (copy.name, copy.read_bytes(), copy.stat().st_mode & 0o777) == ("output.log", b"a\xff\n", 0o400)
    remove_copy(str(copy))
    assert not os.path.exists(copy.parent)
    monkeypatch.setattr(external_editor, "LARGEST_COPY", 2)
    with pytest.raises(StorageError, match="too large to copy"):
        copy_to_read(str(log))


async def test_missing_editor_is_shown_on_the_screen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    async with opened(project) as pilot:
        await pilot.press("1", "G", "e")
        await until(lambda: "no editor is set" in screen_of(pilot).panes.run_bar.notice.text.lower())
