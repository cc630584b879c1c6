"""Generate JSON Schema (draft 2020-12) for other editors.

The schemas accept old forms, but not every spelling that the workbench accepts, such as `yes` for true.
"""

from __future__ import annotations

from typing import Any

from tui_workbench.config.schema import field_types, fields
from tui_workbench.config.schema.field_types import Field, FileKind
from tui_workbench.config.schema.user_files import USER_KINDS
from tui_workbench.core import target_types


def json_schemas() -> dict[str, Any]:
    """Return JSON Schemas by kind of file: compute, runconfig, conda, spark, settings, agents."""
    runconfig = _schema(fields.RUNCONFIG)
    runconfig["anyOf"] = [{"required": runconfig.pop("required")}, {"$ref": "#/$defs/sdk"}]
    runconfig["$defs"] = {"sdk": _schema(fields.SDK_RUNCONFIG)}
    others = {kind.name: _schema(kind) for kind in (fields.CONDA, fields.SPARK, *USER_KINDS)}
    return {"compute": _compute(), "runconfig": runconfig, **others}


def _compute() -> dict[str, Any]:
    """Return the schema of compute targets, whose required fields depend on the type."""
    schema = _schema(fields.COMPUTE)
    schema["required"] = []
    schema["anyOf"] = [{"required": ["type"]}, {"required": ["cluster"]}, {"required": ["native"]}]
    schema["allOf"] = []
    for kind in target_types.BUILT_IN:
        if kind.required:
            words = [kind.name, *(word for word, name in target_types.SYNONYMS.items() if name == kind.name)]
            condition = {"properties": {"type": {"enum": words}}, "required": ["type"]}
            schema["allOf"].append({"if": condition, "then": {"required": list(kind.required)}})
    return schema


def _schema(kind: FileKind) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.title,
        "description": kind.help,
        "type": "object",
        "properties": {},
    }
    for field in kind.fields:
        holder = schema["properties"]
        *sections, last = field.path
        for section in sections:
            holder = holder.setdefault(section, {"type": ["object", "null"], "properties": {}})["properties"]
        holder[last] = _field(field)
    required = [field.key for field in kind.fields if field.required]
    if required:
        schema["required"] = required
    return schema


def _field(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field.help, **_type(field)}
    if field.default is not None:
        schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    if field.example:
        schema["examples"] = [field.example]
    if field.is_old:
        schema["deprecated"] = True
    return schema


def _type(field: Field) -> dict[str, Any]:
    # Other YAML readers parse some unquoted texts as numbers or booleans.
    text = {"type": ["string", "number", "boolean"]}
    null = ["null"] if field.nullable else []
    none = [None] if field.nullable else []
    columns = {column.key: {"description": column.help, **text} for column in field.row}
    required = [column.key for column in field.row if column.required]
    row = {"type": "object", "properties": columns, "required": required}
    pip = {"type": "object", "properties": {"pip": {"type": ["array", "null"], "items": text}}, "required": ["pip"]}
    form = {"pattern": f"^({field.pattern})?$"} if field.pattern else {}
    least = {} if field.minimum is None else {"minimum": field.minimum}
    types: dict[str, dict[str, Any]] = {
        field_types.STRING: {"type": [*text["type"], *null], **form},
        field_types.BOOLEAN: {"type": ["boolean", *null]},
        field_types.INTEGER: {"type": ["integer", *null], **least},
        field_types.CHOICE: {"enum": [*field.choices, *(written for written, _ in field.synonyms), *none]},
        field_types.GPUS: {"type": ["string", "integer", "array", *null], "items": text},
        field_types.PROCESSES: {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["gpus", *none]}]},
        field_types.STRINGS: {"type": ["array", *null], "items": {**text, **form}},
        field_types.MAPPING: {"type": ["object", *null], "additionalProperties": {"type": [*text["type"], "null"]}},
        field_types.REFERENCES: {
            "type": ["array", "object", *null],
            "items": text,
            "additionalProperties": {"type": text["type"]},
        },
        field_types.ROWS: {"type": ["array", *null], "items": row},
        field_types.DEPENDENCIES: {"type": ["array", *null], "items": {"anyOf": [{"type": "string"}, pip]}},
    }
    return types.get(field.type, {})
