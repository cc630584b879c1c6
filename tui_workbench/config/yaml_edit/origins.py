"""Store the original bytes of edited values, so that setting the original value again restores the file."""

from __future__ import annotations

from typing import Any, NamedTuple

from tui_workbench.config.yaml_edit import editing
from tui_workbench.config.yaml_edit.layout import colon_end, entry_end
from tui_workbench.config.yaml_edit.scalars import means
from tui_workbench.config.yaml_edit.splices import Splice, apply, image, sets
from tui_workbench.config.yaml_edit.syntax import Node, Path, Tree, find, own, parse
from tui_workbench.core.errors import ConfigurationError


class _Origin(NamedTuple):
    """The value at a path before its first edit."""

    node: Node | None  # None if it was not set
    raw: str  # the text after the colon of a key, or the text of an item
    text: str  # the whole text
    revision: int


class Origins:
    """The original values of the edited paths of a text."""

    def __init__(self) -> None:
        self._origins: dict[Path, _Origin] = {}
        self._edited: list[Path | None] = []  # by revision: the changed path, or None if it is unknown

    def note_edit(self, path: Path | None) -> None:
        """Record that the text changed at `path`; None means that the path is unknown."""
        self._edited.append(path)

    def remember(self, tree: Tree, path: Path) -> None:
        """Store the original values of `path` and its parents, unless they are already stored."""
        for length in range(1, len(path) + 1):
            ancestor = path[:length]
            if ancestor not in self._origins:
                raw = tree.text[slice(*_region(tree, ancestor) or (0, 0))]
                self._origins[ancestor] = _Origin(own(tree, ancestor), raw, tree.text, len(self._edited))

    def forget_items(self, path: Path) -> None:
        """Discard the items of the list that contains `path`, because their indices have changed."""
        if path and isinstance(path[-1], int):
            parent = path[:-1]
            depth = len(parent)
            self._origins = {
                edited_path: origin
                for edited_path, origin in self._origins.items()
                if len(edited_path) == depth or edited_path[:depth] != parent
            }

    def restored(self, tree: Tree, path: Path, value: Any) -> str | None:
        """Return the text with the original bytes of `path`, or None if they are unknown or have another value."""
        origin = self._origins.get(path)
        if origin is None or origin.node is None or not means(origin.node, value):
            return None
        # If nothing else was edited since, the whole text is restored, with comments that the edits removed.
        depth = len(path)
        if all(edited is not None and edited[:depth] == path for edited in self._edited[origin.revision :]):
            return origin.text
        span = _region(tree, path)
        if span is None:
            return None
        text = apply(tree.text, [Splice(*span, origin.raw)])
        try:
            after = parse(text)
        except ConfigurationError:
            return None
        node = find(after, path)
        is_same = sets(tree, path, value)(after) and image(node) == image(origin.node)
        return text if is_same else None

    def emptied(self, text: str, path: Path) -> str:
        """Return the text without the empty maps on `path` that edits created.

        A map that was already empty in the original file gets its original bytes again.
        """
        for length in range(len(path), 0, -1):
            ancestor = path[:length]
            origin = self._origins.get(ancestor)
            tree = parse(text)
            node = own(tree, ancestor)
            if origin is None or node is None or not node.is_empty:
                break
            if origin.node is not None:
                span = _region(tree, ancestor) if origin.node.is_empty else None
                return apply(text, [Splice(*span, origin.raw)]) if span is not None else text
            text = editing.unset(tree, ancestor)
        return text


def _region(tree: Tree, path: Path) -> tuple[int, int] | None:
    """Return the start (after the colon) and end of the value at `path`, or None if it is not set or has no colon."""
    node = own(tree, path)
    parent = find(tree, path[:-1])
    entry = parent.entry(path[-1]) if parent is not None else None
    if node is None or entry is None:
        return (node.start, node.end) if node is not None else None
    start = colon_end(tree.text, *entry)
    return (start, max(entry_end(*entry), start)) if start >= 0 else None
