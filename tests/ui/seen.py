"""The text on the screen of a running app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ui.textual_internals import strips_of

if TYPE_CHECKING:
    from typing import Any

    from textual.app import App
    from textual.widget import Widget


def screen_lines(app: App[Any]) -> list[str]:
    """Return the lines of the top screen without trailing blanks."""
    return [strip.text.rstrip() for strip in strips_of(app.screen)]


def lines_of(widget: Widget) -> list[str]:
    """Return the lines of a widget with its borders; none if it is hidden."""
    region = widget.region
    strips = strips_of(widget.screen)[region.y : region.bottom]
    return [strip.crop(region.x, region.right).text.rstrip() for strip in strips]


def content_of(widget: Widget) -> list[str]:
    """Return the stripped, non-empty lines inside the widget's border."""
    region = widget.content_region
    strips = strips_of(widget.screen)[region.y : region.bottom]
    lines = [strip.crop(region.x, region.right).text.strip() for strip in strips]
    return [line for line in lines if line]
