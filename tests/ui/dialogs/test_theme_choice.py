"""The choice of a theme while a theme file is edited."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.core import directories
from tui_workbench.ui.dialogs.palette import PaletteScreen
from tui_workbench.ui.dialogs.theme_choice import ThemeFiles
from tui_workbench.ui.themes import themes

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow

SLATE = (Path(directories.packaged("themes")) / "slate.yaml").read_text()
MINE = SLATE.replace('title: "Slate"', 'title: "Mine"')


@pytest.fixture
def mine(home: Path) -> Path:
    """Return a theme of the user."""
    path = Path(directories.user_config_directory()) / "themes" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(MINE)
    return path


def write(path: Path, old: str, new: str) -> None:
    """Write the theme with a change."""
    assert old in MINE
    path.write_text(MINE.replace(old, new))


async def choose(pilot: Pilot[list[Run]], typed: str) -> None:
    """Open the choice and type."""
    await pilot.press("ctrl+p")
    await until(lambda: "Commands" in seen(pilot))
    await pilot.press(*"theme", "enter")
    await until(lambda: "Slate" in seen(pilot))
    await pilot.press(*typed)


async def test_edited_theme_is_reloaded(project: Project, mine: Path) -> None:
    async with opened(project) as pilot:
        await choose(pilot, "mine")
        await until(lambda: pilot.app.theme == "mine")
        assert "yours, dark" in seen(pilot)
        write(mine, 'comment: "#97a1ac"', 'comment: "#123456"')
        await until(lambda: themes.palette_of(pilot.app.screen).comment == "#123456")
        write(mine, 'background: "#14171c"', 'background: "#010203"')
        await until(lambda: pilot.app.screen_stack[0].styles.background.hex.startswith("#010203"))
        await pilot.press("enter")
        await until(lambda: themes.saved_theme()[0].name == "mine")


async def test_error_in_an_edited_theme_appears_and_disappears(project: Project, mine: Path) -> None:
    async with opened(project) as pilot:
        await choose(pilot, "mine")
        await until(lambda: pilot.app.theme == "mine")
        write(mine, 'accent: "#6cb6ff"', 'accent: "blue"')
        line = MINE[: MINE.index("accent:")].count("\n") + 1
        await until(lambda: f"line {line}: accent: invalid color 'blue'" in seen(pilot))
        assert themes.palette_of(pilot.app.screen).accent == "#6cb6ff"
        write(mine, 'accent: "#6cb6ff"', 'accent: "#0000ff"')
        await until(lambda: themes.palette_of(pilot.app.screen).accent == "#0000ff")
        assert "problem" not in seen(pilot)


async def test_new_and_removed_themes_are_noticed(project: Project, mine: Path) -> None:
    async with opened(project) as pilot:
        await choose(pilot, "")
        write(mine.with_name("other.yaml"), "Mine", "Another one")
        await until(lambda: "Another one" in seen(pilot))
        mine.with_name("other.yaml").unlink()
        await until(lambda: "Another one" not in seen(pilot))
        await pilot.press("escape")
        await until(lambda: len(pilot.app.screen_stack) == 1)
        assert pilot.app.theme == "slate"


async def test_themes_are_found_by_kind(project: Project) -> None:
    async with opened(project) as pilot:
        await choose(pilot, "light")
        await until(lambda: "Slate" not in seen(pilot))
        assert all(title in seen(pilot) for title in ("Linen", "Mist", "Paper"))


def test_unchanged_files_are_not_read_again(mine: Path) -> None:
    files = ThemeFiles()
    assert files.update()
    assert not files.update()
    before = files.loaded
    write(mine, "Mine", "Changed")
    os.utime(mine, ns=(1, 1))
    assert files.update()
    assert [name for name, theme in files.loaded.items() if theme is not before[name]] == ["mine"]


async def test_theme_choice_does_not_dim_the_screen(project: Project) -> None:
    async with opened(project) as pilot:
        await choose(pilot, "")
        assert isinstance(pilot.app.screen, PaletteScreen)
        assert pilot.app.screen.styles.background.a == 0
