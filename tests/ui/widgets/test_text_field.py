"""Fields for text, and how what is typed finds its way."""

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
def test_every_word_must_be_there_and_the_best_comes_first(needle: str, found: list[str]) -> None:
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


async def test_up_and_down_belong_to_the_list_and_escape_leaves() -> None:
    app = FieldApp()
    async with app.run_test() as pilot:
        await pilot.press("down", "up", "x", "escape")
        await pilot.pause()
        assert app.told == [1, -1, "left"]
        assert app.query_one(SearchField).value == "x"


async def test_the_cursor_never_blinks_because_that_is_a_write_twice_a_second_for_ever() -> None:
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
def test_letters_in_their_order_find_a_path(needle: str, found: list[str]) -> None:
    assert matches(needle, ["src/trees/run_net.py", "docs/extra.md", "src/train.py"]) == found


def test_what_holds_the_word_comes_before_what_has_its_letters() -> None:
    assert matches("run", ["r_u_n.py", "old/run.py"]) == ["old/run.py", "r_u_n.py"]


def test_letters_are_not_sought_behind_the_first_line() -> None:
    assert matches("xz", ["name\nx and z"]) == []
