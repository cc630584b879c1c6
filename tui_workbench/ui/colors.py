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
    """How what lies behind letters looks: one of sixteen colours and an attribute, or one without colours."""

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
        if color is None or color.type is not ColorType.TRUECOLOR or color.triplet is None:
            return color
        rgb = _rgb_of(color)
        return RichColor.from_ansi(self._grounds[rgb] if rgb in self._grounds else nearest_of_256(rgb))


class _ByMeaning(_Recolored):
    """Tells what a colour means in the palette; one that was blended of several means what is nearest to it."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__(palette, dark)
        named = {name: _rgb(value) for name, value in palette._asdict().items()}
        inks = {value: name for name, value in reversed(named.items()) if name not in GROUNDS}
        grounds = {value: name for name, value in reversed(named.items()) if name in GROUNDS}
        self._inks = {**grounds, **inks}
        self._grounds = {**inks, **grounds}

    def ink(self, color: RichColor) -> str:
        """The name of the palette's colour that letters are drawn in."""
        return _meaning(_rgb_of(color), self._inks)

    def ground(self, color: RichColor) -> str:
        """The name of the palette's colour behind letters; a cursor or a bar is drawn in one that letters have."""
        return _meaning(_rgb_of(color), self._grounds)


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
        if front is not None and (front == back or ground is grounds["selected"]):
            front = inks["text"].number
        new = style + Style(color=_ansi(front), bgcolor=_ansi(back))
        return new + Style(underline=True) if ground is not None and ground.attribute else new


_HEAVY = str.maketrans("─│╭╮╰╯┌┐└┘├┤┬┴┼", "━┃┏┓┗┛┏┓┗┛┣┫┳┻╋")
"""Lines in the colour of the focus, where there are no colours."""


class WithoutColor(_ByMeaning):
    """No colours at all: attributes in their place, and heavy lines around the focus."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [Segment(self._lines(text, style), self._style(style), control) for text, style, control in segments]

    def _lines(self, text: str, style: Style | None) -> str:
        if text.isascii() or style is None or style.color is None or style.color.triplet is None:
            return text
        framed = self.ink(style.color) == "accent" and (
            style.bgcolor is None or style.bgcolor.triplet is None or self.ground(style.bgcolor) == "background"
        )
        return text.translate(_HEAVY) if framed else text

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
    from tui_workbench.ui.theme_check import READABLE, contrast

    color = _rgb(palette.selected)
    _, green_red, blue_yellow = _oklab(color)

    def rank(number: int) -> tuple[bool, bool, float]:
        found = _of_cube(number)
        _, a, b = _oklab(found)
        readable = contrast(palette.muted, _hexadecimal(found)) >= READABLE
        return a * green_red + b * blue_yellow <= 0, not readable, _distance(found, color)

    hued = [number for number in range(16, 232) if (number - 16) % 43]
    return min(hued, key=rank)


def _of_cube(number: int) -> RGB:
    place = number - 16
    return CUBE[place // 36], CUBE[place // 6 % 6], CUBE[place % 6]


def _hexadecimal(color: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


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
