"""Find positions in a YAML text, and the style that an edit must match. No function changes the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.yaml_edit.scalars import Style, is_plain_text
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Tree

_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s+)+|[&!][^\s,\[\]{}]*\Z")


class KeyPosition(NamedTuple):
    """The position of a new key in a map."""

    after: int = -1  # index of the entry before the key; -1 for the beginning
    offset: int = -1  # end of the comment line before the key; -1 if the key follows the entry


def line_start(text: str, offset: int) -> int:
    """Return the offset of the start of the line at `offset`."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Return the offset of the end of the line at `offset`, before its line break."""
    end = text.find("\n", offset)
    if end < 0:
        end = len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def line_break(text: str, offset: int) -> str:
    """Return the line break of the line at `offset`."""
    end = text.find("\n", offset)
    if end < 0:
        end = text.rfind("\n", 0, offset)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def column(text: str, offset: int) -> int:
    """Return the number of characters before `offset` in its line."""
    return offset - line_start(text, offset)


def content_start(text: str, node: Node) -> int:
    """Return the offset of a node's content, after its anchor and tag."""
    if node.alias_of is not None or (node.anchor is None and node.tag is None):
        return node.start
    match = _PROPERTIES.match(text, node.start, node.end)
    return match.end() if match else node.start


def entry_end(key: Node, value: Node) -> int:
    """Return the offset of the end of a map entry."""
    return max(key.end, value.end)


def spans_of(parent: Node) -> list[tuple[int, int]]:
    """Return the start and end of each entry of a map or item of a list."""
    if parent.kind == MAP:
        return [(key.start, entry_end(key, value)) for key, value in parent.entries]
    return [(item.start, item.end) for item in parent.items]


def colon_end(text: str, key: Node, value: Node) -> int:
    """Return the offset after the colon of a map entry, or -1 if it has no colon (`{a, b}`)."""
    at = text.find(":", key.end, max(value.start, key.end) + 1)
    if at < 0 or text[key.end : at].strip():
        return -1
    return at + 1


def dash_of(text: str, sequence: Node, index: int) -> int:
    """Return the offset of the `-` of item `index` of a block list."""
    first = content_start(text, sequence)
    at = first if text[first : first + 1] == "-" else text.find("-", first)
    if index == 0:
        return at
    indent = column(text, at)
    start = line_start(text, sequence.items[index].start)
    floor = sequence.items[index - 1].end
    while start > floor:
        if text[start : start + indent].strip() == "" and text[start + indent : start + indent + 1] == "-":
            return start + indent
        start = line_start(text, start - 1)
    return -1


def begins_line(text: str, offset: int) -> bool:
    """Return True if there are only spaces before `offset` in its line."""
    return not text[line_start(text, offset) : offset].strip(" ")


def style_of(tree: Tree, parent: Node | None) -> Style:
    """Return the style for new values in `parent`, derived from the values of `parent` or of the whole file."""
    text = tree.text
    root = tree.root
    json = root is not None and root.kind == MAP and root.flow and all(key.style == '"' for key, _ in root.entries)
    near = _texts(tree, parent)
    keys = [key.style for key, _ in parent.entries] if parent is not None else []
    return Style(
        quote=_majority([node.style for node in near if node.style in ("", "'", '"')]),
        key_quote=_majority([style for style in keys if style in ("", "'", '"')]),
        flow=parent is not None and parent.flow,
        json=json and parent is not None and parent.flow,
        key_separator=_separator(text, parent),
        list_indent=_indent(tree, LIST),
        map_indent=_indent(tree, MAP),
    )


def _texts(tree: Tree, parent: Node | None) -> list[Node]:
    """Return the scalars that need no quotes: those in `parent` or, if it contains none, those in the whole file."""
    near = [value for _, value in parent.entries] + parent.items if parent is not None else []
    everywhere = (node for _, value in _walk(tree) for node in (value, *value.items))
    return [node for node in near if _is_text(node)] or [node for node in everywhere if _is_text(node)]


def _is_text(node: Node) -> bool:
    return node.kind == SCALAR and node.alias_of is None and node.start != node.end and is_plain_text(node.text)


def _majority(styles: list[str]) -> str:
    quoted = [style for style in styles if style]
    if not quoted or len(quoted) * 2 <= len(styles):
        return ""
    return max(("'", '"'), key=quoted.count)


def _separator(text: str, parent: Node | None) -> str:
    if parent is None or not parent.flow:
        return ": "
    for key, value in parent.entries:
        between = text[key.end : value.start]
        if between.strip() == ":":
            return between if "\n" not in between else ": "
    return ": "


def _walk(tree: Tree) -> list[tuple[Node, Node]]:
    """Return all map entries of the file, top down."""
    entries: list[tuple[Node, Node]] = []
    stack = [tree.root] if tree.root is not None else []
    while stack:
        node = stack.pop()
        if node.alias_of is not None:
            continue
        entries.extend(node.entries)
        stack.extend(value for _, value in node.entries)
        stack.extend(node.items)
    return entries


def _indent(tree: Tree, kind: str) -> int:
    """Return the indentation of the first block of this kind in the file; 2 by default."""
    for key, value in _walk(tree):
        if value.kind == kind and not value.flow and value.alias_of is None and value.size > 1:
            start = dash_of(tree.text, value, 0) if kind == LIST else value.entries[0][0].start
            inner = column(tree.text, start) - column(tree.text, key.start)
            if "\n" in tree.text[key.end : start] and inner >= (0 if kind == LIST else 1):
                return inner
    return 2


def key_position(tree: Tree, parent: Node, key: str, prefix: str, kind: FileKind | None) -> KeyPosition:
    """Return the position of a new `key` in the map `parent`.

    The key is inserted after a commented-out line of the same key, if there is one. Otherwise, a map that is sorted by
    name stays sorted, a known key follows the order of the schema, and an unknown key is last.
    """
    entries = parent.entries
    names = [name.text for name, _ in entries]
    commented = _commented_out(tree, parent, key) if not prefix and not parent.flow else -1
    if commented >= 0:
        after = max((i for i, entry in enumerate(entries) if entry_end(*entry) <= commented), default=-1)
        return KeyPosition(after, commented)
    if kind is None or kind.order(prefix + key) >= len(kind.fields):
        if len(names) >= 3 and names == sorted(names) and names != sorted(names, key=len):
            return KeyPosition(max((i for i, name in enumerate(names) if name < key), default=-1))
        return KeyPosition(len(entries) - 1)
    ranks = [kind.order(prefix + name) for name in names]
    if len(names) >= 3 and names == sorted(names) and ranks != sorted(ranks):
        return KeyPosition(max((i for i, name in enumerate(names) if name < key), default=-1))
    rank = kind.order(prefix + key)
    # Insert the key after its nearest predecessor, even if the file has another order.
    lower = [(other, i) for i, other in enumerate(ranks) if other < rank]
    after = max(lower)[1] if lower else -1
    start = line_start(tree.text, entries[0][0].start) if entries else 0
    if after < 0 and start and tree.text[line_start(tree.text, start - 1) : start].lstrip().startswith("#"):
        # Keep the first key next to the comment above it.
        after = 0
    return KeyPosition(after)


def _commented_out(tree: Tree, parent: Node, key: str) -> int:
    """Return the end of the last line `# key: ...` at the top level of the file, or -1."""
    end = -1
    for match in re.finditer(rf"^#[ \t]*([\"']?){re.escape(key)}\1[ \t]*:[^\n]*$", tree.text, re.MULTILINE):
        if match.start() > tree.end:
            break
        if any(name.start <= match.start() < entry_end(name, value) for name, value in parent.entries):
            continue
        end = line_end(tree.text, match.start())
    return end
