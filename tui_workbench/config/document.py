"""One configuration file being edited: the text is the truth, the form and the text view are two ways to look at it.

Invariants: an edit of a value changes the bytes of that value and nothing else; a value set back, or a key inserted and
removed again, leaves the file as it was, to the byte; a file that changed on disk is never overwritten unseen. A
document whose text is not (or not yet) YAML can be edited as text only, and says so. Undo belongs to the text editor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from tui_workbench.config.checks import dependencies, gpu, project, structure
from tui_workbench.config.checks.findings import (
    Edit,
    Finding,
    Fix,
    RenameKey,
    ReplaceText,
    SetValue,
    Unset,
    WriteAsYaml,
)
from tui_workbench.config.checks.project_context import Subject, Surroundings
from tui_workbench.config.loading import top_level_keys
from tui_workbench.config.schema import field_types, fields
from tui_workbench.config.schema.field_types import Field, FileKind
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.yaml_edit import editing
from tui_workbench.config.yaml_edit.dotted_keys import parse_key
from tui_workbench.config.yaml_edit.origins import Origins
from tui_workbench.config.yaml_edit.syntax import SCALAR, Node, Path, Tree, find, own, parse, plain_value, read
from tui_workbench.config.yaml_edit.values import Reading
from tui_workbench.core import text_files
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.files import Signature
from tui_workbench.core.text_files import TextFile


class FieldState(NamedTuple):
    """One row of the form: a field with what the file says about it."""

    field: Field  # for a key that no field declares: one of type ANY made up for it
    path: Path
    value: Any  # typed; None when unset or unreadable
    span: tuple[int, int] | None  # offsets of the value in the text, None when unset
    line: int  # line of the value, 0 when unset
    problems: tuple[Finding, ...] = ()
    is_known: bool = True  # False for a key that no field declares

    @property
    def is_set(self) -> bool:
        """Whether the file has the key."""
        return self.span is not None

    @property
    def key(self) -> str:
        """The key as in the file, dots leading into nested maps."""
        return self.field.key


class Document:
    """A configuration file, open for editing by form and by text.

    `path` is the file, `file` the version that this document began with or last saved; `kind` says what its fields are;
    `text` has line feeds where the file has its uniform line ends; `error` is why the text is not YAML, None when it
    is.
    """

    error: ConfigurationError | None
    _tree: Tree | None
    _subject: Subject | None
    _findings: list[Finding] | None

    def __init__(self, file: TextFile, surroundings: Surroundings | None = None) -> None:
        self.path = file.path
        self.surroundings = surroundings
        self.file = file
        self._saved = file.text
        self._origins = Origins()
        self._last_kind: FileKind | None = None
        self._parse(file.text)

    @classmethod
    def open(cls, path: str, surroundings: Surroundings | None = None) -> Document:
        """The document of the file at `path`, also when it is no YAML. `surroundings` let checks look at other files.

        Raises ConfigurationError: no such file, not readable, too large, or not text.
        """
        return cls(read(path), surroundings)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> FileKind:
        """Which fields the file has; a broken text keeps the last kind.

        A runconfig's form is told by its keys. A dependency file is what the project's run configurations use it as,
        else what its keys say.
        """
        if self._tree is not None or self._last_kind is None:
            keys = top_level_keys(self._tree) if self._tree is not None else ()
            role = self.surroundings.role_of(self.path) if self.surroundings is not None else None
            self._last_kind = role or kind_of(self.path, keys) or fields.CONDA
        return self._last_kind

    @property
    def tree(self) -> Tree:
        """The parsed text. Raises ConfigurationError, with the place, while the text is no YAML."""
        if self._tree is None:
            raise self.error or ConfigurationError("this is not YAML", file=self.path)
        return self._tree

    @property
    def subject(self) -> Subject:
        """The file as the checks see it. Raises ConfigurationError while the text is no YAML."""
        if self._subject is None:
            self._subject = Subject(self.path, self.kind, self.tree, self.surroundings)
        return self._subject

    @property
    def reading(self) -> Reading:
        """Typed values and faults. Raises ConfigurationError while the text is no YAML."""
        return self.subject.reading

    @property
    def values(self) -> dict[str, Any]:
        """The typed value of every field that is set, by key; {} while the text is no YAML."""
        return self.reading.values if self._tree is not None else {}

    @property
    def target_type(self) -> str:
        """The type of target that a `.compute` file describes, "" for other files."""
        return self.subject.target_type if self._tree is not None else ""

    def get(self, key: str | Path) -> Any:
        """The value at a key or path, typed where a field declares it (items of its lists too); None when unset.

        Raises ConfigurationError while the text is no YAML.
        """
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
        """The path that a dotted key with list indices means here: `EnvironmentVariables.LR`, `packages[0].version`."""
        if not isinstance(key, str):
            return key
        return parse_key(key, self._tree, self.kind)

    def fields(self) -> list[FieldState]:
        """Every row of the form: set fields in the order of the file, unknown keys among them, then unset ones.

        Fields that the target's type does not know, and old forms, are listed only when they are set. While the text is
        no YAML: [].
        """
        if self._tree is None:
            return []
        nodes, target_type = self.reading.nodes, self.target_type
        rows = [self._row(field) for field in self.kind.fields if field.key in nodes]
        rows += [self._unknown(path, value) for path, _, value in self.reading.unknown]
        rows.sort(key=lambda row: row.span or (0, 0))
        unset = (field for field in self.kind.fields if field.key not in nodes and not field.is_old)
        return rows + [self._row(field) for field in unset if field.applies_to(target_type)]

    def field(self, key: str) -> FieldState:
        """The row of one field. Raises UsageError when the kind of file does not know it."""
        field = self.kind.field(key)
        if field is None:
            raise UsageError(f"{self.kind.title} has no field {key!r}", remedy="Choose one of the reference.")
        return self._row(field)

    def problems(self) -> list[Finding]:
        """All that is wrong or unwise, in the order of the text, each with its place and, where known, its fix."""
        if self._findings is None and self.error is not None:
            self._findings = [structure.syntax_finding(self.path, self.text, self.error)]
        elif self._findings is None:
            self._findings = sorted(_findings(self.subject), key=lambda finding: (finding.start, finding.end))
        return self._findings

    # -- changing ----------------------------------------------------------------------------------------------------

    def set(self, key: str | Path, value: Any) -> None:
        """Give a key or path a value: text, bool, int, or lists and dicts of them; missing maps on the way are made.

        An index one past the end of a list appends. A list or map keeps the bytes of the entries that stay. Raises
        ConfigurationError when the text is no YAML, or the value cannot be changed without changing something else.
        """
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        text = self._origins.restored(tree, path, value) or editing.set_value(tree, path, value, self.kind)
        self._show(text, path)

    def unset(self, key: str | Path) -> None:
        """Remove a key or list item; nothing happens when it is not there. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        if own(tree, path) is None:
            return
        self._origins.remember(tree, path)
        text = editing.unset(tree, path)
        self._show(self._origins.emptied(text, path[:-1]), path)
        self._origins.forget_items(path)

    def insert_item(self, key: str | Path, index: int, value: Any) -> None:
        """Put `value` before item `index` of the list at `key`; a missing list is made. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        sequence = find(tree, path)
        before = plain_value(sequence) if sequence is not None and sequence.kind == "list" else []
        wanted = [*before[:index], value, *before[index:]]
        text = self._origins.restored(tree, path, wanted) or editing.insert_item(tree, path, index, value, self.kind)
        self._show(text, path)
        self._origins.forget_items((*path, index))

    def move_item(self, key: str | Path, index: int, to: int) -> None:
        """Make item `index` of the list at `key` item `to`. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._origins.remember(tree, path)
        self._show(editing.move_item(tree, path, index, to), path)
        self._origins.forget_items((*path, index))

    def rename_key(self, key: str | Path, new: str) -> None:
        """Call the key at a path `new`, in its place. Raises ConfigurationError."""
        self._show(editing.rename_key(self.tree, self.path_of(key), new))

    def replace_text(self, text: str) -> None:
        """Take the whole text as a text view has it now."""
        self._show(text)

    def apply(self, fix: Fix) -> None:
        """Apply the fix of a problem, all of it or nothing. Raises ConfigurationError."""
        with self.step():
            for edit in fix.edits:
                self.edit(edit)

    def edit(self, edit: Edit) -> None:
        """Make one edit of a fix. Raises ConfigurationError."""
        match edit:
            case SetValue(path, value):
                self.set(path, value)
            case Unset(path):
                self.unset(path)
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
        """Make all changes inside of the `with`, or none: an exception takes them back."""
        before = self.text
        try:
            yield
        except BaseException:
            self._show(before)
            raise

    # -- saving ------------------------------------------------------------------------------------------------------

    @property
    def is_dirty(self) -> bool:
        """Whether the text differs from the file as last read or saved."""
        return self.text != self._saved

    def save(self) -> None:
        """Write the text to its file, all or nothing.

        Raises FileChangedError when the file changed on disk since it was read, StorageError when it cannot be
        written; the text is kept either way.
        """
        self.file = text_files.save(self.file, self.text)
        self._saved = self.text

    # -- inner workings ----------------------------------------------------------------------------------------------

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
        line, _ = self.tree.place(node.start)
        return FieldState(field, field.path, value, (node.start, node.end), line, problems)

    def _unknown(self, path: tuple[str, ...], node: Node) -> FieldState:
        help_text = "No field of this name is known; it is kept as it is."
        row = self._row(Field(".".join(path), help_text, field_types.ANY, source="file"))
        line, _ = self.tree.place(node.start)
        return row._replace(path=path, value=plain_value(node), span=(node.start, node.end), line=line, is_known=False)


def _findings(subject: Subject) -> Iterator[Finding]:
    yield from structure.check(subject)
    if subject.kind in (fields.COMPUTE, fields.RUNCONFIG, fields.SDK_RUNCONFIG):
        yield from project.check(subject)
        yield from gpu.check(subject)
    elif subject.kind is fields.CONDA:
        yield from dependencies.check(subject)


def new_text(path: str, values: Mapping[str, Any]) -> str:
    """The text of a new configuration file at `path` with `values` by key, in the order of the schema."""
    document = Document(TextFile(path, "", Signature(0, 0, 0)))
    for field in document.kind.fields:
        if field.key in values:
            document.set(field.path, values[field.key])
    for key, value in values.items():
        if document.kind.field(key) is None:
            document.set((key,), value)
    return document.text
