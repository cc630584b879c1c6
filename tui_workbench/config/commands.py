"""What `config check|get|set|unset|fix|gpu-ready|schema` do: plain functions from words to data.

Invariant: a file is written only by `set_text`, `unset`, `fix` and `gpu_ready`, and only when the result differs and
was proved; exit codes are 0, or 3 when a check finds an error. Wrong use raises UsageError (exit 2), a broken file
ConfigurationError (exit 3).
"""

from __future__ import annotations

import os

from tui_workbench.config import schema
from tui_workbench.config.document import Document
from tui_workbench.config.keys import field_at
from tui_workbench.config.paths import Path, dotted, find
from tui_workbench.config.schema import TYPE_NAMES, kind_of
from tui_workbench.config.surroundings import CONFIG_DIRECTORY, Surroundings
from tui_workbench.config.syntax import LIST, MAP, parse, plain_value
from tui_workbench.config.values import FALSE_WORDS, TRUE_WORDS, convert, is_processes
from tui_workbench.errors import ConfigurationError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from tui_workbench.config.findings import Finding
    from tui_workbench.config.gpu_ready import GpuReadyPlan
    from tui_workbench.config.schema import Field

FOUND_ERRORS = 3
"""Exit code of a check that found an error."""


class CheckResult(NamedTuple):
    """What a check of some files found."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """3 when there is an error, else 0."""
        return FOUND_ERRORS if any(finding.severity == "error" for finding in self.findings) else 0


class EditResult(NamedTuple):
    """What an edit of one file did."""

    file: str
    key: str
    old: Any
    new: Any
    changed: bool


class FixResult(NamedTuple):
    """What was put right in one file, and what is left."""

    file: str
    fixed: tuple[str, ...]  # titles of the fixes, in the order in which they were made
    left: tuple[Finding, ...]
    diff: str

    @property
    def exit_code(self) -> int:
        """3 when an error is left, else 0."""
        return FOUND_ERRORS if any(finding.severity == "error" for finding in self.left) else 0


class GpuReadyResult(NamedTuple):
    """A plan, what it changes, and whether that was done."""

    plan: GpuReadyPlan
    diff: str
    applied: bool


def configuration_files(root: str) -> list[str]:
    """Every configuration file of the project at `root`: targets, run configurations, dependency files."""
    directory = os.path.join(root, CONFIG_DIRECTORY)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    found = [os.path.join(directory, name) for name in names if kind_of(name) is not None]
    around = Surroundings(root)
    for configuration in around.configurations():
        # Dependency files may lie anywhere in the project and have any name.
        named = (around.absolute(configuration.conda_file), around.absolute(configuration.spark_file))
        found += [path for path in named if path not in found and os.path.isfile(path)]
    return [path for path in found if os.path.isfile(path)]


def check(paths: Sequence[str]) -> CheckResult:
    """Check these files. A file that cannot be read at all is an error among the others, not the end of the check."""
    surroundings: dict[str, Surroundings | None] = {}
    findings: list[Finding] = []
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in surroundings:
            surroundings[folder] = Surroundings.of(path) or _project_above(folder)
        try:
            document = Document.open(path, surroundings[folder])
        except ConfigurationError as error:
            findings.append(_unreadable(path, error))
            continue
        findings.extend(document.problems())
    return CheckResult(tuple(paths), tuple(findings))


def get(path: str, key: str) -> Any:
    """The value at a key: typed where a field declares it, and the field's default when it is not set.

    Raises UsageError when there is neither value nor default; ConfigurationError when the file is broken.
    """
    document = Document.open(path)
    steps = document.path_of(key)
    value = document.get(steps)
    if value is None and find(document.tree, steps) is None:
        field = document.kind.field(key)
        if field is not None and field.default is not None:
            return _plain(field.default)
        raise UsageError(f"{key} is not set in {os.path.basename(path)}", remedy=_keys_remedy(document))
    return _plain(value)


def set_text(path: str, key: str, text: str, *, any_key: bool = False) -> EditResult:
    """Give a key the value that `text` means for its field; a list or map is written in brackets: `[a, b]`, `{A: 1}`.

    `any_key` allows keys that no field declares. Raises UsageError: `text` is of the wrong type, or no such field;
    ConfigurationError: the file is broken, or the value cannot be changed alone.
    """
    document = Document.open(path)
    steps = document.path_of(key)
    field = field_at(steps, document.kind)
    if field is None and not any_key and find(document.tree, steps) is None:
        raise _unknown_key(document, key)
    value = parse_value(field, steps, text, key)
    old = document.get(steps) if document.error is None else None
    document.set(steps, value)
    return _saved(document, steps, old)


def unset(path: str, key: str) -> EditResult:
    """Remove a key or list item. Raises UsageError when it is not there, ConfigurationError when the file is broken."""
    document = Document.open(path)
    steps = document.path_of(key)
    if find(document.tree, steps) is None:
        raise UsageError(f"{key} is not set in {os.path.basename(path)}", remedy=_keys_remedy(document))
    old = document.get(steps)
    document.unset(steps)
    return _saved(document, steps, old)


def fix(path: str, *, code: str = "", dry_run: bool = False) -> FixResult:
    """Apply the fixes of a file's findings, one after the other, until none is left.

    Without `code`: fixes of errors and warnings that decide nothing for the user. With it: all fixes of that code.
    Raises UsageError for an unknown code, ConfigurationError when the file cannot be read.
    """
    from tui_workbench.config.changes import FileChange, unified_diff
    from tui_workbench.config.checks import CODES

    if code and code not in CODES:
        raise UsageError(f"there is no code {code!r}", remedy=f"Known: {', '.join(CODES)}.")
    document = Document.open(path, Surroundings.of(path) or _project_above(os.path.dirname(os.path.abspath(path))))
    before = document.file.encode(document.text)
    fixed: list[str] = []
    refused: set[tuple[str, int]] = set()
    while (finding := _next_fixable(document, code, refused)) is not None:
        assert finding.fix is not None
        text = document.text
        try:
            document.apply(finding.fix)
        except ConfigurationError:
            refused.add((finding.code, finding.start))
            continue
        if document.text == text or len(fixed) >= 1_000:
            refused.add((finding.code, finding.start))
            continue
        fixed.append(finding.fix.title)
    diff = unified_diff(FileChange(path, before, document.file.encode(document.text)), os.path.basename(path))
    if document.is_dirty and not dry_run:
        document.save()
    return FixResult(path, tuple(fixed), tuple(document.problems()), diff)


def gpu_ready(
    root: str, name: str, *, image: str = "", without: Collection[str] = (), dry_run: bool = False
) -> GpuReadyResult:
    """Plan, and unless `dry_run` make, a target or run configuration GPU-ready, all but the hunks `without`.

    Raises UsageError: no such name, image or hunk; ConfigurationError: a file is broken or changed meanwhile.
    """
    from tui_workbench.config.gpu_ready import plan_gpu_ready

    plan = plan_gpu_ready(root, name, image=image)
    unknown = [one for one in without if one not in {hunk.id for hunk in plan.hunks}]
    if unknown:
        known = ", ".join(hunk.id for hunk in plan.hunks) or "none"
        raise UsageError(f"there is no change {unknown[0]!r}", remedy=f"Changes of this plan: {known}.")
    change_set = plan.change_set(without)
    if not dry_run:
        change_set.apply()
    return GpuReadyResult(plan, change_set.diff(root), not dry_run and not change_set.is_empty)


def find_file(name: str, root: str | None) -> str:
    """The file that a word on the command line means: a path, or a name in the project's aml_config/.

    Raises UsageError when there is none.
    """
    if os.path.exists(name) or root is None:
        return name
    for candidate in (os.path.join(root, CONFIG_DIRECTORY, name), os.path.join(root, name)):
        if os.path.isfile(candidate):
            return candidate
    return name


def parse_value(field: Field | None, path: Path, text: str, key: str) -> Any:
    """What a word of the command line means as the value at `path` of `field` (None: of a field nobody declared).

    Raises UsageError when it is of the wrong type.
    """
    if field is None or field.type == schema.ANY or (field.type == schema.GPUS and text.lstrip().startswith("[")):
        return plain_value(parse(text).root)
    inside = len(path) - len(field.path)
    if field.type in (schema.STRINGS, schema.MAPPING, schema.ROWS, schema.DEPENDENCIES):
        is_leaf = inside >= (2 if field.type == schema.ROWS else 1)
        return text if is_leaf and not text.startswith("{pip:") else _collection(field, path, text, key)
    if field.type == schema.BOOLEAN:
        if text.lower() in TRUE_WORDS | FALSE_WORDS:
            return text.lower() in TRUE_WORDS
    elif field.type == schema.GPUS:
        if text.lower() in ("all", "free") or (text.isascii() and text.isdigit() and len(text) < 4):
            return int(text) if text.isdigit() else text.lower()
    elif field.type == schema.PROCESSES:
        if is_processes(text):
            return int(text) if text.isdigit() else text.lower()
    elif field.type == schema.INTEGER:
        if text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 19:
            if field.minimum is not None and int(text) < field.minimum:
                raise UsageError(f"{key} cannot be {text}", remedy=f"It is {field.minimum} or more.")
            return int(text)
    elif field.type == schema.CHOICE:
        if field.understand(text):
            return field.understand(text)
        raise UsageError(f"{key} cannot be {text!r}", remedy=f"Choose one of: {', '.join(field.choices)}.")
    else:
        return text
    raise UsageError(f"{key} is {TYPE_NAMES[field.type]}, not {text!r}", remedy="Correct the value.")


def _collection(field: Field, path: Path, text: str, key: str) -> Any:
    example = {schema.STRINGS: "[a, b]", schema.MAPPING: "{A: 1}"}.get(field.type, field.example or "[...]")
    remedy = f"Write it in brackets: '{example}'."
    try:
        node = parse(text).root
    except ConfigurationError as error:
        raise UsageError(f"{key}: {error.message}", remedy=remedy) from error
    if node is not None and len(path) > len(field.path):
        return plain_value(node)
    faults: list[Any] = []
    value = convert(field, node, path, faults) if node is not None and node.kind in (MAP, LIST) else None
    if value is None or faults:
        raise UsageError(f"{key} is {TYPE_NAMES[field.type]}", remedy=remedy)
    return _plain(value)


def _saved(document: Document, path: Path, old: Any) -> EditResult:
    changed = document.is_dirty
    if changed:
        document.save()
    field = field_at(path, document.kind)
    old, new = (_hidden(one) if field is not None and field.secret else one for one in (old, document.get(path)))
    return EditResult(document.path, dotted(path), _plain(old), _plain(new), changed)


def _hidden(value: Any) -> Any:
    """A secret that stands in a file by mistake is not repeated on the screen; a reference to one is none."""
    return "(hidden)" if value and not str(value).startswith("AzureMlSecret=") else value


def _next_fixable(document: Document, code: str, refused: set[tuple[str, int]]) -> Finding | None:
    for finding in document.problems():
        if finding.fix is None or (finding.code, finding.start) in refused:
            continue
        if finding.code == code or (not code and finding.severity != "info" and not finding.fix.is_choice):
            return finding
    return None


def _project_above(folder: str) -> Surroundings | None:
    """The project that a file outside of aml_config/ belongs to."""
    while True:
        if os.path.isdir(os.path.join(folder, CONFIG_DIRECTORY)):
            return Surroundings(folder)
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _unreadable(path: str, error: ConfigurationError) -> Finding:
    from tui_workbench.config.findings import ERROR, Finding

    return Finding(ERROR, "refused", error.message, error.remedy, path, error.line, error.column, 0, 0)


def _unknown_key(document: Document, key: str) -> UsageError:
    from difflib import get_close_matches

    names = [field.key for field in document.kind.fields if not field.is_old]
    near = get_close_matches(key, names, 1, 0.6) or [name for name in names if name.lower() == key.lower()]
    remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(names)}."
    return UsageError(f"{key} is no field of a {document.kind.title.lower()}", remedy=remedy)


def _keys_remedy(document: Document) -> str:
    return f"Set are: {', '.join(document.reading.nodes) or 'none'}."


def _plain(value: Any) -> Any:
    """Tuples as lists, all the way down, as JSON has them."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
