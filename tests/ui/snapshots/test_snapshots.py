"""Snapshots of the main screens and dialogs in a small and in a larger terminal.

A change of a screen fails its test. `make snapshots` writes the pictures; look at each before you commit it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.main.test_main import opened
from tests.ui.snapshots.picture import compare
from tests.ui.snapshots.steps import STEPS

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

PICTURES = Path(__file__).parent / "pictures"
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


@pytest.mark.parametrize("size", ["80x24", pytest.param("120x40", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STEPS)
async def test_screen_looks_like_its_picture(name: str, size: str, past: Project, tmp_path: Path) -> None:
    steps = STEPS[name]
    steps.prepare(past)
    async with opened(past, SIZES[size]) as pilot:
        await steps.press(pilot)
        await compare(pilot, PICTURES / f"{name}-{size}.svg", tmp_path / f"{name}-{size}.svg")


def test_each_picture_has_a_test() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == {f"{name}-{size}" for name in STEPS for size in SIZES}
