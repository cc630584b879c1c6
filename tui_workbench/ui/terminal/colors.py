"""Line filters that reduce the colors of a theme to 256, to 16, or to none.

The role of a color in the `Palette` determines its replacement, so that states stay distinct and the focus stays
visible. Without colors, bold, underlined and reversed text show focus, cursor and selection.
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
"""The levels of each channel in the color cube (colors 16 to 231). Colors 232 to 255 are grays from 8 to 238."""

RGB = tuple[int, int, int]


class Reduced(NamedTuple):
    """The replacements of a color: one of 16 colors for dark themes, one for light themes, and an attribute."""

    dark: int
    light: int
    attribute: str = ""


FOREGROUNDS = {
    "text": Reduced(15, 0),
    "muted": Reduced(7, 8),
    "faint": Reduced(8, 7, "dim"),
    "accent": Reduced(14, 4, "bold"),
    "running": Reduced(12, 6),
    "success": Reduced(10, 2),
    "warning": Reduced(11, 5, "bold"),
    "error": Reduced(9, 1, "bold"),
    "comment": Reduced(7, 8, "dim"),
    "keyword": Reduced(13, 5, "bold"),
    "string": Reduced(10, 2),
    "number": Reduced(11, 1),
    "function": Reduced(14, 4),
    "type": Reduced(12, 6),
}

BACKGROUNDS = {
    "background": Reduced(0, 15),
    "raised": Reduced(0, 15),
    "selected": Reduced(4, 14, "reverse"),
    "marked": Reduced(0, 15, "underline"),
    "selection": Reduced(5, 11, "reverse"),
}


def line_filters(theme: Theme, terminal: Terminal, usual: Sequence[LineFilter]) -> Sequence[LineFilter]:
    """Return the line filters for a theme on a terminal; `usual` are Textual's own filters."""
    if terminal.colors == "truecolor" or not isinstance(theme, WorkbenchTheme):
        recolored: Sequence[LineFilter] = usual
    elif terminal.colors == "256":
        recolored = [*usual, _recolored(In256, theme.palette, theme.dark)]
    else:
        # The 16 colors are the terminal's own, and the output of runs uses them by number.
        kind = InSixteen if terminal.colors == "16" else WithoutColor
        recolored = [_recolored(kind, theme.palette, theme.dark)]
    return recolored if terminal.unicode else [*recolored, _ASCII_ONLY]


_ASCII_ONLY = AsciiOnly()


@lru_cache(8)
def _recolored(kind: type[_Recolored], palette: Palette, dark: bool) -> LineFilter:
    # The filters are cached, because Textual caches lines by their filters.
    return kind(palette, dark)


class _Recolored(LineFilter):
    """The base class of filters that replace styles. Replacements are cached."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__()
        self.palette = palette
        self.dark = dark
        self.roles = _Roles(palette)
        self._replacements: dict[Style, Style] = {}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, self._style(style), control) for text, style, control in segments]

    def _style(self, style: Style | None) -> Style | None:
        if style is None:
            return None
        replacement = self._replacements.get(style)
        if replacement is None:
            if len(self._replacements) > 4096:
                self._replacements.clear()
            replacement = self._replacements[style] = self.recolor(style)
        return replacement

    def recolor(self, style: Style) -> Style:
        raise NotImplementedError


class In256(_Recolored):
    """A filter that replaces each color with the most similar of 256. The terminal's 16 colors stay."""

    def __init__(self, palette: Palette, dark: bool) -> None:
        super().__init__(palette, dark)
        self._backgrounds: dict[RGB, int] = {}
        for name in BACKGROUNDS:
            color = _rgb(getattr(palette, name))
            # Different backgrounds must stay different.
            taken = frozenset(self._backgrounds.values())
            number = _cursor_background(palette) if name == "selected" else nearest_of_256(color, taken)
            self._backgrounds.setdefault(color, number)

    def recolor(self, style: Style) -> Style:
        return style + Style(color=self._color(style.color), bgcolor=self._color(style.bgcolor))

    def _color(self, color: RichColor | None) -> RichColor | None:
        if color is None or color.triplet is None:
            return color
        number = self._backgrounds.get(color.triplet)
        return RichColor.from_ansi(nearest_of_256(color.triplet) if number is None else number)


class _Roles:
    """The roles of colors in the palette. A blended color has the role of the most similar color."""

    def __init__(self, palette: Palette) -> None:
        named = {name: _rgb(value) for name, value in palette._asdict().items()}
        foregrounds = {value: name for name, value in reversed(named.items()) if name not in BACKGROUNDS}
        backgrounds = {value: name for name, value in reversed(named.items()) if name in BACKGROUNDS}
        self._foregrounds = {**backgrounds, **foregrounds}
        self._backgrounds = {**foregrounds, **backgrounds}

    def foreground(self, color: RichColor | None) -> str:
        return _role(color, self._foregrounds)

    def background(self, color: RichColor | None) -> str:
        """Return the role of a background color. Cursors and bars have the role of a foreground."""
        return _role(color, self._backgrounds)


class InSixteen(_Recolored):
    """A filter that replaces each color with one of 16, according to its role."""

    def recolor(self, style: Style) -> Style:
        role = self.roles.background(style.bgcolor)
        front, back = self._color(style.color, self.roles.foreground(style.color)), self._color(style.bgcolor, role)
        if front is not None and (front == back or role == "selected"):
            front = self._color(None, "text")
        return style + Style(color=front, bgcolor=back, underline=True if role == "marked" else None)

    def _color(self, color: RichColor | None, name: str) -> RichColor | None:
        if name:
            reduced = BACKGROUNDS.get(name) or FOREGROUNDS[name]
            number: int | None = reduced.dark if self.dark else reduced.light
        else:
            # The output of a run uses the terminal's own colors by number.
            number = None if color is None or color.is_default else color.downgrade(ColorSystem.STANDARD).number
        return None if number is None else RichColor.from_ansi(number)


_HEAVY = str.maketrans("─│╭╮╰╯┌┐└┘├┤┬┴┼", "━┃┏┓┗┛┏┓┗┛┣┫┳┻╋")
"""Heavy lines, which replace lines in the color of the focus on a terminal without colors."""


class WithoutColor(_Recolored):
    """A filter that replaces colors with attributes, and draws heavy lines around the focused widget."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(self._lines(text, style), self._style(style), control) for text, style, control in segments]

    def _lines(self, text: str, style: Style | None) -> str:
        if text.isascii() or style is None:
            return text
        front, back = self.roles.foreground(style.color), self.roles.background(style.bgcolor)
        is_frame = front == "accent" and back in ("", "background")
        return text.translate(_HEAVY) if is_frame else text

    def recolor(self, style: Style) -> Style:
        named: dict[str, Any] = {
            name: True for name in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, name)
        }
        front, back = self.roles.foreground(style.color), self.roles.background(style.bgcolor)
        attributes = [FOREGROUNDS[front].attribute] if front in FOREGROUNDS else []
        if back in BACKGROUNDS:
            attributes.append(BACKGROUNDS[back].attribute)
        elif back:
            # The underline keeps a text cursor visible in a reversed row.
            attributes += ["reverse", "underline"]
        named |= {attribute: True for attribute in attributes if attribute}
        if "reverse" in attributes:
            named.pop("dim", None)
        # `meta` holds the actions of clicks.
        return Style(**named, link=style.link, meta=style.meta or None)


def nearest_of_256(color: RGB, taken: frozenset[int] = frozenset()) -> int:
    """Return the number, from 16 on, of the most similar color that is not taken."""
    levels = [sorted(range(6), key=lambda level, part=part: abs(CUBE[level] - part))[:2] for part in color]  # type: ignore[misc]
    candidates = {
        16 + 36 * red + 6 * green + blue: (CUBE[red], CUBE[green], CUBE[blue])
        for red in levels[0]
        for green in levels[1]
        for blue in levels[2]
    }
    gray = max(0, min(23, round((sum(color) / 3 - 8) / 10)))
    for number in range(max(0, gray - 1), min(23, gray + 1) + 1):
        candidates[232 + number] = (8 + 10 * number,) * 3
    return min(candidates.keys() - taken, key=lambda number: (_distance(candidates[number], color), number))


def _cursor_background(palette: Palette) -> int:
    """Return the number of the background color of the selected row.

    Prefer the hue of `selected`, then colors on which muted text is readable, then the most similar color.
    """
    color = _rgb(palette.selected)
    _, green_red, blue_yellow = _oklab(color)

    def rank(number: int) -> tuple[bool, bool, float]:
        candidate = ColorTriplet(*(CUBE[(number - 16) // size % 6] for size in (36, 6, 1)))
        _, a, b = _oklab(candidate)
        readable = contrast(palette.muted, candidate.hex) >= READABLE
        return a * green_red + b * blue_yellow <= 0, not readable, _distance(candidate, color)

    hued = [number for number in range(16, 232) if (number - 16) % 43]
    return min(hued, key=rank)


def _distance(first: RGB, second: RGB) -> float:
    """Return the squared distance between two colors in Oklab. Differences of hue count twice."""
    light, *hues = (a - b for a, b in zip(_oklab(first), _oklab(second), strict=True))
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


def _role(color: RichColor | None, names: dict[RGB, str]) -> str:
    if color is None or (rgb := color.triplet) is None:
        return ""
    return names.get(rgb) or names[min(names, key=lambda named: _distance(named, rgb))]


def _rgb(value: str) -> RGB:
    return RichColor.parse(value).get_truecolor()
