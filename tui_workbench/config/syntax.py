"""YAML as a tree whose every node knows which characters of the text it is.

Invariants: `text[node.start:node.end]` is exactly what a person would call the value (no trailing comment, no blank
lines); the tree is never deeper than `MAX_DEPTH`, and its aliases never expand to more than `MAX_EXPANSION` nodes, so
whoever walks it ends soon.

libyaml's parser gives the events where it is there, PyYAML's own otherwise. What to know about their marks: `index`
counts characters of the string given, without a byte order mark; a reader error of libyaml counts bytes, so the
character is searched again here; `line` counts NEL, LS and PS as line breaks, which editors do not, so lines come from
the index; a block collection's end mark lies behind the comments that follow it and a block scalar's behind its blank
lines, so both ends are computed here.
"""

from __future__ import annotations

import re

import yaml

from tui_workbench.config.source import Lines, refuse_size
from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
except ImportError:  # PyYAML built without libyaml: slower, same events
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

MAX_DEPTH = 40
"""Real files are four levels deep."""

MAX_EXPANSION = 20_000
"""Nodes after aliases are followed: a real file has under a hundred; nine lines of a YAML bomb make a billion."""

SCALAR, MAP, LIST = "scalar", "map", "list"

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))


class Node:
    """One value: a scalar, a map or a list.

    `start` and `end` are offsets into the text, `start` including an anchor or tag; `style` is a scalar's quote (`'`,
    `"`, `|`, `>`) or "" when plain; `flow` says that a collection is written with brackets; an alias is the node it
    names, wrapped in `alias_of`.
    """

    __slots__ = (
        "alias_of",
        "anchor",
        "end",
        "entries",
        "flow",
        "items",
        "kind",
        "size",
        "start",
        "style",
        "tag",
        "text",
    )

    def __init__(self, kind: str, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.text = ""  # of a scalar: its content, quotes and escapes resolved
        self.style = ""
        self.tag: str | None = None
        self.anchor: str | None = None
        self.flow = False
        self.entries: list[tuple[Node, Node]] = []  # of a map
        self.items: list[Node] = []  # of a list
        self.size = 1
        self.alias_of: Node | None = None

    @property
    def is_null(self) -> bool:
        """True for nothing at all, `~` and `null`, unquoted."""
        return self.kind == SCALAR and not self.style and self.text in _NULLS and self.tag is None

    def get(self, key: str) -> Node | None:
        """The value of `key` in a map, the last one when the key stands twice; None when there is none."""
        found = None
        for name, value in self.entries:
            if name.text == key:
                found = value
        if found is None:
            found = self._merged(key)
        return found

    def _merged(self, key: str) -> Node | None:
        for name, value in self.entries:
            if name.text == "<<" and not name.style:
                for source in [value] if value.kind == MAP else value.items:
                    found = source.get(key)
                    if found is not None:
                        return found
        return None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.start}:{self.end} {self.text or self.entries or self.items!r}>"


class Tree:
    """A parsed text: its root (None for an empty document), and where each offset is."""

    def __init__(self, text: str, root: Node | None, end: int, extra: int, anchors: dict[str, int]) -> None:
        self.text = text
        self.root = root
        self.end = end
        """Offset where the document's content may end: the `...` line, or the end of the text."""
        self.extra = extra
        """Offset of the `...` or `---` behind which more documents follow, -1 when there is one document only."""
        self.aliases = anchors
        """How often each anchor is referred to."""
        self.ellipsis = -1
        """Offset of a `...` before the content, -1 when there is none."""
        self._lines: Lines | None = None

    @property
    def lines(self) -> Lines:
        """Lines and columns of the text."""
        if self._lines is None:
            self._lines = Lines(self.text)
        return self._lines

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset."""
        return self.lines.place(offset)


def parse(text: str, path: str = "") -> Tree:
    """The tree of the first document in `text`; `path` is only named in errors.

    Raises ConfigurationError with line, column and remedy: not YAML, too large, too deep, or aliases that expand
    without measure.
    """
    refuse_size(len(text), path)
    try:
        return _Builder(text, path).build()
    except yaml.YAMLError as error:
        return _after_ellipsis(text, path) or _give_up(error, text, path)


_ELLIPSIS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*(\.\.\.)[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z)")


def _after_ellipsis(text: str, path: str) -> Tree | None:
    """The tree of a text that begins with a line `...`, as one copied from a manual may ("rest of file"), or None."""
    match = _ELLIPSIS.match(text)
    if match is None:
        return None
    # As a comment of the same length it moves nothing.
    tree = parse(text[: match.start(1)] + "#.." + text[match.end(1) :], path)
    tree.text = text
    tree.ellipsis = match.start(1)
    return tree


class _Builder:
    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.anchors: dict[str, Node] = {}
        self.aliases: dict[str, int] = {}
        self.open_anchors: list[str | None] = []

    def build(self) -> Tree:
        parser: Any = _Parser(self.text)
        # Bound methods in locals: this loop is most of the time that a check of many files takes.
        next_event: Any = parser.get_event
        next_event()  # StreamStart
        event: Any = next_event()
        if isinstance(event, yaml.StreamEndEvent):
            return Tree(self.text, None, len(self.text), -1, {})
        root = self._collect(next_event)
        ended: Any = next_event()  # DocumentEnd
        end = ended.start_mark.index if ended.explicit else len(self.text)
        extra = -1
        try:
            following: Any = next_event()
        except yaml.YAMLError:
            if not ended.explicit:
                raise
            # What follows the `...` is not even YAML. It is not part of the configuration; that it is there is the
            # problem.
            return Tree(self.text, root, end, end, self.aliases)
        if type(following) is yaml.DocumentStartEvent:
            mark: Any = following.start_mark
            extra = end if ended.explicit else mark.index
            end = min(end, extra)
        if root.is_null and root.start == root.end and not root.anchor:
            return Tree(self.text, None, end, extra, self.aliases)
        return Tree(self.text, root, end, extra, self.aliases)

    def _collect(self, next_event: Any) -> Node:
        """One node with everything below it, without recursion: depth is data here, not stack."""
        stack: list[Node] = []
        keys: list[Node | None] = []
        while True:
            event = next_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                node = self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._push(stack, keys, event, MAP if kind is yaml.MappingStartEvent else LIST)
                continue
            elif kind is yaml.AliasEvent:
                node = self._alias(event)
            else:
                node = self._pop(stack, keys, event)
            if not stack:
                return node
            self._attach(stack[-1], keys, node)

    def _scalar(self, event: Any) -> Node:
        node = Node(SCALAR, event.start_mark.index, event.end_mark.index)
        node.text = event.value
        style = event.style
        if style:
            node.style = style
            if style in "|>":
                node.end = self._block_scalar_end(node)
        if event.anchor is not None:
            node.anchor = event.anchor
            self.anchors[event.anchor] = node
        if event.tag is not None:
            node.tag = event.tag
        return node

    def _block_scalar_end(self, node: Node) -> int:
        """Without the last line end, and without blank lines unless the indicator is `+`, which makes them content."""
        raw = self.text[node.start : node.end]
        end = len(raw)
        keeps = "+" in raw.partition("\n")[0].partition(" #")[0]
        while not keeps and "\n" in raw[:end] and not raw[raw.rindex("\n", 0, end) : end].strip():
            end = raw.rindex("\n", 0, end)
        if keeps and raw.endswith("\n"):
            end -= 1
        return node.start + end - raw[:end].endswith("\r")

    def _push(self, stack: list[Node], keys: list[Node | None], event: Any, kind: str) -> None:
        node = Node(kind, event.start_mark.index, event.end_mark.index)
        node.flow = bool(event.flow_style)
        node.anchor = event.anchor
        node.tag = event.tag
        if len(stack) >= MAX_DEPTH:
            raise self._error(node.start, f"more than {MAX_DEPTH} levels of nesting", "Write it flatter.")
        stack.append(node)
        keys.append(None)
        self.open_anchors.append(event.anchor)

    def _pop(self, stack: list[Node], keys: list[Node | None], event: Any) -> Node:
        node = stack.pop()
        keys.pop()
        self.open_anchors.pop()
        if node.flow:
            node.end = event.end_mark.index
        elif node.kind == MAP:
            node.end = max(node.entries[-1][1].end, node.entries[-1][0].end)
        elif node.items:
            node.end = node.items[-1].end
        if node.anchor:
            self.anchors[node.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        name = event.anchor
        at = event.start_mark.index
        if name in self.open_anchors:
            raise self._error(at, f"*{name} stands inside of what it names", "Write the value out.")
        target = self.anchors.get(name)
        if target is None:
            raise self._error(
                at, f"*{name} names an anchor that does not exist", f"Define &{name} above, or write the value."
            )
        node = Node(target.kind, at, event.end_mark.index)
        node.text, node.style, node.tag, node.flow = target.text, target.style, target.tag, target.flow
        node.entries, node.items, node.size = target.entries, target.items, target.size
        node.alias_of = target
        self.aliases[name] = self.aliases.get(name, 0) + 1
        return node

    def _attach(self, parent: Node, keys: list[Node | None], node: Node) -> None:
        parent.size += node.size
        if parent.size > MAX_EXPANSION:
            raise self._error(
                node.start, f"more than {MAX_EXPANSION:,} values", "Remove the aliases that multiply them."
            )
        if parent.kind == LIST:
            parent.items.append(node)
            return
        key = keys[-1]
        if key is None:
            if node.kind != SCALAR:
                raise self._error(
                    node.start, "a key must be a word, not a list or map", "Quote it if it begins with [ or {."
                )
            keys[-1] = node
        else:
            parent.entries.append((key, node))
            keys[-1] = None

    def _error(self, offset: int, message: str, remedy: str) -> ConfigurationError:
        line, column = Lines(self.text).place(offset)
        return ConfigurationError(message, remedy=remedy, file=self.path, line=line, column=column)


def plain_value(node: Node | None) -> Any:
    """The value of a node that no schema knows: strings, booleans, numbers, None, lists and dicts.

    By the YAML 1.2 core rules, not 1.1's: `no`, `on` and `0022` are text.
    """
    if node is None:
        return None
    if node.kind == MAP:
        own = {name.text: plain_value(value) for name, value in node.entries if name.text != "<<" or name.style}
        if len(own) != len(node.entries):
            for name, value in node.entries:
                if name.text == "<<" and not name.style:
                    for source in [value] if value.kind == MAP else value.items:
                        own = {**(plain_value(source) if source.kind == MAP else {}), **own}
        return own
    if node.kind == LIST:
        return [plain_value(item) for item in node.items]
    if node.style or node.tag == "tag:yaml.org,2002:str":
        return node.text
    return _core_value(node.text)


_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")


def _core_value(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    # int() of thousands of digits is refused by Python; such a thing is text.
    if len(text) < 40:
        if _INTEGER.match(text):
            return int(text)
        if _NUMBER.match(text) and not (text[0] == "0" and text[1:2].isdigit()):
            return float(text)
    return text


def _give_up(error: yaml.YAMLError, text: str, path: str) -> NoReturn:
    from tui_workbench.config.syntax_errors import explain

    raise explain(error, text, path) from error
