"""Edits of a text as splices: the bytes of one value change and nothing else.

Invariant: every function returns a text whose tree equals the old one in all but the value named, or raises. The splice
is made, the result parsed and compared; where the natural way to write the value does not hold (a comment in a bad
place, a block scalar that would swallow the next line), plainer ways are tried, and in the end the edit is refused
rather than made wrongly.
"""

from __future__ import annotations

from tui_workbench.config import layout
from tui_workbench.config.insertion import item_candidates, key_candidates
from tui_workbench.config.layout import colon_end, column, content_start, line_break, line_end
from tui_workbench.config.paths import Path, dotted, find, own
from tui_workbench.config.removal import remove_entry, remove_item
from tui_workbench.config.scalars import Manner, means, render, render_block, render_key
from tui_workbench.config.syntax import LIST, MAP, SCALAR, Node, Tree, parse
from tui_workbench.config.verification import (
    EditRefusedError,
    Splice,
    adds,
    apply,
    first_good,
    image,
    refuse_shared,
    refused,
    removes,
    sets,
)
from tui_workbench.config.writing import block, flow
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.config.schema import FileKind


def set_value(tree: Tree, path: Path, value: Any, kind: FileKind | None = None) -> str:
    """The text in which `path` has `value`: str, bool, int, float, None, or lists and dicts of them.

    Missing maps on the way are made; an index one past the end of a list appends. Raises EditRefusedError.
    """
    old = own(tree, path)
    if old is not None:
        if isinstance(value, dict) and old.kind == MAP and old.entries and value:
            return _set_map(tree, path, value, kind)
        if isinstance(value, (list, tuple)) and old.kind == LIST and old.items and value:
            return _set_list(tree, path, list(value), kind)
        return _replace(tree, path, old, value, kind)
    return _insert(tree, path, value, kind)


def unset(tree: Tree, path: Path, *, empty: str = "") -> str:
    """The text without the key or list item at `path`, unchanged when there is none.

    `empty` is what a collection that lost its last entry becomes: `{}`, `[]` or `null`; by default what fits. Raises
    EditRefusedError.
    """
    parent = find(tree, path[:-1])
    if parent is None or own(tree, path) is None:
        return tree.text
    refuse_shared(tree, path[:-1], path)
    if parent.kind == LIST:
        index = int(path[-1]) % len(parent.items)
        splices = remove_item(tree, path[:-1], parent, index, empty)
    else:
        indices = [i for i, (key, _) in enumerate(parent.entries) if key.text == path[-1]]
        if len(indices) > 1:
            # A key that stands twice: each goes, or the earlier one would come to light.
            return unset(
                parse(apply(tree.text, remove_entry(tree, path[:-1], parent, indices[-1], empty))), path, empty=empty
            )
        splices = remove_entry(tree, path[:-1], parent, indices[0], empty)
    return first_good([splices], tree, removes(tree, path), path)


def drop_earlier(tree: Tree, path: Path) -> str:
    """The text in which a key that stands several times keeps only its last entry. Raises EditRefusedError."""
    while True:
        parent = find(tree, path[:-1])
        indices = [i for i, (key, _) in enumerate(parent.entries if parent else ()) if key.text == path[-1]]
        if parent is None or len(indices) < 2:
            return tree.text
        kept, rest = image(find(tree, path)), image(tree.root, path)
        splices = remove_entry(tree, path[:-1], parent, indices[0], "")

        def is_good(after: Tree, kept: Any = kept, rest: Any = rest) -> bool:
            return bool(image(find(after, path)) == kept and image(after.root, path) == rest)

        tree = parse(first_good([splices], tree, is_good, path))


def insert_item(tree: Tree, path: Path, index: int, value: Any, kind: FileKind | None = None) -> str:
    """The text with `value` as a new item before item `index` of the list at `path`.

    A missing list is made. Raises EditRefusedError.
    """
    sequence = find(tree, path)
    if sequence is None or sequence.is_null or (sequence.kind == LIST and not sequence.items):
        return set_value(tree, path, [value], kind)
    if sequence.kind != LIST:
        raise refused(tree, sequence, "this is no list")
    refuse_shared(tree, path, (*path, index))
    index = max(0, min(index, len(sequence.items)))
    candidates = item_candidates(tree, sequence, index, value)
    return first_good(candidates, tree, adds(tree, (*path, index), value), (*path, index))


def move_item(tree: Tree, path: Path, index: int, to: int) -> str:
    """The text in which item `index` of the list at `path` is item `to`; its line takes its comments along.

    Raises EditRefusedError.
    """
    sequence = find(tree, path)
    if sequence is None or sequence.kind != LIST or not {index, to} <= {*range(len(sequence.items))}:
        raise EditRefusedError(f"`{dotted(path)}` has no such items", remedy="Choose items that are there.")
    if index == to:
        return tree.text
    order = list(range(len(sequence.items)))
    order.insert(to, order.pop(index))
    expected = [image(sequence.items[place]) for place in order]
    rest = image(tree.root, path)

    def is_good(after: Tree) -> bool:
        moved = find(after, path)
        return (
            moved is not None
            and [image(item) for item in moved.items] == expected
            and bool(image(after.root, path) == rest)
        )

    spans = [(item.start, item.end) for item in sequence.items]
    ways = [_permuted(tree.text, spans, order)]
    if not sequence.flow:
        ways.insert(0, _permuted(tree.text, _line_spans(tree.text, sequence), order))
    return first_good(ways, tree, is_good, path)


def _permuted(text: str, spans: list[tuple[int, int]], order: list[int]) -> list[Splice]:
    return [
        Splice(*span, text[slice(*spans[source])])
        for span, source in zip(spans, order, strict=True)
        if span != spans[source]
    ]


def _line_spans(text: str, sequence: Node) -> list[tuple[int, int]]:
    """For each item of a block list its lines, with the comments and blank lines above them."""
    spans = []
    start = layout.line_start(text, layout.dash_of(text, sequence, 0))
    while start and text[layout.line_start(text, start - 1) : start].strip()[:1] in ("", "#"):
        start = layout.line_start(text, start - 1)
    for item in sequence.items:
        end = line_end(text, max(item.end, item.start))
        spans.append((start, end))
        start = min(end + len(line_break(text, end)), len(text))
    return spans


def rename_key(tree: Tree, path: Path, new: str) -> str:
    """The text in which the key at `path` is called `new`. Raises EditRefusedError, also when `new` is there."""
    parent = find(tree, path[:-1])
    entries = [entry for entry in parent.entries if entry[0].text == path[-1]] if parent is not None else []
    if parent is None or not entries:
        raise EditRefusedError(f"there is no `{path[-1]}` here", remedy="Choose a key that exists.")
    if parent.get(new) is not None and new != path[-1]:
        raise refused(tree, entries[-1][0], f"`{new}` is here already")
    key = entries[-1][0]
    manner = layout.manner_of(tree, parent)._replace(key_quote=key.style)
    written = render_key(new, manner)
    target = (*path[:-1], new)

    def is_good(after: Tree) -> bool:
        moved = find(after, target)
        return moved is not None and image(moved) == image(entries[-1][1]) and image(after.root, target) == rest

    rest = image(tree.root, path)
    return first_good([[Splice(content_start(tree.text, key), key.end, written)]], tree, is_good, path)


# -- replacing
# ----------------------------------------------------------------------------------------------------------


def _replace(tree: Tree, path: Path, old: Node, value: Any, kind: FileKind | None) -> str:
    if means(old, value) and not (value is None and old.kind != SCALAR):
        return tree.text
    refuse_shared(tree, path, path)
    return first_good(_replacements(tree, path, old, value, kind), tree, sets(tree, path, value), path)


def _replacements(tree: Tree, path: Path, old: Node, value: Any, kind: FileKind | None) -> Iterator[list[Splice]]:
    parent = find(tree, path[:-1]) if path else None
    manner = layout.manner_of(tree, parent, kind)
    if isinstance(value, (dict, list, tuple)):
        if value and parent is not None and not parent.flow and parent.kind == MAP:
            yield _null_to_block(tree, parent, path, value, manner)
        yield _over(tree, parent, path, old, flow(value, manner))
        return
    if old.kind == SCALAR:
        if old.style in ("|", ">") and isinstance(value, str):
            yield _over_block_scalar(tree, parent, path, old, value, manner)
        yield _over(tree, parent, path, old, render(value, manner, old))
        if isinstance(value, str):
            yield _over(tree, parent, path, old, render(value, manner._replace(json=True)))
        return
    yield _over(tree, parent, path, old, render(value, manner))


def _over(tree: Tree, parent: Node | None, path: Path, old: Node, written: str) -> list[Splice]:
    """Put `written` in the place of `old`, with a space or colon where there was nothing to stand behind."""
    text = tree.text
    start = content_start(text, old) if not old.tag else old.start + len(f"&{old.anchor} ") * bool(old.anchor)
    if old.kind != SCALAR and not old.flow and old.alias_of is None and parent is not None and parent.kind == MAP:
        key = next(name for name, value in reversed(parent.entries) if value is old)
        start = colon_end(text, key, old)
        return [Splice(start, old.end, " " + written)]
    before = text[start - 1 : start]
    if old.start == old.end:
        if parent is not None and parent.kind == MAP:
            key = next(name for name, value in reversed(parent.entries) if value is old)
            if colon_end(text, key, old) < 0:
                return [Splice(key.end, key.end, ": " + written)]
        # `key: ` with a space left behind: the value goes where the space ends the key, not after two of them.
        if text[start : start + 1] == " " and text[start + 1 : start + 2] in ("", "\n", "\r"):
            return [Splice(start + 1, start + 1, written)]
        return [Splice(start, start, written if before in (" ", "\n", "", "[", "{") else " " + written)]
    return [Splice(start, old.end, written)]


def _over_block_scalar(
    tree: Tree, parent: Node | None, path: Path, old: Node, value: str, manner: Manner
) -> list[Splice]:
    text = tree.text
    body = text.find("\n", old.start, old.end) + 1
    first = text[body : old.end].lstrip(" \n")
    indent = column(text, old.end - len(first)) if body and first else 0
    if not indent:
        return []
    written = render_block(value, old.style, indent, line_break(text, old.start)) if parent is not None else None
    return [Splice(content_start(text, old), old.end, written)] if written else []


def _null_to_block(tree: Tree, parent: Node, path: Path, value: Any, manner: Manner) -> list[Splice]:
    """`Key: null  # comment` becomes `Key:  # comment` with the block below it."""
    text = tree.text
    key, old = next(entry for entry in reversed(parent.entries) if entry[0].text == path[-1])
    if old.kind != SCALAR and not (old.flow and not old.entries and not old.items):
        return []
    if old.anchor or old.tag or old.alias_of is not None:
        return []
    after_colon = colon_end(text, key, old)
    newline = line_break(text, key.start)
    below = block(value, column(text, key.start), manner, newline)
    end = line_end(text, layout.entry_end(key, old))
    blank = Splice(after_colon, old.end, "") if old.end > after_colon else Splice(after_colon, after_colon, "")
    if end == blank.end:
        return [Splice(blank.start, end, line_break(text, end) + below)]
    return [blank, Splice(end, end, line_break(text, end) + below)]


def _insert(tree: Tree, path: Path, value: Any, kind: FileKind | None) -> str:
    """A key or item that is not there, with the maps that lead to it."""
    depth = len(path) - 1
    while depth and find(tree, path[:depth]) is None:
        depth -= 1
    here, key = path[:depth], path[depth]
    for step in reversed(path[depth + 1 :]):
        if step == 0:
            value = [value]
            continue
        if isinstance(step, int):
            raise EditRefusedError(f"there is no list at `{dotted(path)}`", remedy="Add the list first.")
        value = {step: value}
    parent = find(tree, here)
    if isinstance(key, int):
        if parent is None or parent.kind != LIST or key != len(parent.items):
            raise EditRefusedError(
                f"`{dotted(path)}` has no item {key}", remedy="Choose an index of the list, or one past its end."
            )
        return insert_item(tree, here, key, value, kind)
    if depth and (parent is None or parent.is_null or _is_empty_in_block(tree, here, parent)):
        return set_value(tree, here, {key: value}, kind)
    if parent is not None and parent.kind != MAP:
        raise refused(tree, parent, f"`{dotted(here) or 'the file'}` is no map, so it cannot hold `{key}`")
    refuse_shared(tree, here, path)
    target = (*here, key)
    candidates = key_candidates(tree, here, parent, key, value, kind)
    return first_good(candidates, tree, sets(tree, target, value), target)


# -- whole collections, piece by piece
# ----------------------------------------------------------------------------------


def _is_empty_in_block(tree: Tree, path: Path, node: Node) -> bool:
    """`Key: {}` on lines of its own: there is no style to keep, and what comes in stands better on its own lines."""
    holder = find(tree, path[:-1])
    return node.flow and node.kind == MAP and not node.entries and holder is not None and not holder.flow


def _set_map(tree: Tree, path: Path, value: dict[str, Any], kind: FileKind | None) -> str:
    node = find(tree, path)
    assert node is not None
    gone = [key.text for key, _ in node.entries if key.text not in value]
    for key, one in value.items():
        tree = parse(set_value(tree, (*path, key), one, kind))
    for key in dict.fromkeys(gone):
        tree = parse(unset(tree, (*path, key)))
    return tree.text


def _set_list(tree: Tree, path: Path, value: list[Any], kind: FileKind | None) -> str:
    """Items that stay keep their bytes: only the middle between the common beginning and end is changed."""
    node = find(tree, path)
    assert node is not None
    old = node.items
    head = 0
    while head < min(len(old), len(value)) and means(old[head], value[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(value)) - head and means(old[-1 - tail], value[-1 - tail]):
        tail += 1
    common = min(len(old), len(value)) - head - tail
    for index in range(head, head + common):
        tree = parse(set_value(tree, (*path, index), value[index], kind))
    for index in range(head + common, len(value) - tail):
        tree = parse(insert_item(tree, path, index, value[index], kind))
    for _ in range(len(old) - len(value)):
        tree = parse(unset(tree, (*path, head + common)))
    return tree.text
