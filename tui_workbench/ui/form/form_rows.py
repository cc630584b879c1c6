"""The rows of a form: the fields of a configuration document, and the entries of lists and maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_workbench.config.document import Document, FieldState
from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import Field
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, dotted, find, plain_value

COLLECTIONS = field_types.COLLECTIONS
REFERENCE = "AzureMlSecret="
PIP = "pip"  # the key, in paths, of a pip section that does not exist yet
_NOUNS = {"ArgumentVector": "argument", "arguments": "argument", "channels": "channel"}


class FormRow(NamedTuple):
    """A row of kind `field`, `item` (an entry of a list or map), or `add` (a place for a new entry)."""

    kind: str
    path: Path  # path of the value, or of the list or map of an `add` row
    field: Field
    label: str
    value: str = ""  # the shown value
    text: str = ""  # the value that is edited
    depth: int = 0
    is_set: bool = True
    is_known: bool = True
    is_editable: bool = True  # False for values that can be changed only in the text
    line: int = 0  # line of the value in the text; 0 for an unset value
    noun: str = ""  # the kind of entry that an `add` row adds

    @property
    def key(self) -> str:
        """A key that is unique in the form."""
        return f"{dotted(self.path)} {self.kind} {self.noun}"


def form_rows(document: Document) -> list[FormRow]:
    """Return the rows of a document; [] while the text is not valid YAML."""
    rows: list[FormRow] = []
    for state in document.fields():
        rows.append(_field_row(state, document))
        if state.is_set and state.field.type in COLLECTIONS:
            rows += _entries(state, document)
    return rows


def in_order(rows: list[FormRow], order: Sequence[str]) -> list[FormRow]:
    """Return the rows, with the fields in the order of these keys; other fields stay after their predecessors.

    A form keeps its order while it is edited, so that a row does not move when its value is set.
    """
    positions = {key: index for index, key in enumerate(order)}
    groups: list[list[FormRow]] = []
    for row in rows:
        if row.kind == "field":
            groups.append([])
        groups[-1].append(row)
    ranks: list[int] = []
    for group in groups:
        ranks.append(positions.get(group[0].field.key, ranks[-1] if ranks else -1))
    ordered = sorted(range(len(groups)), key=lambda index: ranks[index])
    return [row for index in ordered for row in groups[index]]


def _field_row(state: FieldState, document: Document) -> FormRow:
    field, value = state.field, state.value
    row = FormRow("field", state.path, field, field.key, is_set=state.is_set, is_known=state.is_known, line=state.line)
    if field.type in COLLECTIONS:
        entries = find(document.tree, state.path) if state.is_set else None
        readable = entries is None or entries.is_null or entries.kind in (LIST, MAP)
        shown = "" if state.is_set and readable else _raw(document, state) if state.is_set else _default(field)
        return row._replace(value=shown, is_editable=readable)
    if not state.is_set:
        return row._replace(value=_default(field))
    raw = _raw(document, state)
    if field.type == field_types.BOOLEAN and isinstance(value, bool):
        return row._replace(value="● on" if value else "○ off")
    if field.type == field_types.ANY:
        return row._replace(value=raw, is_editable=False)
    text = str(value) if value is not None else raw
    return row._replace(value=_hidden(text) if field.secret else text, text=text)


def _entries(state: FieldState, document: Document) -> Iterator[FormRow]:
    field = state.field
    node = find(document.tree, state.path)
    if field.type == field_types.DEPENDENCIES:
        yield from _dependencies(state, node, document)
    elif node is None or node.is_null or node.kind in (LIST, MAP):
        yield from _children(state.path, field, node, document)
        noun = {
            field_types.STRINGS: "item",
            field_types.MAPPING: "NAME=value",
            field_types.REFERENCES: "path, or path=path of the data",
            field_types.ROWS: "group:artifact:version",
        }[field.type]
        yield FormRow("add", state.path, field, "", depth=1, noun=_NOUNS.get(field.key, noun))


def _children(path: Path, field: Field, node: Node | None, document: Document) -> Iterator[FormRow]:
    if node is None or node.is_null:
        return
    if node.kind == MAP:
        for key, value in node.entries:
            yield _entry((*path, key.text), field, key.text, value, document)
    else:
        for index, item in enumerate(node.items):
            yield _entry((*path, index), field, str(index + 1), item, document)


def _entry(path: Path, field: Field, label: str, node: Node, document: Document) -> FormRow:
    line = document.tree.position(node.start)[0]
    row = FormRow("item", path, field, label, depth=1, line=line)
    if field.type == field_types.ROWS:
        # The values are written with colons between them, as in Maven coordinates: `group:artifact:version`.
        parts = plain_value(node)
        values = parts if isinstance(parts, dict) else {}
        coordinates = ":".join(str(values.get(part.key, "")) for part in field.row)
        return row._replace(value=coordinates, text=coordinates, is_editable=node.kind == MAP)
    if node.kind != SCALAR:
        return row._replace(value=_one_line(document.text[node.start : node.end]), is_editable=False)
    return row._replace(value=node.text, text=node.text)


def _dependencies(state: FieldState, node: Node | None, document: Document) -> Iterator[FormRow]:
    path, field = state.path, state.field
    pip: tuple[Path, Node] | None = None
    for index, item in enumerate(node.items if node is not None and node.kind == LIST else ()):
        section = item.get("pip") if item.kind == MAP else None
        if section is not None and pip is None:
            pip = ((*path, index, "pip"), section)
        else:
            yield _entry((*path, index), field, "conda", item, document)
    yield FormRow("add", path, field, "", depth=1, noun="conda package")
    if pip is not None:
        for index, item in enumerate(pip[1].items if pip[1].kind == LIST else ()):
            yield _entry((*pip[0], index), field, "pip", item, document)
    yield FormRow("add", pip[0] if pip else (*path, PIP), field, "", depth=1, noun="pip package")


def _default(field: Field) -> str:
    default = field.default
    if default in (None, {}, ()):
        return ""
    if isinstance(default, bool):
        return "● on" if default else "○ off"
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _raw(document: Document, state: FieldState) -> str:
    return _one_line(document.text[slice(*state.span)]) if state.span else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _hidden(text: str) -> str:
    if not text:
        return ""
    return "in the keyring or in memory" if text.startswith(REFERENCE) else "•" * 8
