"""How a theme looks on a terminal of 256 colours, of sixteen, and of none.

Every line of every screen passes through one of these filters after it was drawn in the theme's own colours. The
invariants: what a colour means (`Palette`) decides what it becomes, not only how it looks, so that states stay apart
and the focus stays visible; and without colours no colour sequence at all is written: bold, underlined and reversed
letters carry the focus, the cursor and what is selected. States also have a glyph and a word each, everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from tui_workbench.ui.terminal.capabilities import Terminal
from tui_workbench.ui.terminal.glyphs import AsciiOnly
from tui_workbench.ui.themes.themes import READABLE, Palette, WorkbenchTheme, contrast

CUBE = (0, 95, 135, 175, 215, 255)
"""The levels of a channel in the 216 colours from 16 on; 24 greys from 8 to 238 follow them."""

RGB = tuple[int, int, int]


class Meaning(NamedTuple):
    """How a colour looks by what it means.

    One of sixteen in a dark and in a light theme, and without colours an attribute ("" for none).
    """

    dark: int
    light: int
    attribute: str = ""


INKS = {
    "text": Meaning(15, 0),
    "muted": Meaning(7, 8),
    "faint": Meaning(8, 7, "dim"),
    "accent": Meaning(14, 4, "bold"),
    "running": Meaning(12, 6),
    "success": Meaning(10, 2),
    "warning": Meaning(11, 5, "bold"),
    "error": Meaning(9, 1, "bold"),
    "comment": Meaning(7, 8, "dim"),
    "keyword": Meaning(13, 5, "bold"),
    "string": Meaning(10, 2),
    "number": Meaning(11, 1),
    "function": Meaning(14, 4),
    "type": Meaning(12, 6),
}
"""Of letters."""

GROUNDS = {
    "background": Meaning(0, 15),
    "raised": Meaning(0, 15),
    "selected": Meaning(4, 14, "reverse"),
    "marked": Meaning(0, 15, "underline"),
    "selection": Meaning(5, 11, "reverse"),
}
"""Of what lies behind letters."""


def line_filters(theme: Theme, terminal: Terminal, usual: Sequence[LineFilter]) -> Sequence[LineFilter]:
    """What lines of a theme pass through on a terminal, given what they would pass through in any Textual app."""
    if terminal.colors == "truecolor" or not isinstance(theme, WorkbenchTheme):
        recolored: Sequence[LineFilter] = usual
    elif terminal.colors == "256":
        recolored = [*usual, _recolored(In256, theme.palette, theme.dark)]
    else:
        # Sixteen colours are the terminal's own, and a run's output asks for them by number: nothing is blended.
        kind = InSixteen if terminal.colors == "16" else WithoutColor
        recolored = [_recolored(kind, theme.palette, theme.dark)]
    return recolored if terminal.unicode else [*recolored, _ASCII_ONLY]


_ASCII_ONLY = AsciiOnly()


@lru_cache(8)
def _recolored(kind: type[_Recolored], palette: Palette, dark: bool) -> LineFilter:
    # The same one each time: lines are kept by the filters that they passed.
    return kind(palette, dark)


class _Recolored(LineFilter):
    """Gives every style another one, and remembers which."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__()
        self.palette = palette
        self.dark = dark
        self.meanings = _Meanings(palette)
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

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__(palette, dark)
        self._grounds: dict[RGB, int] = {}
        for name in GROUNDS:
            color = _rgb(getattr(palette, name))
            # Grounds that differ stay different: what is marked would else be nowhere to be seen.
            taken = frozenset(self._grounds.values())
            number = _cursor_ground(palette) if name == "selected" else nearest_of_256(color, taken)
            self._grounds.setdefault(color, number)

    def recolor(self, style: Style) -> Style:
        """The style in 256 colours."""
        return style + Style(color=self._color(style.color), bgcolor=self._color(style.bgcolor))

    def _color(self, color: RichColor | None) -> RichColor | None:
        if color is None or color.triplet is None:
            return color
        number = self._grounds.get(color.triplet)
        return RichColor.from_ansi(nearest_of_256(color.triplet) if number is None else number)


class _Meanings:
    """Tells the meaning of a colour in the palette; a blended colour means the one that is nearest to it."""

    def __init__(self, palette: Palette) -> None:
        named = {name: _rgb(value) for name, value in palette._asdict().items()}
        inks = {value: name for name, value in reversed(named.items()) if name not in GROUNDS}
        grounds = {value: name for name, value in reversed(named.items()) if name in GROUNDS}
        self._inks = {**grounds, **inks}
        self._grounds = {**inks, **grounds}

    def ink(self, color: RichColor | None) -> str:
        """The name of the palette's colour that letters are drawn in; "" for a colour of the terminal's own."""
        return _meaning(color, self._inks)

    def ground(self, color: RichColor | None) -> str:
        """The name of the palette's colour behind letters; a cursor or a bar is drawn in one that letters have."""
        return _meaning(color, self._grounds)


class InSixteen(_Recolored):
    """Each colour as the one of sixteen that was chosen for what it means."""

    def recolor(self, style: Style) -> Style:
        """The style in sixteen colours."""
        ground = self.meanings.ground(style.bgcolor)
        front, back = self._color(style.color, self.meanings.ink(style.color)), self._color(style.bgcolor, ground)
        if front is not None and (front == back or ground == "selected"):
            front = self._color(None, "text")
        return style + Style(color=front, bgcolor=back, underline=True if ground == "marked" else None)

    def _color(self, color: RichColor | None, name: str) -> RichColor | None:
        if name:
            meaning = GROUNDS.get(name) or INKS[name]
            number: int | None = meaning.dark if self.dark else meaning.light
        else:
            # A run's output asks for a colour by its number.
            number = None if color is None or color.is_default else color.downgrade(ColorSystem.STANDARD).number
        return None if number is None else RichColor.from_ansi(number)


_HEAVY = str.maketrans("─│╭╮╰╯┌┐└┘├┤┬┴┼", "━┃┏┓┗┛┏┓┗┛┣┫┳┻╋")
"""Lines in the colour of the focus, where there are no colours."""


class WithoutColor(_Recolored):
    """No colours at all: attributes in their place, and heavy lines around the focus."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [Segment(self._lines(text, style), self._style(style), control) for text, style, control in segments]

    def _lines(self, text: str, style: Style | None) -> str:
        if text.isascii() or style is None:
            return text
        ink, ground = self.meanings.ink(style.color), self.meanings.ground(style.bgcolor)
        is_frame = ink == "accent" and ground in ("", "background")
        return text.translate(_HEAVY) if is_frame else text

    def recolor(self, style: Style) -> Style:
        """The style's attributes, and those that stand for its colours."""
        named: dict[str, Any] = {
            name: True for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)
        }
        ink, ground = self.meanings.ink(style.color), self.meanings.ground(style.bgcolor)
        attributes = [INKS[ink].attribute] if ink in INKS else []
        if ground in GROUNDS:
            attributes.append(GROUNDS[ground].attribute)
        elif ground:
            # A text cursor must also be seen in a row that is reversed as a whole.
            attributes += ["reverse", "underline"]
        named |= {attribute: True for attribute in attributes if attribute}
        if "reverse" in attributes:
            named.pop("dim", None)
        # What a click does there is kept in the style, too.
        return Style(**named, link=style.link, meta=style.meta or None)


def nearest_of_256(color: RGB, taken: frozenset[int] = frozenset()) -> int:
    """The number, 16 or above, of the colour that looks most like this one and is not taken."""
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
    return min(found.keys() - taken, key=lambda number: (_distance(found[number], color), number))


def _cursor_ground(palette: Palette) -> int:
    """The number of 256 for the row under the cursor: of its own hue, and such that what is read second can be read."""
    color = _rgb(palette.selected)
    _, green_red, blue_yellow = _oklab(color)

    def rank(number: int) -> tuple[bool, bool, float]:
        found = ColorTriplet(*(CUBE[(number - 16) // size % 6] for size in (36, 6, 1)))
        _, a, b = _oklab(found)
        readable = contrast(palette.muted, found.hex) >= READABLE
        return a * green_red + b * blue_yellow <= 0, not readable, _distance(found, color)

    hued = [number for number in range(16, 232) if (number - 16) % 43]
    return min(hued, key=rank)


def _distance(one: RGB, other: RGB) -> float:
    """How different two colours look, squared, in Oklab; a wrong hue is worse than a wrong lightness."""
    light, *hues = (a - b for a, b in zip(_oklab(one), _oklab(other), strict=True))
    return light * light + 2 * sum(hue * hue for hue in hues)


@lru_cache(1024)
def _oklab(color: RGB) -> tuple[float, float, float]:
    red, green, blue = (_LINEAR[part] for part in color)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


_LINEAR = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in range(256)]


def _meaning(color: RichColor | None, names: dict[RGB, str]) -> str:
    if color is None or (rgb := color.triplet) is None:
        return ""
    return names.get(rgb) or names[min(names, key=lambda known: _distance(known, rgb))]


def _rgb(value: str) -> RGB:
    return RichColor.parse(value).get_truecolor()
