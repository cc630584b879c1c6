"""Parse dotted keys (`EnvironmentVariables.LR`, `packages[0].version`) into paths.

A name with dots, such as `spark.app.name`, needs no quotes if the schema or the file shows that it is one name.
"""

from __future__ import annotations

import re

from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, Node, Path, Tree
from tui_workbench.core.errors import UsageError

_TOKEN = re.compile(
    r"""\[(-?\d+)\] | "((?:[^"\\]|\\.)*)" | '([^']*)' | ([^.\[\]"']+(?:["'][^.\[\]]*)?) | (\.)""", re.VERBOSE
)


def parse_key(key: str, tree: Tree | None, kind: FileKind) -> Path:
    """Return the path of `key` in a file. `tree` shows which names contain dots; it is None for an invalid file.

    Raises UsageError if `key` is malformed.
    """
    steps = _tokens(key)
    path: list[str | int] = []
    node = tree.root if tree is not None else None
    while steps:
        step = _next_step(steps, path, node, kind)
        if step == "pip" and node is not None and node.kind == LIST:
            # In `dependencies.pip[0]`, `pip` is a key of the only map in the list.
            index = next((i for i, item in enumerate(node.items) if item.get("pip") is not None), len(node.items))
            path.append(index)
            node = node.items[index] if index < len(node.items) else None
        path.append(step)
        node = node.child(step) if node is not None else None
    return tuple(path)


def _tokens(key: str) -> list[tuple[str | int, bool]]:
    """Return the steps of a key; the flag of a step is True for an index or a quoted name."""
    steps: list[tuple[str | int, bool]] = []
    position = 0
    needs_name = True
    while position < len(key):
        match = _TOKEN.match(key, position)
        if match is None:
            raise _malformed(key)
        position = match.end()
        index, double, single, word, dot = match.groups()
        if dot is not None:
            if needs_name:
                raise _malformed(key)
            needs_name = True
            continue
        if index is not None:
            steps.append((int(index), True))
        elif word is not None:
            steps.append((word, False))
        else:
            steps.append((re.sub(r"\\(.)", r"\1", double) if double is not None else single, True))
        needs_name = False
    if needs_name:
        raise _malformed(key)
    return steps


def _malformed(key: str) -> UsageError:
    remedy = 'Write keys as A.B, list items as A[0], and quote names with dots: A."x.y".'
    return UsageError(f"{key!r} is not a valid key", remedy=remedy)


def _next_step(
    steps: list[tuple[str | int, bool]], path: list[str | int], node: Node | None, kind: FileKind
) -> str | int:
    step, quoted = steps.pop(0)
    if isinstance(step, int) or quoted:
        return step
    if node is not None and node.kind == LIST and step.removeprefix("-").isdecimal():
        return int(step)
    field = kind.field_at(tuple(path))
    if field is not None and field.type in field_types.MAPS and len(path) == len(field.path):
        # The rest of the key is one name in this map.
        words = [step]
        while steps and isinstance(steps[0][0], str):
            words.append(str(steps.pop(0)[0]))
        return ".".join(words)
    return _longest_known(step, steps, node)


def _longest_known(step: str, steps: list[tuple[str | int, bool]], node: Node | None) -> str:
    """Return the longest key of `node` that consists of `step` and following steps, joined by dots.

    The joined steps are removed from `steps`. If `node` has no such key, return `step`.
    """
    if node is None or node.kind != MAP:
        return step
    names = {key.text for key, _ in node.entries}
    words = [step, *(str(following) for following, quoted in steps if isinstance(following, str) and not quoted)]
    for length in range(len(words), 1, -1):
        if ".".join(words[:length]) in names:
            del steps[: length - 1]
            return ".".join(words[:length])
    return step
