"""`theme list`, `theme check` and `theme use`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tui_workbench.core import directories
from tui_workbench.ui.themes import themes
from tui_workbench.ui.themes.themes import theme_warnings

SLATE = (Path(directories.packaged("themes")) / "slate.yaml").read_text()


@pytest.fixture
def shell(tmp_path: Path, home: Path) -> Installed:
    """Return the command outside a project, with a broken theme of the user."""
    folder = home / ".config/workbench-tui/themes"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text(SLATE.replace("dark: true", "dark: perhaps"))
    return Installed(tmp_path)


def test_list_includes_broken_themes_with_their_problem(shell: Installed) -> None:
    table = shell.run("theme", "list").out
    assert "Harbor (color-blind safe)" in table
    records = {record["name"]: record for record in json.loads(shell.run("theme", "list", "-o", "json").out)}
    assert records["slate"] | {"file": ""} == {
        "name": "slate",
        "title": "Slate",
        "kind": "dark",
        "used": True,
        "problem": "",
        "file": "",
    }
    assert "broken.yaml:4:7: dark: invalid value 'perhaps'. Write true or false." in records["broken"]["problem"]
    assert shell.run("theme", "list", "--plain").out.startswith(f"results: {len(records)}\n\nname: beacon\n")


def test_use_saves_the_theme(shell: Installed) -> None:
    assert shell.run("theme", "use", "ember").code == 0
    assert themes.saved_theme()[0].name == "ember"
    result = shell.run("theme", "use", "no-such")
    assert result.code == 2
    assert "unknown theme 'no-such'. Choose one of: beacon," in result.err
    result = shell.run("theme", "use", "broken")
    assert result.code == 3
    assert "broken.yaml:4:7:" in result.err
    assert themes.saved_theme()[0].name == "ember"


def test_check_reports_errors_and_poor_contrast(shell: Installed) -> None:
    path = shell.folder / "mine.yaml"
    path.write_text(SLATE.replace('muted: "#9ba5b1"', 'muted: "#505050"'))
    result = shell.run("theme", "check", "mine.yaml")
    assert result.code == 0
    assert "mine.yaml: muted on background is hard to read: the contrast is 2.2:1, below 4.5:1\n" in result.out
    path.write_text(SLATE.replace('muted: "#9ba5b1"', 'muted: "grey"'))
    result = shell.run("theme", "check", "./mine.yaml")
    assert (result.code, result.out) == (3, "")
    assert "mine.yaml:15:8: muted: invalid color 'grey'" in result.err
    assert shell.run("theme", "check", "slate").out.endswith("slate.yaml: no problems found\n")


def test_identical_colors_are_reported() -> None:
    palette = themes.load_theme("slate").palette
    changed = palette._replace(selected=palette.background, running=palette.error)
    assert list(theme_warnings(changed)) == [
        "selected has the same color as background, and is therefore invisible",
        "running and error have the same color",
    ]


@pytest.mark.parametrize("name", themes.theme_names())
def test_built_in_themes_have_no_warnings(name: str) -> None:
    assert list(theme_warnings(themes.load_theme(name).palette)) == []
