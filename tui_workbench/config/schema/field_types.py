"""The types of the declarations in `fields.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tui_workbench.core import target_types
from tui_workbench.core.addresses import Mistake

STRING = "string"
BOOLEAN = "boolean"
INTEGER = "integer"
CHOICE = "choice"
STRINGS = "strings"  # a list of strings
MAPPING = "mapping"  # a map with string values
REFERENCES = "references"  # a map from paths to paths, or a list of paths; always a map in Python
ROWS = "rows"  # a list of maps with the keys in `Field.row`
DEPENDENCIES = "dependencies"  # conda's list: strings, and a map from `pip` to a list of strings
GPUS = "gpus"  # all, free, a number, or a list of numbers and IDs; always a str in Python
PROCESSES = "processes"  # gpus, or a number from 1 to 999; always a str in Python
ANY = "any"

TYPE_NAMES = {
    STRING: "text",
    BOOLEAN: "true or false",
    INTEGER: "a whole number",
    CHOICE: "one of the allowed values",
    STRINGS: "a list of strings",
    MAPPING: "a map of strings",
    REFERENCES: "a list of paths, or a map from paths to paths",
    ROWS: "a list of maps",
    DEPENDENCIES: "a list of packages",
    GPUS: "`all`, `free`, a number, or a list of numbers or IDs",
    PROCESSES: "`gpus`, or a number from 1 to 999",
    ANY: "anything",
}
"""Names of types in messages and in the reference."""

COLLECTIONS = frozenset((STRINGS, MAPPING, REFERENCES, ROWS, DEPENDENCIES))
"""Types whose values contain several strings."""

MAPS = frozenset((MAPPING, REFERENCES))
"""Types whose values are maps in Python, with names that the user chooses."""

TRUE_WORDS = frozenset(("true", "yes", "on", "y"))
FALSE_WORDS = frozenset(("false", "no", "off", "n"))

NULL = "null"
"""The word that means no value on the command line."""

FRAMEWORKS = ("Python", "PySpark")


class Field(NamedTuple):
    """A key of a configuration file."""

    key: str  # with dots for nested maps
    help: str  # one or more sentences
    type: str = STRING
    default: Any = None
    choices: tuple[str, ...] = ()  # canonical words of a CHOICE
    synonyms: tuple[tuple[str, str], ...] = ()  # (other word, canonical word)
    required: bool = False  # for all target types; see `is_required_by`
    nullable: bool = True  # `key:` and `key: null` mean the default
    completion: str = ""  # target, image, python, file, conda-file, spark-file or folder
    secret: bool = False  # never shown in full
    replaced_by: str = ""  # the new key of an old form
    row: tuple[Field, ...] = ()  # the keys of each map of ROWS
    example: str = ""
    minimum: int | None = None
    pattern: str = ""  # a regular expression that each nonempty text of a STRING or STRINGS must match
    form: str = ""  # a description of `pattern` for messages
    mistake_in: Callable[[str], Mistake | None] | None = None  # checks each nonempty text of a STRING
    mistake_code: str = ""  # the code of the fault for such a mistake
    reserved: tuple[str, ...] = ()  # command-line options that STRINGS must not contain
    source: str = "docs"  # see the docstring of `fields.py`

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))

    @property
    def targets(self) -> tuple[str, ...]:
        """The built-in types of targets that use the field; () for all types."""
        return tuple(target_type.name for target_type in target_types.BUILT_IN if target_type.reads(self.key))

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices, including target types of other packages."""
        is_type = self.choices == target_types.built_in_names()
        return target_types.names() if is_type else self.choices

    @property
    def is_old(self) -> bool:
        """True for an old form, which is read but not suggested."""
        return bool(self.replaced_by) or self.source == "old"

    def applies_to(self, target_type: str) -> bool:
        """Return True if a target of this type uses the field, or if `target_type` is ""."""
        return not self.targets or not target_type or target_types.find(target_type).reads(self.key)

    def is_required_by(self, target_type: str) -> bool:
        return self.required or self.key in target_types.find(target_type).required

    def understand(self, word: str) -> str:
        """Return the canonical word of a choice, or "" if the word is invalid."""
        words = (*self.synonyms, *((choice, choice) for choice in self.choices))
        return {written.lower(): meant for written, meant in words}.get(word.lower(), "")


class FileKind(NamedTuple):
    """A kind of configuration file, with its fields in their usual order."""

    name: str  # compute, runconfig, sdk-runconfig, conda, spark, settings, agents
    title: str
    pattern: str
    help: str
    fields: tuple[Field, ...]

    def field(self, key: str) -> Field | None:
        return next((field for field in self.fields if field.key == key), None)

    def field_at(self, path: tuple[str | int, ...]) -> Field | None:
        """Return the field at or above a path, or None."""
        fields = (self.field(".".join(map(str, path[:length]))) for length in range(len(path), 0, -1))
        return next((field for field in fields if field is not None), None)

    def order(self, key: str) -> int:
        """Return the rank of a key or section in the order of the fields. Unknown keys are last."""
        ranks = (i for i, field in enumerate(self.fields) if f"{field.key}.".startswith(f"{key}."))
        return next(ranks, len(self.fields))

    def is_section(self, key: str) -> bool:
        return any(field.key.startswith(key + ".") for field in self.fields)


def written(value: Any) -> str:
    """Format a value on one line, as `config set` reads it."""
    if value is None:
        return NULL
    if value == NULL:
        return f'"{value}"'
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
