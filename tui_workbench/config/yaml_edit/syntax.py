"""Parse YAML into a tree of nodes with their exact positions.

`text[node.start:node.end]` is a value without trailing comments and blank lines. A tree has at most `MAX_DEPTH` levels,
and its aliases expand to at most `MAX_EXPANSION` nodes.

libyaml, or the pure Python parser of PyYAML, reports events with marks. `index` of a mark counts characters, without a
byte order mark. Only reader errors of libyaml count bytes, so this module searches for the character that they name.
`line` counts NEL, LS and PS as line breaks, unlike editors, so lines are computed from the index. The end mark of a
block collection is after its trailing comments. The end mark of a block scalar is after its blank lines. Both ends are
therefore computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from tui_workbench.config.yaml_edit.syntax_errors import HAS_NUL, MAX_DEPTH, TOO_DEEP, explain, missing_comma
from tui_workbench.core.errors import ConfigurationError, StorageError
from tui_workbench.core.files import open_file
from tui_workbench.core.secret_names import is_secret_name
from tui_workbench.core.text_files import TextFile, line_and_column, read_text_file

MAX_BYTES = 1_000_000
"""Maximum size of a file in bytes. Typical files have up to 3 kB."""

MAX_EXPANSION = 20_000
"""Maximum number of nodes with expanded aliases. Typical files have fewer than 100 nodes; YAML bombs have a billion."""

SCALAR, MAP, LIST = "scalar", "map", "list"

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))

Path = tuple[str | int, ...]
"""Keys of maps and indices of lists, from the root of the file."""


class Node:
    """A scalar, a map or a list.

    `start` and `end` are offsets into the text; an anchor or tag is part of the node. `style` is the quote of a scalar
    (`'`, `"`, `|` or `>`), or "". `flow` is True for a collection in brackets. An alias is a copy of `alias_of`.
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
        self.text = text  # content of a scalar, without quotes and escapes
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
        """True for an empty value, `~` and `null`."""
        return self.kind == SCALAR and not self.style and self.text in _NULLS and self.tag is None

    @property
    def is_empty(self) -> bool:
        """True for null, and for an empty map or list."""
        return self.is_null or (self.kind != SCALAR and self.size == 1)

    @property
    def own_entries(self) -> list[tuple[Node, Node]]:
        """The entries of a map, except its merge keys (`<<`)."""
        return [(key, value) for key, value in self.entries if key.text != "<<" or key.style]

    @property
    def merged(self) -> Iterator[Node]:
        """The maps that merge keys include."""
        for key, value in self.entries:
            if key.text == "<<" and not key.style:
                yield from [value] if value.kind == MAP else value.items

    def entry(self, key: str | int) -> tuple[Node, Node] | None:
        """Return the key and value nodes of the last entry with `key`, or None. Merged maps are ignored."""
        return next((entry for entry in reversed(self.entries) if entry[0].text == key), None)

    def get(self, key: str) -> Node | None:
        """Return the value of `key` in a map or its merged maps, or None."""
        own = self.entry(key)
        if own is not None:
            return own[1]
        return next((value for source in self.merged if (value := source.get(key)) is not None), None)

    def child(self, step: str | int) -> Node | None:
        """Return the value of a key or index, or None."""
        if isinstance(step, str):
            return self.get(step)
        return self.items[step] if -len(self.items) <= step < len(self.items) else None


class Tree:
    """A parsed text. `root` is None for an empty document."""

    def __init__(
        self, text: str, root: Node | None, end: int, extra: int = -1, aliases: dict[str, int] | None = None
    ) -> None:
        self.text = text
        self.root = root
        self.end = end
        """Offset of the line `...` that ends the document, or of the end of the text."""
        self.extra = extra
        """Offset of the `...` or `---` before further documents, or -1."""
        self.aliases = aliases or {}
        """Number of references to each anchor."""
        self.ellipsis = -1
        """Offset of a `...` before the content, or -1."""

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset, from 1."""
        return line_and_column(self.text, offset)


def find(tree: Tree, path: Path) -> Node | None:
    """Return the node at `path`, or None if it is not set."""
    node = tree.root
    for step in path:
        node = node.child(step) if node is not None else None
    return node


def own(tree: Tree, path: Path) -> Node | None:
    """Return the node at `path`, or None. Merged maps are not searched for the last key."""
    parent = find(tree, path[:-1])
    if parent is None or not path or parent.kind != MAP:
        return find(tree, path)
    entry = parent.entry(path[-1])
    return entry[1] if entry is not None else None


def dotted(path: Path) -> str:
    """Format a path: `dependencies[3].pip[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def read(path: str) -> TextFile:
    """Read a file. Raises ConfigurationError if it is unreadable, not a regular file, too large or not text."""
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
        message = f"the file has {size:,} bytes, but a configuration file can have at most {MAX_BYTES:,}"
        raise ConfigurationError(message, remedy="Make the file smaller, or choose another file.", file=path)


def _not_text(path: str) -> ConfigurationError:
    """Return the error for a file that is not UTF-8 text, with the position of the first invalid byte."""
    with open_file(path) as file:
        text = file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    bad = re.search("[\0\udc80-\udcff]", text)
    line, column = line_and_column(text, bad.start() if bad is not None else 0)
    shown = f"the byte 0x{ord(bad[0]) & 0xFF:02x}" if bad is not None else "a byte"
    message = f"{shown} is not allowed in a UTF-8 text file"
    return ConfigurationError(
        message, remedy="Remove this byte, or save the file as UTF-8.", file=path, line=line, column=column
    )


def parse(text: str, path: str = "") -> Tree:
    """Parse the first document in `text`. Errors contain `path` as the file.

    Raises ConfigurationError with line, column and remedy if the text is invalid, too large or too deeply nested, or if
    its aliases expand too far.
    """
    _refuse_size(len(text.encode("utf-8", "surrogatepass")), path)
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
    """Parse a text that begins with a line `...`, as texts from manuals do. Return None for other texts."""
    match = _ELLIPSIS.match(text)
    if match is None:
        return None
    # A comment of the same length does not change positions.
    tree = parse(text[: match.start(1)] + "#.." + text[match.end(1) :], path)
    tree.text = text
    tree.ellipsis = match.start(1)
    return tree


@cache
def parser_library() -> ModuleType:
    """Return PyYAML. It is imported at its first use, because the import is slow."""
    import yaml

    return yaml


class _Builder:
    """Builder of a tree from the events of the parser."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.yaml: Any = parser_library()
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
            # The text after `...` is not part of the configuration, and need not be YAML.
            return Tree(self.text, root, end, end, self.aliases)
        if isinstance(following, self.yaml.DocumentStartEvent):
            extra = end if ended.explicit else following.start_mark.index
            end = min(end, extra)
        if root is not None and root.is_null and root.start == root.end and not root.anchor:
            root = None
        return Tree(self.text, root, end, extra, self.aliases)

    def _node(self, event: Any, depth: int = 0) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, self.yaml.AliasEvent):
            return self._alias(event.anchor, start, end)
        node = Node(SCALAR, start, end, tag=event.tag, anchor=event.anchor)
        if isinstance(event, self.yaml.ScalarEvent):
            node.text, node.style = event.value, event.style or ""
            if "\0" in node.text:
                raise self._error(start, *HAS_NUL)
            if node.style in ("|", ">"):
                node.end = self._block_scalar_end(node)
        else:
            if depth >= MAX_DEPTH:
                raise self._error(start, *TOO_DEEP)
            node.kind = MAP if isinstance(event, self.yaml.MappingStartEvent) else LIST
            node.flow = bool(event.flow_style)
            self.open_anchors.append(event.anchor)
            self._fill(node, depth)
            self.open_anchors.pop()
        if node.anchor:
            self.anchors[node.anchor] = node
        return node

    def _fill(self, parent: Node, depth: int) -> None:
        """Read the entries or items of a collection, and set its end."""
        key: Node | None = None
        while not isinstance(event := self.next_event(), self.yaml.CollectionEndEvent):
            node = self._node(event, depth + 1)
            parent.size += node.size
            if parent.size > MAX_EXPANSION:
                message = f"the file has more than {MAX_EXPANSION:,} values, with aliases expanded"
                raise self._error(node.start, message, "Remove values, or replace aliases with short values.")
            if parent.kind == LIST:
                parent.items.append(node)
            elif key is not None:
                parent.entries.append((key, node))
                key = None
            elif node.kind == SCALAR:
                key = node
            else:
                remedy = "Write text as the key. Quote it if it begins with [ or {."
                raise self._error(node.start, "a key must be text, not a list or map", remedy)
        if parent.flow:
            parent.end = event.end_mark.index
        elif parent.entries:
            parent.end = max(node.end for node in parent.entries[-1])
        elif parent.items:
            parent.end = parent.items[-1].end

    def _block_scalar_end(self, node: Node) -> int:
        """Return the end of a block scalar before its last line break; with `+`, blank lines are part of it."""
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
            message = f"the alias *{name} is inside the value of its anchor &{name}"
            raise self._error(
                start, message, f"Replace *{name} with another value. If *{name} is text, put it in quotes."
            )
        target = self.anchors.get(name)
        if target is None:
            before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
            key = re.search(r"""([\w.-]+)["']?[ \t]*:[ \t]*\Z""", before)
            if key is not None and is_secret_name(key[1]):
                raise self._error(start, "a value that begins with `*` needs quotes", "Put the value in quotes.")
            remedy = f"Define &{name} above. If *{name} is text, put it in quotes."
            raise self._error(start, f"*{name} refers to an unknown anchor", remedy)
        self.aliases[name] = self.aliases.get(name, 0) + 1
        alias = Node(target.kind, start, end, target.text, tag=target.tag)
        alias.style, alias.flow, alias.size = target.style, target.flow, target.size
        alias.entries, alias.items = target.entries, target.items
        alias.alias_of = target
        return alias

    def _error(self, offset: int, message: str, remedy: str) -> ConfigurationError:
        line, column = line_and_column(self.text, offset)
        return ConfigurationError(message, remedy=remedy, file=self.path, line=line, column=column)


def plain_value(node: Node | None) -> Any:
    """Return the value of a node in the YAML 1.2 core schema, except that numbers with leading zeros are strings."""
    if node is None:
        return None
    if node.kind == MAP:
        mapping = {key.text: plain_value(value) for key, value in node.own_entries}
        for source in node.merged:
            mapping = {**(plain_value(source) if source.kind == MAP else {}), **mapping}
        return mapping
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
    # Python refuses to convert thousands of digits. Such numbers are text.
    if len(text) < 40:
        if _INTEGER.match(text):
            return int(text)
        if _NUMBER.match(text) and not (text[0] == "0" and text[1:2].isdigit()):
            return float(text)
    return text
