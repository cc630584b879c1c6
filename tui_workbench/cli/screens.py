"""Open the screens."""

from __future__ import annotations

from tui_workbench.ui import start


def open_screens(folder: str, *, ascii_only: bool) -> int:
    return start.run(folder, ascii_only=ascii_only)
