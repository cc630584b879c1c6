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
from collections.abc import Iterator
from copy import copy
from functools import cache
from types import ModuleType
from typing import Any

from tui_workbench.config.yaml_edit.syntax_errors import explain, missing_comma
from tui_workbench.core.errors import ConfigurationError, StorageError
from tui_workbench.core.masking import is_secret_name
from tui_workbench.core.text_files import TextFile, line_and_column, read_text_file

MAX_BYTES = 1_000_000
"""The largest real file known has 3 kB; a megabyte is a mistake or an attack, and parsing 10 MB would take a second."""

MAX_DEPTH = 40
"""Real files are four levels deep."""

MAX_EXPANSION = 20_000
"""Nodes after aliases are followed: a real file has under a hundred; nine lines of a YAML bomb make a billion."""

SCALAR, MAP, LIST = "scalar", "map", "list"

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))

Path = tuple[str | int, ...]
"""Steps from the root of the file: keys of maps and indices of lists."""


class Node:
    """One value: a scalar, a map or a list.

    `start` and `end` are offsets into the text, `start` including an anchor or tag; `style` is a scalar's quote (`'`,
    `"`, `|`, `>`) or "" when plain; `flow` says that a collection is written with brackets; an alias is the node it
    names, wrapped in `alias_of`.
    """

    __slots__ = (
        "alias_of", "anchor", "end", "entries", "flow", "items", "kind", "size", "start", "style", "tag", "text",
    )  # fmt: skip

    def __init__(
        self, kind: str, start: int, end: int, text: str = "", *, tag: str | None = None, anchor: str | None = None
    ) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.text = text  # of a scalar: its content, quotes and escapes resolved
        self.style = ""
        self.tag = tag
        self.anchor = anchor
        self.flow = False
        self.entries: list[tuple[Node, Node]] = []  # of a map
        self.items: list[Node] = []  # of a list
        self.size = 1
        self.alias_of: Node | None = None

    @property
    def is_null(self) -> bool:
        """True for nothing at all, `~` and `null`, unquoted."""
        return self.kind == SCALAR and not self.style and self.text in _NULLS and self.tag is None

    @property
    def is_empty(self) -> bool:
        """True for nothing at all and for a map or list that holds nothing."""
        return self.is_null or (self.kind != SCALAR and self.size == 1)

    @property
    def own_entries(self) -> list[tuple[Node, Node]]:
        """The entries of a map but for merge keys (`<<`)."""
        return [(key, value) for key, value in self.entries if key.text != "<<" or key.style]

    @property
    def merged(self) -> Iterator[Node]:
        """The maps whose entries merge keys bring in where the map has none of its own."""
        for key, value in self.entries:
            if key.text == "<<" and not key.style:
                yield from [value] if value.kind == MAP else value.items

    def entry(self, key: str | int) -> tuple[Node, Node] | None:
        """The key and value of a map's own entry, the last one when the key stands twice; None when there is none."""
        return next((entry for entry in reversed(self.entries) if entry[0].text == key), None)

    def get(self, key: str) -> Node | None:
        """The value of `key` in a map, also of one that is merged in; None when there is none."""
        own = self.entry(key)
        if own is not None:
            return own[1]
        return next((found for source in self.merged if (found := source.get(key)) is not None), None)

    def child(self, step: str | int) -> Node | None:
        """The value one step below, None when there is none."""
        if isinstance(step, str):
            return self.get(step)
        return self.items[step] if -len(self.items) <= step < len(self.items) else None


class Tree:
    """A parsed text and its root (None for an empty document)."""

    def __init__(
        self, text: str, root: Node | None, end: int, extra: int = -1, aliases: dict[str, int] | None = None
    ) -> None:
        self.text = text
        self.root = root
        self.end = end
        """Offset where the document's content may end: the `...` line, or the end of the text."""
        self.extra = extra
        """Offset of the `...` or `---` behind which more documents follow, -1 when there is one document only."""
        self.aliases = aliases or {}
        """How often each anchor is referred to."""
        self.ellipsis = -1
        """Offset of a `...` before the content, -1 when there is none."""

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset."""
        return line_and_column(self.text, offset)


def find(tree: Tree, path: Path) -> Node | None:
    """The node at `path`, None when there is none."""
    node = tree.root
    for step in path:
        node = node.child(step) if node is not None else None
    return node


def own(tree: Tree, path: Path) -> Node | None:
    """The node at `path` that the file itself sets there, not one that a merge key (`<<`) brings."""
    parent = find(tree, path[:-1])
    if parent is None or not path or parent.kind != MAP:
        return find(tree, path)
    entry = parent.entry(path[-1])
    return entry[1] if entry is not None else None


def dotted(path: Path) -> str:
    """A path as people write it: `dependencies[3].pip[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def read(path: str) -> TextFile:
    """The file at `path`, its text with line feeds (or, when line ends are mixed, as they are).

    Raises ConfigurationError: there is no such file, it may not be read, is no regular file, too large, or not text.
    """
    try:
        file = read_text_file(path, largest=MAX_BYTES, head=0)
    except StorageError as error:
        raise ConfigurationError(error.message, remedy=error.remedy, file=path) from error
    if file.too_large:
        _refuse_size(file.signature.size, path)
    if file.encoding in ("", "latin-1"):
        raise _not_text(path)
    return file


def _refuse_size(size: int, path: str) -> None:
    if size > MAX_BYTES:
        message = f"{size:,} bytes are too many for a configuration file (at most {MAX_BYTES:,})"
        raise ConfigurationError(message, remedy="Put a real configuration file in its place.", file=path)


def _not_text(path: str) -> ConfigurationError:
    """The error for a file that is not UTF-8, at its first bad byte."""
    with open(path, "rb") as file:
        text = file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    bad = re.search("[\0\udc80-\udcff]", text)
    line, column = line_and_column(text, bad.start() if bad is not None else 0)
    found = f"the byte 0x{ord(bad[0]) & 0xFF:02x}" if bad is not None else "it"
    message = f"{found} is not UTF-8 text"
    return ConfigurationError(message, remedy="Save the file as UTF-8.", file=path, line=line, column=column)


def parse(text: str, path: str = "") -> Tree:
    """The tree of the first document in `text`; `path` is only named in errors.

    Raises ConfigurationError with line, column and remedy: not YAML, too large, too deep, or aliases that expand
    without measure.
    """
    _refuse_size(len(text), path)
    try:
        tree = _Builder(text, path).build()
    except parser_library().YAMLError as error:
        after = _after_ellipsis(text, path)
        if after is None:
            raise explain(error, text).placed(text, path) from error
        return after
    fault = missing_comma(text) if tree.root is not None and tree.root.flow else None
    if fault is not None:
        raise fault.placed(text, path)
    return tree


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


@cache
def parser_library() -> ModuleType:
    """PyYAML. Loading it takes as long as many commands, so it is loaded with the first text to parse."""
    import yaml

    return yaml


class _Builder:
    """Makes the tree of one text from the events of the parser."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.yaml: Any = parser_library()
        # Without libyaml, the parser in Python gives the same events more slowly.
        parser: Any = self.yaml.cyaml.CParser(text) if self.yaml.__with_libyaml__ else self.yaml.SafeLoader(text)
        self.next_event = parser.get_event
        self.anchors: dict[str, Node] = {}
        self.aliases: dict[str, int] = {}
        self.open_anchors: list[str | None] = []

    def build(self) -> Tree:
        self.next_event()  # StreamStart
        if isinstance(self.next_event(), self.yaml.StreamEndEvent):
            return Tree(self.text, None, len(self.text))
        root: Node | None = self._node(self.next_event())
        ended = self.next_event()  # DocumentEnd
        end = ended.start_mark.index if ended.explicit else len(self.text)
        extra = -1
        try:
            following = self.next_event()
        except self.yaml.YAMLError:
            if not ended.explicit:
                raise
            # What follows the `...` is not even YAML. It is not part of the configuration; that it is there is the
            # problem.
            return Tree(self.text, root, end, end, self.aliases)
        if isinstance(following, self.yaml.DocumentStartEvent):
            extra = end if ended.explicit else following.start_mark.index
            end = min(end, extra)
        if root is not None and root.is_null and root.start == root.end and not root.anchor:
            root = None
        return Tree(self.text, root, end, extra, self.aliases)

    def _node(self, event: Any, depth: int = 0) -> Node:
        """The node that begins with `event`, with everything below it."""
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, self.yaml.AliasEvent):
            return self._alias(event.anchor, start, end)
        node = Node(SCALAR, start, end, tag=event.tag, anchor=event.anchor)
        if isinstance(event, self.yaml.ScalarEvent):
            node.text, node.style = event.value, event.style or ""
            if node.style in ("|", ">"):
                node.end = self._block_scalar_end(node)
        else:
            if depth >= MAX_DEPTH:
                raise self._error(start, f"more than {MAX_DEPTH} levels of nesting", "Write it flatter.")
            node.kind = MAP if isinstance(event, self.yaml.MappingStartEvent) else LIST
            node.flow = bool(event.flow_style)
            self.open_anchors.append(event.anchor)
            self._fill(node, depth)
            self.open_anchors.pop()
        if node.anchor:
            self.anchors[node.anchor] = node
        return node

    def _fill(self, parent: Node, depth: int) -> None:
        """Read the entries or items of a collection, and where it ends."""
        key: Node | None = None
        while not isinstance(event := self.next_event(), self.yaml.CollectionEndEvent):
            node = self._node(event, depth + 1)
            parent.size += node.size
            if parent.size > MAX_EXPANSION:
                remedy = "Remove the aliases that multiply them."
                raise self._error(node.start, f"more than {MAX_EXPANSION:,} values", remedy)
            if parent.kind == LIST:
                parent.items.append(node)
            elif key is not None:
                parent.entries.append((key, node))
                key = None
            elif node.kind == SCALAR:
                key = node
            else:
                remedy = "Quote it if it begins with [ or {."
                raise self._error(node.start, "a key must be a word, not a list or map", remedy)
        if parent.flow:
            parent.end = event.end_mark.index
        elif parent.entries:
            parent.end = max(node.end for node in parent.entries[-1])
        elif parent.items:
            parent.end = parent.items[-1].end

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

    def _alias(self, name: str, start: int, end: int) -> Node:
        if name in self.open_anchors:
            raise self._error(start, f"*{name} stands inside of what it names", "Write the value out.")
        target = self.anchors.get(name)
        if target is None:
            before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
            key = re.search(r"""([\w.-]+)["']?[ \t]*:[ \t]*\Z""", before)
            if key is not None and is_secret_name(key[1]):
                raise self._error(start, "`*` begins no secret in YAML", "Put the value in quotes.")
            remedy = f"Define &{name} above, or write the value."
            raise self._error(start, f"*{name} names an anchor that does not exist", remedy)
        self.aliases[name] = self.aliases.get(name, 0) + 1
        alias = copy(target)
        alias.start, alias.end, alias.anchor, alias.alias_of = start, end, None, target
        return alias

    def _error(self, offset: int, message: str, remedy: str) -> ConfigurationError:
        line, column = line_and_column(self.text, offset)
        return ConfigurationError(message, remedy=remedy, file=self.path, line=line, column=column)


def plain_value(node: Node | None) -> Any:
    """The value of a node that no schema knows: strings, booleans, numbers, None, lists and dicts.

    By the YAML 1.2 core rules, not 1.1's: `no`, `on` and `0022` are text.
    """
    if node is None:
        return None
    if node.kind == MAP:
        found = {key.text: plain_value(value) for key, value in node.own_entries}
        for source in node.merged:
            found = {**(plain_value(source) if source.kind == MAP else {}), **found}
        return found
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
