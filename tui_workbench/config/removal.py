"""Which splices take a key or list item out, in blocks and in brackets."""

from __future__ import annotations

from tui_workbench.config import layout
from tui_workbench.config.insertion import comma_between
from tui_workbench.config.layout import begins_line, colon_end, content_start, line_end, line_start
from tui_workbench.config.paths import Path, find
from tui_workbench.config.syntax import Node, Tree
from tui_workbench.config.verification import Splice


def remove_entry(tree: Tree, here: Path, parent: Node, index: int, empty: str) -> list[Splice]:
    """The splices that take entry `index` out of the map `parent` at `here`, leaving `empty` of an emptied one."""
    text = tree.text
    key, _ = parent.entries[index]
    spans = [(name.start, layout.entry_end(name, one)) for name, one in parent.entries]
    if parent.flow:
        return _out_of_flow(text, parent, spans, index)
    if len(parent.entries) == 1:
        return _emptied(tree, here, parent, spans[0][0], spans[0][1], empty or "{}")
    start = key.start
    before = text[line_start(text, start) : start]
    if before.strip(" ") == "?":
        start = line_start(text, start)
    return _lines_out(text, start, spans[index][1], spans[index + 1][0] if index + 1 < len(spans) else -1)


def remove_item(tree: Tree, here: Path, parent: Node, index: int, empty: str) -> list[Splice]:
    """The splices that take item `index` out of the list `parent` at `here`, leaving `empty` of an emptied one."""
    text = tree.text
    if parent.flow:
        return _out_of_flow(text, parent, [(item.start, item.end) for item in parent.items], index)
    dash = layout.dash_of(text, parent, index)
    end = max(parent.items[index].end, dash + 1)
    if len(parent.items) == 1:
        return _emptied(tree, here, parent, dash, end, empty or "[]")
    follows = layout.dash_of(text, parent, index + 1) if index + 1 < len(parent.items) else -1
    return _lines_out(text, dash, end, follows)


def _lines_out(text: str, start: int, end: int, follows: int) -> list[Splice]:
    """Take whole lines out; an entry that shares its line with a dash hands its place to the one that follows."""
    tail = line_end(text, end)
    if not begins_line(text, start):
        if follows >= 0 and not text[tail:follows].strip():
            return [Splice(start, follows, "")]
        return [Splice(start, end, "")]
    first = line_start(text, start)
    after = text.find("\n", tail)
    if after >= 0:
        return [Splice(first, after + 1, "")]
    # The last line, and it has no line end: the line before it keeps none either.
    cut = first - 1 if first else 0
    if cut > 0 and text[cut - 1] == "\r":
        cut -= 1
    return [Splice(cut, tail, "")]


def _emptied(tree: Tree, here: Path, parent: Node, start: int, end: int, empty: str) -> list[Splice]:
    """The only entry of a block collection goes: what stays is `empty` behind the key, or an empty file."""
    text = tree.text
    if not here:
        return _lines_out(text, start, end, -1)
    if not begins_line(text, start) or isinstance(here[-1], int) or parent.anchor or parent.tag:
        return [Splice(start, end, empty)]
    holder = find(tree, here[:-1])
    assert holder is not None
    key, value = next(entry for entry in reversed(holder.entries) if entry[0].text == here[-1])
    after_colon = colon_end(text, key, value)
    out = _lines_out(text, start, end, -1)
    if out[0].start == line_end(text, after_colon) and out[0].start == after_colon:
        return [Splice(after_colon, out[0].end, " " + empty)]
    return [Splice(after_colon, after_colon, " " + empty), *out]


def _out_of_flow(text: str, parent: Node, spans: list[tuple[int, int]], index: int) -> list[Splice]:
    start, end = spans[index]
    inner = content_start(text, parent) + 1
    if len(spans) == 1:
        comma = comma_between(text, end, parent.end - 1)
        stop = comma + 1 if comma >= 0 else end
        if "\n" in text[inner:start] and not text[inner:start].strip() and not text[stop : parent.end - 1].strip():
            return [Splice(inner, parent.end - 1, "")]
        return [Splice(start, stop, "")]
    if index + 1 < len(spans):
        return [Splice(start, spans[index + 1][0], "")]
    before = spans[index - 1][1]
    if "#" not in text[before:start]:
        return [Splice(before, end, "")]
    comma = comma_between(text, before, start)
    cut = line_start(text, start)
    return [Splice(comma, comma + 1, ""), Splice(max(cut - 1, comma + 1), end, "")]
