"""Keys as people know them: `?`, `esc`, `ctrl+r`. Textual's names for them stand in the registry."""

from __future__ import annotations

KEY_LABELS = {
    "question_mark": "?",
    "slash": "/",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "exclamation_mark": "!",
    "colon": ":",
    "full_stop": ".",
    "comma": ",",
    "plus": "+",
    "minus": "-",
    "backslash": "\\",
    "number_sign": "#",
    "equals_sign": "=",
    "semicolon": ";",
    "apostrophe": "'",
    "quotation_mark": '"',
    "at": "@",
    "asterisk": "*",
    "ampersand": "&",
    "percent_sign": "%",
    "dollar_sign": "$",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "underscore": "_",
    "tilde": "~",
    "grave_accent": "`",
    "vertical_line": "|",
    "circumflex_accent": "^",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
}


def key_label(keys: str) -> str:
    """The first of the comma-separated keys as a person knows it: `?`, `esc`, `ctrl+r`."""
    *modifiers, key = keys.split(",")[0].split("+")
    return "+".join([*modifiers, KEY_LABELS.get(key, key)])


def all_key_labels(keys: str) -> str:
    """Every key of the command, as `↑ k`."""
    return " ".join(dict.fromkeys(key_label(key) for key in keys.split(",")))
