"""Themes: flat YAML files with a value for every color.

Files of `name: "value"` lines, such as the built-in themes, are read without PyYAML, because its import takes a tenth
of the time to the first frame. All other files are read with PyYAML. The values and the checks are the same.

Widgets that draw their own lines take colors from `palette_of(widget)`. CSS uses Textual's variables (`$foreground`,
`$panel`, `$border`, ...), which every theme sets.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from rich.style import Style
from textual.dom import DOMNode
from textual.theme import Theme

from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError, storage_errors
from tui_workbench.core.files import read_file, write_if_changed
from tui_workbench.ui import user_yaml

DEFAULT_THEME = "slate"
SUFFIX = ".yaml"

_FLAT_LINE = re.compile(r'(?P<key>[a-z]+):[ ]+(?:"(?P<quoted>[^"\\]*)"|(?P<plain>true|false))[ ]*(?:[ ]#.*)?')
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")

READABLE = 4.5
"""The minimum contrast of text, by WCAG 2 AA."""

BACKGROUNDS = ("background", "raised", "marked")
STATES = ("running", "success", "warning", "error")
FOREGROUNDS = ("text", "muted", "accent", *STATES)
SYNTAX = ("comment", "keyword", "string", "number", "function", "type")


class Palette(NamedTuple):
    """The colors of a theme, each `#rrggbb`. `themes/slate.yaml` explains them."""

    background: str
    raised: str
    selected: str
    marked: str
    selection: str
    text: str
    muted: str
    faint: str
    accent: str
    running: str
    success: str
    warning: str
    error: str
    comment: str
    keyword: str
    string: str
    number: str
    function: str
    type: str


class WorkbenchTheme(Theme):
    """A Textual theme with its palette, its title and the path of its file."""

    def __init__(self, name: str, title: str, dark: bool, palette: Palette, path: str) -> None:
        super().__init__(
            name=name,
            primary=palette.accent,
            secondary=palette.muted,
            warning=palette.warning,
            error=palette.error,
            success=palette.success,
            accent=palette.accent,
            foreground=palette.text,
            background=palette.background,
            surface=palette.background,
            panel=palette.raised,
            dark=dark,
            variables=_css_variables(palette),
        )
        self.title = title
        self.palette = palette
        self.path = path


class _Value(NamedTuple):
    """The text of a scalar in a theme file, with its place; `null` is true for an empty value."""

    text: str
    line: int
    column: int
    null: bool = False


def load_theme(name: str) -> WorkbenchTheme:
    """Load a theme of the user, or a built-in one.

    Raises UsageError for an unknown name, and ConfigurationError with file and line for an invalid file.
    """
    for directory in directories.theme_directories():
        path = os.path.join(directory, name + SUFFIX)
        if os.path.lexists(path):
            return read_theme(path)
    raise UsageError(f"unknown theme {name!r}", remedy=f"Choose one of: {', '.join(theme_names())}.")


def saved_theme() -> tuple[WorkbenchTheme, WorkbenchError | None]:
    """Return the saved theme, or the default theme if none is saved, and None.

    If the saved theme cannot be loaded, return the default theme and the error.
    """
    try:
        name = read_file(_choice_path()).decode().strip()
    except (OSError, UnicodeDecodeError):
        name = DEFAULT_THEME
    try:
        return load_theme(name or DEFAULT_THEME), None
    except WorkbenchError as error:
        # The file of the package is read, because the user's own theme of the same name may be the invalid one.
        return read_theme(os.path.join(directories.packaged("themes"), DEFAULT_THEME + SUFFIX)), error


def save_theme(name: str) -> None:
    """Save the choice of a theme. Blocks; raises StorageError."""
    with storage_errors("write", _choice_path()):
        write_if_changed(_choice_path(), f"{name}\n".encode())


def _choice_path() -> str:
    return os.path.join(directories.user_state_directory(), "theme")


def theme_names() -> list[str]:
    """Return the sorted names of all themes, including invalid ones."""
    names: set[str] = set()
    for directory in directories.theme_directories():
        with contextlib.suppress(OSError):
            entries = os.listdir(directory)
            names.update(entry[: -len(SUFFIX)] for entry in entries if entry.endswith(SUFFIX) and entry != SUFFIX)
    return sorted(names)


def read_theme(path: str) -> WorkbenchTheme:
    """Read a theme. Its name is the file name without the suffix. Raises ConfigurationError."""
    try:
        text = read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        remedy = "Save the theme as a readable file of UTF-8 text."
        raise ConfigurationError(f"cannot read the theme: {reason}", remedy=remedy, file=path) from error
    values = _flat_values(text)
    if values is None:
        values = _yaml_values(text, path)
    return _checked(values, path)


def palette_of(node: DOMNode) -> Palette:
    """Return the palette of the app's theme, or the default palette if the app uses a theme of Textual."""
    theme = node.app.current_theme
    return theme.palette if isinstance(theme, WorkbenchTheme) else _default_palette()


@lru_cache(1024)
def style(color: str, background: str | None = None, *, bold: bool = False, italic: bool = False) -> Style:
    """Return a Rich style of palette colors. Equal arguments give the same object."""
    return Style(color=color, bgcolor=background, bold=bold or None, italic=italic or None)


@lru_cache(1)
def _default_palette() -> Palette:
    return read_theme(os.path.join(directories.packaged("themes"), DEFAULT_THEME + SUFFIX)).palette


def _flat_values(text: str) -> dict[str, _Value] | None:
    """Return the values of a file with only comments and `name: "value"` lines, or None for any other file."""
    values: dict[str, _Value] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        match = _FLAT_LINE.fullmatch(line)
        if match is None or match["key"] in values:
            return None
        group = "plain" if match["quoted"] is None else "quoted"
        column = match.start(group) + (1 if group == "plain" else 0)
        values[match["key"]] = _Value(match[group], number, column)
    return values


def _yaml_values(text: str, path: str) -> dict[str, _Value]:
    """Return the values of any flat YAML mapping. Raises ConfigurationError."""
    import yaml

    root = user_yaml.compose(text, path, _LINE_REMEDY)
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError("expected lines of `key: value`", file=path, line=1, remedy=_LINE_REMEDY)
    values: dict[str, _Value] = {}
    for key_node, node in root.value:
        key = str(key_node.value)
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if key in values:
            raise ConfigurationError(
                f"{key} is set twice", file=path, line=line, column=column, remedy="Remove one of the two lines."
            )
        if not isinstance(node, yaml.ScalarNode):
            raise ConfigurationError(
                f"{key} must be a single value", file=path, line=line, column=column, remedy=_LINE_REMEDY
            )
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        values[key] = _Value(node.value, line, column, null=node.tag == "tag:yaml.org,2002:null")
    return values


_COPY_REMEDY = (
    f"Use the keys of the theme `{DEFAULT_THEME}`. `workbench-tui theme list -o json` shows the path of its file."
)
_LINE_REMEDY = 'Write one `key: value` on each line, and each color as "#rrggbb".'


def _checked(values: dict[str, _Value], path: str) -> WorkbenchTheme:
    """Return the theme of these values. Raises ConfigurationError for the first error."""

    def location(value: _Value) -> Any:
        return {"file": path, "line": value.line, "column": value.column}

    name = os.path.basename(path)[: -len(SUFFIX)]
    for key, value in values.items():
        if key in ("title", "dark"):
            continue
        if key not in Palette._fields:
            remedy = user_yaml.did_you_mean(key, ("title", "dark", *Palette._fields)) or _COPY_REMEDY
            raise ConfigurationError(f"unknown key {key!r}", remedy=remedy, **location(value._replace(column=1)))
        if value.null:
            raise ConfigurationError(
                f"{key} has no value",
                remedy='Quote the color, as in "#rrggbb". In YAML, an unquoted # begins a comment.',
                **location(value),
            )
        if not _COLOR.fullmatch(value.text):
            raise ConfigurationError(
                f"{key}: invalid color {value.text!r}", remedy='Write the color as "#rrggbb".', **location(value)
            )
    missing = [field for field in ("dark", *Palette._fields) if field not in values]
    if missing:
        raise ConfigurationError(f"missing keys: {', '.join(missing)}", file=path, remedy=_COPY_REMEDY)
    dark = values["dark"]
    if dark.text not in ("true", "false"):
        raise ConfigurationError(f"dark: invalid value {dark.text!r}", remedy="Write true or false.", **location(dark))
    title = values["title"].text if "title" in values else name
    palette = Palette(**{field: values[field].text.lower() for field in Palette._fields})
    return WorkbenchTheme(name, title, dark.text == "true", palette, path)


def _css_variables(palette: Palette) -> dict[str, str]:
    """Return the CSS variables of Textual's widgets, in the colors of the palette."""
    return {
        "text": palette.text,
        "text-muted": palette.muted,
        "text-disabled": palette.muted,
        "border": palette.accent,
        "border-blurred": palette.faint,
        "block-cursor-background": palette.selected,
        "block-cursor-foreground": palette.text,
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": palette.marked,
        "block-cursor-blurred-foreground": palette.text,
        "block-hover-background": palette.marked,
        "input-cursor-background": palette.accent,
        "input-cursor-foreground": palette.background,
        "input-cursor-text-style": "none",
        "input-selection-background": palette.selection,
        "screen-selection-background": palette.selection,
        "screen-selection-foreground": palette.text,
        "scrollbar": palette.faint,
        "scrollbar-hover": palette.muted,
        "scrollbar-active": palette.accent,
        "scrollbar-background": palette.background,
        "scrollbar-background-hover": palette.background,
        "scrollbar-background-active": palette.background,
        "scrollbar-corner-color": palette.background,
        "footer-key-foreground": palette.accent,
        "link-color": palette.accent,
    }


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colors (`#rrggbb`) by WCAG 2, from 1 to 21."""
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def theme_warnings(palette: Palette) -> Iterator[str]:
    """Yield a warning for each pair of colors that is hard to read or to distinguish."""
    colors = palette._asdict()
    pairs = [(ink, ground) for ink in FOREGROUNDS for ground in BACKGROUNDS]
    pairs += [(ink, ground) for ink in SYNTAX for ground in ("background", "marked")]
    pairs += [(ink, "selected") for ink in (*FOREGROUNDS, "function")]
    pairs += [(ink, "selection") for ink in ("text", *SYNTAX)]
    for ink, ground in pairs:
        ratio = contrast(colors[ink], colors[ground])
        if ratio < READABLE:
            yield f"{ink} on {ground} is hard to read: the contrast is {ratio:.1f}:1, below {READABLE}:1"
    for name in ("selected", "marked", "raised"):
        if colors[name] == colors["background"]:
            yield f"{name} has the same color as background, and is therefore invisible"
    for name, other in combinations(STATES, 2):
        if colors[name] == colors[other]:
            yield f"{name} and {other} have the same color"


def _luminance(color: str) -> float:
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
