"""`?`, the palette and the choice of a theme, on the whole screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.ui.commands.help import HelpScreen, Section, sections
from tui_workbench.ui.commands.main_commands import EVERYWHERE, FILES, JOBS, TARGETS
from tui_workbench.ui.commands.palette import PaletteScreen
from tui_workbench.ui.themes import themes
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


async def test_help_explains_the_pane_with_the_focus_and_what_works_everywhere(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("2", "question_mark")
        await until(lambda: isinstance(pilot.app.screen, HelpScreen))
        await until(lambda: "2 Compute targets" in seen(pilot) and "Opens the .compute file" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: len(pilot.app.screen_stack) == 1)


async def test_help_names_every_command_of_the_registry_and_why_one_is_not_available(project: Project) -> None:
    async with opened(project) as pilot:
        for key, scope in (("1", FILES), ("2", TARGETS), ("5", JOBS)):
            await pilot.press(key)
            await pilot.pause()
            explained = [offer for section in sections(screen_of(pilot)) for offer in section.commands]
            told = {offer.command.name: offer.reason for offer in explained}
            assert {command.name for command in (*scope, *EVERYWHERE)} <= set(told)
        assert told["Cancel"] == "No run is under the cursor."


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_help_keeps_keys_names_and_explanations_apart(project: Project, size: tuple[int, int]) -> None:
    async with opened(project, size) as pilot:
        explained: list[Section] = []
        for keys in ("1", "2", "3", "4", "5", "0"):
            await pilot.press(keys)
            explained += sections(screen_of(pilot))
        screen = HelpScreen(explained)
        await pilot.app.push_screen(screen)
        lines = ["".join(piece.text for piece in line) for line in screen.query_one(TextView).lines]
        for offer in (offer for section in explained for offer in section.commands):
            name, first = re.escape(offer.command.name), re.escape(offer.command.help.split()[0])
            assert any(re.search(rf"(^|  ){name}  +{first}", line) for line in lines), offer.command.name


async def palette(pilot: Pilot[list[Run]], *keys: str) -> None:
    await pilot.press("ctrl+p")
    await until(lambda: isinstance(pilot.app.screen, PaletteScreen))
    await pilot.press(*keys)


async def test_the_palette_finds_a_command_and_does_it(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"whole screen")
        await until(lambda: len(palette_rows(pilot)) == 1)
        await pilot.press("enter")
        await until(lambda: len(pilot.app.screen_stack) == 1 and "5 Jobs" not in seen(pilot))


def palette_rows(pilot: Pilot[list[Run]]) -> list[str]:
    return [row.before[0].text.strip() for row in pilot.app.screen.query_one(RowList).rows]


async def test_the_palette_lists_every_command_of_the_panes(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot)
        listed = palette_rows(pilot)
        for command in (*FILES, *TARGETS, *JOBS):
            assert any(row.endswith(f": {command.name}") for row in listed), command.id
        for command in EVERYWHERE:
            assert command.name in listed or command.id == "palette.open"


@pytest.mark.parametrize(("key", "pane"), [("1", "Files"), ("2", "Compute targets")])
async def test_the_palette_has_a_command_once_and_those_of_the_pane_first(
    project: Project, key: str, pane: str
) -> None:
    async with opened(project) as pilot:
        await pilot.press(key)
        await palette(pilot)
        listed = palette_rows(pilot)
        assert listed[0].startswith(f"{pane}: ")
        assert [row for row in listed if row.endswith(": New target")] == [f"{pane}: New target"]


async def test_the_palette_finds_a_command_by_scattered_letters(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"brdlft")
        await until(lambda: palette_rows(pilot)[:1] == ["Border left"])


async def test_a_command_that_is_not_available_says_why(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"jobs.cancel")
        await until(lambda: len(palette_rows(pilot)) == 1)
        assert "Not now: No run is under the cursor." in seen(pilot)
        await pilot.press("enter")
        await until(lambda: "No run is under the cursor." in screen_of(pilot).panes.run_bar.notice.text)


async def test_escape_leaves_the_palette_without_doing_anything(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, "escape")
        await until(lambda: len(pilot.app.screen_stack) == 1)
        assert "1 Files" in seen(pilot)


async def test_themes_are_shown_as_the_cursor_comes_to_them_and_come_back_on_escape(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"theme", "enter")
        await until(lambda: "Slate" in seen(pilot))
        await pilot.press("up")
        await until(lambda: pilot.app.theme == "paper")
        await pilot.press("escape")
        await until(lambda: pilot.app.theme == "slate")


def grounds(pilot: Pilot[list[Run]]) -> set[str]:
    """The background colours on the screen."""
    strips = pilot.app.screen._compositor.render_strips()
    return {part.style.bgcolor.name for strip in strips for part in strip if part.style and part.style.bgcolor}


async def test_another_theme_paints_everything_anew(project: Project) -> None:
    async with opened(project) as pilot:
        slate, paper = themes.load_theme("slate").palette, themes.load_theme("paper").palette
        assert slate.background in grounds(pilot)
        await palette(pilot, *"theme", "enter")
        await until(lambda: "Slate" in seen(pilot))
        await pilot.press("up", "enter")
        await until(lambda: len(pilot.app.screen_stack) == 1)
        await until(lambda: paper.background in grounds(pilot) and not grounds(pilot) & set(slate))


async def test_the_chosen_theme_is_there_the_next_time(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"theme", "enter")
        await until(lambda: "Slate" in seen(pilot))
        await pilot.press(*"paper", "enter")
        await until(lambda: themes.saved_theme()[0].name == "paper")
        assert pilot.app.theme == "paper"


async def test_a_broken_theme_is_listed_and_choosing_it_says_what_is_wrong(project: Project) -> None:
    folder = Path(directories.user_config_directory()) / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text('dark: true\naccent: "blue"\n')
    async with opened(project) as pilot:
        await palette(pilot, *"theme", "enter")
        await until(lambda: "mine" in seen(pilot) and "problem" in seen(pilot))
        await pilot.press(*"mine", "enter")
        await until(lambda: "mine.yaml:2:" in screen_of(pilot).panes.run_bar.notice.text)
        assert pilot.app.theme == "slate"


def test_a_remembered_theme_that_is_broken_gives_way_to_the_default_one() -> None:
    folder = Path(directories.user_config_directory()) / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("[")
    themes.save_theme("mine")
    theme, error = themes.saved_theme()
    assert theme.name == themes.DEFAULT_THEME
    assert isinstance(error, ConfigurationError)


def test_without_a_memory_the_default_theme_is_shown() -> None:
    theme, error = themes.saved_theme()
    assert (theme.name, error) == (themes.DEFAULT_THEME, None)


async def test_a_key_that_can_do_nothing_says_why_until_the_next_one(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("5", "x")
        await until(lambda: "Cancel: No run is under the cursor." in seen(pilot).splitlines()[-1])
        await pilot.press("1")
        await until(lambda: "ctrl+r Run" in seen(pilot).splitlines()[-1])


async def test_a_command_of_two_panes_is_listed_where_it_is_available(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "home")
        await palette(pilot, *"gpu-ready")
        await until(lambda: palette_rows(pilot)[:1] == ["Compute targets: GPU-ready"])
        assert "Files: GPU-ready" not in palette_rows(pilot)
