"""What a field is: one declaration for parsing, validation, completion, the form, help, JSON Schema and reference.

Invariant: what a field means is said in its `Field` and nowhere else. The tables themselves are in `fields.py`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tui_workbench.core import target_types

STRING = "string"
BOOLEAN = "boolean"
INTEGER = "integer"
CHOICE = "choice"
STRINGS = "strings"  # a list of strings
MAPPING = "mapping"  # names to strings
ROWS = "rows"  # a list of maps, whose keys are `Field.row`
DEPENDENCIES = "dependencies"  # conda's list: strings, and one `pip:` map of a list of strings
GPUS = "gpus"  # all, free, a number, or a list of numbers and ids; read as one text
PROCESSES = "processes"  # a number from 1, or gpus; read as one text
ANY = "any"  # kept as it is

TYPE_NAMES = {
    STRING: "a text",
    BOOLEAN: "true or false",
    INTEGER: "a whole number",
    CHOICE: "one of a few words",
    STRINGS: "a list of texts",
    MAPPING: "a map of names to texts",
    ROWS: "a list of maps",
    DEPENDENCIES: "a list of packages",
    GPUS: "`all`, `free`, a number, or a list of numbers or ids",
    PROCESSES: "`gpus`, or a number from 1",
    ANY: "anything",
}
"""What each type is called in messages and in the reference."""

COLLECTIONS = frozenset((STRINGS, MAPPING, ROWS, DEPENDENCIES))
"""Types whose values hold texts, whatever these look like."""

TRUE_WORDS = frozenset(("true", "yes", "on", "y"))
FALSE_WORDS = frozenset(("false", "no", "off", "n"))

NULL = "null"
"""Stands on the command line for no value."""

FRAMEWORKS = ("Python", "PySpark")


class Field(NamedTuple):
    """One key of a configuration file."""

    key: str  # as in the file; dots lead into nested maps
    help: str  # one sentence
    type: str = STRING  # one of the words above
    default: Any = None  # what holds when the key is absent; None when nothing does
    choices: tuple[str, ...] = ()  # of a CHOICE, canonical spelling
    synonyms: tuple[tuple[str, str], ...] = ()  # other spellings of choices: (as written, as understood)
    required: bool = False  # whatever the type of the target; `is_required_by` knows the others
    nullable: bool = True  # `key:` or `key: null` means the same as leaving it out
    completion: str = ""  # target, image, python, file, conda-file, spark-file, folder: where suggestions come from
    secret: bool = False  # never shown in full
    replaced_by: str = ""  # the key that replaced this one; set on old forms only
    row: tuple[Field, ...] = ()  # the keys of each map of ROWS
    example: str = ""
    minimum: int | None = None  # of an INTEGER
    source: str = "docs"  # where the field's meaning is documented

    @property
    def path(self) -> tuple[str, ...]:
        """The key as steps into nested maps."""
        return tuple(self.key.split("."))

    @property
    def targets(self) -> tuple[str, ...]:
        """The built-in types of targets that alone know the field; () for all."""
        return tuple(each.name for each in target_types.BUILT_IN if each.reads(self.key))

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices to choose from: for the type of a target also those that other packages add."""
        is_type = self.choices == target_types.built_in_names()
        return target_types.names() if is_type else self.choices

    @property
    def is_old(self) -> bool:
        """True for a key that is understood and not offered."""
        return bool(self.replaced_by) or self.source == "old"

    def applies_to(self, target_type: str) -> bool:
        """Whether a target of this type knows the field; an unknown type "" knows all."""
        return not self.targets or not target_type or target_types.find(target_type).reads(self.key)

    def is_required_by(self, target_type: str) -> bool:
        """Whether a target of this type cannot do without the field."""
        return self.required or self.key in target_types.find(target_type).required

    def understand(self, word: str) -> str:
        """The canonical spelling of a choice, "" when it is none."""
        words = (*self.synonyms, *((choice, choice) for choice in self.choices))
        return {written.lower(): meant for written, meant in words}.get(word.lower(), "")


class FileKind(NamedTuple):
    """One kind of configuration file, with its fields in the order a person writes them."""

    name: str  # compute, runconfig, sdk-runconfig, conda, spark, settings
    title: str
    pattern: str
    help: str
    fields: tuple[Field, ...]

    def field(self, key: str) -> Field | None:
        """The field of this key, None when the kind does not know it."""
        return next((field for field in self.fields if field.key == key), None)

    def field_at(self, path: tuple[str | int, ...]) -> Field | None:
        """The field that a path leads to or into, None when none is declared there."""
        fields = (self.field(".".join(map(str, path[:length]))) for length in range(len(path), 0, -1))
        return next((field for field in fields if field is not None), None)

    def order(self, key: str) -> int:
        """Where a top-level key stands among its siblings; unknown keys come last."""
        places = (i for i, field in enumerate(self.fields) if f"{field.key}.".startswith(f"{key}."))
        return next(places, len(self.fields))

    def is_section(self, key: str) -> bool:
        """True when `key` is a map that leads to fields and is none itself."""
        return any(field.key.startswith(key + ".") for field in self.fields)


def written(value: Any) -> str:
    """A value on one line, as `config set` takes it back."""
    if value is None:
        return NULL
    if value == NULL:
        return f'"{value}"'
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
