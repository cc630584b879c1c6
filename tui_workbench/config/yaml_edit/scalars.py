"""Write values as YAML, in the style of the text around them.

Readers of YAML 1.1 and 1.2 get the same value: text is quoted if either version parses it as a boolean, number, date or
null. There are two exceptions: text that replaces unquoted text of the same type, and integers that replace an unquoted
variable or Spark property.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import FALSE_WORDS, TRUE_WORDS
from tui_workbench.config.yaml_edit.syntax import SCALAR, Node, parser_library, plain_value
from tui_workbench.core.errors import ConfigurationError

_FIRST_FORBIDDEN = frozenset(",[]{}#&*!|>'\"%@`")
_FLOW_FORBIDDEN = frozenset(",[]{}")
_EXTRA_TYPED = re.compile(r"[-+]?[0-9]+([eE][-+]?[0-9]+)?\Z|0o[0-7]+\Z|[yYnN]\Z|\.(inf|nan)\Z", re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,14})\Z")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
# `True` is replaced with `False`, and `yes` with `no`.
_FAMILIES = (("true", "false"), ("yes", "no"), ("on", "off"), ("y", "n"))


class Style(NamedTuple):
    """The style in which values are written."""

    quote: str = ""  # quote of strings; "" if they are plain
    key_quote: str = ""
    flow: bool = False  # in brackets
    json: bool = False  # always double quotes
    key_separator: str = ": "
    list_indent: int = 2  # columns from a key to the dashes of its list
    map_indent: int = 2
    plain_numbers: bool = False  # do not quote strings that are integers


def render(value: Any, style: Style, old: Node | None = None) -> str:
    """Return a scalar (str, bool, int, float or None) as YAML, in the style of the node `old` that it replaces.

    Raises ConfigurationError for a lone surrogate or a NUL character, with which `parse` refuses a text.
    """
    quote = old.style if old is not None else ""
    if value is None:
        return "null"
    if not isinstance(value, (bool, int, float)):
        return _text(str(value), style, old)
    word = _boolean(value, old) if isinstance(value, bool) else str(value)
    return _quoted(word, quote) if quote in ("'", '"') else word


def _boolean(value: bool, old: Node | None) -> str:
    word = old.text if old is not None else ""
    for family in _FAMILIES:
        if word.lower() in family:
            new = family[0] if value else family[1]
            if word.isupper() and len(word) > 1:
                return new.upper()
            return new.capitalize() if word[0].isupper() else new
    return "true" if value else "false"


def _text(value: str, style: Style, old: Node | None) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigurationError(
            "the text contains an invalid character (a lone surrogate)", remedy="Remove the character."
        )
    if "\0" in value:
        raise ConfigurationError("the text contains a NUL character", remedy="Remove the character.")
    if style.json:
        return _quoted(value, '"', json=True)
    is_there = old is not None and old.start != old.end
    quote = old.style if old is not None and old.style in ("'", '"') else ""
    # Keep the quotes, unless only the old value needed them.
    needed = old is not None and not is_plain_text(old.text) and not style.quote
    if quote and not needed:
        return _quoted(value, quote)
    is_number = style.plain_numbers and is_there and not style.quote and not quote and _WHOLE_NUMBER.match(value)
    if is_plain(value, flow=style.flow) and (sort_of(value) == "str" or is_number or _stays_typed(value, old)):
        return value if is_there or not style.quote else _quoted(value, style.quote)
    return _quoted(value, quote or style.quote or '"')


def render_block(value: str, header: str, indent: int, newline: str = "\n") -> str | None:
    """Return `value` as a literal (`|`) or folded (`>`) block, or None for a value that no such block can contain."""
    if not value or value[0] in " \n" or _has_unprintable(value.replace("\n", "")):
        return None
    body = value.rstrip("\n")
    trailing = len(value) - len(body)
    lines = body.split("\n")
    if not body or any(line != line.rstrip() for line in lines) or (header == ">" and len(lines) > 1):
        return None
    chomping = "-" if trailing == 0 else "" if trailing == 1 else "+"
    written = [" " * indent + line if line else "" for line in lines] + [""] * max(trailing - 1, 0)
    return header + chomping + newline + newline.join(written)


def is_plain(text: str, *, flow: bool) -> bool:
    """Return True if YAML allows `text` without quotes, even if its type is then not a string."""
    if not text or text != text.strip() or _has_unprintable(text):
        return False
    first = text[0]
    if first in _FIRST_FORBIDDEN or (first in "-?:" and (flow or text[1:2] in ("", " "))):
        return False
    if ": " in text or " #" in text or text[-1] == ":" or text.startswith(("---", "...")):
        return False
    return not (flow and (_FLOW_FORBIDDEN & {*text} or ":" in text or "?" in text))


def is_plain_text(text: str) -> bool:
    """Return True if `text` is read as a string without quotes, outside brackets."""
    return is_plain(text, flow=False) and sort_of(text) == "str"


def sort_of(text: str) -> str:
    """Return the type of an unquoted `text` in YAML 1.1 or 1.2: str, null, bool, int, float, timestamp, ..."""
    if not text:
        return "null"
    resolvers: Any = parser_library().SafeLoader.yaml_implicit_resolvers
    for tag, expression in resolvers.get(text[0], ()):
        if expression.match(text):
            type_name: str = tag.rpartition(":")[2]
            return type_name
    if _EXTRA_TYPED.match(text):
        return "bool" if text in "yYnN" else "int" if text.isdigit() else "float"
    return "str"


def _stays_typed(value: str, old: Node | None) -> bool:
    """Return True if the old value is unquoted text of the same type: `EPOCHS: 5` becomes `EPOCHS: 6`."""
    if old is None or old.kind != SCALAR or old.style or old.tag or old.start == old.end:
        return False
    return sort_of(old.text) == sort_of(value) and sort_of(value) != "null"


def _quoted(text: str, quote: str, *, json: bool = False) -> str:
    if quote == "'" and not _has_unprintable(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escape(character, json) for character in text) + '"'


def _has_unprintable(text: str) -> bool:
    """Return True if `text` has a character that must be escaped."""
    if text.isprintable():
        return False
    # Not compiled on import, because that takes 3 ms.
    allowed = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    return re.search(allowed, text) is not None


def _escape(character: str, json: bool) -> str:
    if character in _ESCAPES or not _has_unprintable(character):
        return _ESCAPES.get(character, character)
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 and not json else f"\\u{code:04x}"


def render_key(key: str, style: Style) -> str:
    """Return a key as YAML, in the style of its map."""
    if style.json:
        return _quoted(key, '"', json=True)
    if style.key_quote:
        return _quoted(key, style.key_quote)
    return key if is_plain(key, flow=style.flow) and sort_of(key) == "str" and len(key) < 128 else _quoted(key, '"')


def means(node: Node, value: Any) -> bool:
    """Return True if the value of a node equals `value`."""
    if isinstance(value, dict):
        pairs = ((node.get(name), item) for name, item in value.items())
        has_all = all(inner is not None and means(inner, item) for inner, item in pairs)
        return has_all and {name.text for name, _ in node.entries} == {*value}
    if isinstance(value, (list, tuple)):
        return len(node.items) == len(value) and all(map(means, node.items, value))
    if node.kind != SCALAR:
        return False
    if value is None:
        return node.is_null
    if isinstance(value, bool):
        return node.text.strip().lower() in (TRUE_WORDS if value else FALSE_WORDS)
    if isinstance(value, (int, float)):
        return node.text == str(value) or bool(plain_value(node) == value)
    return bool(node.text == value and not node.is_null)


def entry(key: str, value: Any, indent: int, style: Style, newline: str) -> str:
    """Return a map entry as YAML, with its key at column `indent`."""
    name = render_key(key, style)
    if isinstance(value, (dict, list, tuple)) and value:
        return f"{name}:{newline}{block(value, indent, style, newline)}"
    return f"{name}: {flow(value, style)}"


def block(value: Any, indent: int, style: Style, newline: str) -> str:
    """Return a map or list as YAML lines to insert below a key at column `indent`."""
    if isinstance(value, dict):
        inner = indent + style.map_indent
        return newline.join(" " * inner + entry(key, item, inner, style, newline) for key, item in value.items())
    inner = indent + style.list_indent
    return newline.join(" " * inner + "- " + in_item(item, inner + 2, style, newline) for item in value)


def in_item(value: Any, indent: int, style: Style, newline: str) -> str:
    """Return the value of a list item as YAML, to insert after the dash."""
    if isinstance(value, dict) and value:
        # A list below `- pip:` is aligned with `pip`.
        inner = style._replace(list_indent=0)
        lines = [entry(key, item, indent, inner, newline) for key, item in value.items()]
        return (newline + " " * indent).join(lines)
    return flow(value, style)


def flow(value: Any, style: Style) -> str:
    """Return a value as YAML on one line, with brackets around collections."""
    inner = style._replace(flow=True)
    if isinstance(value, dict):
        pairs = (render_key(key, inner) + inner.key_separator + flow(item, inner) for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(item, inner) for item in value) + "]"
    return render(value, style)
