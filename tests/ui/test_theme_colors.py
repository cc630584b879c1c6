"""The built-in themes are readable, and their states and backgrounds are distinct.

Contrast is that of WCAG. Color blindness is simulated after Machado, Oliveira and Fernandes (2009) at full severity.
The difference of two colors is their distance in Oklab; black and white have 100.
"""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest

from tui_workbench.core import directories
from tui_workbench.ui.themes import themes

BUILT_IN = sorted(Path(directories.packaged("themes")).glob("*.yaml"))
STATES = ("running", "success", "warning", "error")
INKS = ("text", "muted", "accent", *STATES)
SYNTAX = ("comment", "keyword", "string", "number", "function", "type")
GROUNDS = ("background", "raised", "marked")

READABLE, HIGH_CONTRAST = 4.5, 7.0
APART, APART_FOR_ALL, APART_IN_BLUE_BLINDNESS = 10.0, 15.0, 7.0

CONES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}

Linear = tuple[float, float, float]


@pytest.fixture(params=BUILT_IN, ids=lambda path: path.stem)
def theme(request: pytest.FixtureRequest) -> themes.WorkbenchTheme:
    """Return a built-in theme; the tests run with each."""
    return themes.read_theme(str(request.param))


def linear(color: str) -> Linear:
    """Return the linear light of a color, each part from 0 to 1."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2."""

    def luminance(color: str) -> float:
        red, green, blue = linear(color)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def oklab(light: Linear) -> Linear:
    """Return the color in Oklab."""
    red, green, blue = (max(0.0, part) for part in light)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def distance(one: str, other: str, without: str = "") -> float:
    """Return the difference of two colors, for a kind of color blindness if given."""
    seen = []
    for color in (one, other):
        light = linear(color)
        if without:
            red, green, blue = (sum(a * b for a, b in zip(row, light, strict=True)) for row in CONES[without])
            light = min(red, 1.0), min(green, 1.0), min(blue, 1.0)
        seen.append(oklab(light))
    return 100 * math.dist(*seen)


def closest_states(theme: themes.WorkbenchTheme, without: str = "") -> float:
    """Return the smallest difference of two states."""
    colors = [getattr(theme.palette, name) for name in STATES]
    return min(distance(one, other, without) for one, other in combinations(colors, 2))


def least_contrast(theme: themes.WorkbenchTheme, inks: tuple[str, ...], grounds: tuple[str, ...]) -> tuple[float, str]:
    """Return the smallest contrast, with its foreground and background."""
    palette = theme.palette._asdict()
    return min((contrast(palette[ink], palette[ground]), f"{ink} on {ground}") for ink in inks for ground in grounds)


def test_color_measures_match_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert distance("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
    assert distance("#ff0000", "#00ff00", "deuteranopia") < distance("#ff0000", "#00ff00") / 2
    assert distance("#808080", "#808080", "protanopia") == pytest.approx(0)


def test_there_are_eight_dark_and_eight_light_themes() -> None:
    loaded = [themes.read_theme(str(path)) for path in BUILT_IN]
    assert len(loaded) >= 8
    assert {theme.dark for theme in loaded} == {True, False}
    assert len({theme.title for theme in loaded}) == len(loaded)


def test_text_is_readable_on_every_background(theme: themes.WorkbenchTheme) -> None:
    assert least_contrast(theme, INKS, GROUNDS) >= (READABLE,)
    assert least_contrast(theme, SYNTAX, ("background", "marked")) >= (READABLE,)
    assert least_contrast(theme, (*INKS, "function"), ("selected",)) >= (READABLE,)
    assert least_contrast(theme, ("text", *SYNTAX), ("selection",)) >= (READABLE,)
    assert least_contrast(theme, ("background",), ("accent",)) >= (READABLE,)  # a letter under the text cursor


def test_backgrounds_are_distinguishable(theme: themes.WorkbenchTheme) -> None:
    palette = theme.palette
    assert contrast(palette.selected, palette.background) >= 1.3
    assert contrast(palette.marked, palette.background) >= 1.15
    assert contrast(palette.raised, palette.background) >= 1.08
    assert distance(palette.selected, palette.marked) >= 5
    assert contrast(palette.faint, palette.background) >= 1.5
    assert contrast(palette.accent, palette.faint) >= 2


def test_state_colors_are_distinguishable(theme: themes.WorkbenchTheme) -> None:
    assert closest_states(theme) >= APART


def test_high_contrast_themes_have_high_contrast_text() -> None:
    beacon = themes.load_theme("beacon")
    assert least_contrast(beacon, INKS, GROUNDS) >= (HIGH_CONTRAST,)
    assert least_contrast(beacon, SYNTAX, ("background", "marked")) >= (HIGH_CONTRAST,)
    assert least_contrast(beacon, INKS, ("selected",)) >= (HIGH_CONTRAST,)
    assert least_contrast(beacon, ("text", *SYNTAX), ("selection",)) >= (HIGH_CONTRAST,)
    assert least_contrast(beacon, ("faint",), GROUNDS) >= (3.0,)  # the minimum contrast of borders in WCAG


def test_color_blind_themes_have_distinguishable_states() -> None:
    harbor = themes.load_theme("harbor")
    assert closest_states(harbor, "protanopia") >= APART_FOR_ALL
    assert closest_states(harbor, "deuteranopia") >= APART_FOR_ALL
    assert closest_states(harbor, "tritanopia") >= APART_IN_BLUE_BLINDNESS
