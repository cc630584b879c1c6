"""What the keys of the form do to a document.

The invariant: each function makes one change of one value, or raises WorkbenchError and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui_workbench.config import schema
from tui_workbench.config.paths import Path, find
from tui_workbench.config.syntax import LIST, MAP, parse, plain_value
from tui_workbench.errors import UsageError
from tui_workbench.ui.panes.form_rows import COLLECTIONS, PIP, FormRow

if TYPE_CHECKING:
    from tui_workbench.config.document import Document
    from tui_workbench.config.schema import Field


def accept(document: Document, row: FormRow, text: str) -> None:
    """Give the row's value, or for an `add` row a new entry, the text that was typed.

    Raises WorkbenchError when the text is no value for it.
    """
    if row.kind == "add" or (row.kind == "field" and row.field.type in COLLECTIONS):
        _add(document, row, text)
    elif row.kind == "item":
        _change_item(document, row, text)
    elif not text and not row.is_set:
        return
    elif not text and row.field.type != schema.STRING:
        document.unset(row.path)
    else:
        document.set(row.path, _typed(row.field, text))


def toggle(document: Document, row: FormRow) -> None:
    """Turn a switch over, as it stands in the document now: an unset one from its default."""
    value = document.get(row.path)
    document.set(row.path, not (value if isinstance(value, bool) else bool(row.field.default)))


def next_choice(document: Document, row: FormRow) -> None:
    """Give a field of few words the next one, around the end."""
    choices = row.field.choices
    value = document.get(row.path) or row.field.default
    position = choices.index(value) if value in choices else -1
    document.set(row.path, choices[(position + 1) % len(choices)])


def clear(document: Document, row: FormRow) -> None:
    """Remove the field or the item; a list that loses its last item goes too. Nothing happens to what is not there."""
    if row.kind == "add":
        return
    if row.kind == "item" and PIP in row.path[:-1]:
        _clear_pip(document, row.path)
    else:
        document.unset(row.path)


def move(document: Document, row: FormRow, by: int) -> Path:
    """Move a list's item down (1) or up (-1); gives the path where it stands then."""
    if row.kind != "item" or not isinstance(row.path[-1], int):
        return row.path
    parent, index = row.path[:-1], row.path[-1]
    node = find(document.tree, parent)
    target = index + by
    if node is None or node.kind != LIST or not 0 <= target < len(node.items):
        return row.path
    document.move_item(parent, index, target)
    return (*parent, target)


def place_to_add(rows: list[FormRow], row: FormRow) -> FormRow | None:
    """The row where an entry like this one would be added: the nearest `add` row of the same list."""
    if row.kind == "add":
        return row
    if row.kind == "field" and row.field.type in COLLECTIONS:
        return (
            row if not row.is_set else next((one for one in rows if one.kind == "add" and one.field is row.field), None)
        )
    parent = row.path[:-1]
    same = [one for one in rows if one.kind == "add" and one.path in (parent, row.path)]
    return same[0] if same and row.kind == "item" else None


def _add(document: Document, row: FormRow, text: str) -> None:
    if not text:
        return
    field, path = row.field, row.path
    if field.type == schema.MAPPING:
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise UsageError("this is no NAME=value", remedy="Write the name, an equals sign and the value.")
        document.set((*path, name.strip()), value)
    elif path[-1] == PIP and find(document.tree, path) is None:
        document.insert_item(path[:-1], _length(document, path[:-1]), {"pip": [text]})
    else:
        entry = _row(field, text) if field.type == schema.ROWS else text
        document.insert_item(path, _place_of_new(document, field, path), entry)


def _place_of_new(document: Document, field: Field, path: Path) -> int:
    """Behind the last item; a conda package before the pip section, where people write it."""
    length = _length(document, path)
    if field.type == schema.DEPENDENCIES and path == field.path:
        node = find(document.tree, path)
        items = node.items if node is not None and node.kind == LIST else ()
        while length and items[length - 1].kind == MAP:
            length -= 1
    return length


def _length(document: Document, path: Path) -> int:
    node = find(document.tree, path)
    return len(node.items) if node is not None and node.kind == LIST else 0


def _change_item(document: Document, row: FormRow, text: str) -> None:
    if not text:
        clear(document, row)
    elif row.field.type == schema.ROWS:
        with document.step(f"set {row.label}"):
            for key, value in _row(row.field, text).items():
                if document.get((*row.path, key)) != value:
                    document.set((*row.path, key), value)
    else:
        document.set(row.path, text)


def _clear_pip(document: Document, path: Path) -> None:
    section = path[:-1]
    if _length(document, section) == 1:
        document.unset(section[:-1])
    else:
        document.unset(path)


def _row(field: Field, text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != len(field.row) or not all(parts):
        wanted = ":".join(part.key for part in field.row)
        raise UsageError(f"this is no {wanted}", remedy=f"Write {len(field.row)} parts with colons between them.")
    return dict(zip((part.key for part in field.row), parts, strict=True))


def _typed(field: Field, text: str) -> Any:
    if field.type == schema.GPUS and text.lstrip().startswith("["):
        return plain_value(parse(text).root)
    if field.type == schema.INTEGER:
        if not text.lstrip("+-").isdigit():
            raise UsageError(f"{field.key} is a whole number", remedy="Write digits only.")
        return int(text)
    if field.type == schema.CHOICE:
        word = field.understand(text)
        if not word:
            raise UsageError(f"{field.key} has no value {text!r}", remedy=f"Choose one of: {', '.join(field.choices)}.")
        return word
    return text
