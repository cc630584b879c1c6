"""Insert and remove keys and list items as splices, and verify edits.

The edited text is parsed. If any other value has changed, the edit is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.yaml_edit import layout
from tui_workbench.config.yaml_edit.scalars import Style, entry, flow, in_item, means, render_key
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, Tree, dotted, find, own, parse
from tui_workbench.core.errors import ConfigurationError


class Splice(NamedTuple):
    """An edit that replaces the characters from `start` to `end` with `text`."""

    start: int
    end: int
    text: str


class EditRefusedError(ConfigurationError):
    """The edit is impossible, or would change other values."""


def apply(text: str, splices: list[Splice]) -> str:
    """Return `text` with splices applied. They must not overlap, and their offsets refer to the original text."""
    parts: list[str] = []
    at = 0
    for splice in sorted(splices):
        parts += [text[at : splice.start], splice.text]
        at = splice.end
    return "".join(parts) + text[at:]


def first_good(candidates: Iterable[list[Splice]], tree: Tree, is_good: Callable[[Tree], bool], path: Path) -> str:
    """Apply the first candidate whose tree `is_good` accepts, and return the text. Raises EditRefusedError."""
    for splices in candidates:
        if not splices:
            continue
        text = apply(tree.text, splices)
        try:
            after = parse(text)
        except ConfigurationError:
            continue
        # An edit must not begin another document, nor end the first one earlier.
        if (after.extra < 0) == (tree.extra < 0) and is_good(after):
            return text
    node = find(tree, path) or find(tree, path[:-1]) or tree.root
    raise refused(tree, node, f"`{dotted(path)}` cannot be changed without changing other values")


def reads(tree: Tree, path: Path, is_expected: Callable[[Node], bool], was: Path | None) -> Callable[[Tree], bool]:
    """Return a predicate that is True for a tree whose node at `path` satisfies `is_expected`.

    The rest of the tree must be equal to `tree` without the node at `was`.
    """
    expected = image(tree.root, was)

    def is_good(after: Tree) -> bool:
        node = find(after, path)
        return node is not None and is_expected(node) and bool(image(after.root, path) == expected)

    return is_good


def sets(tree: Tree, path: Path, value: Any) -> Callable[[Tree], bool]:
    """Return a predicate that is True for a tree equal to `tree` with `value` at `path`."""
    return reads(tree, path, lambda node: means(node, value), path)


def removes(tree: Tree, path: Path) -> Callable[[Tree], bool]:
    """Return a predicate that is True for a tree equal to `tree` without `path`.

    If `path` was the only entry of a collection, the collection can be empty, null or missing.
    """
    expected = image(tree.root, path)

    def is_good(after: Tree) -> bool:
        if not isinstance(path[-1], int):
            return own(after, path) is None and bool(image(after.root, path) == expected)
        node = find(after, path[:-1])
        is_empty = node is None or node.is_empty
        return bool(image(after.root, path[:-1] if is_empty else None) == expected)

    return is_good


def image(node: Node | None, without: Path | None = None) -> Any:
    """Return the content of a tree, for comparison, without positions and without the path `without`.

    A map is a tuple of pairs (key, image), because a key can occur twice. A list is a tuple of images. A scalar is its
    text with the properties that determine its type. A missing value is None. Collections that become empty are
    omitted.
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
        images = [image(item, rest if position == index else None) for position, item in enumerate(node.items)]
        kept = tuple(item for position, item in enumerate(images) if position != index or item is not None)
    return None if without is not None and not kept else (node.kind, kept)


def refuse_shared(tree: Tree, path: Path, changed: Path) -> None:
    """Raise EditRefusedError if an alias would repeat the change elsewhere."""
    for length in range(len(path) + 1):
        node = find(tree, path[:length])
        if node is None:
            return
        if length < len(changed) and node.alias_of is not None and length:
            raise refused(
                tree,
                node,
                f"`{dotted(changed)}` is part of the alias *{node.alias_of.anchor} and cannot be changed alone",
                "Replace the alias at this line with its value, then try again.",
            )
        if node.anchor and tree.aliases.get(node.anchor):
            raise refused(
                tree,
                node,
                f"`{dotted(changed)}` is used again as the alias *{node.anchor} and cannot be changed alone",
                f"Replace each alias *{node.anchor} with its value, then try again.",
            )


def refused(
    tree: Tree, node: Node | None, message: str, remedy: str = "Make this change in a text editor, at this line."
) -> EditRefusedError:
    """Return the error for an edit that cannot be made, at the position of `node`."""
    line, column_number = tree.position(node.start if node is not None else 0)
    return EditRefusedError(message, remedy=remedy, line=line, column=column_number)


# -- inserting and removing ------------------------------------------------------------------------------------------


def key_candidates(
    tree: Tree, path: Path, parent: Node | None, key: str, value: Any, kind: FileKind | None
) -> Iterator[list[Splice]]:
    """Yield splices that add `key` to the map `parent` at `path`, in order of preference.

    `parent` is None if the file is empty.
    """
    style = layout.style_of(tree, parent)
    if parent is None:
        yield _first_key(tree, key, value, style)
        return
    prefix = "".join(f"{step}." for step in path)
    if parent.flow:
        after = layout.key_position(tree, parent, key, prefix, kind).after
        yield _into_flow_map(tree, parent, after, key, value, style)
        yield _into_flow_map(tree, parent, len(parent.entries) - 1, key, value, style._replace(quote='"'))
        return
    position = layout.key_position(tree, parent, key, prefix, kind)
    last = len(parent.entries) - 1
    others = (layout.KeyPosition(position.after), layout.KeyPosition(last), layout.KeyPosition(-1))
    for candidate in (position, *others):
        yield _into_block_map(tree, parent, candidate, key, value, style)
    in_brackets = flow(value, style._replace(flow=True))
    yield _into_block_map(tree, parent, layout.KeyPosition(last), key, value, style, in_brackets)


def _first_key(tree: Tree, key: str, value: Any, style: Style) -> list[Splice]:
    """Return the splices that insert the first key of a file, after the comments and before a line `...`."""
    text = tree.text
    newline = layout.line_break(text, 0)
    line = entry(key, value, 0, style, newline)
    at = tree.end
    if not text[:at]:
        return [Splice(0, 0, line + newline)]
    if text[at - 1] == "\n":
        return [Splice(at, at, line + newline)]
    return [Splice(at, at, newline + line)]


def _into_block_map(
    tree: Tree, parent: Node, position: layout.KeyPosition, key: str, value: Any, style: Style, written: str = ""
) -> list[Splice]:
    text = tree.text
    indent = layout.column(text, parent.entries[0][0].start)
    newline = layout.line_break(text, parent.start)
    line = f"{render_key(key, style)}: {written}" if written else entry(key, value, indent, style, newline)
    if position.after < 0 and position.offset < 0:
        start = parent.entries[0][0].start
        return [Splice(start, start, line + newline + " " * indent)]
    end = position.offset
    if end < 0:
        end = layout.line_end(text, layout.entry_end(*parent.entries[position.after]))
    return [Splice(end, end, layout.line_break(text, end) + " " * indent + line)]


def _into_flow_map(tree: Tree, parent: Node, after: int, key: str, value: Any, style: Style) -> list[Splice]:
    written = render_key(key, style) + style.key_separator + flow(value, style)
    return _into_flow(tree.text, parent, after, written)


def _into_flow(text: str, parent: Node, after: int, written: str) -> list[Splice]:
    """Return splices that insert `written` after entry `after` of a collection in brackets.

    The new entry has its own line if the first entry has one. If `after` is -1, it is inserted before the first entry.
    """
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
    """Yield splices that insert `value` before item `index` of a nonempty list, in order of preference."""
    style = layout.style_of(tree, sequence)
    text = tree.text
    if sequence.flow:
        yield _into_flow(text, sequence, index - 1, flow(value, style))
        yield _into_flow(text, sequence, index - 1, flow(value, style._replace(quote='"')))
        return
    indent = layout.column(text, layout.dash_of(text, sequence, 0))
    newline = layout.line_break(text, sequence.start)
    gap = max(sequence.items[0].start - layout.dash_of(text, sequence, 0), 2) if sequence.items[0].kind == SCALAR else 2
    dash = "-" + " " * (gap - 1 if gap < 8 else 1)
    ways = [in_item(value, indent + len(dash), style, newline), flow(value, style._replace(flow=True, quote='"'))]
    for written in ways:
        if index == 0:
            at = layout.dash_of(text, sequence, 0)
            yield [Splice(at, at, dash + written + newline + " " * indent)]
        else:
            end = layout.line_end(text, sequence.items[index - 1].end)
            yield [Splice(end, end, layout.line_break(text, end) + " " * indent + dash + written)]


def remove(tree: Tree, path: Path, parent: Node, index: int) -> list[Splice]:
    """Return the splices that remove an entry or item from the map or list `parent` at `path`."""
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
        return _emptied(tree, path, parent, start, end)
    return _lines_out(text, start, end, follows)


def _lines_out(text: str, start: int, end: int, follows: int) -> list[Splice]:
    """Return the splices that remove whole lines. If the entry follows a dash, the next entry takes its place."""
    tail = layout.line_end(text, end)
    if not layout.begins_line(text, start):
        if follows >= 0 and not text[tail:follows].strip():
            return [Splice(start, follows, "")]
        return [Splice(start, end, "")]
    first = layout.line_start(text, start)
    after = text.find("\n", tail)
    if after >= 0:
        return [Splice(first, after + 1, "")]
    # The last line has no line break. Remove the line break before it.
    cut = first - 1 if first else 0
    if cut > 0 and text[cut - 1] == "\r":
        cut -= 1
    return [Splice(cut, tail, "")]


def _emptied(tree: Tree, path: Path, parent: Node, start: int, end: int) -> list[Splice]:
    """Return splices that remove the only entry of a block collection. Below the top level, empty brackets remain."""
    text, empty = tree.text, "{}" if parent.kind == MAP else "[]"
    if not path:
        return _lines_out(text, start, end, -1)
    if not layout.begins_line(text, start) or isinstance(path[-1], int) or parent.anchor or parent.tag:
        return [Splice(start, end, empty)]
    holder = find(tree, path[:-1])
    pair = holder.entry(path[-1]) if holder is not None else None
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
    """Return the offset of the comma between two entries, or -1. Commas in comments are ignored."""
    at = start
    while at < end:
        if text[at] == ",":
            return at
        at = text.find("\n", at) + 1 or end if text[at] == "#" else at + 1
    return -1
