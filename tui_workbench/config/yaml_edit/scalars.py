"""How a value is written: plain where that is safe, else quoted, in the manner of its surroundings.

Invariant: what is written reads back as the same value for YAML 1.1 and 1.2 readers alike, so a text that one of them
would take for a boolean, number, date or nothing is quoted. It stays unquoted only where a text of the same sort
stood unquoted, and a whole number also in place of an unquoted variable or Spark property.
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
# The words for true and false, by family: an edit of `True` writes `False`, one of `yes` writes `no`.
_FAMILIES = (("true", "false"), ("yes", "no"), ("on", "off"), ("y", "n"))


class Manner(NamedTuple):
    """How the surroundings of a value write theirs."""

    quote: str = ""  # what texts are quoted with here; "" when they are plain
    key_quote: str = ""
    flow: bool = False  # inside of brackets
    json: bool = False  # JSON: double quotes always
    key_separator: str = ": "
    list_indent: int = 2  # columns from a key to the dashes of its list
    map_indent: int = 2
    plain_numbers: bool = False  # a whole number may follow an unquoted text unquoted: all values here are texts


def render(value: Any, manner: Manner, old: Node | None = None) -> str:
    """The text of a scalar (str, bool, int, float or None); `old` is the node it replaces, whose style it takes.

    Raises ConfigurationError when no file can hold the text (half a surrogate pair).
    """
    style = old.style if old is not None else ""
    if value is None:
        return "null"
    if not isinstance(value, (bool, int, float)):
        return _text(str(value), manner, old)
    word = _boolean(value, old) if isinstance(value, bool) else str(value)
    return _quoted(word, style) if style in ("'", '"') else word


def _boolean(value: bool, old: Node | None) -> str:
    word = old.text if old is not None else ""
    for family in _FAMILIES:
        if word.lower() in family:
            new = family[0] if value else family[1]
            if word.isupper() and len(word) > 1:
                return new.upper()
            return new.capitalize() if word[0].isupper() else new
    return "true" if value else "false"


def _text(value: str, manner: Manner, old: Node | None) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigurationError("the text holds half a character (a lone surrogate)", remedy="Enter it again.")
    if manner.json:
        return _quoted(value, '"', json=True)
    is_there = old is not None and old.start != old.end
    style = old.style if old is not None and old.style in ("'", '"') else ""
    # Quotes that the old value needed and its neighbours do without are not taken over.
    needed = old is not None and not is_plain_text(old.text) and not manner.quote
    if style and not needed:
        return _quoted(value, style)
    is_number = manner.plain_numbers and is_there and not manner.quote and not style and _WHOLE_NUMBER.match(value)
    if is_plain(value, flow=manner.flow) and (sort_of(value) == "str" or is_number or _stays_typed(value, old)):
        return value if is_there or not manner.quote else _quoted(value, manner.quote)
    return _quoted(value, style or manner.quote or '"')


def render_block(value: str, header: str, indent: int, newline: str = "\n") -> str | None:
    """`value` as a literal (`|`) or folded (`>`) block indented by `indent`; None when that form cannot hold it."""
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
    """Whether YAML's grammar lets `text` stand without quotes; what it would be taken for is another question."""
    if not text or text != text.strip() or _has_unprintable(text):
        return False
    first = text[0]
    if first in _FIRST_FORBIDDEN or (first in "-?:" and (flow or text[1:2] in ("", " "))):
        return False
    if ": " in text or " #" in text or text[-1] == ":" or text.startswith(("---", "...")):
        return False
    return not (flow and (_FLOW_FORBIDDEN & {*text} or ":" in text or "?" in text))


def is_plain_text(text: str) -> bool:
    """Whether `text` needs no quotes to be read as text, at least outside of brackets."""
    return is_plain(text, flow=False) and sort_of(text) == "str"


def sort_of(text: str) -> str:
    """What a YAML 1.1 or 1.2 reader takes an unquoted `text` for: str, null, bool, int, float, timestamp, ..."""
    if not text:
        return "null"
    resolvers: Any = parser_library().SafeLoader.yaml_implicit_resolvers
    for tag, expression in resolvers.get(text[0], ()):
        if expression.match(text):
            found: str = tag.rpartition(":")[2]
            return found
    if _EXTRA_TYPED.match(text):
        return "bool" if text in "yYnN" else "int" if text.isdigit() else "float"
    return "str"


def _stays_typed(value: str, old: Node | None) -> bool:
    """`EPOCHS: 5` becomes `EPOCHS: 6`, not `EPOCHS: "6"`: the file already leaves this sort of text unquoted here."""
    if old is None or old.kind != SCALAR or old.style or old.tag or old.start == old.end:
        return False
    return sort_of(old.text) == sort_of(value) and sort_of(value) != "null"


def _quoted(text: str, quote: str, *, json: bool = False) -> str:
    if quote == "'" and not _has_unprintable(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escape(character, json) for character in text) + '"'


def _has_unprintable(text: str) -> bool:
    """Whether `text` holds a character that YAML wants escaped, or that would break the line."""
    if text.isprintable():
        return False
    # Compiling a class of this size takes 3 ms, and most texts never come here.
    allowed = "[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    return re.search(allowed, text) is not None


def _escape(character: str, json: bool) -> str:
    if character in _ESCAPES or not _has_unprintable(character):
        return _ESCAPES.get(character, character)
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 and not json else f"\\u{code:04x}"


def render_key(key: str, manner: Manner) -> str:
    """The text of a key in this manner."""
    if manner.json:
        return _quoted(key, '"', json=True)
    if manner.key_quote:
        return _quoted(key, manner.key_quote)
    return key if is_plain(key, flow=manner.flow) and sort_of(key) == "str" and len(key) < 128 else _quoted(key, '"')


def means(node: Node, value: Any) -> bool:
    """Whether a node reads back as `value`, by the type that `value` has."""
    if isinstance(value, dict):
        pairs = ((node.get(name), one) for name, one in value.items())
        has_all = all(inner is not None and means(inner, one) for inner, one in pairs)
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


def entry(key: str, value: Any, indent: int, manner: Manner, newline: str) -> str:
    """The line or lines of a map entry whose key stands at column `indent`."""
    name = render_key(key, manner)
    if isinstance(value, (dict, list, tuple)) and value:
        return f"{name}:{newline}{block(value, indent, manner, newline)}"
    return f"{name}: {flow(value, manner)}"


def block(value: Any, indent: int, manner: Manner, newline: str) -> str:
    """The lines of a map or list that stands below a key at column `indent`."""
    if isinstance(value, dict):
        inner = indent + manner.map_indent
        return newline.join(" " * inner + entry(key, one, inner, manner, newline) for key, one in value.items())
    inner = indent + manner.list_indent
    return newline.join(" " * inner + "- " + in_item(one, inner + 2, manner, newline) for one in value)


def in_item(value: Any, indent: int, manner: Manner, newline: str) -> str:
    """What stands behind a dash: a scalar, or a map whose further keys align with its first."""
    if isinstance(value, dict) and value:
        # A list below a key that follows a dash aligns with that key, as everybody writes `- pip:`.
        inner = manner._replace(list_indent=0)
        lines = [entry(key, one, indent, inner, newline) for key, one in value.items()]
        return (newline + " " * indent).join(lines)
    return flow(value, manner)


def flow(value: Any, manner: Manner) -> str:
    """A value on one line, collections in brackets."""
    inner = manner._replace(flow=True)
    if isinstance(value, dict):
        pairs = (render_key(key, inner) + inner.key_separator + flow(one, inner) for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(one, inner) for one in value) + "]"
    return render(value, manner)
