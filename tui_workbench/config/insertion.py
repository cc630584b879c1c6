"""Where the splice for a new key or list item goes, in blocks and in brackets."""

from __future__ import annotations

from tui_workbench.config import layout
from tui_workbench.config.layout import column, content_start, line_break, line_end
from tui_workbench.config.paths import Path
from tui_workbench.config.scalars import Manner, render_key
from tui_workbench.config.syntax import SCALAR, Node, Tree
from tui_workbench.config.verification import Splice
from tui_workbench.config.writing import entry, flow, in_item
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.config.schema import FileKind


def key_candidates(
    tree: Tree, here: Path, parent: Node | None, key: str, value: Any, kind: FileKind | None
) -> Iterator[list[Splice]]:
    """Ways to add `key` to the map `parent` at `here` (None: an empty file), the most natural one first."""
    manner = layout.manner_of(tree, parent, kind)
    if parent is None:
        yield _first_key(tree, key, value, manner)
        return
    prefix = "".join(f"{step}." for step in here)
    if parent.flow:
        after = layout.place_for(tree, parent, key, prefix, kind).after
        yield _into_flow_map(tree, parent, after, key, value, manner)
        yield _into_flow_map(tree, parent, len(parent.entries) - 1, key, value, manner._replace(quote='"'))
        return
    place = layout.place_for(tree, parent, key, prefix, kind)
    last = len(parent.entries) - 1
    for where in (place, layout.Place(place.after), layout.Place(last), layout.Place(-1)):
        yield _into_block_map(tree, parent, where, key, value, manner)
    yield _into_block_map(tree, parent, layout.Place(last), key, value, manner, flow(value, manner._replace(flow=True)))


def _first_key(tree: Tree, key: str, value: Any, manner: Manner) -> list[Splice]:
    """The first key of a file that has none: behind its comments, before a `...`."""
    text = tree.text
    newline = line_break(text, 0)
    line = entry(key, value, 0, manner, newline)
    at = tree.end
    if not text[:at]:
        return [Splice(0, 0, line + newline)]
    if text[at - 1] == "\n":
        return [Splice(at, at, line + newline)]
    return [Splice(at, at, newline + line)]


def _into_block_map(
    tree: Tree, parent: Node, place: layout.Place, key: str, value: Any, manner: Manner, written: str = ""
) -> list[Splice]:
    text = tree.text
    indent = column(text, parent.entries[0][0].start)
    newline = line_break(text, parent.start)
    line = f"{render_key(key, manner)}: {written}" if written else entry(key, value, indent, manner, newline)
    if place.after < 0 and place.offset < 0:
        start = parent.entries[0][0].start
        return [Splice(start, start, line + newline + " " * indent)]
    end = place.offset if place.offset >= 0 else line_end(text, layout.entry_end(*parent.entries[place.after]))
    return [Splice(end, end, line_break(text, end) + " " * indent + line)]


def _into_flow_map(tree: Tree, parent: Node, after: int, key: str, value: Any, manner: Manner) -> list[Splice]:
    written = render_key(key, manner) + manner.key_separator + flow(value, manner)
    spans = [(name.start, layout.entry_end(name, one)) for name, one in parent.entries]
    return _into_flow(tree.text, parent, spans, after, written)


def _into_flow(text: str, parent: Node, spans: list[tuple[int, int]], after: int, written: str) -> list[Splice]:
    """Put `written` behind entry `after` between brackets, on its own line where the others are."""
    start = content_start(text, parent)
    if not spans:
        return [Splice(start + 1, start + 1, written)]
    first = spans[0][0]
    own_lines = "\n" in text[start:first]
    newline = line_break(text, start)
    lead = newline + " " * column(text, first) if own_lines else " "
    if after < 0:
        return [Splice(first, first, written + "," + lead)]
    end = spans[after][1]
    until = spans[after + 1][0] if after + 1 < len(spans) else parent.end - 1
    comma = comma_between(text, end, until)
    if comma < 0:
        tail = line_end(text, end)
        if own_lines and text[end:tail].strip().startswith("#"):
            return [Splice(end, end, ","), Splice(tail, tail, lead + written)]
        return [Splice(end, end, "," + lead + written)]
    at = line_end(text, comma) if own_lines and "\n" in text[comma:until] else comma + 1
    if after + 1 < len(spans) and not own_lines:
        between = text[comma + 1 : until]
        return [Splice(at, at, between + written + ",")]
    if own_lines:
        lead = line_break(text, at) + " " * column(text, first)
    return [Splice(at, at, lead + written + ",")]


def comma_between(text: str, start: int, end: int) -> int:
    """The comma between two entries, not one in a comment; -1 when there is none."""
    at = start
    while at < end:
        if text[at] == ",":
            return at
        at = text.find("\n", at) + 1 or end if text[at] == "#" else at + 1
    return -1


def item_candidates(tree: Tree, sequence: Node, index: int, value: Any) -> Iterator[list[Splice]]:
    """Ways to put `value` before item `index` of a list that has items, the most natural one first."""
    manner = layout.manner_of(tree, sequence)
    text = tree.text
    if sequence.flow:
        spans = [(item.start, item.end) for item in sequence.items]
        yield _into_flow(text, sequence, spans, index - 1, flow(value, manner))
        yield _into_flow(text, sequence, spans, index - 1, flow(value, manner._replace(quote='"')))
        return
    indent = column(text, layout.dash_of(text, sequence, 0))
    newline = line_break(text, sequence.start)
    gap = max(sequence.items[0].start - layout.dash_of(text, sequence, 0), 2) if sequence.items[0].kind == SCALAR else 2
    dash = "-" + " " * (gap - 1 if gap < 8 else 1)
    ways = [in_item(value, indent + len(dash), manner, newline), flow(value, manner._replace(flow=True, quote='"'))]
    for written in ways:
        if index == 0:
            at = layout.dash_of(text, sequence, 0)
            yield [Splice(at, at, dash + written + newline + " " * indent)]
        else:
            end = line_end(text, sequence.items[index - 1].end)
            yield [Splice(end, end, line_break(text, end) + " " * indent + dash + written)]
