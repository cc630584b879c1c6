"""Paths into a tree: keys of maps and indices of lists, from the root down."""

from __future__ import annotations

from tui_workbench.config.syntax import LIST, MAP, Node, Tree

Path = tuple[str | int, ...]
"""Steps from the root of the file: keys of maps and indices of lists."""


def find(tree: Tree, path: Path) -> Node | None:
    """The node at `path`, None when there is none."""
    node = tree.root
    for step in path:
        if node is None:
            return None
        if isinstance(step, int):
            node = node.items[step] if node.kind == LIST and -len(node.items) <= step < len(node.items) else None
        else:
            node = node.get(step) if node.kind == MAP else None
    return node


def own(tree: Tree, path: Path) -> Node | None:
    """The node at `path` that the file itself sets there, not one that a merge key (`<<`) brings."""
    parent = find(tree, path[:-1])
    node = find(tree, path)
    if parent is None or node is None or parent.kind != MAP:
        return node
    return next((value for key, value in reversed(parent.entries) if key.text == path[-1]), None)


def dotted(path: Path) -> str:
    """A path as people write it: `dependencies[3].pip[0]`."""
    written = ""
    for step in path:
        written += f"[{step}]" if isinstance(step, int) else f".{step}" if written else str(step)
    return written
