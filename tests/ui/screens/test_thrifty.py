"""What is painted when screens lie on each other."""

from __future__ import annotations

from textual.app import App
from textual.screen import ModalScreen

from tui_workbench.ui.screens.thrifty import ThriftyScreen


async def test_a_screen_is_current_as_long_as_something_of_it_can_be_seen() -> None:
    app: App[None] = App()
    async with app.run_test() as pilot:
        below, above = ThriftyScreen[None](), ThriftyScreen[None]()
        await app.push_screen(below)
        assert below.is_current
        await app.push_screen(above)
        assert (below.is_current, above.is_current) == (False, True)
        question: ModalScreen[None] = ModalScreen()
        await app.push_screen(question)
        await pilot.pause()
        assert (below.is_current, above.is_current, question.is_current) == (False, True, True)
        app.pop_screen()
        app.pop_screen()
        await pilot.pause()
        assert below.is_current
