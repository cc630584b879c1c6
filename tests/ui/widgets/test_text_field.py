"""Text fields and the search."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from tui_workbench.ui.widgets.text_field import SearchField, matches

PATHS = ["train.py", "aml_config/local.compute", "aml_config/train.compute", "data/train/readme.md", "notes"]


@pytest.mark.parametrize(
    ("needle", "found"),
    [
        ("", PATHS),
        ("TRAIN", ["train.py", "aml_config/train.compute", "data/train/readme.md"]),
        ("aml loc", ["aml_config/local.compute"]),
        ("compute", ["aml_config/local.compute", "aml_config/train.compute"]),
        ("   ", PATHS),
        ("zebra", []),
    ],
)
def test_all_words_must_match_and_the_best_comes_first(needle: str, found: list[str]) -> None:
    assert matches(needle, PATHS) == found


class FieldApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield SearchField()

    def on_text_field_stepped(self, event: SearchField.Stepped) -> None:
        self.told.append(event.rows)

    def on_text_field_left(self) -> None:
        self.told.append("left")


async def test_search_field_posts_steps_and_leaves() -> None:
    app = FieldApp()
    async with app.run_test() as pilot:
        await pilot.press("down", "up", "x", "escape")
        await pilot.pause()
        assert app.told == [1, -1, "left"]
        assert app.query_one(SearchField).value == "x"


async def test_cursor_does_not_blink() -> None:
    app = FieldApp()
    async with app.run_test():
        assert not app.query_one(SearchField).cursor_blink


@pytest.mark.parametrize(
    ("needle", "found"),
    [
        ("trn", ["src/train.py", "src/trees/run_net.py"]),
        ("tpy", ["src/train.py", "src/trees/run_net.py"]),
        ("nyp", []),
    ],
)
def test_scattered_letters_match_a_path(needle: str, found: list[str]) -> None:
    assert matches(needle, ["src/trees/run_net.py", "docs/extra.md", "src/train.py"]) == found


def test_words_rank_above_scattered_letters() -> None:
    assert matches("run", ["r_u_n.py", "old/run.py"]) == ["old/run.py", "r_u_n.py"]


def test_scattered_letters_match_the_first_line_only() -> None:
    assert matches("xz", ["name\nx and z"]) == []
