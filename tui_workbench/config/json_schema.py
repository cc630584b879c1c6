"""The schema as JSON Schema (draft 2020-12), so that other editors check and complete the same files.

Invariant: whatever this accepts, the workbench reads, old forms included; the two come from one declaration of the
fields.
"""

from __future__ import annotations

from tui_workbench.config import fields, schema
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.config.schema import Field, FileKind


def json_schemas() -> dict[str, Any]:
    """A JSON Schema for each kind of file, by kind name: compute, runconfig, conda, spark."""
    return {
        "compute": _compute(),
        "runconfig": _runconfig(),
        "conda": _schema(fields.CONDA),
        "spark": _schema(fields.SPARK),
    }


def _runconfig() -> dict[str, Any]:
    """One of two forms, told apart by their keys."""
    made = _schema(fields.RUNCONFIG)
    made["anyOf"] = [{"required": made.pop("required")}, {"$ref": "#/$defs/sdk"}]
    made["$defs"] = {"sdk": _schema(fields.SDK_RUNCONFIG)}
    return made


def _compute() -> dict[str, Any]:
    """Which fields are required depends on the type."""
    made = _schema(fields.COMPUTE)
    made["required"] = []
    made["anyOf"] = [{"required": ["type"]}, {"required": ["cluster"]}, {"required": ["native"]}]
    made["allOf"] = []
    kind = fields.COMPUTE.field("type")
    assert kind is not None
    for target_type in kind.choices:
        needed = [field.key for field in fields.COMPUTE.fields if target_type in field.required]
        if needed:
            words = [target_type, *(written for written, understood in kind.synonyms if understood == target_type)]
            made["allOf"].append(
                {"if": {"properties": {"type": {"enum": words}}, "required": ["type"]}, "then": {"required": needed}}
            )
    return made


def _schema(kind: FileKind) -> dict[str, Any]:
    made: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.title,
        "description": kind.help,
        "type": "object",
        "properties": {},
    }
    for field in kind.fields:
        holder = made["properties"]
        *sections, last = field.path
        for section in sections:
            holder = holder.setdefault(section, {"type": ["object", "null"], "properties": {}})["properties"]
        holder[last] = _field(field)
    required = [field.key for field in kind.fields if "*" in field.required]
    if required:
        made["required"] = required
    return made


def _field(field: Field) -> dict[str, Any]:
    made: dict[str, Any] = {"description": field.help, **_type(field)}
    if field.default is not None:
        made["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    if field.example:
        made["examples"] = [field.example]
    if field.is_old:
        made["deprecated"] = True
    return made


def _type(field: Field) -> dict[str, Any]:
    # A text may be written without quotes, and then other readers take it for a number or a boolean.
    text = {"type": ["string", "number", "boolean"]}
    null = ["null"] if field.nullable else []
    if field.type == schema.STRING:
        return {"type": [*text["type"], *null]}
    if field.type == schema.BOOLEAN:
        return {"type": ["boolean", *null]}
    if field.type == schema.INTEGER:
        least = {} if field.minimum is None else {"minimum": field.minimum}
        return {"type": ["integer", *null], **least}
    if field.type == schema.CHOICE:
        return {
            "enum": [*field.choices, *(written for written, _ in field.synonyms), *([None] if field.nullable else [])]
        }
    if field.type == schema.GPUS:
        return {"type": ["string", "integer", "array", *null], "items": text}
    if field.type == schema.PROCESSES:
        return {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["gpus", *([None] if field.nullable else [])]}]}
    if field.type == schema.STRINGS:
        return {"type": ["array", *null], "items": text}
    if field.type == schema.MAPPING:
        return {"type": ["object", *null], "additionalProperties": {"type": [*text["type"], "null"]}}
    if field.type == schema.ROWS:
        columns = {column.key: {"description": column.help, **text} for column in field.row}
        needed = [column.key for column in field.row if column.required]
        return {"type": ["array", *null], "items": {"type": "object", "properties": columns, "required": needed}}
    if field.type == schema.DEPENDENCIES:
        pip = {"type": "object", "properties": {"pip": {"type": ["array", "null"], "items": text}}, "required": ["pip"]}
        return {"type": ["array", *null], "items": {"anyOf": [{"type": "string"}, pip]}}
    return {}
