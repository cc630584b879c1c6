"""One configuration file being edited: the text is the truth, the form and the text view are two ways to look at it.

Invariants: every change goes through one list of undo steps, whoever made it; an edit of a value changes the bytes of
that value and nothing else; a value set back, or a key inserted and removed again, leaves the file as it was, to the
byte; a file that changed on disk is never overwritten unseen. A document whose text is not (or not yet) YAML can be
edited as text only, and says so.
"""

from __future__ import annotations

from contextlib import contextmanager

from tui_workbench import files
from tui_workbench.config import editing, fields, schema
from tui_workbench.config.history import History, Step, difference
from tui_workbench.config.keys import field_at, parse_key
from tui_workbench.config.layout import colon_end, entry_end
from tui_workbench.config.loading import top_level_keys, type_of
from tui_workbench.config.paths import Path, dotted, find, own
from tui_workbench.config.scalars import means
from tui_workbench.config.schema import Field, FileKind, kind_of
from tui_workbench.config.source import read
from tui_workbench.config.syntax import MAP, SCALAR, Node, Tree, parse, plain_value
from tui_workbench.config.values import Reading, read_fields
from tui_workbench.config.verification import Splice, apply, image, sets
from tui_workbench.errors import ConfigurationError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tui_workbench.config.checks import Finding, Fix
    from tui_workbench.config.surroundings import Surroundings
    from tui_workbench.files import TextFile


class FieldState(NamedTuple):
    """One row of the form: a field with what the file says about it."""

    field: Field  # for a key that no field declares: one of type ANY made up for it
    path: Path
    value: Any  # typed; None when unset or unreadable
    is_set: bool
    is_known: bool  # False for a key that no field declares
    span: tuple[int, int] | None  # offsets of the value in the text, None when unset
    line: int  # line of the value, 0 when unset
    problems: tuple[Finding, ...] = ()

    @property
    def key(self) -> str:
        """The key as in the file, dots leading into nested maps."""
        return self.field.key

    @property
    def default(self) -> Any:
        """What holds while the field is unset, None when nothing does."""
        return self.field.default


_TEXTS_INSIDE = frozenset((schema.STRINGS, schema.MAPPING, schema.ROWS, schema.DEPENDENCIES))
"""Types whose items and entries are texts, whatever they look like."""


class _Origin(NamedTuple):
    """What stood at a path before it was first edited."""

    node: Node | None  # None: nothing stood there
    raw: str  # the text from behind the colon (or, for an item, of the value itself)
    text: str  # the whole text
    revision: int


class Document:
    """A configuration file, open for editing by form and by text.

    `path` is the file; `kind` says what its fields are; `text` has line feeds where the file has its uniform line ends;
    `revision` counts every change, so a view knows when to look again; `error` is why the text is not YAML, None when
    it is.
    """

    def __init__(self, file: TextFile, surroundings: Surroundings | None = None) -> None:
        self.path = file.path
        self.text = file.text
        self.revision = 0
        self.error: ConfigurationError | None = None
        self.surroundings = surroundings
        self._file = file
        self._saved = file.text
        self._history = History()
        self._origins: dict[Path, _Origin] = {}
        self._edited: list[Path | None] = []  # where each revision changed the text, None: anywhere
        self._tree: Tree | None = None
        self._reading: Reading | None = None
        self._findings: list[Finding] | None = None
        self._group: list[str] | None = None
        self._last_kind: FileKind | None = None
        self._parse()

    @classmethod
    def open(cls, path: str, surroundings: Surroundings | None = None) -> Document:
        """The document of the file at `path`, also when it is no YAML. `surroundings` let checks look at other files.

        Raises ConfigurationError: no such file, not readable, too large, or not text.
        """
        return cls(read(path), surroundings)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> FileKind:
        """Which fields the file has. A runconfig's form is told by its keys; a broken text keeps the last one."""
        if self._tree is not None or self._last_kind is None:
            keys = top_level_keys(self._tree) if self._tree is not None else ()
            self._last_kind = kind_of(self.path, keys) or fields.CONDA
        return self._last_kind

    @property
    def tree(self) -> Tree:
        """The parsed text. Raises ConfigurationError, with the place, while the text is no YAML."""
        if self._tree is None:
            assert self.error is not None
            raise self.error
        return self._tree

    @property
    def reading(self) -> Reading:
        """Typed values and faults. Raises ConfigurationError while the text is no YAML."""
        if self._reading is None:
            self._reading = read_fields(self.tree, self.kind)
        return self._reading

    @property
    def values(self) -> dict[str, Any]:
        """The typed value of every field that is set, by key; {} while the text is no YAML."""
        return self.reading.values if self._tree is not None else {}

    @property
    def target_type(self) -> str:
        """The type of target that a `.compute` file describes, "" for other files."""
        return type_of(self.values) if self.kind is fields.COMPUTE else ""

    def get(self, key: str | Path) -> Any:
        """The value at a key or path, typed where a field declares it (items of its lists too); None when unset.

        Raises ConfigurationError while the text is no YAML.
        """
        path = self.path_of(key)
        name = ".".join(map(str, path))
        if name in self.reading.values:
            return self.reading.values[name]
        node = find(self.tree, path)
        field = field_at(path, self.kind)
        if node is not None and node.kind == SCALAR and field is not None and field.type in _TEXTS_INSIDE:
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
        problems = self._problems_by_key()
        rows = [self._state(field, problems) for field in self.kind.fields if field.key in self.reading.nodes]
        rows += [self._unknown(path, value, problems) for path, _, value in self.reading.unknown]
        rows.sort(key=lambda row: row.span or (0, 0))
        target_type = self.target_type
        unset = [
            self._state(field, problems)
            for field in self.kind.fields
            if field.key not in self.reading.nodes and not field.is_old and field.applies_to(target_type)
        ]
        return rows + unset

    def field(self, key: str) -> FieldState:
        """The row of one field. Raises UsageError when the kind of file does not know it."""
        field = self.kind.field(key)
        if field is None:
            raise UsageError(f"{self.kind.title} has no field {key!r}", remedy="Choose one of the reference.")
        return self._state(field, self._problems_by_key())

    def problems(self) -> list[Finding]:
        """All that is wrong or unwise, in the order of the text, each with its place and, where known, its fix."""
        if self._findings is None:
            from tui_workbench.config.checks import check_document

            self._findings = check_document(self)
        return self._findings

    # -- changing ----------------------------------------------------------------------------------------------------

    def set(self, key: str | Path, value: Any) -> None:
        """Give a key or path a value: text, bool, int, or lists and dicts of them; missing maps on the way are made.

        An index one past the end of a list appends. A list or map keeps the bytes of the entries that stay. Raises
        ConfigurationError when the text is no YAML, or the value cannot be changed without changing something else.
        """
        path = self.path_of(key)
        tree = self.tree
        self._remember(path)
        text = self._restored(tree, path, value) or editing.set_value(tree, path, value, self.kind)
        self._become(text, f"set {dotted(path)}", path=path)

    def unset(self, key: str | Path) -> None:
        """Remove a key or list item; nothing happens when it is not there. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        if own(tree, path) is None:
            return
        self._remember(path)
        text = editing.unset(tree, path)
        self._become(self._emptied(text, path[:-1]), f"remove {dotted(path)}", path=path)
        self._forget_items(path)

    def insert_item(self, key: str | Path, index: int, value: Any) -> None:
        """Put `value` before item `index` of the list at `key`; a missing list is made. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._remember(path)
        sequence = find(tree, path)
        before = plain_value(sequence) if sequence is not None and sequence.kind == "list" else []
        wanted = [*before[:index], value, *before[index:]]
        text = self._restored(tree, path, wanted) or editing.insert_item(tree, path, index, value, self.kind)
        self._become(text, f"add to {dotted(path)}", path=path)
        self._forget_items((*path, index))

    def remove_item(self, key: str | Path, index: int) -> None:
        """Remove item `index` of the list at `key`. Raises ConfigurationError."""
        self.unset((*self.path_of(key), index))

    def move_item(self, key: str | Path, index: int, to: int) -> None:
        """Make item `index` of the list at `key` item `to`, as one step. Raises ConfigurationError."""
        path = self.path_of(key)
        tree = self.tree
        self._remember(path)
        self._become(editing.move_item(tree, path, index, to), f"move in {dotted(path)}", path=path)
        self._forget_items((*path, index))

    def rename_key(self, key: str | Path, new: str) -> None:
        """Call the key at a path `new`, in its place. Raises ConfigurationError."""
        path = self.path_of(key)
        self._become(editing.rename_key(self.tree, path, new), f"rename {dotted(path)}")

    def replace_text(self, text: str, *, label: str = "edit text", merge: str = "") -> None:
        """The text view's way in: the whole text as it is now.

        Changes that follow each other with the same `merge` word (say, "typing") become one undo step a word.
        """
        self._become(text, label, merge)

    def apply(self, fix: Fix) -> None:
        """Apply the fix of a problem as one undo step. Raises ConfigurationError."""
        with self.step(fix.title):
            fix.apply_to(self)

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """All changes inside of the `with` are one undo step; an exception takes them back."""
        if self._group is not None:
            yield
            return
        before = self.text
        self._group = [before]
        try:
            yield
        except BaseException:
            self._group = None
            self._show(before)
            raise
        self._group = None
        after = self.text
        if after != before:
            self._history.add(difference(before, after, label))

    # -- undo, saving ------------------------------------------------------------------------------------------------

    def undo(self) -> Step | None:
        """Take the last step back, whichever view made it. Returns what was replaced, None when there is nothing."""
        return self._go(self._history.undo())

    def redo(self) -> Step | None:
        """Make the step that was last undone again. Returns what was replaced, None when there is nothing."""
        return self._go(self._history.redo())

    @property
    def undo_label(self) -> str:
        """What undo would take back ("set nvidiaDocker"), "" when nothing."""
        return self._history.undo_label

    @property
    def redo_label(self) -> str:
        """What redo would make again, "" when nothing."""
        return self._history.redo_label

    @property
    def is_dirty(self) -> bool:
        """Whether the text differs from the file as last read or saved."""
        return self.text != self._saved

    @property
    def file(self) -> TextFile:
        """The version of the file that this document began with or last saved."""
        return self._file

    def save(self) -> None:
        """Write the text to its file, all or nothing.

        Raises FileChangedError when the file changed on disk since it was read (see `theirs`, `take_theirs`,
        `keep_mine`), StorageError when it cannot be written; the text is kept either way.
        """
        self._file = files.save(self._file, self.text)
        self._saved = self.text
        self._history.seal()

    def theirs(self) -> TextFile | None:
        """The file as it is on disk now, when it is another version than the one this document knows; else None.

        None too when it is gone: the next save then writes it anew. Raises StorageError when it cannot be read.
        """
        current = files.reread(self._file)
        return None if current is None or current.same_content(self._file) else current

    def take_theirs(self, theirs: TextFile) -> None:
        """Go on with the text on disk; the own text is one undo away."""
        self._file = theirs
        self._saved = theirs.text
        self._become(theirs.text, "take the version on disk")

    def keep_mine(self, theirs: TextFile) -> None:
        """Go on with the own text, having seen the one on disk: the next save replaces it."""
        self._file = theirs
        self._saved = theirs.text

    # -- inner workings ----------------------------------------------------------------------------------------------

    def _become(self, text: str, label: str, merge: str = "", path: Path | None = None) -> None:
        if text == self.text:
            return
        if self._group is None:
            self._history.add(difference(self.text, text, label, merge))
        self._show(text, path)

    def _go(self, step: Step | None) -> Step | None:
        if step is not None:
            self._show(step.apply(self.text))
        return step

    def _show(self, text: str, path: Path | None = None) -> None:
        self.text = text
        self.revision += 1
        self._edited.append(path)
        self._parse()

    def _parse(self) -> None:
        self._reading = None
        self._findings = None
        try:
            self._tree, self.error = parse(self.text, self.path), None
        except ConfigurationError as error:
            self._tree, self.error = None, error

    def _problems_by_key(self) -> dict[str, tuple[Finding, ...]]:
        found: dict[str, tuple[Finding, ...]] = {}
        for finding in self.problems():
            found[finding.key] = (*found.get(finding.key, ()), finding)
        return found

    def _state(self, field: Field, problems: dict[str, tuple[Finding, ...]]) -> FieldState:
        node = self.reading.nodes.get(field.key)
        return FieldState(
            field=field,
            path=field.path,
            value=self.reading.values.get(field.key),
            is_set=node is not None,
            is_known=True,
            span=(node.start, node.end) if node is not None else None,
            line=self.tree.place(node.start)[0] if node is not None else 0,
            problems=problems.get(field.key, ()),
        )

    def _unknown(self, path: tuple[str, ...], node: Node, problems: dict[str, tuple[Finding, ...]]) -> FieldState:
        field = Field(".".join(path), schema.ANY, "No field of this name is known; it is kept as it is.", source="file")
        line, _ = self.tree.place(node.start)
        return FieldState(
            field, path, plain_value(node), True, False, (node.start, node.end), line, problems.get(field.key, ())
        )

    def _remember(self, path: Path) -> None:
        """Keep what stands at `path` and above it, the first time, so that setting it back gives the same bytes."""
        tree = self.tree
        for length in range(1, len(path) + 1):
            here = path[:length]
            if here not in self._origins:
                self._origins[here] = _Origin(own(tree, here), _raw(tree, here), self.text, self.revision)

    def _forget_items(self, path: Path) -> None:
        """Indices of a list mean other items after one came or went."""
        if path and isinstance(path[-1], int):
            parent = path[:-1]
            depth = len(parent)
            self._origins = {
                known: origin
                for known, origin in self._origins.items()
                if known[:depth] != parent or len(known) == depth
            }

    def _restored(self, tree: Tree, path: Path, value: Any) -> str | None:
        """The text with the bytes that `path` had at first, when `value` is what they say."""
        origin = self._origins.get(path)
        if origin is None or origin.node is None or not means(origin.node, value):
            return None
        depth = len(path)
        if all(edited is not None and edited[:depth] == path for edited in self._edited[origin.revision :]):
            return origin.text
        span = _region(tree, path)
        if span is None:
            return None
        text = apply(tree.text, [Splice(*span, origin.raw)])
        try:
            after = parse(text)
        except ConfigurationError:
            return None
        node = find(after, path)
        is_same = sets(tree, path, value)(after) and image(node) == image(origin.node)
        return text if is_same else None

    def _emptied(self, text: str, path: Path) -> str:
        """After a removal: maps made only to hold what is gone now go too, empty ones get their first bytes back."""
        for length in range(len(path), 0, -1):
            here = path[:length]
            origin = self._origins.get(here)
            tree = parse(text)
            node = own(tree, here)
            if origin is None or node is None or not _is_empty(node):
                break
            if origin.node is None:
                text = editing.unset(tree, here)
            elif _is_empty(origin.node):
                span = _region(tree, here)
                text = apply(text, [Splice(*span, origin.raw)]) if span is not None else text
                break
            else:
                break
        return text


def _is_empty(node: Node) -> bool:
    return node.is_null or (node.kind != "scalar" and node.size == 1)


def _region(tree: Tree, path: Path) -> tuple[int, int] | None:
    """The characters that are the value at `path`: from behind the colon, so that a block below its key is whole."""
    node = own(tree, path)
    parent = find(tree, path[:-1])
    if node is None or parent is None:
        return None
    if parent.kind == MAP:
        key, value = next(entry for entry in reversed(parent.entries) if entry[0].text == path[-1])
        start = colon_end(tree.text, key, value)
        return (start, max(entry_end(key, value), start)) if start >= 0 else None
    return node.start, node.end


def _raw(tree: Tree, path: Path) -> str:
    span = _region(tree, path)
    return tree.text[span[0] : span[1]] if span is not None else ""
