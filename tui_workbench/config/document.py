"""Open configuration files, and edit them as a form or as text.

An edit of a value changes no other bytes of the text. If a value is set to its old value again, or an inserted key is
removed, the original bytes are restored. A file that changed on disk is never overwritten. Invalid YAML can only be
edited as text. The text editor implements undo.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from tui_workbench.config.checks import structure
from tui_workbench.config.checks.every_check import findings_of
from tui_workbench.config.checks.findings import (
    Edit,
    Finding,
    Fix,
    MoveSecret,
    RenameKey,
    ReplaceText,
    SetValue,
    Unset,
    WriteAsYaml,
)
from tui_workbench.config.checks.project_context import ProjectContext, Subject
from tui_workbench.config.loading import top_level_keys
from tui_workbench.config.schema import field_types, fields
from tui_workbench.config.schema.field_types import Field, FileKind
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.secret_values import store_value
from tui_workbench.config.yaml_edit import editing
from tui_workbench.config.yaml_edit.dotted_keys import parse_key
from tui_workbench.config.yaml_edit.origins import Origins
from tui_workbench.config.yaml_edit.syntax import (
    MAP,
    SCALAR,
    Node,
    Path,
    Tree,
    dotted,
    find,
    own,
    parse,
    plain_value,
    read,
)
from tui_workbench.config.yaml_edit.values import Reading
from tui_workbench.core import text_files
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.files import Signature
from tui_workbench.core.text_files import TextFile


class FieldState(NamedTuple):
    """A row of the form: a field and its value in the file."""

    field: Field  # for an unknown key, a field of type ANY
    path: Path
    value: Any  # typed; None if unset or invalid
    span: tuple[int, int] | None  # start and end of the value in the text; None if unset
    line: int  # line of the value; 0 if unset
    problems: tuple[Finding, ...] = ()
    is_known: bool = True

    @property
    def is_set(self) -> bool:
        return self.span is not None

    @property
    def key(self) -> str:
        """The key in the file, with dots for nested maps."""
        return self.field.key


class Document:
    """An open configuration file.

    `file` is the version that was last read or saved. Lines of `text` end with line feeds, unless the file mixes line
    endings. `error` is the syntax error of the text, or None.
    """

    error: ConfigurationError | None
    _tree: Tree | None
    _subject: Subject | None
    _findings: list[Finding] | None

    def __init__(self, file: TextFile, context: ProjectContext | None = None) -> None:
        self.path = file.path
        self.context = context
        self.file = file
        self._saved = file.text
        self._origins = Origins()
        self._last_kind: FileKind | None = None
        self._parse(file.text)

    @classmethod
    def open(cls, path: str, context: ProjectContext | None = None) -> Document:
        """Open a file, which may be invalid YAML. Checks read other files of the project through `context`.

        Raises ConfigurationError if the file does not exist, cannot be read, is too large, or is not text.
        """
        return cls(read(path), context)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> FileKind:
        """The kind of file; while the text is invalid YAML, the last known kind.

        The keys of a run configuration determine its form. The kind of a dependency file depends on the field of a run
        configuration that names the file. If no run configuration names the file, the keys determine the kind.
        """
        if self._tree is not None or self._last_kind is None:
            keys = top_level_keys(self._tree) if self._tree is not None else ()
            role = self.context.role_of(self.path) if self.context is not None else None
            self._last_kind = role or kind_of(self.path, keys) or fields.CONDA
        return self._last_kind

    @property
    def tree(self) -> Tree:
        """The parsed text. Raises ConfigurationError with the position while the text is invalid YAML."""
        if self._tree is None:
            raise self.error or ConfigurationError("invalid YAML", remedy="Correct the text.", file=self.path)
        return self._tree

    @property
    def subject(self) -> Subject:
        """The input of the checks. Raises the error of `tree`."""
        if self._subject is None:
            self._subject = Subject(self.path, self.kind, self.tree, self.context)
        return self._subject

    @property
    def reading(self) -> Reading:
        """Typed values and faults. Raises the error of `tree`."""
        return self.subject.reading

    @property
    def values(self) -> dict[str, Any]:
        """Typed values of the fields that are set, by key; {} while the text is invalid YAML."""
        return self.reading.values if self._tree is not None else {}

    @property
    def target_type(self) -> str:
        """The type of a compute target; "" for other files."""
        return self.subject.target_type if self._tree is not None else ""

    def get(self, key: str | Path) -> Any:
        """Return the typed value at a key or path, or None if it is unset. Raises the error of `tree`."""
        path = self.path_of(key)
        name = ".".join(map(str, path))
        if name in self.reading.values:
            return self.reading.values[name]
        node = find(self.tree, path)
        field = self.kind.field_at(path)
        is_inside = field is not None and field.type in field_types.COLLECTIONS and len(path) > len(field.path)
        if node is not None and node.kind == SCALAR and is_inside:
            return "" if node.is_null else node.text
        return plain_value(node)

    def path_of(self, key: str | Path) -> Path:
        """Return the path of a dotted key: `EnvironmentVariables.LR`, `packages[0].version`. Raises UsageError."""
        if not isinstance(key, str):
            return key
        return parse_key(key, self._tree, self.kind)

    def fields(self) -> list[FieldState]:
        """Return the rows of the form: set fields and unknown keys in file order, then unset fields.

        Old forms, and fields without effect on this type of target, are included only if they are set. The form is
        empty while the text is invalid YAML.
        """
        if self._tree is None:
            return []
        nodes = self.reading.nodes
        rows = [self._row(field) for field in self.kind.fields if field.key in nodes]
        rows += [self._unknown(path, value) for path, _, value in self.reading.unknown]
        rows.sort(key=lambda row: row.span or (0, 0))
        unset = (field for field in self.kind.fields if field.key not in nodes and not field.is_old)
        return rows + [self._row(field) for field in unset if self._has_effect(field)]

    def _has_effect(self, field: Field) -> bool:
        if self.kind is fields.COMPUTE:
            return field.applies_to(self.target_type)
        used = self.subject.used_type if field.targets else ""
        return not field.targets or (bool(used) and field.applies_to(used))

    def field(self, key: str) -> FieldState:
        """Return the row of one field. Raises UsageError for an unknown field, and the error of `tree`."""
        field = self.kind.field(key)
        if field is None:
            remedy = "`workbench-tui config schema` lists the fields."
            raise UsageError(f"unknown field {key!r} in {os.path.basename(self.path)}", remedy=remedy)
        return self._row(field)

    def problems(self) -> list[Finding]:
        """Return the findings of all checks, in text order."""
        if self._findings is None and self.error is not None:
            self._findings = [structure.syntax_finding(self.path, self.text, self.error)]
        elif self._findings is None:
            self._findings = sorted(findings_of(self.subject), key=lambda finding: (finding.start, finding.end))
        return self._findings

    # -- changing ----------------------------------------------------------------------------------------------------

    def set(self, key: str | Path, value: Any) -> None:
        """Set a key or path to a str, bool, int or None, or to lists and dicts of them. Create missing parent maps.

        An index equal to the length of a list appends an item. Unchanged entries of a list or map keep their bytes.
        Raises ConfigurationError if the text is invalid YAML, or if other values would change.
        """
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        text = self._origins.restored(tree, path, value) or editing.set_value(tree, path, value, self.kind)
        self._show(text, path)

    def unset(self, key: str | Path) -> None:
        """Remove a key or list item, if it is set. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        if own(tree, path) is None:
            return
        self._origins.remember(tree, path)
        text = self._origins.emptied(editing.unset(tree, path), path[:-1])
        self._show(self._without_empty_section(text, path[:-1]), path)
        self._origins.forget_items(path)

    def _without_empty_section(self, text: str, path: Path) -> str:
        """Return the text without the map at `path`, if the map is an empty section of the schema."""
        tree = parse(text)
        node = own(tree, path) if path and self.kind.is_section(dotted(path)) else None
        if node is None or node.kind != MAP or not node.is_empty:
            return text
        return self._without_empty_section(editing.unset(tree, path), path[:-1])

    def insert_item(self, key: str | Path, index: int, value: Any) -> None:
        """Insert `value` before item `index` of the list at `key`. Create a missing list. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        sequence = find(tree, path)
        before = plain_value(sequence) if sequence is not None and sequence.kind == "list" else []
        items = [*before[:index], value, *before[index:]]
        text = self._origins.restored(tree, path, items) or editing.insert_item(tree, path, index, value, self.kind)
        self._show(text, path)
        self._origins.forget_items((*path, index))

    def move_item(self, key: str | Path, index: int, to: int) -> None:
        """Move item `index` of the list at `key` to index `to`. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        self._show(editing.move_item(tree, path, index, to), path)
        self._origins.forget_items((*path, index))

    def rename_key(self, key: str | Path, new: str) -> None:
        """Rename a key in place. Raises ConfigurationError."""
        self._show(editing.rename_key(self.tree, self.path_of(key), new))

    def replace_text(self, text: str) -> None:
        self._show(text)

    def apply(self, fix: Fix) -> None:
        """Apply all edits of a fix, or none. Raises ConfigurationError."""
        with self.step():
            for edit in fix.edits:
                self.edit(edit)

    def edit(self, edit: Edit) -> None:
        """Apply an edit of a fix. Raises ConfigurationError."""
        match edit:
            case SetValue(path, value):
                self.set(path, value)
            case Unset(path):
                self.unset(path)
            case MoveSecret(path):
                project = os.path.dirname(os.path.dirname(os.path.abspath(self.path)))
                self.set(path, store_value(project, str(path[-1]), str(self.get(path))))
            case RenameKey(path, name):
                self.rename_key(path, name)
            case ReplaceText(start, end, text):
                self.replace_text(self.text[:start] + text + self.text[end:])
            case WriteAsYaml():
                root = self.tree.root
                keys = [key.text for key, value in root.entries if not value.is_null] if root is not None else []
                self.replace_text(new_text(self.path, {key: self.get((key,)) for key in keys}))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Undo all changes made in the `with` block if it raises an exception."""
        before = self.text
        try:
            yield
        except BaseException:
            self._show(before)
            raise

    # -- saving ------------------------------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        return self.text != self._saved

    def save(self) -> None:
        """Write the text to the file.

        Raises FileChangedError if the file changed on disk, and StorageError if it cannot be written.
        """
        self.file = text_files.save(self.file, self.text)
        self._saved = self.text

    # -- internals ---------------------------------------------------------------------------------------------------

    def _show(self, text: str, path: Path | None = None) -> None:
        if text != self.text:
            self._origins.note_edit(path)
            self._parse(text)

    def _parse(self, text: str) -> None:
        self.text = text
        self.error = self._tree = self._subject = self._findings = None
        try:
            self._tree = parse(text, self.path)
        except ConfigurationError as error:
            self.error = error

    def _row(self, field: Field) -> FieldState:
        node = self.reading.nodes.get(field.key)
        problems = tuple(finding for finding in self.problems() if finding.key == field.key)
        value = self.reading.values.get(field.key)
        if node is None:
            return FieldState(field, field.path, value, None, 0, problems)
        line, _ = self.tree.position(node.start)
        return FieldState(field, field.path, value, (node.start, node.end), line, problems)

    def _unknown(self, path: tuple[str, ...], node: Node) -> FieldState:
        help_text = "Unknown field. It has no effect."
        row = self._row(Field(".".join(path), help_text, field_types.ANY, source="file"))
        line, _ = self.tree.position(node.start)
        return row._replace(path=path, value=plain_value(node), span=(node.start, node.end), line=line, is_known=False)


def new_text(path: str, values: Mapping[str, Any]) -> str:
    """Return the text of a new configuration file with `values` by key, in the order of the schema.

    Raises ConfigurationError for a value that cannot be written.
    """
    document = Document(TextFile(path, "", Signature(0, 0, 0)))
    for field in document.kind.fields:
        if field.key in values:
            document.set(field.path, values[field.key])
    for key, value in values.items():
        if document.kind.field(key) is None:
            document.set((key,), value)
    return document.text
