"""Values by the type that the schema declares, and what is wrong with them.

Invariant: a text field gets the text that stands in the file, never YAML 1.1's guess about it (`no` is "no", `0022` is
"0022"), and every value that cannot be read gives a `Fault` with its place instead of an exception, so that one reading
finds all of them.
"""

from __future__ import annotations

from tui_workbench.config import schema, target_types
from tui_workbench.config.schema import TYPE_NAMES, Field, FileKind
from tui_workbench.config.syntax import LIST, MAP, SCALAR, Node, Tree, plain_value
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

TRUE_WORDS = frozenset(("true", "yes", "on", "y"))
FALSE_WORDS = frozenset(("false", "no", "off", "n"))

GPUS_WORD = "gpus"
"""As many processes as the run has GPUs."""


class Fault(NamedTuple):
    """A value that the schema does not allow. `path` leads to it; `start` and `end` are offsets into the text."""

    code: str
    message: str
    remedy: str
    start: int
    end: int
    path: tuple[str | int, ...]
    field: Field | None = None


class Reading(NamedTuple):
    """All that one pass over a file found."""

    values: dict[str, Any]
    """The typed value of every field that is set, by `Field.key`."""
    nodes: dict[str, Node]
    """Where each set field's value stands."""
    faults: list[Fault]
    unknown: list[tuple[tuple[str, ...], Node, Node]]
    """Keys that no field declares: path, key node, value node."""


def read_fields(tree: Tree, kind: FileKind) -> Reading:
    """Every field of `kind` that `tree` sets, typed, with every fault of shape and type."""
    reading = Reading({}, {}, [], [])
    root = tree.root
    if tree.extra >= 0:
        line, _ = tree.place(tree.extra)
        mark = tree.text[tree.extra : tree.extra + 3]
        message = f"`{mark}` ends the document here: what follows is not read"
        remedy = f"Remove line {line}, or what follows it."
        reading.faults.append(Fault("several-documents", message, remedy, tree.extra, tree.extra + 3, ()))
    if root is None:
        return reading
    if root.kind != MAP:
        reading.faults.append(_no_map(tree, root))
        return reading
    _read_map(root, kind, "", reading)
    return reading


def _no_map(tree: Tree, root: Node) -> Fault:
    # A file whose only line lacks the space behind its colon is one long word to YAML.
    from tui_workbench.config.syntax_errors import missing_space

    error = missing_space(tree.text, "")
    if error is not None:
        return Fault(error.code, error.message, error.remedy, error.offset, error.offset, ())
    found = "a list" if root.kind == LIST else "a single value"
    message = f"the file holds {found} where `key: value` lines are expected"
    return Fault("not-a-map", message, _REWRITE, root.start, root.end, ())


_REWRITE = "Write one `key: value` on each line."


def _read_map(node: Node, kind: FileKind, prefix: str, reading: Reading) -> None:
    seen: set[str] = set()
    for key, value in node.entries:
        name = prefix + key.text
        path = tuple(name.split(".")) if prefix else (key.text,)
        if key.text == "<<" and not key.style:
            _read_merged(value, kind, prefix, reading, seen)
            continue
        if key.text in seen:
            reading.faults.append(_duplicate(key, path))
        seen.add(key.text)
        field = None if "." in key.text else kind.field(name)
        if field is not None:
            _read_field(field, value, path, reading)
        elif "." not in key.text and kind.is_section(name):
            if value.kind == MAP:
                _read_map(value, kind, name + ".", reading)
            elif not value.is_null:
                reading.faults.append(
                    _wrong(value, path, None, "a map", f"`{name}` holds further keys. Indent them below it.")
                )
        else:
            reading.unknown.append((path, key, value))


def _read_merged(value: Node, kind: FileKind, prefix: str, reading: Reading, seen: set[str]) -> None:
    """`<<: *base` gives what the map itself does not set."""
    for source in [value] if value.kind == MAP else value.items:
        for key, inner in source.entries:
            field = kind.field(prefix + key.text)
            if field is not None and field.key not in reading.values and key.text not in seen:
                _read_field(field, inner, field.path, reading)


def _duplicate(key: Node, path: tuple[str | int, ...]) -> Fault:
    return Fault(
        "duplicate-key", f"`{key.text}` stands here a second time", "Remove one of them.", key.start, key.end, path
    )


def _read_field(field: Field, node: Node, path: tuple[str | int, ...], reading: Reading) -> None:
    if node.is_null and field.type != schema.ANY:
        if not field.nullable:
            remedy = f"Write {_expected(field)} behind the colon."
            reading.faults.append(
                Fault("missing-value", f"`{field.key}` has no value", remedy, node.start, node.end, path, field)
            )
        reading.nodes[field.key] = node
        return
    before = len(reading.faults)
    value = convert(field, node, path, reading.faults)
    reading.nodes[field.key] = node
    if len(reading.faults) == before or value is not None:
        reading.values[field.key] = value


def convert(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> Any:
    """The value of `node` as `field` declares it; what cannot be read adds to `faults` and is left out (None)."""
    kind = field.type
    if kind == schema.ANY:
        return plain_value(node)
    if kind == schema.GPUS:
        return _gpus(field, node, path, faults)
    if kind == schema.STRINGS:
        return _strings(field, node, path, faults)
    if kind == schema.MAPPING:
        return _mapping(field, node, path, faults)
    if kind == schema.ROWS:
        return _rows(field, node, path, faults)
    if kind == schema.DEPENDENCIES:
        return _dependencies(field, node, path, faults)
    if node.kind != SCALAR:
        remedy = "Write one text, in quotes if it holds brackets." if kind == schema.STRING else ""
        faults.append(_wrong(node, path, field, _expected(field), remedy))
        return None
    return _scalar(field, node, path, faults)


def _scalar(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> Any:
    text = node.text
    if field.type == schema.STRING:
        return text
    if field.type == schema.BOOLEAN:
        lowered = text.strip().lower()
        if lowered in TRUE_WORDS:
            return True
        if lowered in FALSE_WORDS:
            return False
    elif field.type == schema.INTEGER:
        # Python refuses to read thousands of digits, and nothing here counts that far.
        digits = text.lstrip("+-")
        if digits.isascii() and digits.isdigit() and len(digits) < 19:
            if field.minimum is None or int(text) >= field.minimum:
                return int(text)
            faults.append(_wrong(node, path, field, f"{field.minimum} or more"))
            return None
    elif field.type == schema.PROCESSES:
        if is_processes(text):
            return text.strip().lower()
        faults.append(_wrong(node, path, field, _expected(field), "Write a number of processes from 1, or gpus."))
        return None
    elif field.type == schema.CHOICE:
        understood = field.understand(text)
        if not understood and field.key == "type" and text in target_types.installed():
            understood = text
        if understood:
            return understood
        remedy = f"Write one of: {', '.join(field.choices)}."
        message = f"`{field.key}` is {_short(text)!r}, which is none of its values"
        faults.append(Fault("wrong-choice", message, remedy, node.start, node.end, path, field))
        return None
    faults.append(_wrong(node, path, field, _expected(field)))
    return None


def is_processes(text: str) -> bool:
    """Whether the text is a number of processes for each machine."""
    word = text.strip().lower()
    return word == GPUS_WORD or (word.isascii() and word.isdigit() and len(word) < 4 and word[0] != "0")


def _strings(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> tuple[str, ...] | None:
    if node.kind != LIST:
        faults.append(
            _wrong(node, path, field, TYPE_NAMES[schema.STRINGS], "Begin each item with `- ` on its own line.")
        )
        return None
    return tuple(_text_items(field, node, path, faults))


def _text_items(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> Iterator[str]:
    for index, item in enumerate(node.items):
        if item.kind != SCALAR:
            remedy = "Quote it if it holds `: `." if item.kind == MAP else "Write one text an item."
            faults.append(
                _wrong(item, (*path, index), field, "a text", remedy, what=f"item {index + 1} of `{field.key}`")
            )
        elif item.start == item.end:
            message = f"item {index + 1} of `{field.key}` is empty"
            faults.append(
                Fault(
                    "missing-value",
                    message,
                    'Write it, or "" for an empty text.',
                    item.start,
                    item.end,
                    (*path, index),
                    field,
                )
            )
        else:
            yield item.text


def _gpus(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> str | None:
    """`all`, `free`, a number as digits, or a list as `[0, GPU-...]`."""
    if node.kind == LIST:
        items = tuple(item.strip() for item in _text_items(field, node, path, faults))
        wrong = next((item for item in items if not _is_gpu(item)), "")
        if wrong:
            remedy = "Name GPUs by their number or by their id, as `nvidia-smi -L` shows them."
            message = f"`{field.key}` names {_short(wrong)!r}, which is no GPU"
            faults.append(Fault("wrong-choice", message, remedy, node.start, node.end, path, field))
            return None
        return f"[{', '.join(items)}]" if len(items) == len(node.items) else None
    word = node.text.strip().lower() if node.kind == SCALAR else ""
    if word in ("all", "free") or (word.isascii() and word.isdigit() and len(word) < 4):
        return word if word in ("all", "free") else str(int(word))
    remedy = "Write all, free, a number of GPUs, or a list as in [0, 1]."
    faults.append(_wrong(node, path, field, _expected(field), remedy))
    return None


def _is_gpu(text: str) -> bool:
    return text.isascii() and (text.isdigit() or (text.startswith(("GPU-", "MIG-")) and "," not in text))


def _mapping(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> dict[str, str] | None:
    if node.kind != MAP:
        remedy = "Write `NAME: value` lines, indented below it."
        faults.append(_wrong(node, path, field, TYPE_NAMES[schema.MAPPING], remedy))
        return None
    found: dict[str, str] = {}
    for key, value in node.entries:
        if key.text in found:
            faults.append(_duplicate(key, (*path, key.text)))
        if value.kind != SCALAR:
            remedy = "Write one text, in quotes if it holds brackets."
            faults.append(
                _wrong(value, (*path, key.text), field, "a text", remedy, what=f"`{key.text}` in `{field.key}`")
            )
        else:
            found[key.text] = "" if value.is_null else value.text
    return found


def _rows(
    field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]
) -> tuple[dict[str, str], ...] | None:
    names = ", ".join(column.key for column in field.row)
    if node.kind != LIST:
        faults.append(_wrong(node, path, field, TYPE_NAMES[schema.ROWS], f"Begin each with `- ` and give {names}."))
        return None
    rows = []
    for index, item in enumerate(node.items):
        here = (*path, index)
        if item.kind != MAP:
            faults.append(_wrong(item, here, field, f"a map of {names}", what=f"item {index + 1} of `{field.key}`"))
            continue
        rows.append(_row(field, item, here, faults))
    return tuple(rows)


def _row(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in node.entries:
        if key.text in found:
            faults.append(_duplicate(key, (*path, key.text)))
        if value.kind != SCALAR:
            faults.append(_wrong(value, (*path, key.text), field, "a text", what=f"`{key.text}` in `{field.key}`"))
        elif not value.is_null:
            found[key.text] = value.text
    for column in field.row:
        if column.required and column.key not in found:
            message = f"an item of `{field.key}` has no `{column.key}`"
            remedy = f"Add `{column.key}: {column.example or '...'}`."
            faults.append(Fault("missing-field", message, remedy, node.start, node.end, path, field))
    return found


def _dependencies(field: Field, node: Node, path: tuple[str | int, ...], faults: list[Fault]) -> tuple[Any, ...] | None:
    """Conda packages as strings, and `{"pip": (...)}` where the file has it."""
    if node.kind != LIST:
        faults.append(
            _wrong(node, path, field, TYPE_NAMES[schema.DEPENDENCIES], "Begin each package with `- ` on its own line.")
        )
        return None
    found: list[Any] = []
    for index, item in enumerate(node.items):
        here = (*path, index)
        if item.kind == SCALAR:
            if item.start == item.end:
                message = f"item {index + 1} of `{field.key}` is empty"
                faults.append(
                    Fault(
                        "missing-value",
                        message,
                        "Write a package, or remove the line.",
                        item.start,
                        item.end,
                        here,
                        field,
                    )
                )
            else:
                found.append(item.text)
        elif item.kind == MAP and len(item.entries) == 1 and item.entries[0][0].text == "pip":
            value = item.entries[0][1]
            if value.kind == LIST:
                found.append({"pip": tuple(_text_items(field, value, (*here, "pip"), faults))})
            elif not value.is_null:
                remedy = "Begin each package with `- `, indented below `pip:`."
                faults.append(_wrong(value, (*here, "pip"), field, "a list of packages", remedy, what="`pip`"))
        else:
            remedy = "Write a package, or `pip:` with a list below it."
            faults.append(_wrong(item, here, field, "a package", remedy, what=f"item {index + 1} of `{field.key}`"))
    return tuple(found)


def _wrong(
    node: Node, path: tuple[str | int, ...], field: Field | None, expected: str, remedy: str = "", *, what: str = ""
) -> Fault:
    name = what or f"`{field.key if field else '.'.join(map(str, path))}`"
    message = f"{name} is {describe(node)}, expected {expected}"
    return Fault("wrong-type", message, remedy or f"Write {expected}.", node.start, node.end, path, field)


def describe(node: Node) -> str:
    """What stands there, in a few words."""
    if node.kind == MAP:
        return "a map"
    if node.kind == LIST:
        return "a list"
    return "empty" if node.is_null else repr(_short(node.text))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _expected(field: Field) -> str:
    return f"one of: {', '.join(field.choices)}" if field.choices else TYPE_NAMES[field.type]
