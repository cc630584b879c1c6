"""Check, fix and edit configuration files by name and key, for the command line.

A file is written only if its content changes and the edit was verified. A wrong argument raises UsageError, and an
invalid file raises ConfigurationError.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tui_workbench.config.changes.change_set import edited, unified_diff
from tui_workbench.config.checks.findings import CODES, DATA_SOURCE_FILE, ERROR, INFO, Finding, Fix
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.config.schema import field_types
from tui_workbench.config.schema.field_types import NULL, TYPE_NAMES, Field
from tui_workbench.config.schema.fields import kind_of
from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path, dotted, find, parse, plain_value
from tui_workbench.config.yaml_edit.values import Fault, convert
from tui_workbench.core.directories import CONFIG_DIRECTORY
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.text_files import FileChangedError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

MOST_ATTEMPTS = 100
"""Maximum number of retries of an edit during which another program writes the file."""


class EditResult(NamedTuple):
    """The result of an edit of one file."""

    file: str
    key: str
    old: Any
    new: Any
    changed: bool


class FixResult(NamedTuple):
    """The fixes that were applied to a file, and its remaining findings."""

    file: str
    fixed: tuple[str, ...]  # titles of the fixes, in order
    left: tuple[Finding, ...]
    diff: str


def get(path: str, key: str) -> Any:
    """Return the typed value of a key or, if it is unset, the default of its field. A choice is returned as written.

    Raises UsageError if the key has neither a value nor a default, and ConfigurationError if the file is invalid.
    """
    document = _opened(path)
    steps = document.path_of(key)
    node, value = find(document.tree, steps), document.get(steps)
    field = document.kind.field(dotted(steps))
    if value is None and node is None:
        if field is None or field.default is None:
            raise _not_set(document, key)
        return plain(field.default)
    if field is not None and node is not None and field.understand(node.text) == value:
        return node.text
    return plain(value)


def _retried(edit: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return an edit that is repeated on the new content if another program has written the file."""

    @functools.wraps(edit)
    def retried(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        for _ in range(MOST_ATTEMPTS):
            with contextlib.suppress(FileChangedError):
                return edit(*arguments, **named)
        return edit(*arguments, **named)

    return retried


@_retried
def set_text(
    path: str,
    key: str,
    text: str,
    *,
    any_key: bool = False,
    check: Callable[[Document, Document], object] | None = None,
) -> EditResult:
    """Set a key to the value in `text`. Lists and maps are written in brackets: `[a, b]`, `{A: 1}`.

    `any_key` allows unknown keys. `check` is called with the file before and after the edit, and can raise an error
    before the file is written. Raises UsageError for a wrong type or an unknown field, and ConfigurationError if the
    file is invalid or other values would change.
    """
    document = _opened(path)
    steps = document.path_of(key)
    field = document.kind.field_at(steps)
    if field is None and not any_key and find(document.tree, steps) is None:
        raise _unknown_key(document, key)
    value = parse_value(field, steps, text, key)
    old = document.get(steps) if document.error is None else None
    if find(document.tree, steps) is None or plain(old) != value:
        document.set(steps, value)
    if check is not None:
        check(Document(document.file, document.context), document)
    return _saved(document, steps, old)


@_retried
def unset(path: str, key: str) -> EditResult:
    """Remove a key or list item.

    Raises UsageError for a missing key or item, and ConfigurationError if the file is invalid or other values would
    change.
    """
    document = _opened(path)
    steps = document.path_of(key)
    if find(document.tree, steps) is None:
        raise _not_set(document, key)
    old = document.get(steps)
    document.unset(steps)
    return _saved(document, steps, old)


@_retried
def fix(path: str, *, code: str = "", dry_run: bool = False) -> FixResult:
    """Apply the fixes for the findings in a file.

    Without `code`, only errors and warnings are fixed, and only by fixes that need no decision of the user. With
    `code`, the fixes of all findings with this code are applied. With `dry_run`, the file is not written. Raises
    UsageError for an unknown code, and ConfigurationError for an unreadable file.
    """
    if code and code not in CODES:
        raise UsageError(f"unknown finding code {code!r}", remedy=f"Choose one of: {', '.join(CODES)}.")
    document = _opened(path)
    fixed: list[str] = []
    refused: set[tuple[str, int]] = set()
    while (fixable := _next_fixable(document, code, refused)) is not None:
        finding, next_fix = fixable
        text = document.text
        with contextlib.suppress(ConfigurationError):
            document.apply(next_fix)
        # A fix that changes nothing, or fixes that undo each other, must not repeat without end.
        if document.text == text or len(fixed) >= 1_000:
            refused.add((finding.code, finding.start))
        else:
            fixed.append(next_fix.title)
    diff = unified_diff(edited(document), os.path.basename(path))
    if document.is_dirty and not dry_run:
        document.save()
    return FixResult(path, tuple(fixed), tuple(document.problems()), diff)


def _saved(document: Document, path: Path, old: Any) -> EditResult:
    changed = document.is_dirty
    if changed:
        document.save()
    field = document.kind.field_at(path)
    old, new = (_hidden(value) if field is not None and field.secret else value for value in (old, document.get(path)))
    return EditResult(document.path, dotted(path), plain(old), plain(new), changed)


def _hidden(value: Any) -> Any:
    """Return "(hidden)" for a secret in plain text, and other values unchanged. A reference is not a secret."""
    return "(hidden)" if value and not str(value).startswith("AzureMlSecret=") else value


def _next_fixable(document: Document, code: str, refused: set[tuple[str, int]]) -> tuple[Finding, Fix] | None:
    for finding in document.problems():
        if finding.fix is None or (finding.code, finding.start) in refused:
            continue
        if finding.code == code or (not code and finding.severity != INFO and not finding.fix.is_choice):
            return finding, finding.fix
    return None


def _opened(path: str) -> Document:
    return Document.open(path, ProjectContext.of(path))


def _unknown_key(document: Document, key: str) -> UsageError:
    names = [field.key for field in document.kind.fields if not field.is_old]
    near = get_close_matches(key, names, 1, 0.6) or [name for name in names if name.lower() == key.lower()]
    choices = f"Use one of: {', '.join(names)}. To set another key, add `--any-key`."
    remedy = f"Did you mean {near[0]!r}?" if near else choices
    return UsageError(f"unknown field {key!r} in {os.path.basename(document.path)}", remedy=remedy)


def _not_set(document: Document, key: str) -> UsageError:
    names = ", ".join(document.reading.nodes) or "none"
    message = f"{key} is not set in {os.path.basename(document.path)}"
    return UsageError(message, remedy=f"Choose a field that has a value. Fields with a value: {names}.")


# -- files of a project ----------------------------------------------------------------------------------------------


def configuration_files(root: str) -> list[str]:
    """Return all configuration files of a project: targets, run configurations and dependency files."""
    directory = os.path.join(root, CONFIG_DIRECTORY)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    paths = [os.path.join(directory, name) for name in names if kind_of(name) is not None]
    context = ProjectContext(root)
    for configuration in context.configurations():
        # Dependency files can have any name and be in any folder of the project.
        named = (context.absolute(configuration.conda_file), context.absolute(configuration.spark_file))
        paths += [path for path in named if path not in paths and os.path.isfile(path)]
    return [path for path in paths if os.path.isfile(path)]


def find_file(name: str, root: str | None) -> str:
    """Return the path for an argument: a path, or a name in aml_config/ or the project. Other names are unchanged."""
    if os.path.exists(name) or root is None:
        return name
    candidates = (os.path.join(root, CONFIG_DIRECTORY, name), os.path.join(root, name))
    return next((path for path in candidates if os.path.isfile(path)), name)


def check(paths: Sequence[str]) -> list[Finding]:
    """Return the findings in files. A file that cannot be read has one finding with the code `refused`.

    A finding about files of the project, which all run configurations have, is returned once for each project.
    """
    contexts: dict[str, ProjectContext | None] = {}
    findings: list[Finding] = []
    folders_with_old_data: set[str] = set()
    for path in paths:
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in contexts:
            contexts[folder] = ProjectContext.of(path)
        try:
            file_findings = Document.open(path, contexts[folder]).problems()
            has_old_data = any(finding.code == DATA_SOURCE_FILE for finding in file_findings)
            if has_old_data and folder in folders_with_old_data:
                file_findings = [finding for finding in file_findings if finding.code != DATA_SOURCE_FILE]
            elif has_old_data:
                folders_with_old_data.add(folder)
            findings += file_findings
        except ConfigurationError as error:
            position = (path, error.line, error.column, 0, 0)
            findings.append(Finding(ERROR, "refused", error.message, error.remedy, *position))
    return findings


# -- values from the command line ------------------------------------------------------------------------------------


def parse_value(field: Field | None, path: Path, text: str, key: str) -> Any:
    """Parse a command-line argument as the value at `path`; `field` is the field at or above it, or None.

    `null` means no value if the field allows this; `"null"` is the string. Raises UsageError for a wrong type.
    """
    if text == NULL and (field is None or (field.nullable and path == field.path)):
        return None
    if text == f'"{NULL}"' and field is not None:
        return NULL
    is_gpu_list = field is not None and field.type == field_types.GPUS and text.lstrip().startswith("[")
    if field is None or field.type == field_types.ANY or is_gpu_list:
        return plain_value(parse(text).root)
    if field.type in field_types.COLLECTIONS:
        is_text = _is_text_inside(field, len(path) - len(field.path), text)
        return text if is_text else _collection(field, path, text, key)
    if field.type == field_types.STRING or text in (word for word, _ in field.synonyms):
        return text
    faults: list[Fault] = []
    value = convert(field, Node(SCALAR, 0, len(text), text), path, faults)
    if not faults:
        is_count = field.type in (field_types.GPUS, field_types.PROCESSES) and value.isdigit()
        return int(value) if is_count else value
    if field.type == field_types.CHOICE:
        raise UsageError(f"{key} cannot be {text!r}", remedy=f"Choose one of: {', '.join(field.choices)}.")
    if field.minimum is not None and text.lstrip("-").isdigit() and len(text) < 19:
        raise UsageError(f"{key} cannot be {text}", remedy=f"Use {field.minimum} or more.")
    type_remedy = faults[0].remedy
    raise UsageError(f"{key} must be {TYPE_NAMES[field.type]}, not {text!r}", remedy=type_remedy)


def _is_text_inside(field: Field, inside: int, text: str) -> bool:
    """Return True if a value that is `inside` levels below the field is a string, not a list or map."""
    if field.type == field_types.DEPENDENCIES:
        # An item is a package or `{pip: [...]}`, which contains a list of packages.
        return inside > 2 or (inside == 1 and not text.startswith("{"))
    return inside >= (2 if field.type == field_types.ROWS else 1)


def _collection(field: Field, path: Path, text: str, key: str) -> Any:
    example = {field_types.STRINGS: "[a, b]", field_types.MAPPING: "{A: 1}"}.get(field.type, field.example or "[...]")
    remedy = f"Write the value in brackets, as in '{example}'."
    try:
        node = parse(text).root
    except ConfigurationError as error:
        raise UsageError(f"{key}: {error.message}", remedy=remedy) from error
    if node is not None and len(path) > len(field.path):
        return plain_value(node)
    faults: list[Fault] = []
    value = convert(field, node, path, faults) if node is not None and node.kind in (MAP, LIST) else None
    if value is None or faults:
        raise UsageError(f"{key} must be {TYPE_NAMES[field.type]}", remedy=remedy)
    if field.type == field_types.REFERENCES and node is not None and node.kind == LIST:
        return list(value)
    return plain(value)


def plain(value: Any) -> Any:
    """Return the value with tuples converted to lists, recursively."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value
