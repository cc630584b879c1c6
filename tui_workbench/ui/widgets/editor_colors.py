"""Which colour of the palette each part of a source text has."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style
from textual.widgets.text_area import TextAreaTheme

if TYPE_CHECKING:
    from tui_workbench.ui.themes import Palette

_KINDS = {
    "comment": "comment",
    "keyword": "keyword keyword.function keyword.return keyword.operator conditional repeat exception include preproc "
    "tag attribute attribute.builtin punctuation.special",
    "string": "string string.documentation string.escape text.literal inline_code",
    "number": "number float boolean constant.builtin json.null toml.datetime",
    "function": "function function.call method method.call yaml.field json.label property heading link.label link.uri",
    "type": "type type.class type.definition type.builtin class constructor toml.type function.builtin",
    "muted": "punctuation.delimiter punctuation.bracket heading.marker list.marker",
    "error": "error toml.error json.error",
}
"""The names that the highlight queries give, by field of the palette; what is not named is plain text."""


@lru_cache(8)
def editor_theme(palette: Palette) -> TextAreaTheme:
    """The theme `workbench` for text areas."""
    styles = {name: Style(color=getattr(palette, role)) for role, names in _KINDS.items() for name in names.split()}
    styles["comment"] += Style(italic=True)
    styles["heading"] += Style(bold=True)
    styles["link.uri"] += Style(underline=True)
    return TextAreaTheme(
        "workbench",
        gutter_style=Style(color=palette.faint),
        cursor_line_gutter_style=Style(color=palette.muted, bgcolor=palette.marked),
        cursor_line_style=Style(bgcolor=palette.marked),
        selection_style=Style(bgcolor=palette.selection),
        cursor_style=Style(color=palette.background, bgcolor=palette.accent),
        bracket_matching_style=Style(bgcolor=palette.faint, bold=True),
        syntax_styles=styles,
    )
