"""Keys that arrive together have the same effect as one by one."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tests.ui.textual_internals import forwarded
from tests.ui.waiting import until
from tui_workbench.ui.terminal import key_queue
from tui_workbench.ui.terminal.terminal_app import TerminalApp


class Pad(Widget, can_focus=True):
    """A widget with letters as commands that opens a field on `/`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("x", "note('x')", "Note"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []
        self.released = asyncio.Event()

    async def action_search(self) -> None:
        field = Input()
        await self.mount(field)
        field.focus()

    def action_note(self, text: str) -> None:
        self.noted.append(text)

    async def on_key(self, event: events.Key) -> None:
        if event.key == "w":
            await self.released.wait()


class PadApp(TerminalApp[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("alt+r", "choose('r')", "Choose"),
        Binding("alt+shift+r", "choose('R')", "Choose"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[str] = []

    def action_choose(self, text: str) -> None:
        self.chosen.append(text)

    def compose(self) -> ComposeResult:
        yield Pad()

    def on_mount(self) -> None:
        self.query_one(Pad).focus()

    def type(self, *keys: str) -> None:
        for key in keys:
            self.post_message(events.Key(key, "/" if key == "slash" else key if len(key) == 1 else None))

    @property
    def pad(self) -> Pad:
        return self.query_one(Pad)

    @property
    def searched(self) -> str:
        return "".join(field.value for field in self.query(Input))


async def test_letters_after_the_search_key_go_into_the_field() -> None:
    app = PadApp()
    async with app.run_test():
        app.type("x", "slash", "x", "a", "x")
        await until(lambda: app.searched == "xax")
        assert app.pad.noted == ["x"]


async def test_paste_keeps_its_place_among_keys() -> None:
    app = PadApp()
    async with app.run_test():
        app.type("slash")
        app.post_message(events.Paste("pasted"))
        app.type("x")
        await until(lambda: app.searched == "pastedx")


async def test_letter_with_alt_is_not_text() -> None:
    app = PadApp()
    async with app.run_test():
        app.type("slash")
        # As Textual's parser gives them.
        for key, character in (("alt+r", "r"), ("alt+shift+r", "R"), ("a", "a")):
            app.post_message(events.Key(key, character))
        await until(lambda: app.searched)
        assert (app.searched, app.chosen) == ("a", ["r", "R"])


async def test_removed_widget_does_not_block_keys() -> None:
    app = PadApp()
    async with app.run_test():
        app.type("slash", "a")
        await until(lambda: app.searched == "a")
        field = app.query_one(Input)
        app.type("b", "c")
        await field.remove()
        app.pad.focus()
        app.type("x")
        await until(lambda: app.pad.noted == ["x"])


async def test_hanging_key_does_not_block_keys() -> None:
    app = PadApp()
    async with app.run_test():
        app.type("w", "slash")
        before, key_queue.PATIENCE = key_queue.PATIENCE, 0.0
        try:
            app.type("x")
            await until(lambda: app.keys.is_empty)
        finally:
            key_queue.PATIENCE = before
        app.pad.released.set()
        await until(lambda: len(app.query(Input)) == 1 or app.pad.noted)


async def test_held_keys_wait_for_release() -> None:
    app = PadApp()
    async with app.run_test() as pilot:
        app.keys.hold()
        app.type("x", "x", "slash", "x")
        await pilot.pause()
        assert app.pad.noted == []
        await app.keys.release()
        await until(lambda: bool(app.query(Input)) and app.query_one(Input).value == "x")
        assert app.pad.noted == ["x", "x"]


async def test_hold_ends_after_its_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "MAX_HOLD", 0.0)
    app = PadApp()
    async with app.run_test():
        app.keys.hold()
        app.type("x")
        await until(lambda: app.pad.noted == ["x"])


async def test_input_that_arrives_while_the_app_closes_is_ignored() -> None:
    app = PadApp()
    async with app.run_test():
        pad = app.pad
    assert app.screen_stack == []
    await app.keys.take(events.Key("x", "x"))  # from the terminal
    await app.on_event(forwarded(events.Key("x", "x")))  # from a widget
    await app.on_event(events.MouseMove(None, 1, 1, 0, 0, 0, False, False, False))
    await app.on_event(events.AppBlur())
    await app.on_event(events.AppFocus())
    assert pad.noted == []
