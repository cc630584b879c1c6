"""Splices that put a key or list item in or take one out, and the proof of an edit.

Invariant: an edit that cannot be proved is refused: its text is parsed, and all but the value named must say what it
said before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.yaml_edit import layout
from tui_workbench.config.yaml_edit.scalars import Manner, entry, flow, in_item, means, render_key
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, Tree, dotted, find, own, parse
from tui_workbench.core.errors import ConfigurationError


class Splice(NamedTuple):
    """Replace the characters from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


class EditRefusedError(ConfigurationError):
    """An edit that cannot be made without changing something else."""


def apply(text: str, splices: list[Splice]) -> str:
    """`text` with all splices made; their offsets refer to the text as given, and they do not overlap."""
    parts: list[str] = []
    at = 0
    for splice in sorted(splices):
        parts += [text[at : splice.start], splice.text]
        at = splice.end
    return "".join(parts) + text[at:]


def first_good(candidates: Iterable[list[Splice]], tree: Tree, is_good: Callable[[Tree], bool], path: Path) -> str:
    """The first candidate's text that parses to a tree that `is_good` accepts."""
    for splices in candidates:
        if not splices:
            continue
        text = apply(tree.text, splices)
        try:
            after = parse(text)
        except ConfigurationError:
            continue
        if (after.extra < 0) == (tree.extra < 0) and is_good(after):
            return text
    node = find(tree, path) or find(tree, path[:-1]) or tree.root
    raise refused(tree, node, f"`{dotted(path)}` cannot be changed here without changing something else")


def reads(tree: Tree, path: Path, is_wanted: Callable[[Node], bool], was: Path | None) -> Callable[[Tree], bool]:
    """Accepts a tree with what is wanted at `path` that says for the rest what `tree` says without what is at `was`."""
    expected = image(tree.root, was)

    def is_good(after: Tree) -> bool:
        node = find(after, path)
        return node is not None and is_wanted(node) and bool(image(after.root, path) == expected)

    return is_good


def sets(tree: Tree, path: Path, value: Any) -> Callable[[Tree], bool]:
    """Accepts a tree in which `path` reads back as `value` and all else is as in `tree`."""
    return reads(tree, path, lambda node: means(node, value), path)


def removes(tree: Tree, path: Path) -> Callable[[Tree], bool]:
    """Accepts a tree without what stood at `path`; a collection that lost its last entry may be empty, null or gone."""
    expected = image(tree.root, path)

    def is_good(after: Tree) -> bool:
        if not isinstance(path[-1], int):
            return own(after, path) is None and bool(image(after.root, path) == expected)
        node = find(after, path[:-1])
        is_empty = node is None or node.is_empty
        return bool(image(after.root, path[:-1] if is_empty else None) == expected)

    return is_good


def image(node: Node | None, without: Path | None = None) -> Any:
    """What a tree says, free of places, without what stands at `without` and collections that this leaves empty.

    A map is a tuple of (key, image), as a key may stand twice, a list a tuple of images, a scalar its text with what
    decides its type. None is what is not there.
    """
    if node is None or without == ():
        return None
    if without is not None and node.is_empty:
        return None
    if node.kind == SCALAR:
        return node.text, bool(node.style), node.tag
    step, rest = (without[0], without[1:]) if without else (None, None)
    if node.kind == MAP:
        pairs = [(key.text, image(value, rest if key.text == step else None)) for key, value in node.entries]
        kept: tuple[Any, ...] = tuple(pair for pair in pairs if pair[0] != step or pair[1] is not None)
    else:
        index = step % len(node.items) if isinstance(step, int) and node.items else -1
        images = [image(item, rest if place == index else None) for place, item in enumerate(node.items)]
        kept = tuple(one for place, one in enumerate(images) if place != index or one is not None)
    return None if without is not None and not kept else (node.kind, kept)


def refuse_shared(tree: Tree, path: Path, wanted: Path) -> None:
    """Refuses to change what an alias elsewhere repeats: that would change there as well."""
    for length in range(len(path) + 1):
        node = find(tree, path[:length])
        if node is None:
            return
        if length < len(wanted) and node.alias_of is not None and length:
            raise refused(tree, node, f"`{dotted(wanted)}` is repeated from &{node.alias_of.anchor} by an alias")
        if node.anchor and tree.aliases.get(node.anchor):
            raise refused(tree, node, f"`{dotted(wanted)}` is repeated elsewhere as *{node.anchor}")


def refused(tree: Tree, node: Node | None, message: str) -> EditRefusedError:
    """The error for an edit that cannot be made, at the place of `node`."""
    line, column_number = tree.place(node.start if node is not None else 0)
    return EditRefusedError(message, remedy="Edit the text there.", line=line, column=column_number)


# -- putting in and taking out ---------------------------------------------------------------------------------------


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
    newline = layout.line_break(text, 0)
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
    indent = layout.column(text, parent.entries[0][0].start)
    newline = layout.line_break(text, parent.start)
    line = f"{render_key(key, manner)}: {written}" if written else entry(key, value, indent, manner, newline)
    if place.after < 0 and place.offset < 0:
        start = parent.entries[0][0].start
        return [Splice(start, start, line + newline + " " * indent)]
    end = place.offset if place.offset >= 0 else layout.line_end(text, layout.entry_end(*parent.entries[place.after]))
    return [Splice(end, end, layout.line_break(text, end) + " " * indent + line)]


def _into_flow_map(tree: Tree, parent: Node, after: int, key: str, value: Any, manner: Manner) -> list[Splice]:
    written = render_key(key, manner) + manner.key_separator + flow(value, manner)
    return _into_flow(tree.text, parent, after, written)


def _into_flow(text: str, parent: Node, after: int, written: str) -> list[Splice]:
    """Put `written` behind entry `after` between brackets, on its own line where the others are."""
    start, spans = layout.content_start(text, parent), layout.spans_of(parent)
    if not spans:
        return [Splice(start + 1, start + 1, written)]
    first = spans[0][0]
    own_lines = "\n" in text[start:first]
    newline = layout.line_break(text, start)
    lead = newline + " " * layout.column(text, first) if own_lines else " "
    if after < 0:
        return [Splice(first, first, written + "," + lead)]
    end = spans[after][1]
    until = spans[after + 1][0] if after + 1 < len(spans) else parent.end - 1
    comma = _comma_between(text, end, until)
    if comma < 0:
        tail = layout.line_end(text, end)
        if own_lines and text[end:tail].strip().startswith("#"):
            return [Splice(end, end, ","), Splice(tail, tail, lead + written)]
        return [Splice(end, end, "," + lead + written)]
    at = layout.line_end(text, comma) if own_lines and "\n" in text[comma:until] else comma + 1
    if after + 1 < len(spans) and not own_lines:
        between = text[comma + 1 : until]
        return [Splice(at, at, between + written + ",")]
    if own_lines:
        lead = layout.line_break(text, at) + " " * layout.column(text, first)
    return [Splice(at, at, lead + written + ",")]


def item_candidates(tree: Tree, sequence: Node, index: int, value: Any) -> Iterator[list[Splice]]:
    """Ways to put `value` before item `index` of a list that has items, the most natural one first."""
    manner = layout.manner_of(tree, sequence)
    text = tree.text
    if sequence.flow:
        yield _into_flow(text, sequence, index - 1, flow(value, manner))
        yield _into_flow(text, sequence, index - 1, flow(value, manner._replace(quote='"')))
        return
    indent = layout.column(text, layout.dash_of(text, sequence, 0))
    newline = layout.line_break(text, sequence.start)
    gap = max(sequence.items[0].start - layout.dash_of(text, sequence, 0), 2) if sequence.items[0].kind == SCALAR else 2
    dash = "-" + " " * (gap - 1 if gap < 8 else 1)
    ways = [in_item(value, indent + len(dash), manner, newline), flow(value, manner._replace(flow=True, quote='"'))]
    for written in ways:
        if index == 0:
            at = layout.dash_of(text, sequence, 0)
            yield [Splice(at, at, dash + written + newline + " " * indent)]
        else:
            end = layout.line_end(text, sequence.items[index - 1].end)
            yield [Splice(end, end, layout.line_break(text, end) + " " * indent + dash + written)]


def remove(tree: Tree, here: Path, parent: Node, index: int) -> list[Splice]:
    """The splices that take an entry or item out of the map or list `parent` at `here`."""
    text, spans = tree.text, layout.spans_of(parent)
    if parent.flow:
        return _out_of_flow(text, parent, spans, index)
    (start, end), follows = spans[index], -1
    has_more = index + 1 < len(spans)
    if parent.kind == LIST:
        start = layout.dash_of(text, parent, index)
        end = max(end, start + 1)
        follows = layout.dash_of(text, parent, index + 1) if has_more else -1
    elif len(spans) > 1:
        if text[layout.line_start(text, start) : start].strip(" ") == "?":
            start = layout.line_start(text, start)
        follows = spans[index + 1][0] if has_more else -1
    if len(spans) == 1:
        return _emptied(tree, here, parent, start, end)
    return _lines_out(text, start, end, follows)


def _lines_out(text: str, start: int, end: int, follows: int) -> list[Splice]:
    """Take whole lines out; an entry that shares its line with a dash hands its place to the one that follows."""
    tail = layout.line_end(text, end)
    if not layout.begins_line(text, start):
        if follows >= 0 and not text[tail:follows].strip():
            return [Splice(start, follows, "")]
        return [Splice(start, end, "")]
    first = layout.line_start(text, start)
    after = text.find("\n", tail)
    if after >= 0:
        return [Splice(first, after + 1, "")]
    # The last line, and it has no line end: the line before it keeps none either.
    cut = first - 1 if first else 0
    if cut > 0 and text[cut - 1] == "\r":
        cut -= 1
    return [Splice(cut, tail, "")]


def _emptied(tree: Tree, here: Path, parent: Node, start: int, end: int) -> list[Splice]:
    """The only entry of a block collection goes: what stays are brackets behind the key, or an empty file."""
    text, empty = tree.text, "{}" if parent.kind == MAP else "[]"
    if not here:
        return _lines_out(text, start, end, -1)
    if not layout.begins_line(text, start) or isinstance(here[-1], int) or parent.anchor or parent.tag:
        return [Splice(start, end, empty)]
    holder = find(tree, here[:-1])
    pair = holder.entry(here[-1]) if holder is not None else None
    if pair is None:
        return []
    after_colon = layout.colon_end(text, *pair)
    out = _lines_out(text, start, end, -1)
    if out[0].start == layout.line_end(text, after_colon) and out[0].start == after_colon:
        return [Splice(after_colon, out[0].end, " " + empty)]
    return [Splice(after_colon, after_colon, " " + empty), *out]


def _out_of_flow(text: str, parent: Node, spans: list[tuple[int, int]], index: int) -> list[Splice]:
    start, end = spans[index]
    inner = layout.content_start(text, parent) + 1
    if len(spans) == 1:
        comma = _comma_between(text, end, parent.end - 1)
        stop = comma + 1 if comma >= 0 else end
        if "\n" in text[inner:start] and not text[inner:start].strip() and not text[stop : parent.end - 1].strip():
            return [Splice(inner, parent.end - 1, "")]
        return [Splice(start, stop, "")]
    if index + 1 < len(spans):
        return [Splice(start, spans[index + 1][0], "")]
    before = spans[index - 1][1]
    if "#" not in text[before:start]:
        return [Splice(before, end, "")]
    comma = _comma_between(text, before, start)
    cut = layout.line_start(text, start)
    return [Splice(comma, comma + 1, ""), Splice(max(cut - 1, comma + 1), end, "")]


def _comma_between(text: str, start: int, end: int) -> int:
    """The comma between two entries, not one in a comment; -1 when there is none."""
    at = start
    while at < end:
        if text[at] == ",":
            return at
        at = text.find("\n", at) + 1 or end if text[at] == "#" else at + 1
    return -1
