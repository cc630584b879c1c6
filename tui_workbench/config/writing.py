"""New values as text: in blocks below their key, or on one line in brackets."""

from __future__ import annotations

from tui_workbench.config.scalars import Manner, render, render_key
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


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
