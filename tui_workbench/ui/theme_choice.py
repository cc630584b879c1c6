"""Choosing a theme: each is shown as the cursor comes to it, and the one that was there before comes back on escape."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

from tui_workbench.errors import WorkbenchError
from tui_workbench.ui import themes
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.palette import PaletteScreen
from tui_workbench.ui.widgets.pieces import Piece, Row

if TYPE_CHECKING:
    from typing import Any

    from textual.app import App


class ShowsThemes(Protocol):
    """An app whose colours can be changed while it runs."""

    def show_theme(self, theme: themes.WorkbenchTheme) -> None:
        """Show everything in these colours."""


async def choose_theme(app: App[Any]) -> WorkbenchError | None:
    """Let the user choose; remembers the choice. Gives what went wrong, if anything did. To be awaited in a worker."""
    loaded = await asyncio.to_thread(_load_all)
    before = app.theme

    def show(name: str) -> None:
        theme = loaded[name]
        if isinstance(theme, themes.WorkbenchTheme):
            cast(ShowsThemes, app).show_theme(theme)

    rows = [_row(name, theme) for name, theme in loaded.items()]
    chosen = await app.push_screen_wait(PaletteScreen("Theme", rows, current=before, preview=show))
    theme = loaded.get(chosen)
    if isinstance(theme, themes.WorkbenchTheme):
        show(chosen)
        return await asyncio.to_thread(_remember, chosen)
    show(before)
    return theme


def _load_all() -> dict[str, themes.WorkbenchTheme | WorkbenchError]:
    found: dict[str, themes.WorkbenchTheme | WorkbenchError] = {}
    for name in themes.theme_names():
        try:
            found[name] = themes.load_theme(name)
        except WorkbenchError as error:
            found[name] = error
    return found


def _remember(name: str) -> WorkbenchError | None:
    try:
        themes.remember_theme(name)
    except WorkbenchError as error:
        return error
    return None


def _row(name: str, theme: themes.WorkbenchTheme | WorkbenchError) -> Row:
    if isinstance(theme, WorkbenchError):
        return Row(name, Piece(safe_text(name)), right=(Piece("✗ problem", "error"),))
    kind = "dark" if theme.dark else "light"
    return Row(name, Piece(safe_text(theme.title)), right=(Piece(kind, "muted"),))
