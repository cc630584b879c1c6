"""Edit a YAML text: change the bytes of one value and no others.

Each function returns a text whose tree differs only in the given value, or raises EditRefusedError. The result of each
edit is parsed and compared. If the usual form of a value fails, for example because of a comment, simpler forms are
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.yaml_edit import layout
from tui_workbench.config.yaml_edit.layout import colon_end, column, content_start, line_break, line_end
from tui_workbench.config.yaml_edit.scalars import Style, block, flow, means, render, render_block, render_key
from tui_workbench.config.yaml_edit.splices import (
    EditRefusedError,
    Splice,
    first_good,
    image,
    item_candidates,
    key_candidates,
    reads,
    refuse_shared,
    refused,
    remove,
    removes,
    sets,
)
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, Tree, dotted, find, own, parse


def set_value(tree: Tree, path: Path, value: Any, kind: FileKind | None = None) -> str:
    """Return the text with `path` set to a str, bool, int, float or None, or to lists and dicts of them.

    Missing parent maps are created. An index equal to the length of a list appends an item. Raises EditRefusedError.
    """
    old = own(tree, path)
    if old is not None:
        if isinstance(value, dict) and old.kind == MAP and old.entries and value:
            return _set_map(tree, path, old, value, kind)
        if isinstance(value, (list, tuple)) and old.kind == LIST and old.items and value:
            return _set_list(tree, path, old.items, list(value), kind)
        return _replace(tree, path, old, value, kind)
    return _insert(tree, path, value, kind)


def unset(tree: Tree, path: Path) -> str:
    """Remove the key or list item at `path`, if it is set. Raises EditRefusedError."""
    parent = find(tree, path[:-1])
    if parent is None or own(tree, path) is None:
        return tree.text
    refuse_shared(tree, path[:-1], path)
    if parent.kind == LIST:
        indices = [int(path[-1]) % len(parent.items)]
    else:
        indices = [i for i, (key, _) in enumerate(parent.entries) if key.text == path[-1]]
    if len(indices) > 1:
        # Remove all entries of a duplicate key, because otherwise an earlier value would apply.
        return unset(parse(drop_earlier(tree, path)), path)
    return first_good([remove(tree, path[:-1], parent, indices[0])], tree, removes(tree, path), path)


DUPLICATES = 20
"""Number of entries of a key that are removed at most: the whole file is parsed again for each."""


def drop_earlier(tree: Tree, path: Path) -> str:
    """Remove all but the last entry of a duplicate key. Raises EditRefusedError."""
    while True:
        parent = find(tree, path[:-1])
        indices = [i for i, (key, _) in enumerate(parent.entries if parent else ()) if key.text == path[-1]]
        if parent is None or len(indices) < 2:
            return tree.text
        if len(indices) > DUPLICATES:
            remedy = "Remove the lines in a text editor, except for one."
            raise refused(tree, parent, f"`{dotted(path)}` occurs {len(indices):,} times", remedy)
        is_good = reads(tree, path, _has_content_of(find(tree, path)), path)
        tree = parse(first_good([remove(tree, path[:-1], parent, indices[0])], tree, is_good, path))


def _has_content_of(node: Node | None) -> Callable[[Node], bool]:
    """Return a predicate that is True for nodes with the content of `node`."""
    expected = image(node)
    return lambda after: bool(image(after) == expected)


def insert_item(tree: Tree, path: Path, index: int, value: Any, kind: FileKind | None = None) -> str:
    """Insert `value` before item `index` of the list at `path`. Create a missing list. Raises EditRefusedError."""
    sequence = find(tree, path)
    if sequence is None or sequence.is_null or (sequence.kind == LIST and not sequence.items):
        return set_value(tree, path, [value], kind)
    if sequence.kind != LIST:
        raise _no_list(tree, sequence, path)
    refuse_shared(tree, path, (*path, index))
    index = max(0, min(index, len(sequence.items)))
    is_good = reads(tree, (*path, index), lambda node: means(node, value), None)
    return first_good(item_candidates(tree, sequence, index, value), tree, is_good, (*path, index))


def _no_list(tree: Tree, node: Node, path: Path) -> EditRefusedError:
    remedy = "Change the value at this line to a list, then try again."
    return refused(tree, node, f"`{dotted(path)}` is not a list", remedy)


def move_item(tree: Tree, path: Path, index: int, to: int) -> str:
    """Move item `index` of the list at `path` to index `to`, with its comments. Raises EditRefusedError."""
    sequence = find(tree, path)
    if sequence is None:
        raise EditRefusedError(f"the list `{dotted(path)}` does not exist", remedy="Add the list first.")
    if sequence.kind != LIST:
        raise _no_list(tree, sequence, path)
    for number in (index, to):
        if number not in range(len(sequence.items)):
            remedy = f"Use an index below {len(sequence.items)}."
            raise EditRefusedError(f"`{dotted(path)}` has no item {number}", remedy=remedy)
    if index == to:
        return tree.text
    order = list(range(len(sequence.items)))
    order.insert(to, order.pop(index))
    expected = [image(sequence.items[source]) for source in order]
    is_good = reads(tree, path, lambda moved: [image(item) for item in moved.items] == expected, path)
    candidates = [_permuted(tree.text, layout.spans_of(sequence), order)]
    if not sequence.flow:
        candidates.insert(0, _permuted(tree.text, _line_spans(tree.text, sequence), order))
    return first_good(candidates, tree, is_good, path)


def _permuted(text: str, spans: list[tuple[int, int]], order: list[int]) -> list[Splice]:
    moved = [(span, spans[source]) for span, source in zip(spans, order, strict=True)]
    return [Splice(*span, text[slice(*source)]) for span, source in moved if span != source]


def _line_spans(text: str, sequence: Node) -> list[tuple[int, int]]:
    """Return the lines of each item of a block list, with the comments and blank lines above it."""
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
    """Rename the key at `path`. Raises EditRefusedError, also if the key `new` exists."""
    parent = find(tree, path[:-1])
    entry = parent.entry(path[-1]) if parent is not None else None
    if parent is None or entry is None:
        raise EditRefusedError(f"the key `{dotted(path)}` does not exist", remedy="Check the spelling of the key.")
    key, value = entry
    if parent.get(new) is not None and new != path[-1]:
        raise refused(tree, key, f"the key `{new}` already exists", "Choose another name.")
    written = render_key(new, layout.style_of(tree, parent)._replace(key_quote=key.style))
    is_good = reads(tree, (*path[:-1], new), _has_content_of(value), path)
    return first_good([[Splice(content_start(tree.text, key), key.end, written)]], tree, is_good, path)


def _replace(tree: Tree, path: Path, old: Node, value: Any, kind: FileKind | None) -> str:
    if means(old, value) and not (value is None and old.kind != SCALAR):
        return tree.text
    refuse_shared(tree, path, path)
    return first_good(_replacements(tree, path, old, value, kind), tree, sets(tree, path, value), path)


def _replacements(tree: Tree, path: Path, old: Node, value: Any, kind: FileKind | None) -> Iterator[list[Splice]]:
    parent = find(tree, path[:-1]) if path else None
    entry = parent.entry(path[-1]) if parent is not None else None
    style = layout.style_of(tree, parent)
    field = kind.field_at(path) if kind is not None else None
    if field is not None and field.type == field_types.MAPPING and len(path) > len(field.path):
        style = style._replace(plain_numbers=True)
    if isinstance(value, (dict, list, tuple)):
        if value and entry is not None and parent is not None and not parent.flow:
            yield _null_to_block(tree.text, entry, value, style)
        yield _over(tree.text, entry, old, flow(value, style))
        return
    if parent is not None and old.style in ("|", ">") and isinstance(value, str):
        yield _over_block_scalar(tree.text, old, value)
    yield _over(tree.text, entry, old, render(value, style, old if old.kind == SCALAR else None))
    if old.kind == SCALAR and isinstance(value, str):
        yield _over(tree.text, entry, old, render(value, style._replace(json=True)))


def _over(text: str, entry: tuple[Node, Node] | None, old: Node, written: str) -> list[Splice]:
    """Return the splices that replace `old` with `written`, and add a missing space or colon."""
    start = content_start(text, old) if not old.tag else old.start + len(f"&{old.anchor} ") * bool(old.anchor)
    if entry is not None and old.kind != SCALAR and not old.flow and old.alias_of is None:
        return [Splice(colon_end(text, *entry), old.end, " " + written)]
    if old.start != old.end:
        return [Splice(start, old.end, written)]
    if entry is not None and colon_end(text, *entry) < 0:
        key = entry[0]
        return [Splice(key.end, key.end, ": " + written)]
    # Do not write two spaces if the line is `key: ` with a trailing space.
    if text[start : start + 1] == " " and text[start + 1 : start + 2] in ("", "\n", "\r"):
        return [Splice(start + 1, start + 1, written)]
    return [Splice(start, start, written if text[start - 1 : start] in (" ", "\n", "", "[", "{") else " " + written)]


def _over_block_scalar(text: str, old: Node, value: str) -> list[Splice]:
    body = text.find("\n", old.start, old.end) + 1
    first = text[body : old.end].lstrip(" \n")
    indent = column(text, old.end - len(first)) if body and first else 0
    written = render_block(value, old.style, indent, line_break(text, old.start)) if indent else None
    return [Splice(content_start(text, old), old.end, written)] if written else []


def _null_to_block(text: str, entry: tuple[Node, Node], value: Any, style: Style) -> list[Splice]:
    """Return the splices that replace `Key: null  # comment` with `Key:  # comment` and a block below it."""
    key, old = entry
    if old.kind != SCALAR and not (old.flow and not old.entries and not old.items):
        return []
    if old.anchor or old.tag or old.alias_of is not None:
        return []
    after_colon = colon_end(text, key, old)
    below = block(value, column(text, key.start), style, line_break(text, key.start))
    end = line_end(text, layout.entry_end(key, old))
    blank = Splice(after_colon, max(old.end, after_colon), "")
    if end == blank.end:
        return [Splice(blank.start, end, line_break(text, end) + below)]
    return [blank, Splice(end, end, line_break(text, end) + below)]


def _insert(tree: Tree, path: Path, value: Any, kind: FileKind | None) -> str:
    """Return the text with a new key or item at `path`, and with its missing parent maps. Raises EditRefusedError."""
    depth = len(path) - 1
    while depth and find(tree, path[:depth]) is None:
        depth -= 1
    parent_path, key = path[:depth], path[depth]
    for step in reversed(path[depth + 1 :]):
        if step == 0:
            value = [value]
            continue
        if isinstance(step, int):
            raise EditRefusedError(f"the list for `{dotted(path)}` does not exist", remedy="Add item 0 first.")
        value = {step: value}
    parent = find(tree, parent_path)
    name = f"`{dotted(parent_path)}`" if parent_path else "the file"
    if isinstance(key, int):
        if parent is None or parent.kind != LIST or key != len(parent.items):
            remedy = "Use the index of an existing item, or the length of the list to append an item."
            raise EditRefusedError(f"{name} has no item {key}", remedy=remedy)
        return insert_item(tree, parent_path, key, value, kind)
    if depth and (parent is None or parent.is_null or _is_empty_in_block(tree, parent_path, parent)):
        return set_value(tree, parent_path, {key: value}, kind)
    if parent is not None and parent.kind != MAP:
        message = f"{name} is not a map, so it cannot contain `{key}`"
        raise refused(tree, parent, message, "Change the value at this line to a map, then try again.")
    refuse_shared(tree, parent_path, path)
    target = (*parent_path, key)
    candidates = key_candidates(tree, parent_path, parent, key, value, kind)
    return first_good(candidates, tree, sets(tree, target, value), target)


def _is_empty_in_block(tree: Tree, path: Path, node: Node) -> bool:
    """Return True for `Key: {}` in a block map, where new entries are written on their own lines."""
    holder = find(tree, path[:-1])
    return node.flow and node.kind == MAP and not node.entries and holder is not None and not holder.flow


def _set_map(tree: Tree, path: Path, old: Node, value: dict[str, Any], kind: FileKind | None) -> str:
    gone = [key.text for key, _ in old.entries if key.text not in value]
    for key, item in value.items():
        tree = parse(set_value(tree, (*path, key), item, kind))
    for key in dict.fromkeys(gone):
        tree = parse(unset(tree, (*path, key)))
    return tree.text


def _set_list(tree: Tree, path: Path, old: list[Node], value: list[Any], kind: FileKind | None) -> str:
    """Change only the items that differ. Common items at the start and end of the list keep their bytes."""
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
