"""Parse Slurm options, as in `experiment submit --slurm gpus=2,time=2:00:00` and in the run bar."""

from __future__ import annotations

import json
import re
from typing import Any

from tui_workbench.config.loading import values_below
from tui_workbench.config.schema import field_types, fields
from tui_workbench.config.schema.field_types import FileKind
from tui_workbench.config.schema.slurm_options import OVERRIDE, RUN_OPTIONS
from tui_workbench.config.yaml_edit.syntax import parse
from tui_workbench.config.yaml_edit.values import read_fields
from tui_workbench.core.errors import UsageError

_TYPES = {field.path[1]: field.type for field in RUN_OPTIONS}

# A comma separates options only if a key follows: in `partition=gpu,long`, it is part of the value.
_COMMA = re.compile(r",(?=\s*\w+=)")


def options_of(text: str) -> dict[str, Any]:
    """Return the typed values of `KEY=VALUE,KEY=VALUE`, by key. The key `extra` can be repeated.

    Raises UsageError for an unknown key or an invalid value.
    """
    given: dict[str, Any] = {}
    for part in _COMMA.split(text):
        key, equals, value = part.strip().partition("=")
        if not equals:
            raise UsageError(
                f"expected KEY=VALUE, not {part.strip()!r}", remedy="Write options such as `gpus=2,time=2:00:00`."
            )
        if key not in _TYPES:
            from difflib import get_close_matches

            near = get_close_matches(key, _TYPES, 1, 0.6)
            remedy = f"Did you mean {near[0]!r}?" if near else f"Choose one of: {', '.join(_TYPES)}."
            raise UsageError(f"unknown Slurm option {key!r}", remedy=remedy)
        if _TYPES[key] == field_types.STRINGS:
            given.setdefault(key, []).append(value)
        else:
            given[key] = value
    return values_below(typed_values(fields.RUNCONFIG, {OVERRIDE: given}), OVERRIDE)


def typed_values(kind: FileKind, values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with the types of their fields, by dotted key. Raises UsageError for the first invalid value."""
    reading = read_fields(parse(json.dumps(values, ensure_ascii=False)), kind)
    for fault in reading.faults:
        raise UsageError(fault.message, remedy=fault.remedy)
    return reading.values
