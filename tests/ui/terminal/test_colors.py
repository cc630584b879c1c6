"""Themes on terminals with 256 colors, 16 colors and no colors."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from tui_workbench.ui.terminal.capabilities import Terminal
from tui_workbench.ui.terminal.colors import CUBE, line_filters, nearest_of_256
from tui_workbench.ui.themes import themes
from tui_workbench.ui.themes.themes import READABLE, contrast

if TYPE_CHECKING:
    from tui_workbench.ui.terminal.capabilities import Colors
    from tui_workbench.ui.themes.themes import WorkbenchTheme

STATES = ("running", "success", "warning", "error")
NAMES = themes.theme_names()


def shown(theme: WorkbenchTheme, colors: Colors, **style: Any) -> Style:
    """Return a style of palette names as it appears on a terminal, without Textual's filters."""
    named = {key: getattr(theme.palette, value) for key, value in style.items() if key in ("color", "bgcolor")}
    return passed(theme, colors, Segment("x", Style(**{**style, **named})))[0].style or Style()


def passed(theme: WorkbenchTheme, colors: Colors, *segments: Segment, unicode: bool = True) -> list[Segment]:
    """Return segments as they appear on a terminal."""
    done = list(segments)
    for line_filter in line_filters(theme, Terminal(colors, unicode), []):
        done = line_filter.apply(done, Color(0, 0, 0))
    return done


@pytest.fixture(params=NAMES)
def theme(request: pytest.FixtureRequest) -> WorkbenchTheme:
    """Return a built-in theme; the tests run with each."""
    return themes.load_theme(request.param)


def test_capable_terminal_gets_no_extra_filters() -> None:
    usual: list[Any] = []
    assert line_filters(themes.load_theme("slate"), Terminal(), usual) is usual


def test_nearest_of_256_avoids_the_configurable_colors() -> None:
    for red in range(6):
        for blue in range(6):
            number = nearest_of_256((CUBE[red], CUBE[3], CUBE[blue]))
            assert number == 16 + 36 * red + 18 + blue or number >= 232
    assert nearest_of_256((8, 8, 8)) == 232
    assert nearest_of_256((238, 238, 238)) == 255


def test_256_colors_keep_backgrounds_and_states_distinct(theme: WorkbenchTheme) -> None:
    grounds = {shown(theme, "256", color="text", bgcolor=name).bgcolor for name in ("background", "selected", "marked")}
    assert len(grounds) == 3
    selected = shown(theme, "256", color="text", bgcolor="selected").bgcolor
    assert selected is not None
    assert len(set(selected.get_truecolor())) > 1  # gray is the background of marked rows
    assert contrast(selected.get_truecolor().hex, theme.palette.muted) >= 3
    assert contrast(selected.get_truecolor().hex, theme.palette.text) >= READABLE
    states = [shown(theme, "256", color=name, bgcolor="background").color for name in STATES]
    assert len(set(states)) == len(STATES)
    assert all(color is not None and color.type is ColorType.EIGHT_BIT for color in states)


def test_16_colors_keep_states_distinct_on_every_background(theme: WorkbenchTheme) -> None:
    for ground in ("background", "raised", "marked"):
        looks = [shown(theme, "16", color=name, bgcolor=ground) for name in STATES]
        for one, other in combinations(looks, 2):
            assert one.color != other.color
        for look in looks:
            assert look.color is not None
            assert look.color.type is ColorType.STANDARD
            assert look.color != look.bgcolor


def test_16_colors_show_cursor_focus_and_selection(theme: WorkbenchTheme) -> None:
    names = ("background", "selected", "marked", "selection")
    looks = [shown(theme, "16", color="text", bgcolor=name) for name in names]
    assert len({(look.bgcolor, look.underline) for look in looks}) == len(looks)
    assert all(look.color != look.bgcolor for look in looks)
    assert shown(theme, "16", color="accent").color != shown(theme, "16", color="faint").color


def test_16_colors_give_the_cursor_row_one_text_color(theme: WorkbenchTheme) -> None:
    inks = {shown(theme, "16", color=name, bgcolor="selected").color for name in ("text", "muted", "function", "error")}
    assert len(inks) == 1


def test_ansi_colors_of_a_run_are_kept(theme: WorkbenchTheme) -> None:
    (given,) = passed(theme, "16", Segment("x", Style(color="red", bgcolor="bright_blue")))
    assert str(given.style) == "color(1) on color(12)"


def test_no_color_is_written_without_colors(theme: WorkbenchTheme) -> None:
    pairs = [(ink, ground) for ink in themes.Palette._fields for ground in themes.Palette._fields]
    segments = [
        Segment("x", themes.style(getattr(theme.palette, ink), getattr(theme.palette, ground))) for ink, ground in pairs
    ]
    for segment in passed(theme, "none", *segments, Segment("x", Style(color="red", bgcolor="color(200)"))):
        assert segment.style is None or (segment.style.color is None and segment.style.bgcolor is None)


def test_attributes_show_cursor_and_selection_without_colors(theme: WorkbenchTheme) -> None:
    def look(ground: str, ink: str = "text") -> str:
        return str(shown(theme, "none", color=ink, bgcolor=ground))

    assert look("background") == "none"
    assert look("selected") == look("selection") == "reverse"
    assert look("marked") == "underline"
    assert look("accent", "background") == "underline reverse"
    assert look("selected", "faint") == "reverse"


def test_focused_frame_is_heavy_without_colors(theme: WorkbenchTheme) -> None:
    palette = theme.palette
    frame = [Segment("╭─│", themes.style(ink, palette.background)) for ink in (palette.accent, palette.faint)]
    assert [segment.text for segment in passed(theme, "none", *frame)] == ["┏━┃", "╭─│"]
    assert [segment.text for segment in passed(theme, "none", *frame, unicode=False)] == ["#=#", "+-|"]


def test_blended_color_is_mapped_to_the_nearest_palette_color() -> None:
    theme = themes.load_theme("slate")
    blend = Segment("x", Style(color="#6db7fe", bgcolor="#264a6c"))
    assert passed(theme, "none", blend)[0].style == Style(bold=True, reverse=True)


def test_scroll_bars_end_with_whole_cells_in_ascii(theme: WorkbenchTheme) -> None:
    end = Segment("▃", Style(color=theme.palette.faint, reverse=True, meta={"@mouse.down": "grab"}))
    (given,) = passed(theme, "none", end, unicode=False)
    assert given.text == " "
    assert given.style is not None
    assert given.style.reverse


@pytest.mark.parametrize("colors", ["truecolor", "256", "16", "none"])
def test_click_actions_are_kept(theme: WorkbenchTheme, colors: Colors) -> None:
    clickable = Style(color=theme.palette.accent, bgcolor=theme.palette.raised, meta={"@click": "go"})
    (given,) = passed(theme, colors, Segment("→", clickable), unicode=False)
    assert given.style is not None
    assert given.style.meta == {"@click": "go"}


def test_line_keeps_its_width(theme: WorkbenchTheme) -> None:
    line = [Segment("│ ✓ 日本 ⣿", themes.style(theme.palette.text, theme.palette.raised)), Segment(" é\u0301")]
    colors: list[Colors] = ["truecolor", "256", "16", "none"]
    for terminal in colors:
        assert Strip(passed(theme, terminal, *line, unicode=False)).cell_length == Strip(line).cell_length
