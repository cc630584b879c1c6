"""The choice of a theme: the selected theme is shown immediately, and escape restores the previous theme.

Theme files are polled meanwhile, so that a theme that is edited in another window is shown when it is saved.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Protocol, cast

from textual.app import App

from tui_workbench.core import directories
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.dialogs.palette import PaletteScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.themes import themes
from tui_workbench.ui.widgets.pieces import Piece, Row

Loaded = dict[str, themes.WorkbenchTheme | WorkbenchError]
"""Themes by name, or the errors of their files."""

POLL_SECONDS = 0.25


class ShowsThemes(Protocol):
    """An app that can change its theme while it runs."""

    def show_theme(self, theme: themes.WorkbenchTheme) -> None: ...


async def restore_theme(app: App[Any], name: str) -> None:
    """Show and save a previous theme again. Raises WorkbenchError if it is invalid now."""
    theme = await asyncio.to_thread(themes.load_theme, name)
    _show(app, theme)
    await asyncio.to_thread(themes.save_theme, name)


class ThemeFiles:
    """A cache of all themes that reads only changed files again. Not thread-safe."""

    def __init__(self) -> None:
        self.loaded: Loaded = {}
        self._signatures: dict[str, tuple[str, int, int]] = {}

    def update(self) -> bool:
        """Read changed files. Return True if a file was added, changed or removed. Blocks."""
        now = {name: _signature(name) for name in themes.theme_names()}
        if now == self._signatures:
            return False
        self.loaded = {
            name: self.loaded[name] if self._signatures.get(name) == signature else _load(name)
            for name, signature in now.items()
        }
        self._signatures = now
        return True


async def choose_theme(app: App[Any]) -> None:
    """Let the user choose a theme, and save the choice. Raises WorkbenchError. Await this in a worker."""
    files = ThemeFiles()
    await asyncio.to_thread(files.update)
    before, loaded = app.current_theme, files.loaded

    def preview(name: str) -> None:
        _show(app, loaded.get(name))

    screen = PaletteScreen("Theme", _rows(loaded), current=before.name, preview=preview)
    screen.styles.background = "transparent"  # keeps the preview visible

    async def follow() -> None:
        nonlocal loaded
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if await asyncio.to_thread(files.update):
                loaded = files.loaded
                screen.choices.show_choices(_rows(loaded))
                preview(screen.choices.current)

    following = app.run_worker(follow(), group="themes")
    try:
        chosen = loaded.get(await app.push_screen_wait(screen))
    finally:
        following.cancel()  # else a file that changes now would be previewed over the choice
    if isinstance(chosen, themes.WorkbenchTheme):
        _show(app, chosen)
        await asyncio.to_thread(themes.save_theme, chosen.name)
        return
    _show(app, before)
    if chosen is not None:
        raise chosen


def _show(app: App[Any], theme: object) -> None:
    if isinstance(theme, themes.WorkbenchTheme):
        cast(ShowsThemes, app).show_theme(theme)


def _load(name: str) -> themes.WorkbenchTheme | WorkbenchError:
    try:
        return themes.load_theme(name)
    except WorkbenchError as error:
        return error


def _signature(name: str) -> tuple[str, int, int]:
    """Return the path, modification time and size of a theme's file."""
    for directory in directories.theme_directories():
        path = os.path.join(directory, name + themes.SUFFIX)
        try:
            status = os.stat(path)
        except OSError:
            continue
        return path, status.st_mtime_ns, status.st_size
    return "", 0, 0


def _rows(loaded: Loaded) -> dict[str, Row]:
    """Return the rows for themes, keyed by the text to search in."""
    rows = {}
    for name, theme in loaded.items():
        if isinstance(theme, WorkbenchError):
            location = f"line {theme.line}: " if theme.line else ""
            message = Piece(safe_text(f"{location}{theme.message}"), "muted")
            before = (Piece("✗ ", "error"), Piece(f"{safe_text(name)}  "))
            rows[f"{name} problem"] = Row(name, message, before=before, right=(Piece("problem", "error"),))
        else:
            kind = "dark" if theme.dark else "light"
            own = not theme.path.startswith(directories.packaged("themes") + os.sep)
            notes = (Piece(f"{'yours, ' if own else ''}{kind}", "muted"),)
            rows[f"{safe_text(theme.title)} {name} {kind}"] = Row(name, Piece(safe_text(theme.title)), right=notes)
    return rows
