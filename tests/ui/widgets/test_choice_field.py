"""A field that opens a list of choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App, ComposeResult
from textual.widgets import Input

from tests.ui.seen import screen_lines
from tests.ui.waiting import until
from tui_workbench.ui.widgets.choice_field import ChoiceField, ChoiceList
from tui_workbench.ui.widgets.pieces import Piece, Row

if TYPE_CHECKING:
    from textual.pilot import Pilot

NAMES = ("local", "docker", "gpu-box")


class ChoiceApp(App[None]):
    def __init__(self, free: str = "") -> None:
        super().__init__()
        self.picked: list[str] = []
        self.field = ChoiceField(self.pick, placeholder="nothing", free=free, id="field")

    def pick(self, value: str) -> None:
        self.picked.append(value)
        self.field.show_value(value)

    def compose(self) -> ComposeResult:
        yield self.field
        yield Input(id="other")

    def on_mount(self) -> None:
        self.field.show_options(tuple(Row(name, Piece(name)) for name in NAMES))
        self.set_focus(self.field)


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await pilot.pause()


async def test_enter_opens_the_list_at_the_value_and_enter_chooses() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        app.field.show_value("docker")
        await press(pilot, "enter")
        assert app.field.is_open
        text = "\n".join(screen_lines(app))
        assert all(name in text for name in NAMES)
        await press(pilot, "down", "enter")
        assert app.picked == ["gpu-box"]
        assert not app.field.is_open
        assert app.focused is app.field


async def test_typing_filters_and_enter_chooses_the_best() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await press(pilot, "space", "g", "p", "u", "enter")
        assert app.picked == ["gpu-box"]


async def test_escape_chooses_nothing() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await press(pilot, "down", "down", "escape")
        assert app.picked == []
        assert app.focused is app.field
        assert not app.query(ChoiceList)


async def test_losing_the_focus_closes_the_list() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await press(pilot, "enter")
        app.query_one("#other", Input).focus()
        await pilot.pause()
        await pilot.pause()
        assert not app.field.is_open
        assert app.focused is app.query_one("#other", Input)
        assert app.picked == []


async def test_click_opens_the_list_and_chooses() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click("#field")
        await pilot.pause()
        row = next(y for y, line in enumerate(screen_lines(app)) if "docker" in line)
        await pilot.click(offset=(4, row))
        await pilot.pause()
        assert app.picked == ["docker"]


async def test_free_text_is_accepted_if_allowed() -> None:
    app = ChoiceApp(free="use")
    async with app.run_test(size=(60, 20)) as pilot:
        await press(pilot, "enter", "x", ".", "p", "y")
        assert any("use x.py" in line for line in screen_lines(app))
        await press(pilot, "enter")
        assert app.picked == ["x.py"]


async def test_free_text_is_rejected_otherwise() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        await press(pilot, "enter", "q")
        await until(lambda: any("No matches." in line for line in screen_lines(app)))
        await press(pilot, "enter")
        assert app.picked == []


async def test_long_value_is_shortened_in_the_middle() -> None:
    app = ChoiceApp()
    async with app.run_test(size=(60, 20)) as pilot:
        app.field.styles.max_width = 16
        app.field.show_value("experiments/first/train.py")
        await pilot.pause()
        assert screen_lines(app)[0] == " experi…in.py ▾"
