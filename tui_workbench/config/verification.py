"""The proof of an edit: its text is parsed, and all but the value named must say what it said before.

Invariant: an edit that cannot be proved is refused; nothing is changed by accident.
"""

from __future__ import annotations

from tui_workbench.config.paths import Path, dotted, find, own
from tui_workbench.config.scalars import means
from tui_workbench.config.syntax import LIST, MAP, SCALAR, Node, Tree, parse
from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


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


def sets(tree: Tree, path: Path, value: Any) -> Callable[[Tree], bool]:
    """Accepts a tree in which `path` reads back as `value` and all else is as in `tree`."""
    expected = image(tree.root, path)

    def is_good(after: Tree) -> bool:
        node = find(after, path)
        return node is not None and means(node, value) and image(after.root, path) == expected

    return is_good


def adds(tree: Tree, path: Path, value: Any) -> Callable[[Tree], bool]:
    """Accepts a tree with `value` as an additional list item at `path`."""
    expected = image(tree.root)

    def is_good(after: Tree) -> bool:
        node = find(after, path)
        return node is not None and means(node, value) and image(after.root, path) == expected

    return is_good


def removes(tree: Tree, path: Path) -> Callable[[Tree], bool]:
    """Accepts a tree without what stood at `path`; a collection that lost its last entry may be empty, null or gone."""
    expected = image(tree.root, path)
    if isinstance(path[-1], int):
        return lambda after: _pruned(after.root, path[:-1]) == expected
    return lambda after: own(after, path) is None and image(after.root, path) == expected


def image(node: Node | None, without: Path | None = None) -> Any:
    """What a tree says, free of places, without what stands at `without` and collections that this leaves empty.

    A map is a tuple of (key, image), as a key may stand twice, a list a tuple of images, a scalar its text with what
    decides its type. None is what is not there.
    """
    if node is None or without == ():
        return None
    if without is not None and (node.is_null or (node.kind != SCALAR and node.size == 1)):
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


def _pruned(root: Node | None, path: Path) -> Any:
    """The image of a tree; when what stands at `path` is empty, without it."""
    node = root
    for step in path:
        if node is None:
            break
        if isinstance(step, int):
            node = node.items[step] if node.kind == LIST and step < len(node.items) else None
        else:
            node = node.get(step) if node.kind == MAP else None
    is_empty = node is None or node.is_null or (node.kind != SCALAR and node.size == 1)
    return image(root, path) if is_empty else image(root)


def refuse_shared(tree: Tree, path: Path, wanted: Path) -> None:
    """Refuses to change what an alias elsewhere repeats: that would change there as well."""
    for length in range(len(path) + 1):
        node = find(tree, path[:length])
        if node is None:
            return
        if length < len(wanted) and node.alias_of is not None and length:
            raise refused(tree, node, f"`{dotted(wanted)}` is repeated from &{_name_of(node)} by an alias")
        if node.anchor and tree.aliases.get(node.anchor):
            raise refused(tree, node, f"`{dotted(wanted)}` is repeated elsewhere as *{node.anchor}")


def _name_of(node: Node) -> str:
    return (node.alias_of.anchor if node.alias_of is not None else node.anchor) or ""


def refused(tree: Tree, node: Node | None, message: str) -> EditRefusedError:
    """The error for an edit that cannot be made, at the place of `node`."""
    line, column_number = tree.place(node.start if node is not None else 0)
    return EditRefusedError(message, remedy="Edit the text there.", line=line, column=column_number)
