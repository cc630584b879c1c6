"""How a theme looks on a terminal of 256 colours, of sixteen, and of none.

Every line of every screen passes through one of these filters after it was drawn in the theme's own colours. The
invariants: what a colour means (`Palette`) decides what it becomes, not only how it looks, so that states stay apart
and the focus stays visible; and without colours no colour sequence at all is written: bold, underlined and reversed
letters carry the focus, the cursor and what is selected. States also have a glyph and a word each, everywhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.filter import LineFilter

from tui_workbench.ui.glyphs import AsciiOnly
from tui_workbench.ui.themes import Palette, WorkbenchTheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.color import Color
    from textual.theme import Theme

    from tui_workbench.ui.terminal import Terminal

GROUNDS = ("background", "raised", "selected", "marked", "selection")

CUBE = (0, 95, 135, 175, 215, 255)
"""The levels of a channel in the 216 colours from 16 on; 24 greys from 8 to 238 follow them."""

RGB = tuple[int, int, int]


class Ink(NamedTuple):
    """How letters of a meaning look: one of sixteen colours, and without colours an attribute ("" for none)."""

    number: int
    attribute: str = ""


class Ground(NamedTuple):
    """How what lies behind letters looks: one of sixteen colours with an attribute, and an attribute without colours."""

    number: int
    attribute: str = ""
    without: str = ""


DARK_INKS = {
    "text": Ink(15),
    "muted": Ink(7),
    "faint": Ink(8, "dim"),
    "accent": Ink(14, "bold"),
    "running": Ink(12),
    "success": Ink(10),
    "warning": Ink(11, "bold"),
    "error": Ink(9, "bold"),
    "comment": Ink(7, "dim"),
    "keyword": Ink(13, "bold"),
    "string": Ink(10),
    "number": Ink(11),
    "function": Ink(14),
    "type": Ink(12),
}
LIGHT_INKS = {
    "text": Ink(0),
    "muted": Ink(8),
    "faint": Ink(7, "dim"),
    "accent": Ink(4, "bold"),
    "running": Ink(6),
    "success": Ink(2),
    "warning": Ink(5, "bold"),
    "error": Ink(1, "bold"),
    "comment": Ink(8, "dim"),
    "keyword": Ink(5, "bold"),
    "string": Ink(2),
    "number": Ink(1),
    "function": Ink(4),
    "type": Ink(6),
}
DARK_GROUNDS = {
    "background": Ground(0),
    "raised": Ground(0),
    "selected": Ground(4, without="reverse"),
    "marked": Ground(0, "underline", "underline"),
    "selection": Ground(5, without="reverse"),
}
LIGHT_GROUNDS = {
    "background": Ground(15),
    "raised": Ground(15),
    "selected": Ground(14, without="reverse"),
    "marked": Ground(15, "underline", "underline"),
    "selection": Ground(11, without="reverse"),
}


@lru_cache(16)
def filters(theme: Theme, terminal: Terminal) -> tuple[LineFilter, ...] | None:
    """What a theme's lines pass through on a terminal; None where Textual's own filters do."""
    palette = theme.palette if isinstance(theme, WorkbenchTheme) else None
    last = () if terminal.unicode else (AsciiOnly(),)
    if palette is None or terminal.colors == "truecolor":
        return last or None
    by_colors = {"256": In256, "16": InSixteen, "none": WithoutColor}
    return (by_colors[terminal.colors](palette, theme.dark), *last)


class _Recolored(LineFilter):
    """Gives every style another one, and remembers which."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__()
        self.palette = palette
        self.dark = dark
        self._known: dict[Style, Style] = {}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in their new styles."""
        return [Segment(text, self._style(style), control) for text, style, control in segments]

    def _style(self, style: Style | None) -> Style | None:
        if style is None:
            return None
        known = self._known.get(style)
        if known is None:
            if len(self._known) > 4096:
                self._known.clear()
            known = self._known[style] = self.recolor(style)
        return known

    def recolor(self, style: Style) -> Style:
        """The style on this terminal."""
        raise NotImplementedError


class In256(_Recolored):
    """Each colour as the nearest of 256, to the eye and not by its numbers; the user's own sixteen are left alone."""

    def recolor(self, style: Style) -> Style:
        """The style in 256 colours."""
        return style + Style(color=self._color(style.color), bgcolor=self._color(style.bgcolor))

    def _color(self, color: RichColor | None) -> RichColor | None:
        if color is None or color.type is not ColorType.TRUECOLOR or color.triplet is None:
            return color
        return RichColor.from_ansi(nearest_of_256(tuple(color.triplet)))


class _ByMeaning(_Recolored):
    """Tells what a colour means in the palette; one that was blended of several means what is nearest to it."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__(palette, dark)
        named = {name: _rgb(value) for name, value in palette._asdict().items()}
        self._inks = {value: name for name, value in reversed(named.items()) if name not in GROUNDS}
        self._grounds = {value: name for name, value in reversed(named.items()) if name in GROUNDS}

    def ink(self, color: RichColor) -> str:
        """The name of the palette's colour that letters are drawn in."""
        return _meaning(_rgb_of(color), {**self._grounds, **self._inks})

    def ground(self, color: RichColor) -> str:
        """The name of the palette's colour behind letters; a cursor or a bar is drawn in one that letters have."""
        return _meaning(_rgb_of(color), {**self._inks, **self._grounds})


class InSixteen(_ByMeaning):
    """Each colour as the one of sixteen that was chosen for what it means."""

    def recolor(self, style: Style) -> Style:
        """The style in sixteen colours."""
        grounds, inks = (DARK_GROUNDS, DARK_INKS) if self.dark else (LIGHT_GROUNDS, LIGHT_INKS)
        back, ground = None, None
        if style.bgcolor is not None and not style.bgcolor.is_default:
            if style.bgcolor.triplet is None:
                back = _sixteen(style.bgcolor)
            elif (name := self.ground(style.bgcolor)) in grounds:
                ground = grounds[name]
                back = ground.number
            else:
                back = inks[name].number
        front = None
        if style.color is not None and not style.color.is_default:
            if style.color.triplet is None:
                front = _sixteen(style.color)
            else:
                name = self.ink(style.color)
                front = grounds[name].number if name in grounds else inks[name].number
        if front is not None and front == back:
            front = inks["text"].number
        new = style + Style(color=_ansi(front), bgcolor=_ansi(back))
        return new + Style(underline=True) if ground is not None and ground.attribute else new


class WithoutColor(_ByMeaning):
    """No colours at all: attributes in their place."""

    def recolor(self, style: Style) -> Style:
        """The style's attributes, and those that stand for its colours."""
        named: dict[str, Any] = {
            name: True for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)
        }
        if style.color is not None and style.color.triplet is not None:
            name = self.ink(style.color)
            attribute = DARK_INKS[name].attribute if name in DARK_INKS else ""
            if attribute:
                named[attribute] = True
        if style.bgcolor is not None and style.bgcolor.triplet is not None:
            name = self.ground(style.bgcolor)
            if name in DARK_GROUNDS:
                attribute = DARK_GROUNDS[name].without
            else:
                # A text cursor must also be seen in a row that is reversed as a whole.
                attribute = "reverse"
                named["underline"] = True
            if attribute:
                named[attribute] = True
            if attribute == "reverse":
                named.pop("dim", None)
        return Style(**named)


def nearest_of_256(color: RGB) -> int:
    """The number, 16 or above, of the colour that looks most like this one."""
    levels = [sorted(range(6), key=lambda index, part=part: abs(CUBE[index] - part))[:2] for part in color]  # type: ignore[misc]
    found = {
        16 + 36 * red + 6 * green + blue: (CUBE[red], CUBE[green], CUBE[blue])
        for red in levels[0]
        for green in levels[1]
        for blue in levels[2]
    }
    grey = max(0, min(23, round((sum(color) / 3 - 8) / 10)))
    for number in range(max(0, grey - 1), min(23, grey + 1) + 1):
        found[232 + number] = (8 + 10 * number,) * 3
    return min(found, key=lambda number: _distance(found[number], color))


def _distance(one: RGB, other: RGB) -> float:
    """How different two colours look, squared: weighted by what the eye tells apart in red, green and blue."""
    mean = (one[0] + other[0]) / 2
    red, green, blue = (a - b for a, b in zip(one, other, strict=True))
    return (2 + mean / 256) * red * red + 4 * green * green + (2 + (255 - mean) / 256) * blue * blue


def _meaning(color: RGB, names: dict[RGB, str]) -> str:
    return names.get(color) or names[min(names, key=lambda known: _distance(known, color))]


def _rgb(value: str) -> RGB:
    return int(value[1:3], 16), int(value[3:5], 16), int(value[5:7], 16)


def _rgb_of(color: RichColor) -> RGB:
    assert color.triplet is not None
    return color.triplet.red, color.triplet.green, color.triplet.blue


def _sixteen(color: RichColor) -> int | None:
    """A colour that a run's output asks for by its number, as one of sixteen."""
    from rich.color import ColorSystem

    return color.downgrade(ColorSystem.STANDARD).number


def _ansi(number: int | None) -> RichColor | None:
    return None if number is None else RichColor.from_ansi(number)


def line_filters(theme: Theme, terminal: Terminal, usual: Sequence[LineFilter]) -> Sequence[LineFilter]:
    """What lines pass through, given what they would pass through in any Textual app."""
    ours = filters(theme, terminal)
    if ours is None:
        return usual
    # Sixteen colours are the terminal's own, and a run's output asks for them by number: they are not to be blended.
    return ours if terminal.colors in ("16", "none") else [*usual, *ours]
