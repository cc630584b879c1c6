"""Help, the palette and the choice of a theme, on the main screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.textual_internals import strips_of
from tests.ui.waiting import until
from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.ui.commands import screen_commands
from tui_workbench.ui.commands.available_commands import CommandState, is_in_palette
from tui_workbench.ui.commands.command import Command, Scope
from tui_workbench.ui.commands.main_commands import EVERYWHERE, FILES, JOBS, TARGETS
from tui_workbench.ui.commands.registry import COMMANDS
from tui_workbench.ui.dialogs.help import HelpScreen, Section, help_sections
from tui_workbench.ui.dialogs.palette import PaletteScreen, command_rows
from tui_workbench.ui.themes import themes
from tui_workbench.ui.widgets.pieces import draw_row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


async def test_help_explains_the_focused_pane(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("2", "question_mark")
        await until(lambda: isinstance(pilot.app.screen, HelpScreen))
        await until(lambda: "2 Compute targets" in seen(pilot) and "Edit the .compute file" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: len(pilot.app.screen_stack) == 1)


async def test_help_lists_every_command_and_why_it_is_unavailable(project: Project) -> None:
    async with opened(project) as pilot:
        for key, scope in (("1", FILES), ("2", TARGETS), ("5", JOBS)):
            await pilot.press(key)
            await pilot.pause()
            states = [state for section in help_sections(screen_of(pilot)) for state in section.commands]
            reasons = {state.command.name: state.reason for state in states}
            assert {command.name for command in (*scope, *EVERYWHERE)} <= set(reasons)
        assert reasons["Cancel"] == "No run selected."


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_help_aligns_keys_names_and_explanations(project: Project, size: tuple[int, int]) -> None:
    async with opened(project, size) as pilot:
        explained: list[Section] = []
        for keys in ("1", "2", "3", "4", "5", "0"):
            await pilot.press(keys)
            explained += help_sections(screen_of(pilot))
        screen = HelpScreen(explained)
        await pilot.app.push_screen(screen)
        lines = ["".join(piece.text for piece in line) for line in screen.query_one(TextView).lines]
        for command in (state.command for section in explained for state in section.commands):
            name, first = re.escape(command.name), re.escape(command.help.split()[0])
            assert any(re.search(rf"(^|  ){name}  +{first}", line) for line in lines), command.name


async def palette(pilot: Pilot[list[Run]], *keys: str) -> None:
    await pilot.press("ctrl+p")
    await until(lambda: isinstance(pilot.app.screen, PaletteScreen))
    await pilot.press(*keys)


def palette_rows(pilot: Pilot[list[Run]]) -> list[str]:
    return [row.before[0].text.strip() for row in pilot.app.screen.query_one(RowList).rows]


async def test_palette_lists_every_command_of_the_panes(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot)
        listed = palette_rows(pilot)
        for command in (*FILES, *TARGETS, *JOBS):
            assert any(row.endswith(f": {command.name}") for row in listed), command.id
        for command in EVERYWHERE:
            assert command.name in listed or command.id == "palette.open"


WORDS = {
    "sweep": "Sweep",
    "seed": "Sweep",
    "notif": "Notifications",
    "purge": "Trash",
    "restore": "Trash",
    "cloud": "cloud-init",
    "notebook": "Notebook",
    "jupyter": "Notebook",
}
"""Words that users type, with the commands that they look for."""


@pytest.mark.slow
async def test_palette_finds_commands_by_the_words_of_users(project: Project) -> None:
    async with opened(project) as pilot:
        for word, name in WORDS.items():
            await palette(pilot, *word)
            await until(lambda name=name: name in palette_rows(pilot)[:6])  # type: ignore[misc]
            await pilot.press("escape")
            await until(lambda: len(pilot.app.screen_stack) == 1)


@pytest.mark.slow
async def test_palette_has_room_for_every_description(project: Project) -> None:
    async with opened(project, (80, 24)) as pilot:
        commands = [command for command in COMMANDS.values() if is_in_palette(command)]
        on_main = [CommandState(command, pilot.app, "") for command in commands if not is_of_other_screen(command)]
        elsewhere = [CommandState(command, pilot.app, "") for command in commands if is_of_other_screen(command)]
        for key in "12345":
            await pilot.press(key)
            here = screen_of(pilot).all_commands()  # includes the longest names
            for states in (here + on_main, elsewhere):
                assert await cut_descriptions(pilot, states) == []
                await pilot.press("escape")
                await until(lambda: len(pilot.app.screen_stack) == 1)


def is_of_other_screen(command: Command) -> bool:
    return any(command in scope for scope in vars(screen_commands).values() if isinstance(scope, Scope))


async def cut_descriptions(pilot: Pilot[list[Run]], states: list[CommandState]) -> list[str]:
    """Open the palette, and return the descriptions that its rows have no room for."""
    await palette(pilot)
    width = pilot.app.screen.query_one(RowList).scrollable_content_region.width
    colors = themes.load_theme("slate").palette
    rows = command_rows([state._replace(reason="") for state in states]).values()
    drawn = {row.name.text: draw_row(row, width, colors, colors.background).text for row in rows}
    return [text for text, line in drawn.items() if text not in line]


@pytest.mark.slow
async def test_palette_begins_with_the_focused_pane(project: Project) -> None:
    async with opened(project) as pilot:
        for key, pane in (("1", "Files"), ("2", "Targets")):
            await pilot.press(key)
            await palette(pilot)
            listed = palette_rows(pilot)
            assert listed[0].startswith(f"{pane}: ")
            assert [row for row in listed if row.endswith(": New target")] == [f"{pane}: New target"]
            await pilot.press("escape")
            await until(lambda: len(pilot.app.screen_stack) == 1)


async def test_palette_matches_scattered_letters(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"brdlft")
        await until(lambda: palette_rows(pilot)[:1] == ["Move border left"])


async def test_palette_shows_why_a_command_is_unavailable(project: Project) -> None:
    async with opened(project) as pilot:
        await palette(pilot, *"jobs.cancel")
        await until(lambda: len(palette_rows(pilot)) == 1)
        assert "Not now: No run selected." in seen(pilot)
        await pilot.press("enter")
        await until(lambda: "No run selected." in screen_of(pilot).panes.run_bar.notice.text)


def backgrounds(pilot: Pilot[list[Run]]) -> set[str]:
    """Return the background colors on the screen."""
    strips = strips_of(pilot.app.screen)
    return {part.style.bgcolor.name for strip in strips for part in strip if part.style and part.style.bgcolor}


@pytest.mark.slow
async def test_theme_is_previewed_repaints_everything_and_is_saved(project: Project) -> None:
    async with opened(project) as pilot:
        slate, paper = themes.load_theme("slate").palette, themes.load_theme("paper").palette
        assert slate.background in backgrounds(pilot)
        await palette(pilot, *"theme", "enter")
        await until(lambda: "Slate" in seen(pilot))
        await pilot.press("up")
        await until(lambda: pilot.app.theme == "paper")
        await pilot.press("escape")
        await until(lambda: pilot.app.theme == "slate")
        await palette(pilot, *"theme", "enter")
        await until(lambda: "Slate" in seen(pilot))
        await pilot.press(*"paper", "enter")
        await until(lambda: len(pilot.app.screen_stack) == 1)
        await until(lambda: paper.background in backgrounds(pilot) and not backgrounds(pilot) & set(slate))
        await until(lambda: themes.saved_theme()[0].name == "paper")


@pytest.mark.slow
async def test_invalid_theme_is_listed_with_its_error(project: Project) -> None:
    folder = Path(directories.user_config_directory()) / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text('dark: true\naccent: "blue"\n')
    async with opened(project) as pilot:
        await palette(pilot, *"theme", "enter")
        await until(lambda: "mine" in seen(pilot) and "problem" in seen(pilot))
        await pilot.press(*"mine", "enter")
        await until(lambda: "mine.yaml:2:" in screen_of(pilot).panes.run_bar.notice.text)
        assert pilot.app.theme == "slate"


def test_default_theme_replaces_an_invalid_saved_theme() -> None:
    folder = Path(directories.user_config_directory()) / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("[")
    themes.save_theme("mine")
    theme, error = themes.saved_theme()
    assert theme.name == themes.DEFAULT_THEME
    assert isinstance(error, ConfigurationError)


def test_default_theme_without_a_saved_theme() -> None:
    theme, error = themes.saved_theme()
    assert (theme.name, error) == (themes.DEFAULT_THEME, None)


async def test_footer_shows_why_a_key_does_nothing(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("5", "x")
        await until(lambda: "Cancel: No run selected." in seen(pilot).splitlines()[-1])
        await pilot.press("1")
        await until(lambda: "ctrl+r Run" in seen(pilot).splitlines()[-1])


async def test_palette_lists_a_shared_command_where_it_is_available(project: Project) -> None:
    async with opened(project) as pilot:
        await pilot.press("1", "home")
        await palette(pilot, *"gpu-ready")
        await until(lambda: palette_rows(pilot)[:1] == ["Targets: Make GPU-ready"])
        assert "Files: Make GPU-ready" not in palette_rows(pilot)
