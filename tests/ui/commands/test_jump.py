"""Jump mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.main.test_main import NARROW, opened, screen_of, seen
from tests.ui.seen import screen_lines
from tests.ui.waiting import until
from tui_workbench.ui.commands.jump import LETTERS, JumpScreen, labels_for, places_on
from tui_workbench.ui.widgets.choice_field import ChoiceField

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot
    from textual.widget import Widget

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


@given(st.integers(0, len(LETTERS) ** 2))
def test_labels_are_prefix_free(count: int) -> None:
    labels = labels_for(count)
    assert len(set(labels)) == len(labels) == count
    assert len({len(label) for label in labels}) <= 1


def letter_at(pilot: Pilot[list[Run]], x: int, y: int) -> str:
    places = places_on(screen_of(pilot))
    return labels_for(len(places))[[(place.x, place.y) for place in places].index((x, y))]


async def label_of(pilot: Pilot[list[Run]], pane: Widget) -> str:
    """Open jump mode and return the label at the corner of a pane. Open it again if the pane has moved meanwhile."""
    for _ in range(100):
        await pilot.press("ctrl+g")
        await until(lambda: isinstance(pilot.app.screen, JumpScreen))
        await pilot.pause()
        corner = pane.region.offset
        text = screen_lines(pilot.app)[corner.y][corner.x : corner.x + 3]
        if re.fullmatch(" [a-z] ", text):
            return text.strip()
        await pilot.press("escape")
        await until(lambda: not isinstance(pilot.app.screen, JumpScreen))
    raise AssertionError("no label at the corner of the pane")


@pytest.mark.slow
async def test_label_goes_to_its_place(project: Project) -> None:
    async with opened(project) as pilot:
        screen, parts = screen_of(pilot), screen_of(pilot).panes
        label = await label_of(pilot, parts.jobs)
        assert "1 Files" in seen(pilot)  # the text below stays readable, and the focused pane has no label
        await pilot.press(label)
        await until(lambda: screen.focused is not None and parts.jobs in screen.focused.ancestors)


@pytest.mark.slow
async def test_fields_and_editor_tabs_have_labels(project: Project, project_root: Path) -> None:
    async with opened(project) as pilot:
        screen, parts = screen_of(pilot), screen_of(pilot).panes
        for name in ("hello.py", "aml_config/local.compute"):
            await parts.editor.open_file(str(project_root / name))
        await until(lambda: "hello.py  local.compute" in seen(pilot))
        field = parts.run_bar.query(ChoiceField).first().region.offset
        await pilot.press("ctrl+g", letter_at(pilot, *field))
        await until(lambda: isinstance(screen.focused, ChoiceField))
        line = next(line for line in screen_lines(pilot.app) if "hello.py  local.compute" in line)
        at = line.index("hello.py  local.compute")
        await pilot.press("ctrl+g", letter_at(pilot, at - 1, parts.editor.region.y))
        await until(lambda: parts.editor.active.endswith("hello.py"))


async def test_hidden_panes_are_reached_by_their_tabs(project: Project) -> None:
    async with opened(project, NARROW) as pilot:
        screen, parts = screen_of(pilot), screen_of(pilot).panes
        (tabs_line,) = [number for number, line in enumerate(screen_lines(pilot.app)) if "4 Log  5 Jobs" in line]
        place = next(place for place in reversed(places_on(screen)) if place.y == tabs_line)
        await pilot.press("ctrl+g", letter_at(pilot, place.x, place.y))
        await until(lambda: screen.focused is not None and parts.jobs in screen.focused.ancestors)


@pytest.mark.slow
async def test_other_keys_leave_jump_mode(project: Project) -> None:
    async with opened(project) as pilot:
        focused = screen_of(pilot).focused
        for key in ("escape", "ctrl+g", "f5", "1"):
            await pilot.press("ctrl+g")
            await until(lambda: isinstance(pilot.app.screen, JumpScreen))
            await pilot.press(key)
            await until(lambda: pilot.app.screen is screen_of(pilot))
            assert screen_of(pilot).focused is focused


async def test_burst_of_keys_is_taken_as_a_label(project: Project) -> None:
    async with opened(project) as pilot:
        screen, parts = screen_of(pilot), screen_of(pilot).panes
        letter = letter_at(pilot, *parts.jobs.region.offset)
        for key in ("ctrl+g", letter):
            pilot.app.simulate_key(key)
        await until(lambda: screen.focused is not None and parts.jobs in screen.focused.ancestors)
