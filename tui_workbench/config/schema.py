"""What a field is: one declaration for parsing, validation, completion, the form, help, JSON Schema and reference.

Invariant: what a field means is said in its `Field` and nowhere else. The tables themselves are in `fields.py`.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any


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

LOCAL, LOCAL_DOCKER, REMOTE_DOCKER, REMOTE, CLUSTER = "local", "localdocker", "remotedocker", "remote", "cluster"
TARGET_TYPES = (LOCAL, LOCAL_DOCKER, REMOTE_DOCKER, REMOTE, CLUSTER)
DOCKER_TYPES = (LOCAL_DOCKER, REMOTE_DOCKER)
SSH_TYPES = (REMOTE_DOCKER, REMOTE, CLUSTER)
FRAMEWORKS = ("Python", "PySpark")


class Field(NamedTuple):
    """One key of a configuration file."""

    key: str  # as in the file; dots lead into nested maps
    type: str  # one of the words above
    help: str  # one sentence
    default: Any = None  # what holds when the key is absent; None when nothing does
    choices: tuple[str, ...] = ()  # of a CHOICE, canonical spelling
    synonyms: tuple[tuple[str, str], ...] = ()  # other spellings of choices: (as written, as understood)
    targets: tuple[str, ...] = ()  # target types that know the field; () for all
    required: tuple[str, ...] = ()  # target types that cannot do without; for other files: ("*",)
    nullable: bool = True  # `key:` or `key: null` means the same as leaving it out
    completion: str = ""  # target, image, python, file, conda-file, spark-file, folder: where suggestions come from
    secret: bool = False  # never shown in full
    replaced_by: str = ""  # the key that replaced this one; set on old forms only
    row: tuple[Field, ...] = ()  # the keys of each map of ROWS
    example: str = ""
    minimum: int | None = None  # of an INTEGER
    source: str = ""  # where the field's meaning is documented

    @property
    def path(self) -> tuple[str, ...]:
        """The key as steps into nested maps."""
        return tuple(self.key.split("."))

    @property
    def is_old(self) -> bool:
        """True for a key that is understood and not offered."""
        return bool(self.replaced_by) or self.source == "old"

    def applies_to(self, target_type: str) -> bool:
        """Whether a target of this type knows the field; an unknown type "" knows all."""
        return not self.targets or not target_type or target_type in self.targets

    def is_required_by(self, target_type: str) -> bool:
        """Whether a target of this type cannot do without the field."""
        return "*" in self.required or target_type in self.required

    def understand(self, word: str) -> str:
        """The canonical spelling of a choice, "" when it is none."""
        for choice in self.choices:
            if word == choice:
                return choice
        lowered = word.lower()
        for written, understood in (*((choice, choice) for choice in self.choices), *self.synonyms):
            if lowered == written.lower():
                return understood
        return ""


class FileKind(NamedTuple):
    """One kind of configuration file, with its fields in the order a person writes them."""

    name: str  # compute, runconfig, sdk-runconfig, conda, spark
    title: str
    pattern: str
    help: str
    fields: tuple[Field, ...]

    def field(self, key: str) -> Field | None:
        """The field of this key, None when the kind does not know it."""
        return next((field for field in self.fields if field.key == key), None)

    def order(self, key: str) -> int:
        """Where a top-level key stands among its siblings; unknown keys come last."""
        for index, field in enumerate(self.fields):
            if field.key == key or field.key.startswith(key + "."):
                return index
        return len(self.fields)

    def is_section(self, key: str) -> bool:
        """True when `key` is a map that leads to fields and is none itself."""
        return any(field.key.startswith(key + ".") for field in self.fields)


def kind_of(path: str, keys: tuple[str, ...] = ()) -> FileKind | None:
    """The kind of the file at `path` with these top-level keys; None when it is no configuration file of a project."""
    from tui_workbench.config import fields

    name = path.rpartition("/")[2].lower()
    if name.endswith(".compute"):
        return fields.COMPUTE
    if name.endswith(".runconfig"):
        return fields.SDK_RUNCONFIG if _is_sdk(keys) else fields.RUNCONFIG
    if name.endswith((".yml", ".yaml")):
        if "spark" in name:
            return fields.SPARK
        if "conda" in name or name.startswith("environment.") or ("dependencies" in keys and "name" in keys):
            return fields.CONDA
    return None


def _is_sdk(keys: tuple[str, ...]) -> bool:
    """The form of 2018's SDK begins its keys with small letters."""
    from tui_workbench.config import fields

    return not fields.SDK_KEYS.isdisjoint(keys) and not any(key[:1].isupper() for key in keys)


def is_known_key(key: str) -> bool:
    """Whether any kind of file has this top-level key."""
    from tui_workbench.config import fields

    return any(field.path[0] == key for kind in fields.KINDS for field in kind.fields)
