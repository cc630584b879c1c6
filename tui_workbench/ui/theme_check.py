"""What in a theme is hard to read or to tell apart, measured as WCAG 2 does; such a theme can be used all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.ui.themes import Palette

READABLE = 4.5
"""The contrast below which text is hard to read."""

GROUNDS = ("background", "raised", "marked")
STATES = ("running", "success", "warning", "error")
INKS = ("text", "muted", "accent", *STATES)
SYNTAX = ("comment", "keyword", "string", "number", "function", "type")


def contrast(one: str, other: str) -> float:
    """The contrast of two colours (`#rrggbb`), from 1 for equal ones to 21 for black and white."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def doubts(palette: Palette) -> Iterator[str]:
    """A sentence for everything that a person may be unable to read or to tell apart."""
    colors = palette._asdict()
    pairs = [(ink, ground) for ink in INKS for ground in GROUNDS]
    pairs += [(ink, ground) for ink in SYNTAX for ground in ("background", "marked")]
    pairs += [(ink, "selected") for ink in (*INKS, "function")]
    pairs += [(ink, "selection") for ink in ("text", *SYNTAX)]
    for ink, ground in pairs:
        ratio = contrast(colors[ink], colors[ground])
        if ratio < READABLE:
            yield f"{ink} on {ground} is hard to read: {ratio:.1f} to 1, below {READABLE}"
    for name in ("selected", "marked", "raised"):
        if colors[name] == colors["background"]:
            yield f"{name} is the same as background: it will not be seen"
    for place, name in enumerate(STATES):
        for other in STATES[place + 1 :]:
            if colors[name] == colors[other]:
                yield f"{name} and {other} have the same colour"


def _luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
