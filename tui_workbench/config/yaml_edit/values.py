"""Read the values of a file with the types of the schema.

In a text field, `no` is "no" and `0022` is "0022", not the boolean and number of YAML 1.1. An invalid value does not
raise an exception. It is added to a list of faults, so that all faults are found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import FALSE_WORDS, TRUE_WORDS, TYPE_NAMES, Field, FileKind
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, Tree, plain_value
from tui_workbench.config.yaml_edit.syntax_errors import missing_space
from tui_workbench.core import target_types
from tui_workbench.core.errors import ConfigurationError

_PLACEHOLDER = re.compile(r"<[A-Za-z0-9_][\w .,-]*>")
# The limit is necessary because Python refuses to convert thousands of digits.
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_GPU_COUNT = re.compile(r"[0-9]{1,3}")
# GPU-... and MIG-... are IDs of NVIDIA. amd-smi prints UUIDs and rocm-smi 0x..., and AMD-2 is a GPU without an ID.
_GPU_ID = re.compile(
    r"[0-9]+|(?:GPU|MIG)-[^,]*|AMD-[0-9]+|0x[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII
)
_PROCESSES = re.compile(r"gpus|[1-9][0-9]{0,2}")

GPUS_WORD = "gpus"
"""The value of ProcessesPerNode that means one process for each GPU of the run."""


class Fault(NamedTuple):
    """An invalid value at `path`; `start` and `end` are offsets into the text."""

    code: str
    message: str
    remedy: str
    start: int
    end: int
    path: Path
    field: Field | None = None


class Reading(NamedTuple):
    """The fields of a file by key, and its faults and unknown keys."""

    values: dict[str, Any]
    nodes: dict[str, Node]
    faults: list[Fault]
    unknown: list[tuple[tuple[str, ...], Node, Node]]  # path, key node and value node of unknown keys


def read_fields(tree: Tree, kind: FileKind) -> Reading:
    """Return the typed values, faults and unknown keys of a file of this kind."""
    reading = Reading({}, {}, [], [])
    root = tree.root
    if tree.extra >= 0:
        line, _ = tree.position(tree.extra)
        mark = tree.text[tree.extra : tree.extra + 3]
        message = f"`{mark}` ends the document: the rest of the file is ignored"
        remedy = f"Remove only line {line}, or line {line} and all lines after it."
        reading.faults.append(Fault("several-documents", message, remedy, tree.extra, tree.extra + 3, ()))
    if root is not None and root.kind == MAP:
        type_node = root.get("type")
        if type_node is not None and type_node.kind == SCALAR and type_node.text in target_types.installed():
            # A target type of another package: its `address` can have any form. No program of the workbench gets it.
            kind = kind._replace(fields=tuple(field._replace(mistake_in=None) for field in kind.fields))
        _read_map(root, kind, "", reading)
    elif root is not None:
        reading.faults.append(_no_map(tree, root))
    return reading


def valid_fields(tree: Tree, kind: FileKind, path: str) -> Reading:
    """Return the typed values of a file of this kind. Raises its first fault as a ConfigurationError."""
    reading = read_fields(tree, kind)
    raise_first(reading.faults, tree, path)
    return reading


def raise_first(faults: Sequence[Fault], tree: Tree, path: str) -> None:
    """Raise the first of the faults as a ConfigurationError. Faults with a position come before missing fields."""
    if faults:
        first = min(faults, key=lambda fault: (fault.code == "missing-field" and not fault.end, fault.start))
        line, column = tree.position(first.start)
        raise ConfigurationError(first.message, remedy=first.remedy, file=path, line=line, column=column)


def _no_map(tree: Tree, root: Node) -> Fault:
    # YAML reads a line without a space after the colon as one word.
    error = missing_space(tree.text)
    if error is not None:
        return Fault(error.code, error.message, error.remedy, error.offset, error.offset, ())
    content = "a list" if root.kind == LIST else "a single value"
    message = f"the file contains {content}, expected `key: value` lines"
    return Fault("not-a-map", message, "Write one `key: value` on each line.", root.start, root.end, ())


def _read_map(node: Node, kind: FileKind, prefix: str, reading: Reading) -> None:
    seen: set[str] = set()
    for key, value in node.own_entries:
        name = prefix + key.text
        path = tuple(name.split(".")) if prefix else (key.text,)
        if key.text in seen:
            reading.faults.append(_duplicate(key, path))
        seen.add(key.text)
        field = None if "." in key.text else kind.field(name)
        if field is not None:
            _read_field(field, value, path, reading)
        elif "." in key.text or not kind.is_section(name):
            reading.unknown.append((path, key, value))
        elif value.kind == MAP:
            _read_map(value, kind, name + ".", reading)
        elif not value.is_null:
            message = f"`{name}` is {_describe(value)}, expected a map"
            remedy = f"Indent the keys of `{name}` below it."
            reading.faults.append(Fault("wrong-type", message, remedy, value.start, value.end, path))
    for source in node.merged:
        for key, value in source.entries:
            field = kind.field(prefix + key.text)
            if field is not None and field.key not in reading.values and key.text not in seen:
                _read_field(field, value, field.path, reading)


def _duplicate(key: Node, path: Path) -> Fault:
    message = f"duplicate key `{key.text}`"
    return Fault("duplicate-key", message, f"Keep only one line with `{key.text}`.", key.start, key.end, path)


def _read_field(field: Field, node: Node, path: Path, reading: Reading) -> None:
    reading.nodes[field.key] = node
    before = len(reading.faults)
    if not node.is_null or field.type == field_types.ANY:
        value = convert(field, node, path, reading.faults)
        if len(reading.faults) == before or value is not None:
            reading.values[field.key] = value
    elif not field.nullable:
        message, remedy = f"`{field.key}` has no value", f"After the colon, write {_expected(field)}."
        reading.faults.append(Fault("missing-value", message, remedy, node.start, node.end, path, field))


class _Value(NamedTuple):
    """A node with the field whose type its value must have."""

    field: Field
    node: Node
    path: Path
    faults: list[Fault]
    name: str  # for messages

    def below(self, step: str | int, node: Node) -> _Value:
        name = f"item {step + 1} of" if isinstance(step, int) else f"`{step}` in"
        return self._replace(node=node, path=(*self.path, step), name=f"{name} `{self.field.key}`")

    def fault(self, code: str, message: str, remedy: str) -> None:
        self.faults.append(Fault(code, message, remedy, self.node.start, self.node.end, self.path, self.field))

    def wrong(self, expected: str, remedy: str = "", code: str = "wrong-type") -> None:
        message = f"{self.name} is {_describe(self.node)}, expected {expected}"
        self.fault(code, message, remedy or f"Write {expected}.")


def convert(field: Field, node: Node, path: Path, faults: list[Fault]) -> Any:
    """Return the value of `node` with the type of `field`. For an invalid value, add a fault and return None."""
    value = _Value(field, node, path, faults, f"`{field.key}`")
    shape, read, remedy = _READERS[field.type]
    if node.kind == shape or not shape:
        return read(value)
    value.wrong(_expected(field), remedy.format(", ".join(column.key for column in field.row)))
    return None


def _string(value: _Value) -> str | None:
    field, text = value.field, value.node.text
    if field.is_old or not is_placeholder(text, secret=field.secret):
        return text if not text or _matches(value) else None
    # Do not show the text of a secret: it may be real, although it has brackets.
    shown = "" if field.secret else f" {_short(text)!r}"
    value.fault("placeholder", f"`{field.key}` is still the placeholder{shown}", "Enter the real value.")
    return None


def _boolean(value: _Value) -> bool | None:
    word = value.node.text.strip().lower()
    if word in TRUE_WORDS | FALSE_WORDS:
        return word in TRUE_WORDS
    value.wrong(_expected(value.field))
    return None


def _integer(value: _Value) -> int | None:
    least = value.field.minimum
    if not _INTEGER.fullmatch(value.node.text):
        example = f", for example {value.field.example}" if value.field.example else ""
        value.wrong(_expected(value.field), f"Write {_expected(value.field)}{example}.")
    elif least is not None and int(value.node.text) < least:
        value.wrong(f"{least} or more")
    else:
        return int(value.node.text)
    return None


def _processes(value: _Value) -> str | None:
    word = value.node.text.strip().lower()
    if _PROCESSES.fullmatch(word):
        return word
    value.wrong(_expected(value.field), "Write a number of processes from 1 to 999, or gpus.")
    return None


def _choice(value: _Value) -> str | None:
    field, text = value.field, value.node.text
    understood = field.understand(text)
    if not understood and field.key == "type" and target_types.is_known(text):
        understood = text
    if understood:
        return understood
    message = f"`{field.key}` cannot be {_short(text)!r}"
    value.fault("wrong-choice", message, f"Choose one of: {', '.join(field.offered)}.")
    return None


def is_placeholder(text: str, *, secret: bool = False) -> bool:
    """Return True if a text contains a placeholder such as `<ipAddress>`.

    A secret may contain brackets, so it is a placeholder only if the brackets enclose the whole text. A reference to a
    secret is treated like other text.
    """
    if secret and not text.startswith("AzureMlSecret="):
        return _PLACEHOLDER.fullmatch(text.strip()) is not None
    return _PLACEHOLDER.search(text) is not None


def _matches(value: _Value) -> bool:
    """Return True if a text has the form of its field; otherwise add a fault."""
    field = value.field
    mistake = field.mistake_in(value.node.text) if field.mistake_in is not None else None
    if mistake is not None:
        value.fault(field.mistake_code, f"`{field.key}`: {mistake.message}", mistake.remedy)
        return False
    if not field.pattern or re.fullmatch(field.pattern, value.node.text, re.ASCII):
        return True
    value.wrong(field.form, f"Write, for example, {field.example.strip('[]')}.", "wrong-form")
    return False


def _is_free(value: _Value) -> bool:
    """Return True if a text is not a reserved option or an abbreviation of one; otherwise add a fault."""
    word = value.node.text.partition("=")[0]
    reserved = next((option for option in value.field.reserved if option.startswith(word)), "")
    if reserved:
        message = f"{_describe(value.node)} cannot be in `{value.field.key}`: the workbench controls {reserved}"
        value.fault("reserved-option", message, "Remove this option.")
    return not reserved


def _strings(value: _Value) -> tuple[str, ...]:
    return tuple(_text_items(value))


def _text_items(value: _Value) -> Iterator[str]:
    for index, node in enumerate(value.node.items):
        item = value.below(index, node)
        if node.kind != SCALAR:
            item.wrong(
                "text", "Quote it if it contains `: `." if node.kind == MAP else "Write each text as its own item."
            )
        elif node.start == node.end:
            item.fault("missing-value", f"{item.name} is empty", 'Write a value, or "" for an empty text.')
        elif _matches(item) and _is_free(item):
            yield node.text


def _gpus(value: _Value) -> str | None:
    """Return `all`, `free`, digits, or a list such as `[0, GPU-...]`. Otherwise, add a fault and return None."""
    node = value.node
    if node.kind == LIST:
        items = [item.strip() for item in _text_items(value)]
        wrong = next((item for item in items if not _GPU_ID.fullmatch(item)), "")
        if not wrong:
            return f"[{', '.join(items)}]" if len(items) == len(node.items) else None
        remedy = "Write the numbers or IDs of GPUs, as `nvidia-smi -L` or `amd-smi list` shows them."
        value.fault(
            "wrong-choice", f"{_short(wrong)!r} in `{value.field.key}` is not the number or ID of a GPU", remedy
        )
        return None
    word = node.text.strip().lower()
    if word in ("all", "free"):
        return word
    if _GPU_COUNT.fullmatch(word):
        return str(int(word))
    value.wrong(_expected(value.field), "Write all, free, a number of GPUs, or a list such as [0, 1].")
    return None


def _mapping(value: _Value) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for key, node in value.node.entries:
        if key.text in mapping:
            value.faults.append(_duplicate(key, (*value.path, key.text)))
        if key.text == "<<" and not key.style:
            message = f"`<<` in `{value.field.key}` is not supported: it includes other maps only at the top of a file"
            value.below(key.text, node).fault("wrong-type", message, "Write the included entries here instead.")
        elif node.kind != SCALAR:
            value.below(key.text, node).wrong("text", "Write a single value. Quote it if it contains brackets.")
        else:
            mapping[key.text] = "" if node.is_null else node.text
    return mapping


def _references(value: _Value) -> dict[str, str] | None:
    """Return a map of paths. In a list, each path leads to itself. For a single value, add a fault and return None."""
    if value.node.kind == SCALAR:
        value.wrong(_expected(value.field), "Start each path with `- ` on its own line.")
        return None
    return _mapping(value) if value.node.kind == MAP else {text: text for text in _text_items(value)}


def _rows(value: _Value) -> tuple[dict[str, str], ...]:
    columns = ", ".join(column.key for column in value.field.row)
    rows = []
    for index, node in enumerate(value.node.items):
        item = value.below(index, node)
        if node.kind == MAP:
            rows.append(_row(item))
        else:
            item.wrong(f"a map of {columns}")
    return tuple(rows)


def _row(value: _Value) -> dict[str, str]:
    empty = [key.text for key, node in value.node.entries if node.is_null]
    row = {key: text for key, text in _mapping(value).items() if key not in empty}
    for column in value.field.row:
        if column.required and column.key not in row:
            message = f"an item of `{value.field.key}` has no `{column.key}`"
            value.fault("missing-field", message, f"Add `{column.key}: {column.example or '...'}`.")
    return row


def _dependencies(value: _Value) -> tuple[Any, ...]:
    """Return conda packages as strings, and pip packages as `{"pip": (...)}`."""
    packages: list[Any] = []
    for index, node in enumerate(value.node.items):
        item = value.below(index, node)
        pip = node.entries[0][1] if len(node.entries) == 1 and node.entries[0][0].text == "pip" else None
        if node.kind == SCALAR and node.start == node.end:
            item.fault("missing-value", f"{item.name} is empty", "Write a package, or remove the line.")
        elif node.kind == SCALAR:
            packages.append(node.text)
        elif pip is None:
            item.wrong("a package", "Write a package, or `pip:` with a list below it.")
        elif pip.kind == LIST:
            packages.append({"pip": _strings(item.below("pip", pip))})
        elif not pip.is_null:
            remedy = "Start each package with `- `, indented below `pip:`."
            item.below("pip", pip)._replace(name="`pip`").wrong("a list of packages", remedy)
    return tuple(packages)


def _describe(node: Node) -> str:
    if node.kind != SCALAR:
        return "a map" if node.kind == MAP else "a list"
    return "empty" if node.is_null else repr(_short(node.text))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _expected(field: Field) -> str:
    return f"one of: {', '.join(field.choices)}" if field.choices else TYPE_NAMES[field.type]


_READERS: dict[str, tuple[str, Callable[[_Value], Any], str]] = {
    field_types.STRING: (SCALAR, _string, "Write a single value. Quote it if it contains brackets."),
    field_types.BOOLEAN: (SCALAR, _boolean, ""),
    field_types.INTEGER: (SCALAR, _integer, ""),
    field_types.CHOICE: (SCALAR, _choice, ""),
    field_types.PROCESSES: (SCALAR, _processes, ""),
    field_types.GPUS: ("", _gpus, ""),
    field_types.STRINGS: (LIST, _strings, "Start each item with `- ` on its own line."),
    field_types.MAPPING: (MAP, _mapping, "Write `NAME: value` lines, indented below the key."),
    field_types.REFERENCES: ("", _references, ""),
    field_types.ROWS: (LIST, _rows, "Start each item with `- `, and give it the keys {}."),
    field_types.DEPENDENCIES: (LIST, _dependencies, "Start each package with `- ` on its own line."),
    field_types.ANY: ("", lambda value: plain_value(value.node), ""),
}
"""By type: the required kind of node ("" for any), the function that reads it, and the remedy for other kinds."""
