"""The edits that a form makes in a document.

The invariant: each function changes one value, or raises WorkbenchError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui_workbench.config.changes.file_edits import parse_value
from tui_workbench.config.document import Document
from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.data_references import with_data
from tui_workbench.config.schema.field_types import Field
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, Node, Path, find, parse, plain_value
from tui_workbench.core.errors import UsageError
from tui_workbench.ui.form.form_rows import COLLECTIONS, PIP, FormRow


def why_not(action: str, rows: list[FormRow], row: FormRow) -> str:
    """Return the reason why an action is not available in a row, or ""."""
    if action == "switch" and row.field.type not in (field_types.BOOLEAN, field_types.CHOICE):
        return "This field is neither a switch nor a choice."
    if action == "add" and place_to_add(rows, row) is None:
        return "This field is not a list or map."
    if action == "clear" and (row.kind == "add" or not row.is_set):
        return "No value to remove."
    if action == "move" and not (row.kind == "item" and isinstance(row.path[-1], int)):
        return "Only list entries can be moved."
    is_named = row.field.type in field_types.MAPS and isinstance(row.path[-1], str)
    if action == "rename" and not (row.kind == "item" and is_named):
        return "Only map entries have names."
    return ""


def accept(document: Document, row: FormRow, text: str) -> None:
    """Set the value of a row to a typed text, or add the text as an entry for an `add` row.

    An empty text removes an entry or a value, except the value of a string field, which becomes empty.
    Raises WorkbenchError when the text is invalid.
    """
    if row.kind == "add" or (row.kind == "field" and row.field.type in COLLECTIONS):
        _add(document, row, text)
    elif row.kind == "item":
        _change_item(document, row, text)
    elif not text and not row.is_set:
        return
    elif not text and row.field.type != field_types.STRING:
        document.unset(row.path)
    else:
        document.set(row.path, _typed(row.field, text))


def toggle(document: Document, row: FormRow) -> None:
    """Toggle a boolean field. An unset field counts as its default."""
    value = document.get(row.path)
    document.set(row.path, not (value if isinstance(value, bool) else bool(row.field.default)))


def next_choice(document: Document, row: FormRow) -> None:
    """Set a field to its next choice, wrapping at the end."""
    choices = row.field.offered
    value = document.get(row.path) or row.field.default
    position = choices.index(value) if value in choices else -1
    document.set(row.path, choices[(position + 1) % len(choices)])


def clear(document: Document, row: FormRow) -> None:
    """Remove a field, or an entry of a list or map. The pip section is removed with its last package.

    An `add` row has no value to remove.
    """
    if row.kind == "add":
        return
    section = row.path[:-1]
    is_last_of_pip = row.kind == "item" and PIP in section and len(_items(document, section)) == 1
    document.unset(section[:-1] if is_last_of_pip else row.path)


def move(document: Document, row: FormRow, by: int) -> Path:
    """Move a list entry down (1) or up (-1), and return its path, which is unchanged if the entry cannot move."""
    if row.kind != "item" or not isinstance(row.path[-1], int):
        return row.path
    parent, index = row.path[:-1], row.path[-1]
    target = index + by
    if not 0 <= target < len(_items(document, parent)):
        return row.path
    document.move_item(parent, index, target)
    return (*parent, target)


def place_to_add(rows: list[FormRow], row: FormRow) -> FormRow | None:
    """Return the row that adds an entry to the list or map of this row, or None outside a list or map."""
    if row.kind == "add":
        return row
    if row.kind == "field" and row.field.type in COLLECTIONS:
        return (
            row
            if not row.is_set
            else next((add_row for add_row in rows if add_row.kind == "add" and add_row.field is row.field), None)
        )
    parent = row.path[:-1]
    same = [add_row for add_row in rows if add_row.kind == "add" and add_row.path in (parent, row.path)]
    return same[0] if same and row.kind == "item" else None


def _add(document: Document, row: FormRow, text: str) -> None:
    if not text:
        return
    field, path = row.field, row.path
    if field.type == field_types.MAPPING:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise UsageError(f"expected NAME=value, not {text!r}", remedy="Write a name, an equals sign and a value.")
        document.set((*path, name.strip()), value)
    elif field.type == field_types.REFERENCES:
        # A script opens an absolute path of data unchanged, so its `=` is a part of the path.
        opened, equals, data = (text, "", "") if text.startswith("/") else text.partition("=")
        added = {opened.strip(): data.strip() if equals else opened.strip()}
        document.set(path, with_data(plain_value(find(document.tree, path)), added))
    elif path[-1] == PIP and find(document.tree, path) is None:
        document.insert_item(path[:-1], len(_items(document, path[:-1])), {"pip": [text]})
    else:
        entry = _row(field, text) if field.type == field_types.ROWS else text
        document.insert_item(path, _index_of_new(document, field, path), entry)


def _index_of_new(document: Document, field: Field, path: Path) -> int:
    """Return the index of a new entry: after the last entry; for a conda package, before the pip section."""
    items = _items(document, path)
    length = len(items)
    if field.type == field_types.DEPENDENCIES and path == field.path:
        while length and items[length - 1].kind == MAP:
            length -= 1
    return length


def _items(document: Document, path: Path) -> Sequence[Node]:
    node = find(document.tree, path)
    return node.items if node is not None and node.kind == LIST else ()


def _change_item(document: Document, row: FormRow, text: str) -> None:
    if not text:
        clear(document, row)
    elif row.field.type == field_types.ROWS:
        with document.step():
            for key, value in _row(row.field, text).items():
                if document.get((*row.path, key)) != value:
                    document.set((*row.path, key), value)
    else:
        document.set(row.path, text)


def _row(field: Field, text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != len(field.row) or not all(parts):
        form = ":".join(part.key for part in field.row)
        raise UsageError(
            f"expected {form}, not {text!r}", remedy=f"Write {len(field.row)} values, separated by colons."
        )
    return dict(zip((part.key for part in field.row), parts, strict=True))


def _typed(field: Field, text: str) -> Any:
    if field.type == field_types.GPUS and text.lstrip().startswith("["):
        return plain_value(parse(text).root)
    if field.type in (field_types.INTEGER, field_types.CHOICE):
        return field.understand(text) or parse_value(field, field.path, text, field.key)
    return text
